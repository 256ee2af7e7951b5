// A controller for tests of the command: one job named "add", answers made up, calls remembered.
#ifndef BATON_SDK_CLI_SHARED_FAKE_JOB_SERVICE_H_
#define BATON_SDK_CLI_SHARED_FAKE_JOB_SERVICE_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "baton/v1/replay_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/retry.h"

namespace baton::cli {

class FakeJobService final : public v1::JobService::Service,
                             public v1::ClusterService::Service,
                             public v1::ReplayService::Service {
 public:
  FakeJobService() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::JobService::Service*>(this));
    builder.RegisterService(static_cast<v1::ClusterService::Service*>(this));
    builder.RegisterService(static_cast<v1::ReplayService::Service*>(this));
    server_ = builder.BuildAndStart();
    job.set_name("projects/default/jobs/add");
    job.set_state(v1::Job::STATE_RUNNING);
    job.set_step(3);
    job.set_total_steps(10);
    job.set_policy_version(3);
    (*job.mutable_metrics())["critic/score/mean"] = 0.25;
  }
  ~FakeJobService() override { server_->Shutdown(); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Answers; a test changes them before a call.
  v1::Job job;
  v1::ValidateJobResponse validation;
  grpc::Status created = grpc::Status::OK;
  int busy = 0;  ///< Number of calls about jobs to refuse as busy.
  v1::Replay replay;
  /// One entry per connection of a watch; each stream but the last one then breaks.
  std::vector<std::vector<v1::JobEvent>> watches;
  int unopened = 0;  ///< So many watches break before the service has taken them.
  /// Called in each watch, before its first event is sent.
  std::function<void()> before_events = [] {};
  int64_t oldest_event = 0;  ///< Watches from an earlier revision than before it are refused.
  v1::ExplainJobResponse explanation;
  std::string log_message = "actor is ready";
  int trajectories = 3;  ///< Number in a list's answer: 3, the third unlike the others, or more.
  std::map<std::string, double> step_metrics;  ///< In every step, beside critic/score/mean.
  std::map<std::string, double> rare_metrics;  ///< In step 2 alone.

  /// Waits until `call` was made so many times, for ten seconds at most.
  void AwaitCall(const std::string& call, int times) {
    absl::MutexLock lock(&mu_);
    const auto made = [&] { return std::count(calls.begin(), calls.end(), call) >= times; };
    mu_.AwaitWithTimeout(absl::Condition(&made), absl::Seconds(10));
  }

  // The requests; read them when the call is over.
  std::vector<std::string> calls;
  std::vector<int64_t> watched_after;
  v1::JobSpec submitted;
  v1::CreateJobRequest create;  ///< The last.
  std::vector<v1::CreateReplayRequest> replays;
  std::string uploaded;
  std::string upload_projects;  // of all pieces, one after the other

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::Job* answer) override {
    submitted = request->spec();
    create = *request;
    *answer = job;
    if (busy > 0) return Busy();
    return created;
  }
  grpc::Status ValidateJob(grpc::ServerContext*, const v1::ValidateJobRequest* request,
                           v1::ValidateJobResponse* answer) override {
    submitted = request->spec();
    *answer = validation;
    *answer->mutable_effective_spec() = request->spec();
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* r, v1::Job* a) override {
    return Known("get", r->name(), a, job);
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* r, v1::Job* a) override {
    return Known("cancel", r->name(), a, job);
  }
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* r, v1::Job* a) override {
    return Known("pause", r->name(), a, job);
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* r, v1::Job* a) override {
    return Known("resume", r->name(), a, job);
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* r,
                         v1::DeleteJobResponse* a) override {
    return Known("delete", r->name(), a, {});
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse* answer) override {
    *answer->add_jobs() = job;
    return grpc::Status::OK;
  }
  grpc::Status ListMetrics(grpc::ServerContext*, const v1::ListMetricsRequest* r,
                           v1::ListMetricsResponse* a) override {
    v1::ListMetricsResponse answer;
    // Two steps a page at most.
    const int first = r->page_token().empty() ? 1 : 3;
    if (first == 1) answer.set_next_page_token("steps after 2");
    for (int step = first; step <= (first == 1 ? 2 : 3); ++step) {
      v1::StepMetrics& metrics = *answer.add_steps();
      metrics.set_step(step);
      const auto put = [&](const std::string& name, double value) {
        const auto wanted = [&](const std::string& prefix) { return name.rfind(prefix, 0) == 0; };
        const auto& prefixes = r->prefixes();
        if (!prefixes.empty() && std::none_of(prefixes.begin(), prefixes.end(), wanted)) return;
        (*metrics.mutable_metrics())[name] = value;
      };
      put("critic/score/mean", 0.25 * step);
      for (const auto& [name, value] : step_metrics) put(name, value);
      if (step != 2) continue;
      for (const auto& [name, value] : rare_metrics) put(name, value);
    }
    return Known("metrics", r->name(), a, answer);
  }
  grpc::Status ListTrajectories(grpc::ServerContext*, const v1::ListTrajectoriesRequest* r,
                                v1::ListTrajectoriesResponse* a) override {
    v1::ListTrajectoriesResponse answer;
    v1::Trajectory& one = *answer.add_trajectories();
    one.set_trajectory_id("train-1");
    one.set_step(3);
    one.set_prompt_text("2+2=");
    one.set_response_text("4\nand more");
    (*one.mutable_scores())["reward"] = 1;
    *answer.add_trajectories() = one;
    answer.mutable_trajectories(1)->set_trajectory_id("train-2");
    answer.mutable_trajectories(1)->set_rendered_prompt("<user>2+2=");
    *answer.add_trajectories() = one;
    answer.mutable_trajectories(2)->set_response_text("5");
    while (answer.trajectories_size() < trajectories) *answer.add_trajectories() = one;
    if (r->with_columns()) {
      v1::Trajectory& first = *answer.mutable_trajectories(0);
      *first.add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{7, 130});
      *first.add_columns() =
          MakeColumn("rollout_log_prob", true, std::vector<float>{-0.25f, -1.5f});
    }
    return Known("samples", r->name(), a, answer);
  }
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* r,
                               v1::ListCheckpointsResponse* a) override {
    v1::ListCheckpointsResponse answer;
    v1::Checkpoint& one = *answer.add_checkpoints();
    one.set_step(2);
    one.set_path("/data/step-2");
    one.set_size_bytes(416100);
    v1::Checkpoint& older = *answer.add_checkpoints();
    older.set_step(1);
    older.set_size_bytes(138000);
    older.set_best(true);
    older.set_weights_only(true);
    return Known("checkpoints", r->name(), a, answer);
  }
  grpc::Status ExportCheckpoint(grpc::ServerContext*, const v1::ExportCheckpointRequest* r,
                                v1::ExportCheckpointResponse* a) override {
    v1::ExportCheckpointResponse answer;
    answer.set_step(2);
    answer.set_directory(absl::StrCat(r->directory(), r->dtype()));
    answer.set_dtype(r->dtype().empty() ? "float32" : r->dtype());
    if (r->dtype() == "bfloat16") {
      answer.set_changed_weights(1000);
      answer.set_kept_weights(87);
    }
    return Known("export", r->name(), a, answer);
  }
  grpc::Status ExplainJob(grpc::ServerContext*, const v1::ExplainJobRequest* r,
                          v1::ExplainJobResponse* a) override {
    return Known("why", r->name(), a, explanation);
  }
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest*,
                        grpc::ServerWriter<v1::LogEntry>* writer) override {
    v1::LogEntry line;
    line.set_sequence(1);
    line.set_level("INFO");
    line.set_source("actor-0");
    line.set_message(log_message);
    writer->Write(line);
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    if (unopened > 0) {
      --unopened;
      return {grpc::StatusCode::UNAVAILABLE, "the link is down"};
    }
    const size_t turn = watched_after.size();
    watched_after.push_back(request->after_revision());
    if (request->after_revision() > 0 && request->after_revision() + 1 < oldest_event) {
      watched_after.pop_back();
      return ToGrpc(MakeError(absl::StatusCode::kOutOfRange, "REVISION_COMPACTED", "too old"));
    }
    context->AddInitialMetadata(kStreamOpenKey, "open");
    writer->SendInitialMetadata();
    before_events();
    if (turn >= watches.size()) return {grpc::StatusCode::INTERNAL, "nothing more was expected"};
    for (const v1::JobEvent& event : watches[turn]) writer->Write(event);
    if (turn + 1 < watches.size()) return {grpc::StatusCode::UNAVAILABLE, "the stream breaks"};
    return grpc::Status::OK;
  }
  grpc::Status UploadFile(grpc::ServerContext*, grpc::ServerReader<v1::UploadFileRequest>* reader,
                          v1::UploadFileResponse* answer) override {
    v1::UploadFileRequest part;
    while (reader->Read(&part)) {
      uploaded += part.data();
      upload_projects += part.project();
    }
    answer->set_path("files/0123/train.jsonl");
    return grpc::Status::OK;
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* answer) override {
    if (!request->page_token().empty()) {
      v1::Worker& other = *answer->add_workers();
      other.set_worker_id("trainer-0");
      other.set_state(v1::Worker::STATE_READY);
      return grpc::Status::OK;
    }
    answer->set_next_page_token("workers after rollout-0");
    v1::Worker& worker = *answer->add_workers();
    worker.set_worker_id("rollout-0");
    worker.set_state(v1::Worker::STATE_READY);
    worker.add_roles("rollout");
    worker.set_job(job.name());
    return grpc::Status::OK;
  }
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request,
                           v1::Worker* answer) override {
    calls.push_back("drain " + request->worker_id());
    answer->set_worker_id(request->worker_id());
    return grpc::Status::OK;
  }
  grpc::Status UndrainWorker(grpc::ServerContext*, const v1::UndrainWorkerRequest* request,
                             v1::Worker* answer) override {
    calls.push_back("undrain " + request->worker_id());
    answer->set_worker_id(request->worker_id());
    return grpc::Status::OK;
  }

  grpc::Status CreateReplay(grpc::ServerContext*, const v1::CreateReplayRequest* request,
                            v1::Replay* answer) override {
    replays.push_back(*request);
    return Known("replay", request->name(), answer, replay);
  }
  grpc::Status GetReplay(grpc::ServerContext*, const v1::GetReplayRequest* request,
                         v1::Replay* answer) override {
    return Known("verdict", request->name(), answer, replay);
  }

 private:
  grpc::Status Busy() {
    --busy;
    return ToGrpc(WithRetry(
        MakeError(absl::StatusCode::kResourceExhausted, "SUBMISSIONS_WAITING", "many wait"),
        absl::Milliseconds(10)));
  }

  template <typename T>
  grpc::Status Known(const char* call, const std::string& name, T* answer, const T& value) {
    absl::MutexLock lock(&mu_);
    calls.push_back(absl::StrCat(call, " ", name));
    if (busy > 0) return Busy();
    if (name == "add" || name == job.name()) {
      *answer = value;
      return grpc::Status::OK;
    }
    return ToGrpc(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                            absl::StrCat("no job '", name, "'; `baton jobs` lists them")));
  }

  absl::Mutex mu_;  ///< Guards `calls` while a command makes several at once.
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_FAKE_JOB_SERVICE_H_
