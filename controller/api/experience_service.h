// ExperienceService over ControllerInterface.
#ifndef BATON_CONTROLLER_API_EXPERIENCE_SERVICE_H_
#define BATON_CONTROLLER_API_EXPERIENCE_SERVICE_H_

#include "baton/v1/experience_service.grpc.pb.h"
#include "controller/api/access.h"
#include "controller/runtime/controller/controller_interface.h"
#include "sdk/common/rpc/guarded_service.h"

namespace baton::api {

/// Thread-safe. `controller` outlives it.
class ExperienceServiceImpl : public GuardedService<v1::ExperienceService::CallbackService> {
 public:
  ExperienceServiceImpl(controller::ControllerInterface* controller, const Access& access);

  grpc::ServerWriteReactor<v1::FetchBatchResponse>* FetchBatch(
      grpc::CallbackServerContext* context, const v1::FetchBatchRequest* request) override;
  grpc::ServerWriteReactor<v1::FetchHistoryResponse>* FetchHistory(
      grpc::CallbackServerContext* context, const v1::FetchHistoryRequest* request) override;

 private:
  controller::ControllerInterface* const controller_;
  const Access access_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_EXPERIENCE_SERVICE_H_
