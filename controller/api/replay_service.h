// ReplayService over ControllerInterface.
#ifndef BATON_CONTROLLER_API_REPLAY_SERVICE_H_
#define BATON_CONTROLLER_API_REPLAY_SERVICE_H_

#include "baton/v1/replay_service.grpc.pb.h"
#include "controller/api/access.h"
#include "controller/runtime/controller/controller_interface.h"
#include "sdk/common/rpc/guarded_service.h"

namespace baton::api {

/// Thread-safe. `controller` outlives it.
class ReplayServiceImpl : public GuardedService<v1::ReplayService::CallbackService> {
 public:
  ReplayServiceImpl(controller::ControllerInterface* controller, const Access& access);

  grpc::ServerUnaryReactor* CreateReplay(grpc::CallbackServerContext* context,
                                         const v1::CreateReplayRequest* request,
                                         v1::Replay* response) override;
  grpc::ServerUnaryReactor* GetReplay(grpc::CallbackServerContext* context,
                                      const v1::GetReplayRequest* request,
                                      v1::Replay* response) override;

 private:
  controller::ControllerInterface* const controller_;
  const Access access_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_REPLAY_SERVICE_H_
