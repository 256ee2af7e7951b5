// The cost of a job's payloads on the wire and in the controller: a step of a job with a reference,
// a critic and four data-parallel actor ranks, all of them workers of this process.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/control_plane/control_plane.h"
#include "bench/control_plane/counting_proxy.h"
#include "bench/support/child_process.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/parallel/balance.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/worker.h"

namespace baton::bench {
namespace {

using TaskAnswer = absl::StatusOr<v1::TaskResult>;

constexpr int kRanks = 4, kResponses = 8, kOpenTasks = 64;
constexpr int kPromptTokens = 128, kLongestResponse = 2048;

v1::Column* AddColumn(v1::TaskResult& result, const std::string& name, v1::DataType dtype,
                      int64_t values) {
  v1::Column* column = result.add_columns();
  column->set_name(name);
  column->set_dtype(dtype);
  column->set_data(std::string(static_cast<size_t>(values) * 4, '\0'));
  return column;
}

// The controller gives free memory back within 2 s (malloc_conf in controller/server/main.cc).
constexpr absl::Duration kSettles = absl::Seconds(4);

// Resident memory of a process: what it allocated ("RssAnon:"), all with the program's own pages
// ("VmRSS:"), or the peak of all ("VmHWM:").
int64_t ResidentBytes(pid_t pid, const char* which) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, which)) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    int64_t kib = 0;
    return absl::SimpleAtoi(words[words.size() - 2], &kib) ? kib * 1024 : 0;
  }
  return 0;
}

// Totals that the workers of the job saw, all together.
class Seen {
 public:
  // A score task of a node that names no inputs and reads tokens alone.
  void Score(const v1::Task& task) {
    const v1::Trajectory& trajectory = task.score().trajectory();
    int64_t inputs = 0;
    for (const char* name : {"prompt_tokens", "tokens"}) {
      const v1::Column* column = FindColumn(trajectory, name);
      if (column != nullptr) inputs += static_cast<int64_t>(column->ByteSizeLong());
    }
    absl::MutexLock lock(&mu_);
    score_bytes_ += static_cast<int64_t>(task.ByteSizeLong());
    input_bytes_ += inputs;
  }

  // A rank has fetched: `share` is what it trains on.
  void Fetched(const std::vector<v1::Trajectory>& share) {
    absl::MutexLock lock(&mu_);
    for (const v1::Trajectory& trajectory : share) {
      payload_bytes_[trajectory.trajectory_id()] = static_cast<int64_t>(trajectory.ByteSizeLong());
    }
    ++fetched_;
    // The batch stays until the controller's memory has been measured.
    mu_.Await(absl::Condition(&measured_));
  }

  void Measured() {
    absl::MutexLock lock(&mu_);
    measured_ = true;
  }

  bool WaitForRanks(absl::Duration limit) {
    absl::MutexLock lock(&mu_);
    const auto all = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return fetched_ >= kRanks; };
    return mu_.AwaitWithTimeout(absl::Condition(&all), limit);
  }

  void Fill(DataResult* result) {
    absl::MutexLock lock(&mu_);
    result->score_bytes = score_bytes_;
    result->input_bytes = input_bytes_;
    for (const auto& [id, bytes] : payload_bytes_) result->payload_bytes += bytes;
    result->trajectories = static_cast<int64_t>(payload_bytes_.size());
  }

 private:
  absl::Mutex mu_;
  int64_t score_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t input_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int fetched_ ABSL_GUARDED_BY(mu_) = 0;
  bool measured_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, int64_t> payload_bytes_ ABSL_GUARDED_BY(mu_);
};

TaskAnswer Nothing(const v1::Task&, TaskContext&) { return v1::TaskResult(); }

// Lengths are spread as those of real responses: few long ones among many short.
TaskAnswer Generate(const v1::Task& task, TaskContext&) {
  const v1::Generate& ask = task.generate();
  const int64_t shape = (ask.prompt_index() * 7 + ask.sample_index() * 13) % 16 + 1;
  const int64_t tokens = kLongestResponse / shape;
  v1::TaskResult result;
  AddColumn(result, "prompt_tokens", v1::DATA_TYPE_INT32, kPromptTokens);
  AddColumn(result, "tokens", v1::DATA_TYPE_INT32, tokens)->set_per_token(true);
  AddColumn(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, tokens)->set_per_token(true);
  result.set_prompt_text(std::string(kPromptTokens, 'p'));
  result.set_response_text(std::string(static_cast<size_t>(tokens), 'r'));
  result.set_finish_reason("stop");
  return result;
}

TaskHandler ScoreTokens(Seen* seen, const char* out) {
  return [=](const v1::Task& task, TaskContext&) -> TaskAnswer {
    seen->Score(task);
    const v1::Column* tokens = FindColumn(task.score().trajectory(), "tokens");
    if (tokens == nullptr) return absl::InvalidArgumentError("no column `tokens`");
    v1::TaskResult result;
    AddColumn(result, out, v1::DATA_TYPE_FLOAT32, static_cast<int64_t>(tokens->data().size()) / 4)
        ->set_per_token(true);
    return result;
  };
}

TaskAnswer Reward(const v1::Task& task, TaskContext&) {
  v1::TaskResult result;
  (*result.mutable_metrics())["reward"] =
      static_cast<double>(task.score().trajectory().sample_index() % 2);
  return result;
}

// Every kRanks-th part of a batch, by the tokens that its headers tell.
std::vector<int64_t> RowsOfRank(const std::vector<v1::Trajectory>& headers, int rank) {
  std::vector<double> costs;
  for (const v1::Trajectory& header : headers) {
    costs.push_back(header.segments(header.segments_size() - 1).end());
  }
  return BalanceByCost(costs, kRanks)[static_cast<size_t>(rank)];
}

// A rank of a foreign trainer: it fetches its share, learns nothing and holds the new version.
TaskHandler FetchShare(Seen* seen, int rank, std::shared_ptr<ExperienceClient> experience) {
  return [=](const v1::Task&, TaskContext& context) -> TaskAnswer {
    const auto headers = experience->FetchHeaders(context);
    if (!headers.ok()) return headers.status();
    const auto share = experience->FetchRows(context, RowsOfRank(*headers, rank));
    if (!share.ok()) return share.status();
    seen->Fetched(*share);
    return v1::TaskResult();
  };
}

// A worker on a thread of its own, stopped with the object.
class Running {
 public:
  explicit Running(std::unique_ptr<Worker> worker)
      : worker_(std::move(worker)), thread_([this] { worker_->Run().IgnoreError(); }) {}
  ~Running() {
    worker_->Stop();
    thread_.join();
  }

 private:
  const std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

std::unique_ptr<Worker> MakeWorker(const std::string& controller, const std::string& id) {
  WorkerOptions options;
  options.controller = controller;
  options.worker_id = id;
  options.features = {kChatTemplatesFeature, kUndecayedNormsFeature, kRewardRulesFeature};
  options.group_store = "tcp://127.0.0.1:1";  // these ranks do not talk to each other
  auto worker = Worker::Create(options);
  return worker.ok() ? *std::move(worker) : nullptr;
}

void Register(Worker& worker, const char* role, const char* method, int credits,
              TaskHandler handler) {
  worker.RegisterMethod(role, method, credits, std::move(handler)).IgnoreError();
}

std::vector<std::unique_ptr<Running>> StartWorkers(const std::string& controller,
                                                   const std::string& fetch_from, Seen* seen) {
  std::vector<std::unique_ptr<Running>> running;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto worker = MakeWorker(controller, absl::StrCat("actor-", rank));
    WorkerOptions fetching = worker->options();
    fetching.controller = fetch_from;
    Register(*worker, "actor", "update", 1,
             FetchShare(seen, rank, std::make_shared<ExperienceClient>(fetching)));
    for (const char* method : {"publish", "save_checkpoint"}) {
      Register(*worker, "actor", method, 1, Nothing);
    }
    running.push_back(std::make_unique<Running>(std::move(worker)));
  }
  auto rollout = MakeWorker(controller, "rollout");
  Register(*rollout, "rollout", "generate", kOpenTasks, Generate);
  Register(*rollout, "rollout", "load_weights", 1, Nothing);
  running.push_back(std::make_unique<Running>(std::move(rollout)));
  auto reward = MakeWorker(controller, "reward");
  Register(*reward, "reward", "compute_reward", kOpenTasks, Reward);
  running.push_back(std::make_unique<Running>(std::move(reward)));
  auto reference = MakeWorker(controller, "reference");
  Register(*reference, "reference", "compute_log_prob", kOpenTasks,
           ScoreTokens(seen, "ref_log_prob"));
  running.push_back(std::make_unique<Running>(std::move(reference)));
  auto critic = MakeWorker(controller, "critic");
  Register(*critic, "critic", "compute_values", kOpenTasks, ScoreTokens(seen, "values"));
  for (const char* method : {"update", "save_checkpoint"}) {
    Register(*critic, "critic", method, 1, Nothing);
  }
  running.push_back(std::make_unique<Running>(std::move(critic)));
  return running;
}

v1::CreateJobRequest DataJob(const std::string& root, int prompts) {
  v1::CreateJobRequest request;
  request.set_job_id("data");
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_kind(v1::JOB_KIND_RL);
  spec->mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec->mutable_model()->mutable_init()->set_max_position_embeddings(4096);
  spec->mutable_data()->add_train_files(root + "/train.jsonl");
  spec->mutable_data()->set_train_batch_size(prompts);
  spec->mutable_data()->set_max_response_length(kLongestResponse);
  spec->mutable_rollout()->set_n(kResponses);
  spec->mutable_reward()->add_rules()->set_type("exact_match");
  spec->mutable_algorithm()->set_preset("ppo");
  spec->mutable_actor()->mutable_parallel()->set_dp(kRanks);
  spec->mutable_trainer()->set_total_training_steps(1);
  spec->mutable_trainer()->set_save_freq(0);
  return request;
}

}  // namespace

DataResult MeasureData(const std::string& folder, int prompts) {
  DataResult result;
  const std::string root = absl::StrCat(folder, "/data");
  std::filesystem::create_directories(root);
  {
    std::ofstream out(root + "/train.jsonl");
    for (int i = 0; i < prompts; ++i) {
      out << "{\"prompt\": \"" << i << "+1=\", \"answer\": \"2\"}\n";
    }
  }
  ChildProcess server({"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                       "--data-root", root, "--checker", "none"},
                      root + "/controller.log");
  int port = 0;
  if (!absl::SimpleAtoi(server.WaitForLog("grpc_port=", absl::Seconds(30)), &port)) {
    result.error = absl::StrCat("the controller did not start: ", server.Log());
    return result;
  }
  const std::string address = absl::StrCat("127.0.0.1:", port);
  CountingProxy proxy(port);
  Seen seen;
  const auto workers = StartWorkers(address, proxy.address(), &seen);
  const int64_t before = ResidentBytes(server.pid(), "VmRSS:");
  const int64_t allocated = ResidentBytes(server.pid(), "RssAnon:");
  const auto stub =
      v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status created = stub->CreateJob(&context, DataJob(root, prompts), &job);
  const auto let_ranks_go = absl::MakeCleanup([&seen] { seen.Measured(); });
  if (!created.ok()) {
    result.error = absl::StrCat("CreateJob: ", created.error_message());
    return result;
  }
  if (!seen.WaitForRanks(absl::Minutes(5))) {
    result.error = "the ranks did not fetch their batch";
    return result;
  }
  seen.Fill(&result);
  result.fetched_bytes = proxy.bytes_to_clients();
  result.peak_bytes = ResidentBytes(server.pid(), "VmHWM:") - before;
  absl::SleepFor(kSettles);
  result.controller_bytes = ResidentBytes(server.pid(), "RssAnon:") - allocated;
  return result;
}

}  // namespace baton::bench
