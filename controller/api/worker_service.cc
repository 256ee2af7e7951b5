#include "controller/api/worker_service.h"

#include "controller/api/attach_reactor.h"

namespace baton::api {

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* WorkerServiceImpl::Attach(
    grpc::CallbackServerContext* context) {
  return new AttachReactor(
      access_.Check(*context, {"WorkerService.Attach", access::Scope::kWorker, ""}), access_,
      context, controller_);
}

}  // namespace baton::api
