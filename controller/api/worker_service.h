// WorkerService over ControllerInterface.
#ifndef BATON_CONTROLLER_API_WORKER_SERVICE_H_
#define BATON_CONTROLLER_API_WORKER_SERVICE_H_

#include "baton/v1/worker_service.grpc.pb.h"
#include "controller/api/access.h"
#include "controller/runtime/controller/controller_interface.h"

namespace baton::api {

/// Thread-safe. `controller` outlives it.
class WorkerServiceImpl : public v1::WorkerService::CallbackService {
 public:
  WorkerServiceImpl(controller::ControllerInterface* controller, const Access& access)
      : controller_(controller), access_(access) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* Attach(
      grpc::CallbackServerContext* context) override;

 private:
  controller::ControllerInterface* const controller_;
  const Access access_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_WORKER_SERVICE_H_
