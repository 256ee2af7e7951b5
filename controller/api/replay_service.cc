#include "controller/api/replay_service.h"

#include <utility>

#include "controller/api/unary.h"

namespace baton::api {

using access::Scope;

ReplayServiceImpl::ReplayServiceImpl(controller::ControllerInterface* controller,
                                     const Access& access)
    : GuardedService(v1::ReplayService::service_full_name(), access.Guard()),
      controller_(controller),
      access_(access) {
  Guard("CreateReplay", &ReplayServiceImpl::CreateReplay);
  Guard("GetReplay", &ReplayServiceImpl::GetReplay);
}

grpc::ServerUnaryReactor* ReplayServiceImpl::CreateReplay(grpc::CallbackServerContext* context,
                                                          const v1::CreateReplayRequest* request,
                                                          v1::Replay* response) {
  return Unary(access_, context, {"ReplayService.CreateReplay", Scope::kWrite, request->name()},
               response,
               [&](const Granted& granted, controller::Callback<v1::Replay> done,
                   controller::CallerGone gone) {
                 v1::CreateReplayRequest checked = Take(request);
                 checked.set_name(granted.resource);
                 controller_->CreateReplay(std::move(checked), std::move(done), std::move(gone));
               });
}

grpc::ServerUnaryReactor* ReplayServiceImpl::GetReplay(grpc::CallbackServerContext* context,
                                                       const v1::GetReplayRequest* request,
                                                       v1::Replay* response) {
  return Unary(access_, context, {"ReplayService.GetReplay", Scope::kRead, request->name()},
               response, [&](const Granted& granted, controller::Callback<v1::Replay> done) {
                 v1::GetReplayRequest checked;
                 checked.set_name(granted.resource);
                 controller_->GetReplay(std::move(checked), std::move(done));
               });
}

}  // namespace baton::api
