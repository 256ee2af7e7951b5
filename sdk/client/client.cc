#include "sdk/client/client.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/access_service.grpc.pb.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "baton/v1/replay_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/channel_credentials.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/retry.h"

namespace baton {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr absl::Duration kChecked = absl::Minutes(10);  // a spec is, with all of its data
constexpr absl::Duration kUploaded = absl::Minutes(10);
constexpr absl::Duration kLeastRetry = absl::Milliseconds(50), kLongestRetry = absl::Seconds(30);
constexpr size_t kUploadPiece = 256u << 10;
constexpr absl::Duration kPauseToResume = absl::Milliseconds(300);
constexpr int kMostItems = 1000;  // of a page, as the API documents it
constexpr int kMostSteps = 100'000;

class ClientImpl : public Client {
 public:
  ClientImpl(const std::string& address, ClientOptions options,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : address_(address), options_(std::move(options)) {
    ChannelOptions how;
    how.max_message_bytes = kMaxMessageBytes;
    const auto channel = MakeChannel(address, credentials, how);
    jobs_ = v1::JobService::NewStub(channel);
    cluster_ = v1::ClusterService::NewStub(channel);
    replays_ = v1::ReplayService::NewStub(channel);
    access_ = v1::AccessService::NewStub(channel);
  }

  const std::string& address() const override { return address_; }

  absl::StatusOr<v1::Job> CreateJob(const v1::JobSpec& spec, const std::string& job_id,
                                    const std::string& request_id) override {
    v1::CreateJobRequest request;
    request.set_project(options_.project);
    *request.mutable_spec() = spec;
    request.set_job_id(job_id);
    request.set_request_id(request_id);
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::CreateJob, request, kChecked);
  }
  absl::StatusOr<v1::Job> CreateJobFrom(const std::string& checkpoint, const v1::JobSpec* changes,
                                        const std::string& job_id,
                                        const std::string& request_id) override {
    v1::CreateJobRequest request;
    request.set_project(options_.project);
    request.set_checkpoint(checkpoint);
    if (changes != nullptr) *request.mutable_changes() = *changes;
    request.set_job_id(job_id);
    request.set_request_id(request_id);
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::CreateJob, request, kChecked);
  }
  absl::StatusOr<v1::ValidateJobResponse> ValidateJob(const v1::JobSpec& spec) override {
    v1::ValidateJobRequest request;
    request.set_project(options_.project);
    *request.mutable_spec() = spec;
    return Call<v1::ValidateJobResponse>(*jobs_, &v1::JobService::Stub::ValidateJob, request,
                                         kChecked);
  }
  absl::StatusOr<v1::Job> GetJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::GetJob, Named<v1::GetJobRequest>(name));
  }
  absl::StatusOr<std::vector<v1::Job>> ListJobs(
      const std::vector<v1::Job::State>& states) override {
    std::vector<v1::Job> jobs;
    v1::ListJobsRequest request;
    request.set_project(options_.project);
    for (v1::Job::State state : states) request.add_states(state);
    do {
      auto page = Call<v1::ListJobsResponse>(*jobs_, &v1::JobService::Stub::ListJobs, request);
      if (!page.ok()) return page.status();
      jobs.insert(jobs.end(), page->jobs().begin(), page->jobs().end());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return jobs;
  }
  absl::StatusOr<v1::Job> CancelJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::CancelJob,
                         Named<v1::CancelJobRequest>(name));
  }
  absl::StatusOr<v1::Job> PauseJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::PauseJob, Named<v1::PauseJobRequest>(name));
  }
  absl::StatusOr<v1::Job> ResumeJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::ResumeJob,
                         Named<v1::ResumeJobRequest>(name));
  }
  absl::Status DeleteJob(const std::string& name) override {
    return Call<v1::DeleteJobResponse>(*jobs_, &v1::JobService::Stub::DeleteJob,
                                       Named<v1::DeleteJobRequest>(name))
        .status();
  }
  absl::StatusOr<v1::ListMetricsResponse> ListMetrics(
      const v1::ListMetricsRequest& asked) override {
    auto request = asked;
    request.set_name(FullName(asked.name()));
    return Pages<v1::ListMetricsResponse>(*jobs_, &v1::JobService::Stub::ListMetrics, request,
                                          kMostSteps, &v1::ListMetricsResponse::steps_size);
  }
  absl::StatusOr<v1::ListTrajectoriesResponse> ListTrajectories(
      const v1::ListTrajectoriesRequest& asked) override {
    auto request = asked;
    request.set_name(FullName(asked.name()));
    if (request.page_size() == 0) request.set_page_size(20);
    return Pages<v1::ListTrajectoriesResponse>(*jobs_, &v1::JobService::Stub::ListTrajectories,
                                               request, kMostItems,
                                               &v1::ListTrajectoriesResponse::trajectories_size);
  }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& name) override {
    return Pages<v1::ListCheckpointsResponse>(*jobs_, &v1::JobService::Stub::ListCheckpoints,
                                              Named<v1::ListCheckpointsRequest>(name), kMostItems,
                                              &v1::ListCheckpointsResponse::checkpoints_size);
  }
  absl::StatusOr<v1::ExportCheckpointResponse> ExportCheckpoint(
      v1::ExportCheckpointRequest request) override {
    request.set_name(FullName(request.name()));
    return Call<v1::ExportCheckpointResponse>(*jobs_, &v1::JobService::Stub::ExportCheckpoint,
                                              request, absl::Minutes(11));
  }
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& name) override {
    return Call<v1::ExplainJobResponse>(*jobs_, &v1::JobService::Stub::ExplainJob,
                                        Named<v1::ExplainJobRequest>(name));
  }
  absl::StatusOr<v1::Replay> CreateReplay(v1::CreateReplayRequest request) override {
    request.set_name(FullName(request.name()));
    return Call<v1::Replay>(*replays_, &v1::ReplayService::Stub::CreateReplay, request, kChecked);
  }
  absl::StatusOr<v1::Replay> GetReplay(const std::string& name) override {
    return Call<v1::Replay>(*replays_, &v1::ReplayService::Stub::GetReplay,
                            Named<v1::GetReplayRequest>(name));
  }
  absl::StatusOr<v1::ListPresetsResponse> ListPresets() override {
    return Call<v1::ListPresetsResponse>(*jobs_, &v1::JobService::Stub::ListPresets,
                                         v1::ListPresetsRequest());
  }
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers() override {
    return Pages<v1::ListWorkersResponse>(*cluster_, &v1::ClusterService::Stub::ListWorkers,
                                          v1::ListWorkersRequest(), kMostItems,
                                          &v1::ListWorkersResponse::workers_size);
  }
  absl::StatusOr<v1::Worker> DrainWorker(const std::string& worker_id) override {
    v1::DrainWorkerRequest request;
    request.set_worker_id(worker_id);
    return Call<v1::Worker>(*cluster_, &v1::ClusterService::Stub::DrainWorker, request);
  }
  absl::StatusOr<v1::Worker> UndrainWorker(const std::string& worker_id) override {
    v1::UndrainWorkerRequest request;
    request.set_worker_id(worker_id);
    return Call<v1::Worker>(*cluster_, &v1::ClusterService::Stub::UndrainWorker, request);
  }
  absl::Status Backup(
      const std::function<absl::Status(const v1::BackupResponse&)>& on_piece) override {
    grpc::ClientContext context;
    Authorize(context);
    auto reader = cluster_->Backup(&context, v1::BackupRequest());
    v1::BackupResponse piece;
    absl::Status heard;
    while (heard.ok() && reader->Read(&piece)) {
      heard = on_piece(piece);
      piece.Clear();
    }
    if (!heard.ok()) context.TryCancel();
    const absl::Status ended = FromGrpc(reader->Finish());
    return heard.ok() ? ended : heard;
  }

  absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      const v1::CreateTokenRequest& request) override {
    return Call<v1::CreateTokenResponse>(*access_, &v1::AccessService::Stub::CreateToken, request);
  }
  absl::StatusOr<v1::ListTokensResponse> ListTokens() override {
    return Pages<v1::ListTokensResponse>(*access_, &v1::AccessService::Stub::ListTokens,
                                         v1::ListTokensRequest(), kMostItems,
                                         &v1::ListTokensResponse::tokens_size);
  }
  absl::Status RevokeToken(const std::string& token_id) override {
    v1::RevokeTokenRequest request;
    request.set_token_id(token_id);
    return Call<v1::RevokeTokenResponse>(*access_, &v1::AccessService::Stub::RevokeToken, request)
        .status();
  }
  absl::StatusOr<v1::Project> SetProject(const v1::Project& project) override {
    v1::SetProjectRequest request;
    *request.mutable_project() = project;
    return Call<v1::Project>(*access_, &v1::AccessService::Stub::SetProject, request);
  }
  absl::StatusOr<v1::ListProjectsResponse> ListProjects() override {
    return Pages<v1::ListProjectsResponse>(*access_, &v1::AccessService::Stub::ListProjects,
                                           v1::ListProjectsRequest(), kMostItems,
                                           &v1::ListProjectsResponse::projects_size);
  }

  absl::Status WatchJob(const std::string& name, int64_t after_revision,
                        const std::function<bool(const v1::JobEvent&)>& on_event,
                        const OnOutage& on_outage) override {
    int64_t last = after_revision;
    return Resume(on_outage, [&](const std::function<void()>& goes_on) {
      auto request = Named<v1::WatchJobRequest>(name);
      request.set_after_revision(last);
      grpc::ClientContext context;
      Authorize(context);
      return ReadAll<v1::JobEvent>(context, jobs_->WatchJob(&context, request), goes_on,
                                   [&](const v1::JobEvent& event) {
                                     if (event.revision() != 0) last = event.revision();
                                     return on_event(event);
                                   });
    });
  }

  absl::Status ReadLogs(const std::string& name, int64_t after_sequence, bool follow,
                        const std::function<bool(const v1::LogEntry&)>& on_entry,
                        const OnOutage& on_outage) override {
    int64_t last = after_sequence;
    return Resume(on_outage, [&](const std::function<void()>& goes_on) {
      auto request = Named<v1::ReadLogsRequest>(name);
      request.set_after_sequence(last);
      request.set_follow(follow);
      grpc::ClientContext context;
      Authorize(context);
      return ReadAll<v1::LogEntry>(context, jobs_->ReadLogs(&context, request), goes_on,
                                   [&](const v1::LogEntry& entry) {
                                     last = entry.sequence();
                                     return on_entry(entry);
                                   });
    });
  }

  absl::StatusOr<std::string> UploadFile(const std::string& path) override {
    const absl::Time end = BootNow() + kUploaded;
    while (true) {
      auto uploaded = UploadOnce(path, end);
      if (uploaded.ok() || !WaitToRetry(uploaded.status(), end)) return uploaded;
    }
  }

 private:
  absl::StatusOr<std::string> UploadOnce(const std::string& path, absl::Time end) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return absl::NotFoundError(absl::StrCat(path, " cannot be opened"));
    grpc::ClientContext context;
    Authorize(context);
    context.set_deadline(absl::ToChronoTime(absl::Now() + (end - BootNow())));
    v1::UploadFileResponse response;
    auto writer = jobs_->UploadFile(&context, &response);
    v1::UploadFileRequest request;
    request.set_filename(std::filesystem::path(path).filename().string());
    request.set_project(options_.project);
    std::string piece(kUploadPiece, '\0');
    do {
      in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      request.set_data(piece.data(), static_cast<size_t>(in.gcount()));
      if (!writer->Write(request)) break;  // Finish tells why
      request.clear_filename();
      request.clear_project();
    } while (in);
    writer->WritesDone();
    BATON_RETURN_IF_ERROR(FromGrpc(writer->Finish()));
    return response.path();
  }

  // A short name is of the chosen project; without one the server takes the token's.
  std::string FullName(const std::string& name) const {
    if (options_.project.empty() || absl::StartsWith(name, "projects/")) return name;
    return absl::StrCat("projects/", options_.project, "/jobs/", name);
  }

  template <typename Request>
  Request Named(const std::string& name) const {
    Request request;
    request.set_name(FullName(name));
    return request;
  }

  void Authorize(grpc::ClientContext& context) const {
    if (!options_.token.empty()) context.AddMetadata("authorization", "Bearer " + options_.token);
  }

  template <typename Response, typename Stub, typename Method, typename Request>
  absl::StatusOr<Response> Call(Stub& stub, Method method, const Request& request,
                                absl::Duration timeout = absl::ZeroDuration()) {
    const absl::Time end = BootNow() + std::max(timeout, options_.timeout);
    while (true) {
      grpc::ClientContext context;
      Authorize(context);
      context.set_deadline(absl::ToChronoTime(absl::Now() + (end - BootNow())));
      Response response;
      const absl::Status status = FromGrpc((stub.*method)(&context, request, &response));
      answered_ = answered_ || status.ok();
      if (status.ok()) return response;
      if (!WaitToRetry(status, end)) return status;
    }
  }

  // Waits as a busy server asks for. False: it does not ask, or the call would end before.
  bool WaitToRetry(const absl::Status& status, absl::Time end) const {
    const absl::Duration asked = RetryDelay(status);
    if (asked == absl::InfiniteDuration()) return false;
    // Callers who were refused together do not come back together.
    static thread_local std::minstd_rand random(std::random_device{}());
    const double spread = std::uniform_real_distribution<double>(1, 1.5)(random);
    const absl::Duration delay = std::clamp(asked, kLeastRetry, kLongestRetry) * spread;
    if (BootNow() + delay >= end) return false;
    if (options_.on_busy != nullptr) options_.on_busy(status);
    absl::SleepFor(delay);
    return true;
  }

  // All pages in one answer, without a token. `page_size` of the request is the most that is
  // wanted, 0: all; `most` is what one page may hold.
  template <typename Response, typename Stub, typename Method, typename Request>
  absl::StatusOr<Response> Pages(Stub& stub, Method method, Request request, int most,
                                 int (Response::*size)() const) {
    const int wanted = request.page_size();
    Response all;
    do {
      if (wanted > 0) request.set_page_size(std::min(most, wanted - (all.*size)()));
      auto page = Call<Response>(stub, method, request);
      if (!page.ok()) return page.status();
      request.set_page_token(page->next_page_token());
      all.MergeFrom(*page);
    } while (!request.page_token().empty() && (wanted <= 0 || (all.*size)() < wanted));
    all.clear_next_page_token();
    return all;
  }

  // Reads a stream to its end. `goes_on` is called once the server has taken the call.
  template <typename Message>
  static absl::Status ReadAll(grpc::ClientContext& context,
                              std::unique_ptr<grpc::ClientReader<Message>> reader,
                              const std::function<void()>& goes_on,
                              const std::function<bool(const Message&)>& on_message) {
    reader->WaitForInitialMetadata();
    if (context.GetServerInitialMetadata().count(kStreamOpenKey) > 0) goes_on();
    for (Message message; reader->Read(&message);) {
      if (on_message(message)) continue;
      context.TryCancel();
      break;
    }
    return FromGrpc(reader->Finish());
  }

  // Runs one stream after the other until it ends by itself. A broken connection is no end, if the
  // server has answered this client before: then the address is right.
  absl::Status Resume(
      const OnOutage& on_outage,
      const std::function<absl::Status(const std::function<void()>& goes_on)>& stream) {
    absl::Time broken = absl::InfiniteFuture();  // when; the future: it is not broken
    bool told = false;
    absl::Status status;
    const auto goes_on = [&] {
      answered_ = true;
      const absl::Time since = std::exchange(broken, absl::InfiniteFuture());
      if (std::exchange(told, false)) on_outage({status, BootNow() - since, /*over=*/true});
    };
    while (true) {
      status = stream(goes_on);
      const bool passing = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
      if (!passing || !answered_) return status;
      broken = std::min(broken, BootNow());
      if (BootNow() - broken > options_.resume) return status;
      if (on_outage != nullptr && absl::IsUnavailable(status)) {  // or it was read too slowly
        told = true;
        on_outage({status, BootNow() - broken, /*over=*/false});
      }
      absl::SleepFor(kPauseToResume);
    }
  }

  const std::string address_;
  const ClientOptions options_;
  std::atomic<bool> answered_ = false;  // the server, to any call
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
  std::unique_ptr<v1::ReplayService::Stub> replays_;
  std::unique_ptr<v1::AccessService::Stub> access_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        ClientOptions options) {
  BATON_RETURN_IF_ERROR(MayShowToken(options.token, address, options.tls, options.insecure));
  BATON_ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(options.tls));
  return std::make_unique<ClientImpl>(address, std::move(options), credentials);
}

}  // namespace baton
