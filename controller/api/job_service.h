// JobService over ControllerInterface: each RPC is one call.
#ifndef BATON_CONTROLLER_API_JOB_SERVICE_H_
#define BATON_CONTROLLER_API_JOB_SERVICE_H_

#include "baton/v1/job_service.grpc.pb.h"
#include "boost/asio/thread_pool.hpp"
#include "controller/api/access.h"
#include "controller/api/upload_places.h"
#include "controller/api/watch_places.h"
#include "controller/runtime/controller/controller_interface.h"
#include "sdk/common/rpc/guarded_service.h"

namespace baton::api {

/// Thread-safe. `controller` and `files` (an executor for uploads) outlive it.
class JobServiceImpl : public GuardedService<v1::JobService::CallbackService> {
 public:
  JobServiceImpl(controller::ControllerInterface* controller, const Access& access,
                 boost::asio::thread_pool* files, const UploadLimits& uploads = {});

  grpc::ServerUnaryReactor* CreateJob(Context* context, const v1::CreateJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* ListPresets(Context* context, const v1::ListPresetsRequest* request,
                                        v1::ListPresetsResponse* response) override;
  grpc::ServerUnaryReactor* ValidateJob(Context* context, const v1::ValidateJobRequest* request,
                                        v1::ValidateJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(Context* context, const v1::GetJobRequest* request,
                                   v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(Context* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(Context* context, const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* PauseJob(Context* context, const v1::PauseJobRequest* request,
                                     v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(Context* context, const v1::ResumeJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(Context* context, const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(Context* context,
                                                   const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* ListMetrics(Context* context, const v1::ListMetricsRequest* request,
                                        v1::ListMetricsResponse* response) override;
  grpc::ServerUnaryReactor* ListTrajectories(Context* context,
                                             const v1::ListTrajectoriesRequest* request,
                                             v1::ListTrajectoriesResponse* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(Context* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* ExportCheckpoint(Context* context,
                                             const v1::ExportCheckpointRequest* request,
                                             v1::ExportCheckpointResponse* response) override;
  grpc::ServerWriteReactor<v1::LogEntry>* ReadLogs(Context* context,
                                                   const v1::ReadLogsRequest* request) override;
  grpc::ServerUnaryReactor* ExplainJob(Context* context, const v1::ExplainJobRequest* request,
                                       v1::ExplainJobResponse* response) override;
  grpc::ServerReadReactor<v1::UploadFileRequest>* UploadFile(
      Context* context, v1::UploadFileResponse* response) override;

 private:
  /// A method about one job that is also a method of the controller.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* OnJob(
      const char* method, access::Scope scope, Context* context, const Request* request,
      Response* response,
      void (controller::ControllerInterface::*call)(Request, controller::Callback<Response>));
  absl::StatusOr<WatchPlaces::Place> TakePlace(const Granted& granted);

  controller::ControllerInterface* const controller_;
  const Access access_;
  boost::asio::thread_pool* const files_;
  WatchPlaces watches_;
  UploadPlaces uploads_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_JOB_SERVICE_H_
