// A unary method is one call into the controller.
#ifndef BATON_CONTROLLER_API_UNARY_H_
#define BATON_CONTROLLER_API_UNARY_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "controller/api/access.h"
#include "controller/runtime/controller_interface.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "sdk/rpc/error.h"

namespace baton::api {

/// Answers once: with what the controller says, or at once when the caller has gone (a server
/// that stops cancels its calls, and must not wait for a store that refuses writes). gRPC owns it.
template <typename Response>
class UnaryReactor : public grpc::ServerUnaryReactor {
 public:
  /// The one answer, from whichever side comes first. Thread-safe.
  class Answer {
   public:
    Answer(grpc::ServerUnaryReactor* reactor, Response* response)
        : reactor_(reactor), response_(response) {}

    void Give(absl::StatusOr<Response> result) {
      absl::MutexLock lock(&mu_);
      grpc::ServerUnaryReactor* const reactor = std::exchange(reactor_, nullptr);
      if (reactor == nullptr) return;
      if (result.ok()) *response_ = *std::move(result);
      reactor->Finish(ToGrpc(result.status()));
    }

   private:
    absl::Mutex mu_;
    grpc::ServerUnaryReactor* reactor_ ABSL_GUARDED_BY(mu_);  // null once answered
    Response* const response_;                                // valid until then
  };

  explicit UnaryReactor(Response* response) : answer_(std::make_shared<Answer>(this, response)) {}

  const std::shared_ptr<Answer>& answer() const { return answer_; }
  void OnCancel() override { answer_->Give(absl::CancelledError("the caller is gone")); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<Answer> answer_;
};

/// Checks access, then `call(granted, done)`; answers when `done` is called, from whatever thread.
template <typename Response, typename Call>
grpc::ServerUnaryReactor* Unary(const Access& access, grpc::CallbackServerContext* context,
                                const Asked& asked, Response* response, Call call) {
  auto* const reactor = new UnaryReactor<Response>(response);
  const auto answer = reactor->answer();
  auto granted = access.Check(*context, asked);
  if (!granted.ok()) {
    answer->Give(granted.status());
    return reactor;
  }
  call(*granted, controller::Callback<Response>(
                     [answer, access, granted = *granted](absl::StatusOr<Response> result) {
                       access.Ended(granted, result.status());
                       answer->Give(std::move(result));
                     }));
  return reactor;
}

/// gRPC made the request for this call and looks at it no more: it is taken, not copied.
template <typename Request>
Request Take(const Request* request) {
  return std::move(*const_cast<Request*>(request));
}

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_UNARY_H_
