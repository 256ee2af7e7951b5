// A server stream that other threads feed through a bounded queue.
#ifndef BATON_CONTROLLER_API_OUTBOX_REACTOR_H_
#define BATON_CONTROLLER_API_OUTBOX_REACTOR_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/job_service.pb.h"
#include "controller/api/access.h"
#include "controller/runtime/calls/calls.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/error.h"

namespace baton::api {

/// Counts the bytes that wait in several outboxes together. Thread-safe.
class OutboxBudget {
 public:
  /// While more than `total_bytes` wait, a stream with more than `share_bytes` of them is too slow.
  OutboxBudget(size_t total_bytes, size_t share_bytes)
      : total_bytes_(total_bytes), share_bytes_(share_bytes) {}

  bool Allows(size_t waiting_here, size_t more) const {
    return waiting_here + more <= share_bytes_ || waiting_ + more <= total_bytes_;
  }
  void Add(size_t bytes) { waiting_ += bytes; }
  void Remove(size_t bytes) { waiting_ -= bytes; }
  size_t waiting() const { return waiting_; }

  /// The budget of all watches of the process, so that a thousand slow readers hold no more memory
  /// than a few.
  static OutboxBudget* OfWatches() {
    static auto* const budget = new OutboxBudget(256u << 20, 256u << 10);
    return budget;
  }

 private:
  const size_t total_bytes_, share_bytes_;
  std::atomic<size_t> waiting_{0};
};

/// The number after which a stream resumes; 0: the message has none.
template <typename Message>
int64_t NumberOf(const Message&) {
  return 0;
}
inline int64_t NumberOf(const v1::JobEvent& event) { return event.revision(); }
inline int64_t NumberOf(const v1::LogEntry& entry) { return entry.sequence(); }

/// Writes the pushed messages in order, one write at a time. Lives until gRPC is done with it and
/// no other code holds it. Thread-safe.
template <typename Message>
class OutboxReactor : public grpc::ServerWriteReactor<Message>,
                      public std::enable_shared_from_this<OutboxReactor<Message>> {
 public:
  /// At most `capacity_bytes` of messages may wait, less while the `budget` is exhausted (it
  /// outlives all streams; null: none). `after`: the last number that the peer has. gRPC owns one
  /// reference until OnDone, and keeps `context` until then (null: Cut waits for a peer that does
  /// not read).
  static std::shared_ptr<OutboxReactor> Make(size_t capacity_bytes, OutboxBudget* budget = nullptr,
                                             int64_t after = 0,
                                             grpc::CallbackServerContext* context = nullptr) {
    auto reactor =
        std::shared_ptr<OutboxReactor>(new OutboxReactor(capacity_bytes, budget, after, context));
    absl::MutexLock lock(&reactor->mu_);
    reactor->self_ = reactor;
    return reactor;
  }

  ~OutboxReactor() override {
    absl::MutexLock lock(&mu_);
    Forget(bytes_);
  }

  /// Tells the peer that its call is taken, before there is a message. Call it once, before Push.
  void Open() {
    if (context_ != nullptr) context_->AddInitialMetadata(kStreamOpenKey, "open");
    this->StartSendInitialMetadata();
  }

  /// False: the stream is ending. A peer that reads too slowly ends the stream: it gets the waiting
  /// messages, then RESOURCE_EXHAUSTED (WATCH_TOO_SLOW, with the number to resume after).
  bool Push(Message message) {
    absl::MutexLock lock(&mu_);
    if (ending_ || done_) return false;
    const size_t bytes = message.ByteSizeLong();
    const bool fits =
        bytes_ + bytes <= capacity_bytes_ && (budget_ == nullptr || budget_->Allows(bytes_, bytes));
    if (!queue_.empty() && !fits) {
      ending_ = true;
      status_ = MakeError(absl::StatusCode::kResourceExhausted, "WATCH_TOO_SLOW",
                          absl::StrCat("the stream is read too slowly; resume after ", last_,
                                       ", which is the last that was sent"),
                          {{"resume_after", absl::StrCat(last_)}});
      return false;
    }
    if (NumberOf(message) != 0) last_ = NumberOf(message);
    bytes_ += bytes;
    if (budget_ != nullptr) budget_->Add(bytes);
    queue_.push_back({std::move(message), bytes});
    if (queue_.size() == 1) this->StartWrite(&queue_.front().message);
    return true;
  }

  /// A source's answer when it is asked for the next message.
  enum class Pulled {
    kFilled,
    kEnds,    ///< There is none.
    kBlocks,  ///< To make it may block.
  };
  /// `next(message, may_block)` fills in the next message. An error ends the stream.
  using Source = std::function<absl::StatusOr<Pulled>(Message*, bool may_block)>;

  /// Writes what `next` fills in. Makes each message once the one before it is written. Ends the
  /// stream when there is none. Nothing else is pushed to such a stream. `next` runs on one thread
  /// at a time, without a lock. Where it blocks it is called again within the work of `post`.
  void PullFrom(Source next, std::function<void(std::function<void()> work)> post) {
    {
      absl::MutexLock lock(&mu_);
      if (ending_ || done_) return;
      next_ = std::move(next);
      post_ = std::move(post);
    }
    Pull(/*may_block=*/false);
  }

  /// Ends the stream once all pushed messages are written. Later calls do nothing.
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (ending_ || done_) return;
    ending_ = true;
    status_ = status;
    if (queue_.empty()) Conclude();
  }

  /// Ends the stream at once and drops the waiting messages. If the peer does not even read the
  /// message that is being written, a second call of Cut cuts it off.
  void Cut(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (done_) return;
    if (std::exchange(cut_, true)) {
      if (context_ != nullptr) context_->TryCancel();
      return;
    }
    ending_ = true;
    status_ = status;
    if (queue_.empty()) return Conclude();
    for (size_t i = 1; i < queue_.size(); ++i) Forget(queue_[i].bytes);
    queue_.erase(queue_.begin() + 1, queue_.end());
  }

  /// Keeps the subscription as long as the stream lives.
  void Hold(std::unique_ptr<controller::Subscription> subscription) {
    absl::MutexLock lock(&mu_);
    if (!done_) subscription_ = std::move(subscription);
  }

  /// Keeps another object as long as the stream lives.
  void Keep(std::shared_ptr<const void> place) {
    absl::MutexLock lock(&mu_);
    if (!done_) place_ = std::move(place);
  }

  void OnWriteDone(bool ok) override {
    if (Written(ok)) Pull(/*may_block=*/false);
  }

  void OnCancel() override { End(absl::CancelledError("the caller is gone")); }

  void OnDone() override {
    std::shared_ptr<OutboxReactor> self;
    std::unique_ptr<controller::Subscription> subscription;
    std::shared_ptr<const void> place;
    absl::MutexLock lock(&mu_);
    done_ = true;
    place = std::move(place_);
    subscription = std::move(subscription_);
    self = std::move(self_);
    // `lock` is released before `self`: locals die in reverse order of their declaration.
  }

 private:
  struct Waiting {
    Message message;
    size_t bytes = 0;
  };

  OutboxReactor(size_t capacity_bytes, OutboxBudget* budget, int64_t after,
                grpc::CallbackServerContext* context)
      : capacity_bytes_(capacity_bytes), budget_(budget), context_(context), last_(after) {}

  /// True: nothing waits, and the stream's source may have more.
  bool Written(bool ok) {
    absl::MutexLock lock(&mu_);
    if (!ok) {  // the peer is gone: OnCancel follows or has been called
      queue_.clear();
      Forget(bytes_);
      ending_ = true;
      Conclude();
      return false;
    }
    Forget(queue_.front().bytes);
    queue_.pop_front();
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front().message);
    } else if (ending_) {
      Conclude();
    }
    return queue_.empty() && !ending_ && next_ != nullptr;
  }

  void Pull(bool may_block) {
    {
      absl::MutexLock lock(&mu_);
      if (ending_ || done_) return;  // since it was posted
    }
    Message message;
    const absl::StatusOr<Pulled> pulled = next_(&message, may_block);
    if (!pulled.ok()) return End(pulled.status());
    if (*pulled == Pulled::kEnds) return End(absl::OkStatus());
    if (*pulled == Pulled::kFilled) return (void)Push(std::move(message));
    post_([self = this->shared_from_this()] { self->Pull(/*may_block=*/true); });
  }

  void Forget(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    bytes_ -= bytes;
    if (budget_ != nullptr) budget_->Remove(bytes);
  }

  void Conclude() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(status_));
  }

  const size_t capacity_bytes_;
  OutboxBudget* const budget_;
  grpc::CallbackServerContext* const context_;  // valid until done_
  Source next_;  // set before the first write; then of the one that writes
  std::function<void(std::function<void()>)> post_;  // as next_
  absl::Mutex mu_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mu_);  // the front is being written
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;           // of the messages in queue_
  int64_t last_ ABSL_GUARDED_BY(mu_);               // number of the last pushed message
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool cut_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<controller::Subscription> subscription_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const void> place_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<OutboxReactor> self_ ABSL_GUARDED_BY(mu_);
};

/// Ends the stream when the caller's token ends. Keep it with the stream.
template <typename Message>
OpenStreams::Place CutWithToken(const Access& access, const Granted& granted,
                                const std::shared_ptr<OutboxReactor<Message>>& reactor) {
  return access.streams().Add(
      granted.caller,
      [weak = std::weak_ptr<OutboxReactor<Message>>(reactor)](const absl::Status& status) {
        if (const auto stream = weak.lock()) stream->Cut(status);
      });
}

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_OUTBOX_REACTOR_H_
