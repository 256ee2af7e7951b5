#include "controller/api/cluster_service.h"

#include <utility>

#include "controller/api/unary.h"

namespace baton::api {

grpc::ServerUnaryReactor* ClusterServiceImpl::ListWorkers(grpc::CallbackServerContext* context,
                                                          const v1::ListWorkersRequest* request,
                                                          v1::ListWorkersResponse* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::ListWorkersResponse> done) {
    controller_->ListWorkers(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* ClusterServiceImpl::DrainWorker(grpc::CallbackServerContext* context,
                                                          const v1::DrainWorkerRequest* request,
                                                          v1::Worker* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::Worker> done) {
    controller_->DrainWorker(*request, std::move(done));
  });
}

}  // namespace baton::api
