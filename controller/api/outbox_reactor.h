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
  /// At most `capacity_bytes` of messages may wait. gRPC owns one reference until OnDone.
  static std::shared_ptr<OutboxReactor> Make(size_t capacity_bytes) {
    auto reactor = std::shared_ptr<OutboxReactor>(new OutboxReactor(capacity_bytes));
    absl::MutexLock lock(&reactor->mu_);
    reactor->self_ = reactor;
    return reactor;
  }

  /// False: the stream is ending. A peer that reads too slowly ends it: it gets what waits, then
  /// RESOURCE_EXHAUSTED (WATCH_TOO_SLOW), and resumes after the last message it got.
  bool Push(Message message) {
    absl::MutexLock lock(&mu_);
    if (ending_ || done_) return false;
    const size_t bytes = message.ByteSizeLong();
    if (!queue_.empty() && bytes_ + bytes > capacity_bytes_) {
      ending_ = true;
      status_ = MakeError(absl::StatusCode::kResourceExhausted, "WATCH_TOO_SLOW",
                          "the stream is read too slowly; resume after the last message");
      return false;
    }
    bytes_ += bytes;
    queue_.push_back({std::move(message), bytes});
    if (queue_.size() == 1) this->StartWrite(&queue_.front().message);
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
    bytes_ -= queue_.front().bytes;
    queue_.pop_front();
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front().message);
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
  struct Waiting {
    Message message;
    size_t bytes = 0;
  };

  explicit OutboxReactor(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  void Conclude() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(status_));
  }

  const size_t capacity_bytes_;
  absl::Mutex mu_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mu_);  // the front is being written
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;           // of the messages in queue_
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<controller::Subscription> subscription_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<OutboxReactor> self_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_OUTBOX_REACTOR_H_
