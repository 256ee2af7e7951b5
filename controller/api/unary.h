// Unary methods: each is one call into the controller.
#ifndef BATON_CONTROLLER_API_UNARY_H_
#define BATON_CONTROLLER_API_UNARY_H_

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "controller/api/access.h"
#include "controller/runtime/calls/calls.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "sdk/common/rpc/error.h"

namespace baton::api {

/// Answers once: with the controller's answer, or at once when the caller has left. (A server that
/// stops cancels its calls, and must not wait for a store that refuses writes.) gRPC owns it.
template <typename Response>
class UnaryReactor : public grpc::ServerUnaryReactor {
 public:
  /// The one answer, from the side that comes first. Thread-safe.
  class Answer {
   public:
    Answer(grpc::ServerUnaryReactor* reactor, Response* response)
        : reactor_(reactor), response_(response) {}

    /// True: an answer was given, so a later one cannot reach the caller. Takes no lock.
    bool given() const { return given_; }

    void Give(absl::StatusOr<Response> result) {
      absl::MutexLock lock(&mu_);
      given_ = true;
      grpc::ServerUnaryReactor* const reactor = std::exchange(reactor_, nullptr);
      if (reactor == nullptr) return;
      if (result.ok()) *response_ = *std::move(result);
      reactor->Finish(ToGrpc(result.status()));
    }

   private:
    std::atomic<bool> given_{false};
    absl::Mutex mu_;
    grpc::ServerUnaryReactor* reactor_ ABSL_GUARDED_BY(mu_);  // null after the answer
    Response* const response_;                                // valid until then
  };

  explicit UnaryReactor(Response* response) : answer_(std::make_shared<Answer>(this, response)) {}

  const std::shared_ptr<Answer>& answer() const { return answer_; }
  void OnCancel() override { answer_->Give(absl::CancelledError("the caller is gone")); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<Answer> answer_;
};

/// Checks access, then calls `call(granted, done)`; answers when any thread calls `done`. `call`
/// may take a third argument, a controller::CallerGone.
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
  controller::Callback<Response> done = [answer, access,
                                         granted = *granted](absl::StatusOr<Response> result) {
    access.Ended(granted, result.status());
    answer->Give(std::move(result));
  };
  if constexpr (std::is_invocable_v<Call, const Granted&, decltype(done), controller::CallerGone>) {
    call(*granted, std::move(done), [answer] { return answer->given(); });
  } else {
    call(*granted, std::move(done));
  }
  return reactor;
}

/// gRPC made the request for this call and does not use it afterwards, so it is moved, not copied.
template <typename Request>
Request Take(const Request* request) {
  return std::move(*const_cast<Request*>(request));
}

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_UNARY_H_
