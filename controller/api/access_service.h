// AccessService: tokens from the table, projects from the controller.
#ifndef BATON_CONTROLLER_API_ACCESS_SERVICE_H_
#define BATON_CONTROLLER_API_ACCESS_SERVICE_H_

#include "baton/v1/access_service.grpc.pb.h"
#include "controller/api/access.h"
#include "controller/runtime/controller/controller_interface.h"
#include "sdk/common/rpc/guarded_service.h"

namespace baton::api {

/// Thread-safe. `controller` outlives it.
class AccessServiceImpl : public GuardedService<v1::AccessService::CallbackService> {
 public:
  AccessServiceImpl(controller::ControllerInterface* controller, const Access& access);

  grpc::ServerUnaryReactor* CreateToken(Context* context, const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(Context* context, const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(Context* context, const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;
  grpc::ServerUnaryReactor* SetProject(Context* context, const v1::SetProjectRequest* request,
                                       v1::Project* response) override;
  grpc::ServerUnaryReactor* ListProjects(Context* context, const v1::ListProjectsRequest* request,
                                         v1::ListProjectsResponse* response) override;

 private:
  controller::ControllerInterface* const controller_;
  const Access access_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_ACCESS_SERVICE_H_
