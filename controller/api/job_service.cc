#include "controller/api/job_service.h"

#include <memory>
#include <utility>

#include "controller/api/outbox_reactor.h"
#include "controller/api/unary.h"
#include "controller/api/upload_file_reactor.h"

namespace baton::api {
namespace {

// What may wait for a slow reader before it is cut off: the whole history of a long job, and more.
constexpr size_t kWatchCapacityBytes = 32u << 20;

class EventOutbox : public controller::EventSink {
 public:
  explicit EventOutbox(std::shared_ptr<OutboxReactor<v1::JobEvent>> reactor)
      : reactor_(std::move(reactor)) {}
  bool OnEvent(const v1::JobEvent& event) override { return reactor_->Push(event); }
  void OnEnd(absl::Status status) override { reactor_->End(status); }

 private:
  const std::shared_ptr<OutboxReactor<v1::JobEvent>> reactor_;
};

class LogOutbox : public controller::LogSink {
 public:
  explicit LogOutbox(std::shared_ptr<OutboxReactor<v1::LogEntry>> reactor)
      : reactor_(std::move(reactor)) {}
  bool OnEntry(const v1::LogEntry& entry) override { return reactor_->Push(entry); }
  void OnEnd(absl::Status status) override { reactor_->End(status); }

 private:
  const std::shared_ptr<OutboxReactor<v1::LogEntry>> reactor_;
};

}  // namespace

grpc::ServerUnaryReactor* JobServiceImpl::CreateJob(Context* context,
                                                    const v1::CreateJobRequest* request,
                                                    v1::Job* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::Job> done) {
    // gRPC made the request for this call and looks at it no more: it is taken, not copied.
    controller_->CreateJob(std::move(*const_cast<v1::CreateJobRequest*>(request)), std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::ValidateJob(Context* context,
                                                      const v1::ValidateJobRequest* request,
                                                      v1::ValidateJobResponse* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::ValidateJobResponse> done) {
    controller_->ValidateJob(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(Context* context, const v1::GetJobRequest* request,
                                                 v1::Job* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::Job> done) {
    controller_->GetJob(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(Context* context,
                                                   const v1::ListJobsRequest* request,
                                                   v1::ListJobsResponse* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::ListJobsResponse> done) {
    controller_->ListJobs(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(Context* context,
                                                    const v1::CancelJobRequest* request,
                                                    v1::Job* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::Job> done) {
    controller_->CancelJob(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::PauseJob(Context* context,
                                                   const v1::PauseJobRequest* request,
                                                   v1::Job* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::Job> done) {
    controller_->PauseJob(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::ResumeJob(Context* context,
                                                    const v1::ResumeJobRequest* request,
                                                    v1::Job* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::Job> done) {
    controller_->ResumeJob(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::DeleteJob(Context* context,
                                                    const v1::DeleteJobRequest* request,
                                                    v1::DeleteJobResponse* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::DeleteJobResponse> done) {
    controller_->DeleteJob(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListMetrics(Context* context,
                                                      const v1::ListMetricsRequest* request,
                                                      v1::ListMetricsResponse* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::ListMetricsResponse> done) {
    controller_->ListMetrics(*request, std::move(done));
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListTrajectories(
    Context* context, const v1::ListTrajectoriesRequest* request,
    v1::ListTrajectoriesResponse* response) {
  return Unary(access_, context, response,
               [&](controller::Callback<v1::ListTrajectoriesResponse> done) {
                 controller_->ListTrajectories(*request, std::move(done));
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListCheckpoints(Context* context,
                                                          const v1::ListCheckpointsRequest* request,
                                                          v1::ListCheckpointsResponse* response) {
  return Unary(access_, context, response,
               [&](controller::Callback<v1::ListCheckpointsResponse> done) {
                 controller_->ListCheckpoints(*request, std::move(done));
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::ExportCheckpoint(
    Context* context, const v1::ExportCheckpointRequest* request,
    v1::ExportCheckpointResponse* response) {
  return Unary(access_, context, response,
               [&](controller::Callback<v1::ExportCheckpointResponse> done) {
                 controller_->ExportCheckpoint(*request, std::move(done));
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::ExplainJob(Context* context,
                                                     const v1::ExplainJobRequest* request,
                                                     v1::ExplainJobResponse* response) {
  return Unary(access_, context, response, [&](controller::Callback<v1::ExplainJobResponse> done) {
    controller_->ExplainJob(*request, std::move(done));
  });
}

grpc::ServerWriteReactor<v1::JobEvent>* JobServiceImpl::WatchJob(
    Context* context, const v1::WatchJobRequest* request) {
  auto reactor = OutboxReactor<v1::JobEvent>::Make(kWatchCapacityBytes);
  const absl::Status allowed = access_.Check(*context);
  if (allowed.ok()) {
    reactor->Hold(controller_->WatchJob(*request, std::make_shared<EventOutbox>(reactor)));
  } else {
    reactor->End(allowed);
  }
  return reactor.get();
}

grpc::ServerWriteReactor<v1::LogEntry>* JobServiceImpl::ReadLogs(
    Context* context, const v1::ReadLogsRequest* request) {
  auto reactor = OutboxReactor<v1::LogEntry>::Make(kWatchCapacityBytes);
  const absl::Status allowed = access_.Check(*context);
  if (allowed.ok()) {
    reactor->Hold(controller_->ReadLogs(*request, std::make_shared<LogOutbox>(reactor)));
  } else {
    reactor->End(allowed);
  }
  return reactor.get();
}

grpc::ServerReadReactor<v1::UploadFileRequest>* JobServiceImpl::UploadFile(
    Context* context, v1::UploadFileResponse* response) {
  return new UploadFileReactor(access_.Check(*context), controller_->files_dir(), files_, context,
                               response);
}

}  // namespace baton::api
