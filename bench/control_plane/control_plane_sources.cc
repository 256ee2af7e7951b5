// Steps of a job whose held-out data name few sources, or very many.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/control_plane/control_plane.h"
#include "bench/support/child_process.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/messages/times.h"

namespace baton::bench {
namespace {

constexpr char kSourcesJob[] = "sources";

void WriteExamples(const std::string& path, int examples, int sources) {
  std::ofstream out(path);
  for (int i = 0; i < examples; ++i) {
    out << "{\"prompt\": \"" << i << "+1=\", \"answer\": \"2\", \"source\": \"source-"
        << i % sources << "\"}\n";
  }
}

v1::CreateJobRequest SourcesJob(const std::string& root, int steps) {
  v1::CreateJobRequest request;
  request.set_job_id(kSourcesJob);
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_kind(v1::JOB_KIND_RL);
  spec->mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec->mutable_data()->add_train_files(root + "/train.jsonl");
  spec->mutable_data()->add_val_files(root + "/val.jsonl");
  spec->mutable_data()->set_train_batch_size(1);
  spec->mutable_data()->set_max_response_length(2);
  spec->mutable_rollout()->set_n(8);
  spec->mutable_reward()->add_rules()->set_type("exact_match");
  spec->mutable_trainer()->set_total_training_steps(steps);
  spec->mutable_trainer()->set_save_freq(0);
  spec->mutable_trainer()->set_val_after_train(false);
  return request;
}

absl::Time TimeOf(const v1::JobEvent& event) { return FromProto(event.time()); }

// Follows the job to its end.
void Follow(v1::JobService::Stub* stub, SourcesResult* result) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(10)));
  v1::WatchJobRequest request;
  request.set_name(kSourcesJob);
  const auto events = stub->WatchJob(&context, request);
  absl::Time before = absl::InfinitePast();
  v1::JobEvent last;
  for (v1::JobEvent event; events->Read(&event);) {
    if (event.type() == "evaluation") {
      const auto took = event.metrics().find("timing_s/testing");
      if (took != event.metrics().end()) result->evaluation_seconds = took->second;
    }
    if (event.type() == "step") {
      const absl::Time now = TimeOf(event);
      if (before != absl::InfinitePast()) {
        result->step_ms.push_back(absl::ToDoubleMilliseconds(now - before));
      }
      before = now;
    }
    if (event.type() == "state") last = event;
  }
  const grpc::Status status = events->Finish();
  if (!status.ok()) result->error = absl::StrCat("WatchJob: ", status.error_message());
  if (last.state() != v1::Job::STATE_SUCCEEDED) {
    result->error = absl::StrCat("the job did not end well: ", last.message());
  }
  if (result->step_ms.empty()) result->error += " no steps";
}

}  // namespace

SourcesResult MeasureSources(const SourcesOptions& options) {
  SourcesResult result;
  const std::string root = absl::StrCat(options.folder, "/sources-", options.sources);
  std::filesystem::create_directories(root);
  WriteExamples(root + "/train.jsonl", 50, 1);
  WriteExamples(root + "/val.jsonl", options.examples, options.sources);
  ChildProcess server({"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                       "--data-root", root, "--checker", "none"},
                      root + "/controller.log");
  const std::string port = server.WaitForLog("grpc_port=", absl::Seconds(30));
  if (port.empty()) {
    result.error = absl::StrCat("the controller did not start: ", server.Log());
    return result;
  }
  const std::string address = "127.0.0.1:" + port;
  std::vector<std::unique_ptr<ChildProcess>> workers;
  for (const char* role : {"actor", "rollout", "reward"}) {
    workers.push_back(std::make_unique<ChildProcess>(
        std::vector<std::string>{"baton-fake-worker", "--controller", address, "--roles", role,
                                 "--id", role, "--weights-dir", root + "/weights", "--token-ms",
                                 "0", "--task-ms", "0"},
        absl::StrCat(root, "/", role, ".log")));
  }
  const auto stub =
      v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status created = stub->CreateJob(&context, SourcesJob(root, options.steps), &job);
  if (!created.ok()) {
    result.error = absl::StrCat("CreateJob: ", created.error_message());
    return result;
  }
  Follow(stub.get(), &result);
  v1::GetJobRequest get;
  get.set_name(kSourcesJob);
  grpc::ClientContext shown;
  if (stub->GetJob(&shown, get, &job).ok()) result.series = static_cast<size_t>(job.metrics_size());
  server.Signal(SIGTERM);
  if (server.Wait(absl::Seconds(30)) != 0) result.error += " the controller did not end";
  return result;
}

}  // namespace baton::bench
