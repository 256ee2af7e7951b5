// ClusterService over ControllerInterface.
#ifndef BATON_CONTROLLER_API_CLUSTER_SERVICE_H_
#define BATON_CONTROLLER_API_CLUSTER_SERVICE_H_

#include "baton/v1/cluster_service.grpc.pb.h"
#include "boost/asio/thread_pool.hpp"
#include "controller/api/access.h"
#include "controller/runtime/controller/controller_interface.h"
#include "sdk/common/rpc/guarded_service.h"

namespace baton::api {

/// Thread-safe. `controller` outlives it.
class ClusterServiceImpl : public GuardedService<v1::ClusterService::CallbackService> {
 public:
  /// Files are read on `files`.
  ClusterServiceImpl(controller::ControllerInterface* controller, const Access& access,
                     boost::asio::thread_pool* files);

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::Worker* response) override;
  grpc::ServerUnaryReactor* UndrainWorker(grpc::CallbackServerContext* context,
                                          const v1::UndrainWorkerRequest* request,
                                          v1::Worker* response) override;
  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override;

 private:
  controller::ControllerInterface* const controller_;
  const Access access_;
  boost::asio::thread_pool* const files_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_CLUSTER_SERVICE_H_
