// Checks that for any messages of workers, in any order, the controller answers by the protocol,
// keeps its job in order, and starts again from what it stored.
//
// The real Controller with a store in memory. Messages are built from what the controller sent
// (its tasks answered well, badly, twice, by another worker) or are any bytes that parse.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/core/job/job_state.h"
#include "controller/runtime/controller/controller.h"
#include "controller/store/memory_store.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/contracts/worker_features.h"
#include "tests/support/controller/controller.h"

namespace {

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::controller;

constexpr int kMessages = 60;
constexpr size_t kStreams = 6;

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

class Stream : public WorkerStream {
 public:
  explicit Stream(std::string project) : project_(std::move(project)) {}
  std::string project() const override { return project_; }
  void Send(v1::ControllerMessage message) override {
    absl::MutexLock lock(&mu_);
    if (closed_) return;  // as a real one does
    Require(message.has_welcome() == messages_.empty(),
            "Welcome is the first message, and only it");
    messages_.push_back(std::move(message));
  }
  void Close(absl::Status) override {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }
  std::vector<v1::ControllerMessage> messages() const {
    absl::MutexLock lock(&mu_);
    return messages_;
  }
  bool closed() const {
    absl::MutexLock lock(&mu_);
    return closed_;
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<v1::ControllerMessage> messages_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  const std::string project_;
};

// One folder for the process, emptied for each input.
const std::string& Folder() {
  static const baton::TestFolder folder(baton::TestFolder::InMemory());
  return folder.path();
}

class World {
 public:
  explicit World(FuzzedDataProvider* input) : input_(input) {
    for (const auto& entry : fs::directory_iterator(Folder())) fs::remove_all(entry.path());
    std::ofstream(Folder() + "/train.jsonl") << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
    Start();
    v1::CreateJobRequest request;
    request.set_job_id("j");
    *request.mutable_spec() = Spec();
    const auto job = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
    Require(job.ok(), "the fuzzed job is good");
    name_ = job->name();
    uid_ = job->uid();
    token_name_ = absl::StrCat(name_, "#", uid_);
  }
  ~World() { Stop(); }

  void Run() {
    for (const char* worker : {"actor", "rollout", "reward"}) Attach(worker, /*well=*/true);
    for (int i = 0; i < kMessages && input_->remaining_bytes() > 0; ++i) {
      Say();
      Check();
    }
    const v1::Job before = Check();
    Stop();
    Start();  // its rows are good, whatever was said
    const v1::Job after = Check();
    Require(after.uid() == before.uid() && after.step() >= before.step() - 2,
            "a restart finds its job");
  }

 private:
  struct Peer {
    std::shared_ptr<Stream> stream;
    std::unique_ptr<WorkerSession> session;
    std::string worker;
  };

  v1::JobSpec Spec() {
    v1::JobSpec spec;
    const bool sft = input_->ConsumeIntegralInRange(0, 3) == 0;
    spec.set_kind(sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    if (sft) {
      std::ofstream(Folder() + "/train.jsonl") << "{\"prompt\": \"1+1=\", \"response\": \"2\"}\n";
    } else {
      spec.mutable_rollout()->set_n(2);
      spec.mutable_reward()->add_rules()->set_type("exact_match");
    }
    spec.mutable_data()->add_train_files(Folder() + "/train.jsonl");
    spec.mutable_data()->set_train_batch_size(1);
    spec.mutable_data()->set_max_response_length(8);
    spec.mutable_trainer()->set_total_training_steps(2);
    spec.mutable_trainer()->set_save_freq(1);
    return spec;
  }

  void Start() {
    ControllerOptions options;
    options.data_root = Folder();
    options.store = std::make_unique<SharedStore>(store_);
    options.strand_threads = options.disk_threads = 1;
    auto controller = Controller::Create(std::move(options));
    Require(controller.ok(), "a controller starts on its own rows");
    controller_ = *std::move(controller);
  }

  void Stop() {
    for (Peer& peer : peers_) peer.session->OnClosed();
    peers_.clear();
    controller_.reset();
  }

  // Everything said so far has been heard: once on the queue's strand, then on the job's.
  v1::Job Check() {
    const auto workers =
        Wait<v1::ListWorkersResponse>([&](auto done) { controller_->ListWorkers({}, done); });
    Require(workers.ok(), "workers are listed");
    std::set<std::string> ids;
    for (const v1::Worker& worker : workers->workers()) {
      Require(ids.insert(worker.worker_id()).second, "a worker is listed once");
      Require(worker.job().empty() || worker.job() == name_, "a worker is of a job that is there");
    }
    v1::ExplainJobRequest explain;
    explain.set_name(name_);
    const auto why =
        Wait<v1::ExplainJobResponse>([&](auto done) { controller_->ExplainJob(explain, done); });
    Require(why.ok() && !why->summary().empty(), "a job says where it stands");
    v1::GetJobRequest get;
    get.set_name(name_);
    auto job = Wait<v1::Job>([&](auto done) { controller_->GetJob(get, done); });
    Require(job.ok(), "the job is there");
    Require(job->step() >= 0 && job->step() <= 2, "the step is within the total");
    for (const Peer& peer : peers_) {
      for (const v1::ControllerMessage& message : peer.stream->messages()) {
        if (!message.has_task()) continue;
        const auto token = DecodeToken(message.task().task_token());
        Require(token.has_value() && token->job == token_name_, "a task's token is the job's");
        Require(EncodeToken(*token) == message.task().task_token(), "a token has one form");
      }
    }
    return *job;
  }

  void Say() {
    if (peers_.empty()) return AttachSomebody();
    Peer& peer = peers_[input_->ConsumeIntegralInRange<size_t>(0, peers_.size() - 1)];
    const int what = input_->ConsumeIntegralInRange(0, 15);
    if (what == 0) return AttachSomebody();
    if (what == 1) return Leave(peer);
    if (what == 2) return peer.session->OnMessage(Hello(peer.worker, input_->ConsumeBool()));
    if (what == 3) return Beat(peer);
    v1::WorkerMessage message;
    if (what == 4) {
      const std::string bytes = input_->ConsumeRandomLengthString(200);
      if (!message.ParseFromString(bytes)) return;
      const auto token = DecodeToken(message.result().task_token());
      if (token.has_value()) {
        Require(EncodeToken(*token) == message.result().task_token(), "a token has one form");
      }
      return peer.session->OnMessage(std::move(message));
    }
    if (what == 5) {
      message.mutable_log()->set_job(input_->ConsumeBool() ? name_ : "projects/p/jobs/none");
      message.mutable_log()->set_level("INFO");
      message.mutable_log()->set_message(input_->ConsumeBool() ? "said" : "");
      return peer.session->OnMessage(std::move(message));
    }
    if (what > 10) return GoWell(input_->ConsumeIntegralInRange(1, 16));
    const std::vector<v1::Task> tasks = Tasks();
    if (tasks.empty()) return Beat(peer);
    const size_t back = input_->ConsumeIntegralInRange<size_t>(0, tasks.size() - 1);
    const v1::Task& task = tasks[tasks.size() - 1 - back];
    // Mostly the worker that has the task says something about it.
    Peer* speaker = &peer;
    if (what > 6) speaker = Holder(task);
    if (what == 7 && task.has_generate()) return Progress(*speaker, task);
    *message.mutable_result() = Result(task, input_->ConsumeIntegralInRange(0, 15));
    speaker->session->OnMessage(std::move(message));
  }

  // Each worker answers its tasks without a result as it should.
  void GoWell(int turns) {
    for (; turns > 0; --turns) {
      Check();
      const std::vector<v1::Task> tasks = Tasks();
      const auto next = std::find_if(tasks.begin(), tasks.end(), [&](const v1::Task& task) {
        return answered_.count(task.task_token()) == 0 && !Holder(task)->stream->closed();
      });
      if (next == tasks.end()) return;
      answered_.insert(next->task_token());
      v1::WorkerMessage message;
      *message.mutable_result() = Result(*next, 0);
      Holder(*next)->session->OnMessage(std::move(message));
    }
  }

  void AttachSomebody() {
    static constexpr const char* kWorkers[] = {"actor", "rollout", "reward", "default/rollout",
                                               "other/rollout"};
    Attach(input_->PickValueInArray(kWorkers), input_->ConsumeBool());
  }

  // `well`: as an orderly process would.
  void Attach(const std::string& name, bool well) {
    if (peers_.size() == kStreams) Leave(peers_.front());
    const size_t slash = name.find('/');
    const std::string worker = name.substr(slash + 1);  // its id; all of a name without a project
    Peer peer;
    peer.stream =
        std::make_shared<Stream>(slash == std::string::npos ? "*" : name.substr(0, slash));
    peer.session = controller_->Attach(peer.stream);
    peer.worker = worker;
    if (well || input_->ConsumeIntegralInRange(0, 7) > 0) {
      peer.session->OnMessage(Hello(worker, well));
    }
    peers_.push_back(std::move(peer));
  }

  void Leave(Peer& peer) {
    peer.session->OnClosed();
    peers_.erase(peers_.begin() + (&peer - peers_.data()));
  }

  void Beat(Peer& peer) {
    const bool open = !peer.stream->closed() && !peer.stream->messages().empty();
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(++beats_);
    peer.session->OnMessage(message);
    if (!open) return;
    Check();
    for (const v1::ControllerMessage& answer : peer.stream->messages()) {
      if (answer.heartbeat_ack().sequence() == beats_) return;
    }
    Require(peer.stream->closed(), "a heartbeat is answered");
  }

  v1::WorkerMessage Hello(const std::string& worker, bool well) {
    v1::WorkerMessage message;
    v1::Hello* hello = message.mutable_hello();
    hello->set_worker_id(!well && input_->ConsumeIntegralInRange(0, 7) == 0 ? "" : worker);
    hello->set_instance_id(!well && input_->ConsumeIntegralInRange(0, 3) == 0 ? "other" : "one");
    hello->set_protocol_min(1);
    hello->set_protocol_max(1);
    const int credits = well ? 2 : input_->ConsumeIntegralInRange(-1, 2);
    hello->add_features(kRewardRulesFeature);
    hello->add_features(kChatTemplatesFeature);
    hello->add_features(kSftEvaluationFeature);
    hello->add_features(kUndecayedNormsFeature);
    for (const char* name : {"update", "publish", "save_checkpoint", "generate", "load_weights",
                             "compute_reward"}) {  // all that any role of the job needs
      v1::MethodCredits* method = hello->add_methods();
      method->set_role(worker);
      method->set_method(name);
      method->set_credits(credits);
    }
    if (well || input_->ConsumeBool()) {
      v1::RoleHeld* held = hello->add_roles_held();
      held->set_job(name_);
      held->set_role(worker);
      held->set_policy_version(well ? 0 : input_->ConsumeIntegralInRange<uint64_t>(0, 3));
    }
    for (const v1::Task& task : Tasks()) {
      const int now = well ? 1 : input_->ConsumeIntegralInRange(0, 7);
      if (now == 1) hello->add_running()->set_task_token(task.task_token());
      if (now == 2) hello->add_unacknowledged(task.task_token());
    }
    return message;
  }

  // Every task that was sent on the streams that are there, oldest first.
  std::vector<v1::Task> Tasks() {
    std::vector<v1::Task> tasks;
    for (const Peer& peer : peers_) {
      for (const v1::ControllerMessage& message : peer.stream->messages()) {
        if (message.has_task()) tasks.push_back(message.task());
      }
    }
    return tasks;
  }

  Peer* Holder(const v1::Task& task) {
    for (Peer& peer : peers_) {
      for (const v1::ControllerMessage& message : peer.stream->messages()) {
        if (message.task().task_token() == task.task_token()) return &peer;
      }
    }
    return &peers_.front();
  }

  void Progress(Peer& peer, const v1::Task& task) {
    v1::WorkerMessage message;
    v1::Progress* progress = message.mutable_progress();
    progress->set_task_token(task.task_token());
    progress->set_offset(input_->ConsumeIntegralInRange<uint32_t>(0, 3));
    for (int i = input_->ConsumeIntegralInRange(0, 3); i > 0; --i) progress->add_tokens(i);
    for (int i = input_->ConsumeIntegralInRange(0, 3); i > 0; --i) progress->add_log_probs(-1);
    if (progress->tokens_size() == 1) progress->add_sampling_log_probs(-0.5);
    if (progress->tokens_size() == 3) progress->add_sampling_log_probs(-0.5);  // too few
    peer.session->OnMessage(std::move(message));
  }

  // `how`: 0 is well.
  v1::TaskResult Result(const v1::Task& task, int how) {
    v1::TaskResult result;
    result.set_task_token(task.task_token());
    if (how == 1) {  // somewhere a bit is not what it was
      std::string token = task.task_token();
      token[input_->ConsumeIntegralInRange<size_t>(0, token.size() - 1)] ^= 1;
      result.set_task_token(token);
    }
    if (how == 2) result.mutable_status()->set_code(input_->ConsumeIntegralInRange(0, 20));
    const size_t tokens = input_->ConsumeIntegralInRange<size_t>(0, 8);
    if (task.has_generate()) {
      AddColumn(result, "tokens", v1::DATA_TYPE_INT32, 4 * tokens + (how == 3 ? 1 : 0));
      AddColumn(result, "prompt_tokens", v1::DATA_TYPE_INT32, 8);
      if (how != 4) {
        AddColumn(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32,
                  4 * tokens + (how == 5 ? 4 : 0));
      }
      if (how == 11) AddColumn(result, "sampling_log_prob", v1::DATA_TYPE_FLOAT32, 4);
      result.set_response_text("2");
      result.set_finish_reason("stop");
    } else if (task.has_score()) {
      const double reward = how == 0 ? ++rewards_ : input_->ConsumeFloatingPoint<double>();
      if (how != 6) (*result.mutable_metrics())["reward"] = reward;
      if (how == 7) result.set_error("fuzzed");
    } else if (task.has_save_checkpoint()) {
      const fs::path folder = task.save_checkpoint().directory();
      std::error_code code;
      if (how != 8 && fs::exists(folder, code)) std::ofstream(folder / "weights") << "w";
      v1::FileHash* file = result.add_files();
      static constexpr const char* kPaths[] = {"weights", "../weights", "/etc/passwd", ""};
      file->set_path(how == 9 ? input_->PickValueInArray(kPaths) : "weights");
      file->set_size_bytes(how == 10 ? input_->ConsumeIntegral<int64_t>() : 1);
    }
    return result;
  }

  static void AddColumn(v1::TaskResult& result, const char* name, v1::DataType type, size_t bytes) {
    v1::Column* column = result.add_columns();
    column->set_name(name);
    column->set_dtype(type);
    column->set_data(std::string(bytes, '\1'));
  }

  FuzzedDataProvider* const input_;
  const std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
  std::string name_, uid_, token_name_;
  std::vector<Peer> peers_;
  std::set<std::string> answered_;  // tokens
  uint64_t beats_ = 0;
  double rewards_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  LogOptions options;
  options.file = "/dev/null";
  InitLog(options);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  World(&input).Run();
  return 0;
}
