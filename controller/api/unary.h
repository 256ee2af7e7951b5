// A unary method is one call into the controller.
#ifndef BATON_CONTROLLER_API_UNARY_H_
#define BATON_CONTROLLER_API_UNARY_H_

#include <utility>

#include "absl/status/statusor.h"
#include "controller/api/access.h"
#include "controller/runtime/controller_interface.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "sdk/rpc/error.h"

namespace baton::api {

/// Checks access, then `call(done)`; answers when `done` is called, from whatever thread.
template <typename Response, typename Call>
grpc::ServerUnaryReactor* Unary(const Access& access, grpc::CallbackServerContext* context,
                                Response* response, Call call) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status allowed = access.Check(*context);
  if (!allowed.ok()) {
    reactor->Finish(ToGrpc(allowed));
    return reactor;
  }
  call(controller::Callback<Response>([reactor, response](absl::StatusOr<Response> result) {
    if (result.ok()) *response = *std::move(result);
    reactor->Finish(ToGrpc(result.status()));
  }));
  return reactor;
}

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_UNARY_H_
