#include "controller/api/access_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "controller/api/unary.h"

namespace baton::api {

using access::Scope;
using controller::Callback;

AccessServiceImpl::AccessServiceImpl(controller::ControllerInterface* controller,
                                     const Access& access)
    : GuardedService(v1::AccessService::service_full_name(), access.Guard()),
      controller_(controller),
      access_(access) {
  Guard("CreateToken", &AccessServiceImpl::CreateToken);
  Guard("ListTokens", &AccessServiceImpl::ListTokens);
  Guard("RevokeToken", &AccessServiceImpl::RevokeToken);
  Guard("SetProject", &AccessServiceImpl::SetProject);
  Guard("ListProjects", &AccessServiceImpl::ListProjects);
}

grpc::ServerUnaryReactor* AccessServiceImpl::CreateToken(Context* context,
                                                         const v1::CreateTokenRequest* request,
                                                         v1::CreateTokenResponse* response) {
  return Unary(access_, context, {"AccessService.CreateToken", Scope::kAdmin, ""}, response,
               [&](const Granted&, Callback<v1::CreateTokenResponse> done) {
                 access_.tokens().Create(*request, absl::Now(), std::move(done));
               });
}

grpc::ServerUnaryReactor* AccessServiceImpl::ListTokens(Context* context,
                                                        const v1::ListTokensRequest* request,
                                                        v1::ListTokensResponse* response) {
  return Unary(access_, context, {"AccessService.ListTokens", Scope::kAdmin, ""}, response,
               [&](const Granted&, Callback<v1::ListTokensResponse> done) {
                 done(access_.tokens().List(*request));
               });
}

grpc::ServerUnaryReactor* AccessServiceImpl::RevokeToken(Context* context,
                                                         const v1::RevokeTokenRequest* request,
                                                         v1::RevokeTokenResponse* response) {
  return Unary(access_, context,
               {"AccessService.RevokeToken", Scope::kAdmin, "tokens/" + request->token_id(), false},
               response, [&](const Granted&, Callback<v1::RevokeTokenResponse> done) {
                 access_.tokens().Revoke(request->token_id(), std::move(done));
               });
}

grpc::ServerUnaryReactor* AccessServiceImpl::SetProject(Context* context,
                                                        const v1::SetProjectRequest* request,
                                                        v1::Project* response) {
  const Asked asked{"AccessService.SetProject", Scope::kAdmin,
                    absl::StrCat("projects/", request->project().project())};
  return Unary(access_, context, asked, response,
               [&](const Granted& granted, Callback<v1::Project> done) {
                 v1::Project project = request->project();
                 project.set_project(granted.project);
                 controller_->SetProject(std::move(project), std::move(done));
               });
}

grpc::ServerUnaryReactor* AccessServiceImpl::ListProjects(Context* context,
                                                          const v1::ListProjectsRequest* request,
                                                          v1::ListProjectsResponse* response) {
  return Unary(access_, context, {"AccessService.ListProjects", Scope::kAdmin, ""}, response,
               [&](const Granted&, Callback<v1::ListProjectsResponse> done) {
                 done(controller_->ListProjects(*request));
               });
}

}  // namespace baton::api
