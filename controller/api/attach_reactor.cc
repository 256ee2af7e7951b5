#include "controller/api/attach_reactor.h"

#include <utility>

#include "sdk/common/rpc/error.h"

namespace baton::api {

class AttachReactor::Stream : public controller::WorkerStream {
 public:
  Stream(AttachReactor* reactor, grpc::CallbackServerContext* context, std::string project)
      : project_(std::move(project)), reactor_(reactor), context_(context) {}

  std::string project() const override { return project_; }

  void Send(v1::ControllerMessage message) override {
    absl::MutexLock lock(&mu_);
    if (reactor_ == nullptr || ending_) return;
    const size_t bytes = message.ByteSizeLong();
    if (!queue_.empty() && bytes_ + bytes > kCapacityBytes) {
      return EndLocked(MakeError(absl::StatusCode::kResourceExhausted, "WORKER_TOO_SLOW",
                                 "the worker does not read; attach again"));
    }
    bytes_ += bytes;
    queue_.push_back({std::move(message), bytes});
    if (queue_.size() == 1) reactor_->StartWrite(&queue_.front().message);
  }

  void Close(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    if (reactor_ != nullptr && !ending_) EndLocked(status);
  }

  // The second call cuts off a worker that does not read the message that is being written.
  void Cut(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (reactor_ == nullptr) return;
    if (std::exchange(cut_, true)) return context_->TryCancel();
    if (!ending_) EndLocked(status);
  }

  void Written(bool ok) {
    absl::MutexLock lock(&mu_);
    if (ok) {
      bytes_ -= queue_.front().bytes;
      queue_.pop_front();
    } else {
      queue_.clear();
      ending_ = true;
    }
    if (!queue_.empty()) {
      // With the hint the message waits in the transport for the next one: fewer system calls.
      grpc::WriteOptions how;
      if (queue_.size() > 1) how.set_buffer_hint();
      reactor_->StartWrite(&queue_.front().message, how);
    } else if (ending_) {
      FinishLocked();
    }
  }

  void Detach() {
    absl::MutexLock lock(&mu_);
    reactor_ = nullptr;
  }

 private:
  struct Waiting {
    v1::ControllerMessage message;
    size_t bytes = 0;
  };

  // Drops all waiting messages except the one that is being written.
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ending_ = true;
    status_ = status;
    if (queue_.empty()) return FinishLocked();
    queue_.erase(queue_.begin() + 1, queue_.end());
  }

  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_) return;
    finished_ = true;
    reactor_->Finish(ToGrpc(status_));
  }

  const std::string project_;
  absl::Mutex mu_;
  AttachReactor* reactor_ ABSL_GUARDED_BY(mu_);     // null once gRPC is done
  grpc::CallbackServerContext* const context_;      // valid until then
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mu_);  // the front is being written
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;           // of the messages that wait
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool cut_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

AttachReactor::AttachReactor(const absl::StatusOr<Granted>& granted, const Access& access,
                             grpc::CallbackServerContext* context,
                             controller::ControllerInterface* controller)
    : stream_(
          std::make_shared<Stream>(this, context, granted.ok() ? granted->caller.project : "")) {
  if (!granted.ok()) {
    stream_->Close(granted.status());
    return;
  }
  session_ = controller->Attach(stream_);
  place_ = access.streams().Add(
      granted->caller, [stream = stream_](const absl::Status& status) { stream->Cut(status); });
  StartRead(&incoming_);
}

AttachReactor::~AttachReactor() = default;

void AttachReactor::OnReadDone(bool ok) {
  if (!ok) return stream_->Close(absl::OkStatus());
  session_->OnMessage(std::move(incoming_));
  incoming_.Clear();
  StartRead(&incoming_);
}

void AttachReactor::OnWriteDone(bool ok) { stream_->Written(ok); }

void AttachReactor::OnCancel() { stream_->Close(absl::CancelledError("the worker is gone")); }

void AttachReactor::OnDone() {
  stream_->Detach();
  if (session_ != nullptr) session_->OnClosed();
  delete this;
}

}  // namespace baton::api
