// A user of the service, with a folder for its files. For end-to-end tests.
#ifndef BATON_TESTS_END_TO_END_IN_PROCESS_CLIENT_TESTING_H_
#define BATON_TESTS_END_TO_END_IN_PROCESS_CLIENT_TESTING_H_

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"

namespace baton::testing {

/// Polls until `done` or the deadline; false: the deadline came first.
inline bool WaitFor(const std::function<bool()>& done, absl::Duration limit = absl::Seconds(30)) {
  const absl::Time end = absl::Now() + limit;
  absl::Notification never;
  while (!done()) {
    if (absl::Now() > end) return false;
    never.WaitForNotificationWithTimeout(absl::Milliseconds(2));
  }
  return true;
}

class TestClient {
 public:
  void Connect(const std::string& address) {
    stub_ =
        v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    cluster_ = v1::ClusterService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  }

  /// Replaces the file in one step: a job that reads it meanwhile never sees half of it.
  std::string WriteFile(const std::string& name, const std::string& content) const {
    const std::string path = folder_.path(name);
    const std::string written = path + ".tmp";
    FILE* file = std::fopen(written.c_str(), "w");
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
    ::chmod(written.c_str(), 0600);  // it may hold a token
    std::filesystem::rename(written, path);
    return path;
  }
  std::string Prompts(const std::string& name, int count) const {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&lines, "{\"prompt\": \"", i, "+1=\", \"answer\": \"", i + 1,
                      "\", \"response\": \"", i + 1, "\"}\n");
    }
    return WriteFile(name, lines);
  }

  /// A small rl job.
  v1::JobSpec RlSpec(int steps) const {
    v1::JobSpec spec;
    spec.set_kind(v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_model()->mutable_init()->set_max_position_embeddings(4096);
    spec.mutable_data()->add_train_files(Prompts("train.jsonl", 50));
    spec.mutable_data()->add_val_files(Prompts("val.jsonl", 10));
    spec.mutable_data()->set_train_batch_size(4);
    spec.mutable_data()->set_max_response_length(64);
    spec.mutable_rollout()->set_n(4);
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(steps);
    spec.mutable_trainer()->set_save_freq(2);
    spec.mutable_resources()->set_rollout_workers(2);
    return spec;
  }

  std::vector<v1::Worker> Workers() {
    grpc::ClientContext context;
    v1::ListWorkersResponse answer;
    if (!cluster_->ListWorkers(&context, {}, &answer).ok()) return {};
    return {answer.workers().begin(), answer.workers().end()};
  }
  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, const std::string& id,
                                 const std::string& request_id = "") {
    v1::CreateJobRequest request;
    request.set_job_id(id);
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    grpc::ClientContext context;
    v1::Job job;
    const absl::Status status = FromGrpc(stub_->CreateJob(&context, request, &job));
    if (!status.ok()) return status;
    return job;
  }

  v1::Job Get(const std::string& id) {
    v1::GetJobRequest request;
    request.set_name(id);
    grpc::ClientContext context;
    v1::Job job;
    const absl::Status status = FromGrpc(stub_->GetJob(&context, request, &job));
    if (!status.ok()) job.mutable_error()->set_message(std::string(status.message()));
    return job;
  }

  bool WaitForState(const std::string& id, v1::Job::State state,
                    absl::Duration limit = absl::Seconds(30)) {
    return WaitFor([&] { return Get(id).state() == state; }, limit);
  }
  bool WaitForStep(const std::string& id, int64_t step) {
    return WaitFor([&] { return Get(id).step() >= step; });
  }

  std::string Why(const std::string& id) {
    v1::ExplainJobRequest request;
    request.set_name(id);
    grpc::ClientContext context;
    v1::ExplainJobResponse response;
    const absl::Status status = FromGrpc(stub_->ExplainJob(&context, request, &response));
    return status.ok() ? response.DebugString() : std::string(status.message());
  }

  /// A method that takes the job's name; the answer is dropped.
  template <typename Request, typename Response>
  absl::Status Call(const std::string& job,
                    grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*)) {
    Request request;
    request.set_name(job);
    grpc::ClientContext context;
    Response response;
    return FromGrpc((*stub_.*method)(&context, request, &response));
  }

  /// The weights file of the newest checkpoint.
  std::string WeightsFile(const std::string& id, const std::string& role = "actor") {
    v1::ListCheckpointsRequest request;
    request.set_name(id);
    grpc::ClientContext context;
    v1::ListCheckpointsResponse response;
    if (!stub_->ListCheckpoints(&context, request, &response).ok()) return "no answer";
    if (response.checkpoints().empty()) return "no checkpoint";
    return response.checkpoints(0).path() + "/" + role + "/weights.json";
  }

  /// The newest checkpoint's fake weights.
  std::string FinalWeights(const std::string& id, const std::string& role = "actor") {
    const std::string path = WeightsFile(id, role);
    std::string text;
    if (FILE* file = std::fopen(path.c_str(), "r")) {
      char buffer[4096];
      text.assign(buffer, std::fread(buffer, 1, sizeof(buffer), file));
      std::fclose(file);
    }
    return text.empty() ? "no " + path : text;
  }

  std::vector<v1::JobEvent> Events(const std::string& id, int64_t after = 0) {
    v1::WatchJobRequest request;
    request.set_name(id);
    request.set_after_revision(after);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    auto reader = stub_->WatchJob(&context, request);
    std::vector<v1::JobEvent> events;
    for (v1::JobEvent event; reader->Read(&event);) {
      if (event.revision() != 0) events.push_back(event);
    }
    watch_status_ = FromGrpc(reader->Finish());
    return events;
  }
  const absl::Status& watch_status() const { return watch_status_; }

  v1::JobService::Stub& stub() { return *stub_; }
  const std::string& folder() const { return folder_.path(); }

 private:
  TestFolder folder_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
  absl::Status watch_status_;
};

}  // namespace baton::testing

#endif  // BATON_TESTS_END_TO_END_IN_PROCESS_CLIENT_TESTING_H_
