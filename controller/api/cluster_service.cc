#include "controller/api/cluster_service.h"

#include <algorithm>
#include <utility>

#include "controller/access/caller.h"
#include "controller/api/backup_reactor.h"
#include "controller/api/unary.h"

namespace baton::api {

using access::Scope;

ClusterServiceImpl::ClusterServiceImpl(controller::ControllerInterface* controller,
                                       const Access& access, boost::asio::thread_pool* files)
    : GuardedService(v1::ClusterService::service_full_name(), access.Guard()),
      controller_(controller),
      access_(access),
      files_(files) {
  Guard("ListWorkers", &ClusterServiceImpl::ListWorkers);
  Guard("DrainWorker", &ClusterServiceImpl::DrainWorker);
  Guard("UndrainWorker", &ClusterServiceImpl::UndrainWorker);
  Guard("Backup", &ClusterServiceImpl::Backup);
}

grpc::ServerUnaryReactor* ClusterServiceImpl::ListWorkers(grpc::CallbackServerContext* context,
                                                          const v1::ListWorkersRequest* request,
                                                          v1::ListWorkersResponse* response) {
  return Unary(
      access_, context, {"ClusterService.ListWorkers", Scope::kRead, ""}, response,
      [&](const Granted& granted, controller::Callback<v1::ListWorkersResponse> done) {
        controller_->ListWorkers(*request, [granted, done = std::move(done)](
                                               absl::StatusOr<v1::ListWorkersResponse> all) {
          if (!all.ok()) return done(std::move(all));
          // Callers do not see workers of another project,
          auto& workers = *all->mutable_workers();
          workers.erase(std::remove_if(workers.begin(), workers.end(),
                                       [&](const v1::Worker& worker) {
                                         return !worker.project().empty() &&
                                                !granted.caller.Opens(worker.project());
                                       }),
                        workers.end());
          for (v1::Worker& worker : *all->mutable_workers()) {
            // nor the jobs of other projects.
            if (granted.caller.Opens(access::ProjectOf(worker.job()))) continue;
            if (!worker.job().empty()) worker.set_job("(of another project)");
          }
          done(std::move(all));
        });
      });
}

grpc::ServerUnaryReactor* ClusterServiceImpl::DrainWorker(grpc::CallbackServerContext* context,
                                                          const v1::DrainWorkerRequest* request,
                                                          v1::Worker* response) {
  return Unary(
      access_, context,
      {"ClusterService.DrainWorker", Scope::kAdmin, "workers/" + request->worker_id(), false},
      response, [&](const Granted&, controller::Callback<v1::Worker> done) {
        controller_->DrainWorker(*request, std::move(done));
      });
}

grpc::ServerUnaryReactor* ClusterServiceImpl::UndrainWorker(grpc::CallbackServerContext* context,
                                                            const v1::UndrainWorkerRequest* request,
                                                            v1::Worker* response) {
  return Unary(
      access_, context,
      {"ClusterService.UndrainWorker", Scope::kAdmin, "workers/" + request->worker_id(), false},
      response, [&](const Granted&, controller::Callback<v1::Worker> done) {
        controller_->UndrainWorker(*request, std::move(done));
      });
}

grpc::ServerWriteReactor<v1::BackupResponse>* ClusterServiceImpl::Backup(
    grpc::CallbackServerContext* context, const v1::BackupRequest*) {
  auto granted = access_.Check(*context, {"ClusterService.Backup", Scope::kAdmin, "backup", false});
  if (!granted.ok()) return new BackupReactor(granted.status());
  granted->changes = true;  // everything leaves the controller, so the audit log records it
  return new BackupReactor(
      controller_, files_,
      [access = access_, granted = *granted](const absl::Status& s) { access.Ended(granted, s); });
}

}  // namespace baton::api
