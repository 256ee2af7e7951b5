#include "controller/api/job_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/outbox_reactor.h"
#include "controller/api/unary.h"
#include "controller/api/upload_file_reactor.h"
#include "sdk/common/base/status_macros.h"

namespace baton::api {

using access::Scope;
using controller::ControllerInterface;

namespace {

// Bytes that may wait for a slow reader before it is cut off: more than the history of a long job.
constexpr size_t kWatchCapacityBytes = 32u << 20;
// Limit for a request with a spec. A spec may have 1 MiB; the rest lets an error say its size.
constexpr size_t kMaxSpecRequestBytes = 4u << 20;

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

/// A subscription that holds one of its project's places.
class PlacedSubscription : public controller::Subscription {
 public:
  PlacedSubscription(std::unique_ptr<controller::Subscription> subscription,
                     WatchPlaces::Place place)
      : place_(std::move(place)), subscription_(std::move(subscription)) {}

 private:
  const WatchPlaces::Place place_;
  const std::unique_ptr<controller::Subscription> subscription_;
};

}  // namespace

JobServiceImpl::JobServiceImpl(ControllerInterface* controller, const Access& access,
                               boost::asio::thread_pool* files, const UploadLimits& uploads)
    : GuardedService(v1::JobService::service_full_name(), access.Guard()),
      controller_(controller),
      access_(access),
      files_(files),
      uploads_(uploads) {
  Guard("CreateJob", &JobServiceImpl::CreateJob, kMaxSpecRequestBytes);
  Guard("ValidateJob", &JobServiceImpl::ValidateJob, kMaxSpecRequestBytes);
  Guard("GetJob", &JobServiceImpl::GetJob);
  Guard("ListJobs", &JobServiceImpl::ListJobs);
  Guard("CancelJob", &JobServiceImpl::CancelJob);
  Guard("PauseJob", &JobServiceImpl::PauseJob);
  Guard("ResumeJob", &JobServiceImpl::ResumeJob);
  Guard("DeleteJob", &JobServiceImpl::DeleteJob);
  Guard("WatchJob", &JobServiceImpl::WatchJob);
  Guard("ListMetrics", &JobServiceImpl::ListMetrics);
  Guard("ListTrajectories", &JobServiceImpl::ListTrajectories);
  Guard("ListCheckpoints", &JobServiceImpl::ListCheckpoints);
  Guard("ExportCheckpoint", &JobServiceImpl::ExportCheckpoint);
  Guard("ReadLogs", &JobServiceImpl::ReadLogs);
  Guard("ExplainJob", &JobServiceImpl::ExplainJob);
  Guard("ListPresets", &JobServiceImpl::ListPresets);
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* JobServiceImpl::OnJob(
    const char* method, access::Scope scope, Context* context, const Request* request,
    Response* response,
    void (controller::ControllerInterface::*call)(Request, controller::Callback<Response>)) {
  return Unary(access_, context, {method, scope, request->name()}, response,
               [&](const Granted& granted, controller::Callback<Response> done) {
                 Request taken = Take(request);
                 taken.set_name(granted.resource);
                 (controller_->*call)(std::move(taken), std::move(done));
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::CreateJob(Context* context,
                                                    const v1::CreateJobRequest* request,
                                                    v1::Job* response) {
  Asked asked{"JobService.CreateJob", Scope::kWrite, ""};
  if (!request->project().empty()) asked.resource = absl::StrCat("projects/", request->project());
  if (access::ValidId(request->job_id())) {  // an invalid id is refused later
    asked.resource = asked.resource.empty()
                         ? request->job_id()
                         : absl::StrCat(asked.resource, "/jobs/", request->job_id());
  }
  return Unary(
      access_, context, asked, response,
      [&](const Granted& granted, controller::Callback<v1::Job> done, controller::CallerGone gone) {
        v1::CreateJobRequest taken = Take(request);
        if (granted.project != "*") taken.set_project(granted.project);
        controller_->CreateJob(std::move(taken), std::move(done), std::move(gone));
      });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListPresets(Context* context,
                                                      const v1::ListPresetsRequest*,
                                                      v1::ListPresetsResponse* response) {
  const Asked asked{"JobService.ListPresets", Scope::kRead, ""};
  return Unary(access_, context, asked, response,
               [&](const Granted&, controller::Callback<v1::ListPresetsResponse> done) {
                 done(controller_->ListPresets());
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::ValidateJob(Context* context,
                                                      const v1::ValidateJobRequest* request,
                                                      v1::ValidateJobResponse* response) {
  // write, because it reads files that the spec names
  Asked asked{"JobService.ValidateJob", Scope::kWrite, ""};
  if (!request->project().empty()) asked.resource = absl::StrCat("projects/", request->project());
  return Unary(access_, context, asked, response,
               [&](const Granted& granted, controller::Callback<v1::ValidateJobResponse> done,
                   controller::CallerGone gone) {
                 v1::ValidateJobRequest taken = Take(request);
                 if (granted.project != "*") taken.set_project(granted.project);
                 controller_->ValidateJob(std::move(taken), std::move(done), std::move(gone));
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(Context* context,
                                                   const v1::ListJobsRequest* request,
                                                   v1::ListJobsResponse* response) {
  Asked asked{"JobService.ListJobs", Scope::kRead, ""};
  const bool all = request->project() == "-";
  if (!all && !request->project().empty()) {
    asked.resource = absl::StrCat("projects/", request->project());
  }
  return Unary(access_, context, asked, response,
               [&](const Granted& granted, controller::Callback<v1::ListJobsResponse> done) {
                 v1::ListJobsRequest taken = Take(request);
                 // Only what the caller may see.
                 if (granted.project != "*") taken.set_project(granted.project);
                 controller_->ListJobs(std::move(taken), std::move(done));
               });
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(Context* context, const v1::GetJobRequest* request,
                                                 v1::Job* response) {
  return OnJob("JobService.GetJob", Scope::kRead, context, request, response,
               &ControllerInterface::GetJob);
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(Context* context,
                                                    const v1::CancelJobRequest* request,
                                                    v1::Job* response) {
  return OnJob("JobService.CancelJob", Scope::kWrite, context, request, response,
               &ControllerInterface::CancelJob);
}

grpc::ServerUnaryReactor* JobServiceImpl::PauseJob(Context* context,
                                                   const v1::PauseJobRequest* request,
                                                   v1::Job* response) {
  return OnJob("JobService.PauseJob", Scope::kWrite, context, request, response,
               &ControllerInterface::PauseJob);
}

grpc::ServerUnaryReactor* JobServiceImpl::ResumeJob(Context* context,
                                                    const v1::ResumeJobRequest* request,
                                                    v1::Job* response) {
  return OnJob("JobService.ResumeJob", Scope::kWrite, context, request, response,
               &ControllerInterface::ResumeJob);
}

grpc::ServerUnaryReactor* JobServiceImpl::DeleteJob(Context* context,
                                                    const v1::DeleteJobRequest* request,
                                                    v1::DeleteJobResponse* response) {
  return OnJob("JobService.DeleteJob", Scope::kWrite, context, request, response,
               &ControllerInterface::DeleteJob);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListMetrics(Context* context,
                                                      const v1::ListMetricsRequest* request,
                                                      v1::ListMetricsResponse* response) {
  return OnJob("JobService.ListMetrics", Scope::kRead, context, request, response,
               &ControllerInterface::ListMetrics);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListTrajectories(
    Context* context, const v1::ListTrajectoriesRequest* request,
    v1::ListTrajectoriesResponse* response) {
  return OnJob("JobService.ListTrajectories", Scope::kRead, context, request, response,
               &ControllerInterface::ListTrajectories);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListCheckpoints(Context* context,
                                                          const v1::ListCheckpointsRequest* request,
                                                          v1::ListCheckpointsResponse* response) {
  return OnJob("JobService.ListCheckpoints", Scope::kRead, context, request, response,
               &ControllerInterface::ListCheckpoints);
}

grpc::ServerUnaryReactor* JobServiceImpl::ExportCheckpoint(
    Context* context, const v1::ExportCheckpointRequest* request,
    v1::ExportCheckpointResponse* response) {
  return OnJob("JobService.ExportCheckpoint", Scope::kWrite, context, request, response,
               &ControllerInterface::ExportCheckpoint);
}

grpc::ServerUnaryReactor* JobServiceImpl::ExplainJob(Context* context,
                                                     const v1::ExplainJobRequest* request,
                                                     v1::ExplainJobResponse* response) {
  return OnJob("JobService.ExplainJob", Scope::kRead, context, request, response,
               &ControllerInterface::ExplainJob);
}

grpc::ServerWriteReactor<v1::JobEvent>* JobServiceImpl::WatchJob(
    Context* context, const v1::WatchJobRequest* request) {
  auto reactor = OutboxReactor<v1::JobEvent>::Make(kWatchCapacityBytes, OutboxBudget::OfWatches(),
                                                   request->after_revision(), context);
  auto granted = access_.Check(*context, {"JobService.WatchJob", Scope::kRead, request->name()});
  auto place = granted.ok() ? TakePlace(*granted) : granted.status();
  if (place.ok()) {
    reactor->Open();
    reactor->Keep(CutWithToken(access_, *granted, reactor));
    v1::WatchJobRequest taken = Take(request);
    taken.set_name(granted->resource);
    reactor->Hold(std::make_unique<PlacedSubscription>(
        controller_->WatchJob(std::move(taken), std::make_shared<EventOutbox>(reactor)),
        *std::move(place)));
  } else {
    reactor->End(place.status());
  }
  return reactor.get();
}

grpc::ServerWriteReactor<v1::LogEntry>* JobServiceImpl::ReadLogs(
    Context* context, const v1::ReadLogsRequest* request) {
  auto reactor = OutboxReactor<v1::LogEntry>::Make(kWatchCapacityBytes, OutboxBudget::OfWatches(),
                                                   request->after_sequence(), context);
  auto granted = access_.Check(*context, {"JobService.ReadLogs", Scope::kRead, request->name()});
  auto place = granted.ok() ? TakePlace(*granted) : granted.status();
  if (place.ok()) {
    reactor->Open();
    reactor->Keep(CutWithToken(access_, *granted, reactor));
    v1::ReadLogsRequest taken = Take(request);
    taken.set_name(granted->resource);
    reactor->Hold(std::make_unique<PlacedSubscription>(
        controller_->ReadLogs(std::move(taken), std::make_shared<LogOutbox>(reactor)),
        *std::move(place)));
  } else {
    reactor->End(place.status());
  }
  return reactor.get();
}

absl::StatusOr<WatchPlaces::Place> JobServiceImpl::TakePlace(const Granted& granted) {
  return watches_.Take(granted.project, controller_->ProjectNamed(granted.project).max_watches());
}

grpc::ServerReadReactor<v1::UploadFileRequest>* JobServiceImpl::UploadFile(
    Context* context, v1::UploadFileResponse* response) {
  const auto granted = access_.Check(*context, {"JobService.UploadFile", Scope::kWrite, ""});
  // The first message may name another project than the token's own; a refusal is audited there.
  const auto choose = [this, context, own = granted.ok() ? granted->project : ""](
                          const std::string& said) -> absl::StatusOr<std::string> {
    if (said.empty()) return own == "*" ? "default" : own;
    BATON_ASSIGN_OR_RETURN(
        const Granted there,
        access_.Check(*context, {"JobService.UploadFile", Scope::kWrite, "projects/" + said}));
    return there.project;
  };
  auto* const reactor =
      new UploadFileReactor(granted.status(), granted.ok() ? controller_->uploads() : nullptr,
                            &uploads_, choose, files_, context, response);
  if (granted.ok()) {
    reactor->Keep(access_.streams().AddCall(granted->caller, context));
    reactor->TellEnd([access = access_, granted = *granted](const absl::Status& status,
                                                            const std::string& path) mutable {
      granted.resource = path;
      access.Ended(granted, status);
    });
  }
  return reactor;
}

}  // namespace baton::api
