// A server stream fed from other threads through a bounded queue.
#ifndef BATON_CONTROLLER_API_OUTBOX_REACTOR_H_
#define BATON_CONTROLLER_API_OUTBOX_REACTOR_H_

#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "controller/runtime/controller_interface.h"
#include "grpcpp/support/server_callback.h"
#include "sdk/rpc/error.h"

namespace baton::api {

/// Writes what is pushed, in order, one write under way at a time. Lives until gRPC is done with
/// it and nobody else holds it. Thread-safe.
template <typename Message>
class OutboxReactor : public grpc::ServerWriteReactor<Message>,
                      public std::enable_shared_from_this<OutboxReactor<Message>> {
 public:
  /// `capacity` messages may wait. gRPC owns one reference until OnDone.
  static std::shared_ptr<OutboxReactor> Make(size_t capacity) {
    auto reactor = std::shared_ptr<OutboxReactor>(new OutboxReactor(capacity));
    absl::MutexLock lock(&reactor->mu_);
    reactor->self_ = reactor;
    return reactor;
  }

  /// False: the queue is full (the peer reads too slowly), or the stream is ending.
  bool Push(Message message) {
    absl::MutexLock lock(&mu_);
    if (ending_ || done_ || queue_.size() >= capacity_) return false;
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) this->StartWrite(&queue_.front());
    return true;
  }

  /// Ends the stream once everything pushed is written. Later calls do nothing.
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (ending_ || done_) return;
    ending_ = true;
    status_ = status;
    if (queue_.empty()) Conclude();
  }

  /// Keeps the subscription for as long as the stream lives.
  void Hold(std::unique_ptr<controller::Subscription> subscription) {
    absl::MutexLock lock(&mu_);
    if (!done_) subscription_ = std::move(subscription);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    if (!ok) {  // the peer is gone: OnCancel follows or has been called
      queue_.clear();
      ending_ = true;
      Conclude();
      return;
    }
    queue_.pop_front();
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front());
    } else if (ending_) {
      Conclude();
    }
  }

  void OnCancel() override { End(absl::CancelledError("the caller is gone")); }

  void OnDone() override {
    std::shared_ptr<OutboxReactor> self;
    std::unique_ptr<controller::Subscription> subscription;
    absl::MutexLock lock(&mu_);
    done_ = true;
    subscription = std::move(subscription_);
    self = std::move(self_);
    // `lock` is released before `self`: locals die in reverse order of their declaration.
  }

 private:
  explicit OutboxReactor(size_t capacity) : capacity_(capacity) {}

  void Conclude() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(status_));
  }

  const size_t capacity_;
  absl::Mutex mu_;
  std::deque<Message> queue_ ABSL_GUARDED_BY(mu_);  // the front is being written
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<controller::Subscription> subscription_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<OutboxReactor> self_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_OUTBOX_REACTOR_H_
