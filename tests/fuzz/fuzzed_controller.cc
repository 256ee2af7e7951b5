#include "tests/fuzz/fuzzed_controller.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/spec/job_spec/spec.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr size_t kRemembered = 48;  // tasks that may still be answered
constexpr size_t kStreams = 10;
// Workers of all projects, of the jobs' project and of another one, with the same ids.
constexpr const char* kWorkerNames[] = {"w0", "w1", "w2", "p/w0", "p/w1", "q/w2"};

JobData SmallData() {
  DataSet train, val;
  for (int i = 0; i < 5; ++i) {
    Example example;
    example.prompt = absl::StrCat(i);
    example.answer = example.response = "1";
    train.examples.push_back(example);
    example.source = i % 2 == 0 ? "a" : "";
    if (i < 3) val.examples.push_back(example);
  }
  return MakeJobData(std::move(train), std::move(val));
}

void AddColumn(v1::TaskResult& result, const char* name, v1::DataType type, size_t bytes) {
  v1::Column* column = result.add_columns();
  column->set_name(name);
  column->set_dtype(type);
  column->set_data(std::string(bytes, '\1'));
}

}  // namespace

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

v1::Job FuzzedSpec(const std::string& id, bool sft, FuzzedDataProvider& input) {
  v1::JobSpec spec;
  spec.set_kind(sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(input.ConsumeIntegralInRange(1, 3));
  v1::TrainerSpec* trainer = spec.mutable_trainer();
  trainer->set_total_training_steps(input.ConsumeIntegralInRange(1, 4));
  trainer->set_save_freq(input.ConsumeIntegralInRange(0, 2));
  trainer->set_max_checkpoints(input.ConsumeIntegralInRange(0, 2));
  spec.set_priority(input.ConsumeIntegralInRange(-1, 1));
  if (!sft) {
    spec.mutable_rollout()->set_n(input.ConsumeIntegralInRange(1, 2));
    spec.mutable_reward()->add_rules()->set_type("numeric");
    const int shared = input.ConsumeIntegralInRange(0, 5);
    const int rollouts = input.ConsumeIntegralInRange(1, 2);
    if (shared != 1) spec.mutable_resources()->set_rollout_workers(rollouts);
    if (input.ConsumeIntegralInRange(0, 3) == 0) {  // ranks that score together
      spec.mutable_algorithm()->set_recompute_log_prob(true);
      spec.mutable_actor()->mutable_parallel()->set_tp(2);
    }
    if (input.ConsumeIntegralInRange(0, 3) == 0) {
      spec.mutable_algorithm()->set_use_kl_loss(true);
      spec.mutable_reference()->mutable_parallel()->set_tp(2);
    }
    if (shared > 0 && shared < 4) {
      v1::PoolSpec* pool = spec.mutable_resources()->add_pools();
      if (shared != 2) pool->add_roles("actor");
      pool->add_roles(shared == 3 ? "reward" : "rollout");
      if (shared == 2) pool->add_roles("reward");
      if (shared == 3) spec.mutable_resources()->add_pools()->add_roles("rollout");
    }
    if (input.ConsumeBool()) {
      spec.mutable_data()->add_val_files("v");
      trainer->set_test_freq(input.ConsumeIntegralInRange(0, 2));
      trainer->set_val_before_train(input.ConsumeBool());
      trainer->set_val_after_train(input.ConsumeBool());
    }
  }
  const CheckedSpec checked = CheckSpec(spec);
  Require(checked.violations.empty(), "the fuzzed spec is good");
  v1::Job job;
  job.set_name("projects/p/jobs/" + id);
  job.set_uid("uid-" + id);
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

// A worker's end of a stream.
class FuzzedController::Stream : public WorkerStream {
 public:
  Stream(FuzzedController* controller, std::string worker)
      : controller_(*controller), worker_(std::move(worker)) {}

  void Send(v1::ControllerMessage message) override {
    if (closed_) return;  // as a real one does
    Require(message.has_welcome() != std::exchange(welcome_, true),
            "Welcome is the first message, and only it");
    controller_.Hear(worker_, message);
  }
  void Close(absl::Status /*status*/) override { closed_ = true; }
  std::string project() const override {
    const size_t slash = worker_.find('/');
    return slash == std::string::npos ? "*" : worker_.substr(0, slash);
  }
  bool closed() const { return closed_; }
  bool open() const { return welcome_ && !closed_; }

 private:
  FuzzedController& controller_;
  const std::string worker_;
  bool welcome_ = false, closed_ = false;
};

// ---- The controller -----------------------------------------------------------------------------

FuzzedController::FuzzedController(FuzzedDataProvider* input) : input_(input), files_(SmallData()) {
  context_.executors = &thread_;
  context_.clock = &thread_;
  context_.store = &store_;
  context_.files = &files_;
  context_.observer = this;
  context_.kept = {1000, 100, 100};
  Start();
}

FuzzedController::~FuzzedController() { Stop(); }

void FuzzedController::Start() {
  Require(TakeOver(store_, &context_).ok(), "the store is taken over");
  cluster_ =
      std::make_unique<ClusterRuntime>(&context_, ClusterOptions(), thread_.NewStrand(), &jobs_);
  context_.workers = &cluster_->directory();
  context_.queue = cluster_.get();
  Require(cluster_->ReadDrains(store_).ok(), "drains are read");
  const auto restored = JobRestorer(&context_, &store_, {}).Restore(&jobs_);
  Require(restored.ok(), "jobs are restored");
  for (const auto& job : *restored) {
    const v1::Job brief = job->Brief();
    const bool quarantined = ErrorReason(FromProto(brief.error())) == "QUARANTINED";
    if (quarantined) std::fprintf(stderr, "%s\n", brief.error().message().c_str());
    Require(!quarantined || tampered_, "a core writes rows that a core can go on from");
    cluster_->Expect(*job);
    job->Start({}, nullptr);
  }
  thread_.Settle();
}

void FuzzedController::Stop() {
  thread_.Drop();
  peers_.clear();
  for (const auto& [job, order] : jobs_.TakeAll()) job->Abandon();
  watched_.clear();
  cluster_ = nullptr;
}

void FuzzedController::Restart() {
  Stop();
  store_.CutPower(input_->ConsumeIntegralInRange<size_t>(0, store_.unsynced()));
  store_.FailWith(absl::OkStatus());
  refuses_ = false;
  Start();
  Check();
}

void FuzzedController::Submit(const v1::Job& job) {
  const int64_t order = jobs_.next_order();
  const auto runtime = std::make_shared<JobRuntime>(&context_, JobCore(job, order, context_.core),
                                                    /*next_log_sequence=*/1, /*stored=*/false);
  jobs_.Add(runtime, order);
  runtime->Start({}, nullptr);
  thread_.Settle();
  Check();
}

// ---- Rules --------------------------------------------------------------------------------------

void FuzzedController::OnResult(const JobCore& /*core*/, const std::string& /*worker*/,
                                const TaskRef& /*ref*/, const v1::TaskResult& /*result*/) {}
void FuzzedController::OnCluster(const ClusterEffects& /*effects*/) {}

void FuzzedController::OnEvent(const JobCore& core, const Event& event) {
  Watched& watched = watched_[core.name()];
  watched.before = core.state();
  // The user alone makes a job go on that FAILED or was CANCELLED.
  watched.may_revive =
      core.state() != v1::Job::STATE_SUCCEEDED && std::holds_alternative<ResumeRequested>(event);
}

void FuzzedController::OnTurn(const JobCore& core, const Effects& effects) {
  Watched& watched = watched_[core.name()];
  watched.core = &core;
  Require(!IsTerminal(watched.before) || core.state() == watched.before || watched.may_revive,
          "what has ended stays as it is");
  bool changed = false;
  for (const Effect& effect : effects) {
    if (const auto* batch = std::get_if<PutBatch>(&effect)) {
      // A batch that filters left nothing of is consumed at once.
      const int64_t ahead = batch->row.step() - core.step();
      Require(ahead == 1 || ahead == 0, "a batch is of the step in progress");
    }
    const auto* emit = std::get_if<EmitEvent>(&effect);
    const bool kept = emit != nullptr && emit->kept;
    changed |= kept || std::holds_alternative<PutJob>(effect);
    if (!kept) continue;
    Require(watched.revision == 0 || emit->event.revision() == watched.revision + 1,
            "revisions have no holes");
    watched.revision = emit->event.revision();
  }
  if (changed) CheckRow(core, watched);
  Require(core.step() >= 0 && core.step() <= core.Brief().total_steps(),
          "the step is within the total");
  if (!IsActive(core.state())) return;
  const v1::ExplainJobResponse why = core.Explain(thread_.Now());
  if (why.waits_size() == 0) std::fprintf(stderr, "%s\n", why.summary().c_str());
  Require(why.waits_size() > 0, "an active job says what it waits for");
}

void FuzzedController::CheckRow(const JobCore& core, Watched& watched) {
  const store::v1::JobRow row = core.Row();
  Require(row.job().policy_version() >= watched.policy_version, "the policy version never falls");
  Require(row.incarnation() >= watched.incarnation, "the incarnation never falls");
  watched.policy_version = row.job().policy_version();
  watched.incarnation = row.incarnation();
  const absl::Status good = controller::CheckRow(row);
  if (!good.ok()) std::fprintf(stderr, "%s\n", std::string(good.message()).c_str());
  Require(good.ok(), "a core writes rows that a core can go on from");
}

void FuzzedController::OnEffect(const JobCore& core, const Effect& effect) {
  if (const auto* start = std::get_if<StartTask>(&effect)) {
    Require(!start->worker.empty(), "a task is for a worker");
  } else if (const auto* drop = std::get_if<DropTrajectories>(&effect)) {
    Require(drop->begin <= drop->end, "rows that are dropped are a range");
  } else if (const auto* gone = std::get_if<DropBatches>(&effect)) {
    Require(gone->begin < gone->end, "batches that are dropped are a range");
  } else if (const auto* batch = std::get_if<BuildBatch>(&effect)) {
    See(core, *batch);
  } else if (const auto* commit = std::get_if<CommitCheckpoint>(&effect)) {
    Require(commit->row.job().step() == commit->step, "a checkpoint is of its step");
    Require(controller::CheckRow(commit->row).ok(), "a checkpoint's row is one to go on from");
  }
}

void FuzzedController::See(const JobCore& core, const BuildBatch& batch) {
  const v1::JobSpec& spec = core.effective_spec();
  const bool rl = spec.kind() == v1::JOB_KIND_RL;
  const auto size =
      static_cast<size_t>(spec.data().train_batch_size() * (rl ? spec.rollout().n() : 1));
  Require(batch.trajectories.size() == size, "a batch has whole groups");
  for (size_t i = 0; i < size; ++i) {
    Require(batch.trajectories[i].state == TrajectoryState::kReady, "a batch is of READY ones");
    Require(batch.trajectories[i].purpose == v1::PURPOSE_TRAIN, "a batch is for training");
    Require(i == 0 || batch.trajectories[i - 1].id < batch.trajectories[i].id,
            "a batch is ordered");
  }
}

void FuzzedController::Check() {
  ClusterCore& core = cluster_->core();
  std::set<std::string> listed;
  for (const v1::Worker& worker : core.workers().List(thread_.Now())) {
    Require(listed.insert(worker.worker_id()).second, "a worker is listed once");
    const uint64_t session = core.workers().SessionOf(worker.worker_id());
    Require(session == 0 || core.workers().WorkerOf(session) == worker.worker_id(),
            "a session is its worker's");
  }
  if (refuses_) return;  // what jobs say to the queue waits for their rows
  std::set<std::string> held;
  for (const auto& [name, watched] : watched_) {
    if (watched.core == nullptr) continue;
    for (const auto& [worker, roles] : watched.core->HeldWorkers()) {
      Require(held.insert(worker).second, "no worker is held twice");
      Require(core.workers().JobOf(worker) == name, "a job holds what it was granted");
    }
  }
}

// ---- What happens -------------------------------------------------------------------------------

void FuzzedController::Happen() {
  const bool jump = Rarely();
  Pass(jump ? absl::Seconds(input_->ConsumeIntegralInRange(0, 1000)) : absl::Milliseconds(100),
       !jump || input_->ConsumeBool());
  switch (input_->ConsumeIntegralInRange(0, 15)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      GoWell(input_->ConsumeIntegralInRange(1, 32));
      break;
    case 5:
      Attach(input_->PickValueInArray(kWorkerNames), input_->ConsumeBool());
      break;
    case 6:
      if (!peers_.empty()) Leave(input_->ConsumeIntegralInRange<size_t>(0, peers_.size() - 1));
      break;
    case 7:
      Steer();
      break;
    case 8:
      HappenToDisks();
      break;
    case 9:
      if (Rarely()) Restart();
      break;
    default:
      if (peers_.empty()) break;
      Say(peers_[input_->ConsumeIntegralInRange<size_t>(0, peers_.size() - 1)]);
  }
  thread_.Settle();
  Check();
}

void FuzzedController::Pass(absl::Duration time, bool heartbeats) {
  for (Peer& peer : peers_) {
    if (!heartbeats || !peer.stream->open()) continue;
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(1);
    peer.session->OnMessage(std::move(message));
  }
  thread_.Advance(time);
  cluster_->Post([this] { cluster_->Tick(); });
  thread_.Settle();
}

// Each worker is attached, and answers its tasks as it should.
void FuzzedController::GoWell(int turns) {
  for (; turns > 0; --turns) {
    for (const char* worker : kWorkerNames) {
      if (Open(worker) == nullptr) Attach(worker, /*well=*/true);
    }
    thread_.Settle();
    const auto next = std::find_if(asked_.begin(), asked_.end(), [&](const Asked& asked) {
      return !asked.answered && Open(asked.worker) != nullptr;
    });
    if (next == asked_.end()) {
      Pass(absl::Milliseconds(100), /*heartbeats=*/true);
      continue;
    }
    next->answered = true;
    if (next->task.has_assign_role())
      held_[next->worker].insert({next->task.job(), next->task.role()});
    v1::WorkerMessage message;
    *message.mutable_result() = Result(next->task, 0);
    Open(next->worker)->session->OnMessage(std::move(message));
    thread_.Settle();
  }
}

FuzzedController::Peer* FuzzedController::Open(const std::string& worker) {
  const auto found = std::find_if(peers_.rbegin(), peers_.rend(), [&](const Peer& peer) {
    return peer.worker == worker && peer.stream->open();
  });
  return found == peers_.rend() ? nullptr : &*found;
}

// `well`: as an orderly process would.
void FuzzedController::Attach(const std::string& worker, bool well) {
  if (peers_.size() == kStreams) Leave(0);
  Peer peer;
  peer.worker = worker;
  peer.stream = std::make_shared<Stream>(this, worker);
  peer.session = cluster_->Attach(peer.stream);
  if (well || !Rarely()) peer.session->OnMessage(Hello(worker, well));
  peers_.push_back(std::move(peer));
}

void FuzzedController::Leave(size_t peer) {
  peers_[peer].session->OnClosed();
  peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(peer));
}

void FuzzedController::Hear(const std::string& worker, const v1::ControllerMessage& message) {
  for (const v1::RoleHeld& held : message.welcome().release()) {
    held_[worker].erase({held.job(), held.role()});
  }
  if (!message.has_task()) return;
  const auto token = DecodeToken(message.task().task_token());
  Require(token.has_value() && EncodeToken(*token) == message.task().task_token(),
          "a token has one form");
  if (asked_.size() == kRemembered) asked_.erase(asked_.begin());
  asked_.push_back({worker, message.task()});
}

void FuzzedController::Say(Peer& peer) {
  v1::WorkerMessage message;
  switch (input_->ConsumeIntegralInRange(0, 7)) {
    case 0: {
      if (!message.ParseFromString(input_->ConsumeRandomLengthString(100))) return;
      break;
    }
    case 1:
      message = Hello(peer.worker, input_->ConsumeBool());
      break;
    case 2:
      message.mutable_trouble()->set_job("projects/p/jobs/0");
      message.mutable_trouble()->set_role("reward");
      message.mutable_trouble()->set_message(input_->ConsumeBool() ? "fuzzed" : "");
      break;
    case 3: {
      v1::Progress& progress = *message.mutable_progress();
      progress.set_task_token(SomeToken());
      progress.set_offset(input_->ConsumeIntegralInRange<uint32_t>(0, 3));
      for (int i = input_->ConsumeIntegralInRange(0, 3); i > 0; --i) progress.add_tokens(i);
      for (int i = input_->ConsumeIntegralInRange(0, 3); i > 0; --i) progress.add_log_probs(-1);
      if (progress.tokens_size() == 3) progress.add_sampling_log_probs(-0.5);  // too few
      break;
    }
    default: {
      if (asked_.empty()) return;
      const size_t back = input_->ConsumeIntegralInRange<size_t>(0, asked_.size() - 1);
      const Asked& asked = asked_[asked_.size() - 1 - back];
      *message.mutable_result() = Result(asked.task, input_->ConsumeIntegralInRange(0, 15));
      // Mostly the worker that has the task says something about it.
      Peer* const holder = Rarely() ? nullptr : Open(asked.worker);
      return (holder == nullptr ? peer : *holder).session->OnMessage(std::move(message));
    }
  }
  peer.session->OnMessage(std::move(message));
}

void FuzzedController::Steer() {
  const auto jobs = jobs_.Below("");
  const std::string worker = input_->PickValueInArray(kWorkerNames);
  const int what = input_->ConsumeIntegralInRange(0, 7);
  if (what == 0) return cluster_->Drain(worker, [](const auto&) {});
  if (what == 1) return cluster_->Undrain(worker, [](const auto&) {});
  if (jobs.empty()) return;
  const auto& job = jobs[input_->ConsumeIntegralInRange<size_t>(0, jobs.size() - 1)].job;
  if (!job->visible()) return;
  if (what == 2 && Rarely()) return job->Post(CancelRequested{});
  if (what == 3) return job->Post(YieldRequested{"fuzzed"});
  if (what < 6) return job->Post(PauseRequested{});
  job->Post(ResumeRequested{});
}

void FuzzedController::HappenToDisks() {
  switch (input_->ConsumeIntegralInRange(0, 3)) {
    case 0:
      refuses_ = true;
      return store_.FailWith(absl::ResourceExhaustedError("the disk is full"));
    case 1:
      return files_.SetFull(true);
    case 2:
      return files_.LosePayloads();
    default:
      files_.SetFull(false);
      store_.FailWith(absl::OkStatus());
      refuses_ = false;
  }
}

// ---- What workers say ---------------------------------------------------------------------------

v1::WorkerMessage FuzzedController::Hello(const std::string& worker, bool well) {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_worker_id(!well && Rarely() ? "BAD" : worker.substr(worker.find('/') + 1));
  const bool other = !well && Rarely();
  hello.set_instance_id(other ? "b" : "a");
  hello.set_protocol_min(1);
  hello.set_protocol_max(!well && Rarely() ? 0 : 1);
  hello.set_epoch_seen(!well && Rarely() ? context_.epoch + 1 : context_.epoch);
  hello.add_features(kRewardRulesFeature);
  hello.add_features(kChatTemplatesFeature);
  hello.add_features(kSftEvaluationFeature);
  hello.add_features(kUndecayedNormsFeature);
  const int roles = well ? worker.back() - '0' : input_->ConsumeIntegralInRange(0, 7);
  static constexpr const char* kRoles[] = {"actor", "rollout", "reward", "reference"};
  for (int r = 0; r < 4; ++r) {
    if (r < 3 && ((roles + 1) >> r) % 2 == 0) continue;
    for (const char* name : {"update", "publish", "to_generation", "save_checkpoint", "generate",
                             "load_weights", "compute_reward", "compute_log_prob"}) {
      v1::MethodCredits* method = hello.add_methods();
      method->set_role(kRoles[r]);
      method->set_method(name);
      method->set_credits(well ? 2 : input_->ConsumeIntegralInRange(-1, 3));
    }
  }
  for (const auto& [job, role] : held_[worker]) {
    if (!well && Rarely()) continue;
    v1::RoleHeld* held = hello.add_roles_held();
    held->set_job(job);
    held->set_role(!well && Rarely() ? "actor" : role);
    held->set_policy_version(well ? 0 : input_->ConsumeIntegralInRange<uint64_t>(0, 4));
  }
  for (const Asked& asked : asked_) {
    if (asked.worker != worker) continue;
    const int now = well ? (asked.answered ? 0 : 1) : input_->ConsumeIntegralInRange(0, 7);
    if (now == 1) hello.add_running()->set_task_token(asked.task.task_token());
    if (now == 2) hello.add_unacknowledged(asked.task.task_token());
  }
  if (!well && Rarely()) hello.add_unacknowledged(SomeToken());
  return message;
}

// `how`: 0 is well.
v1::TaskResult FuzzedController::Result(const v1::Task& task, int how) {
  v1::TaskResult result;
  result.set_task_token(how == 1 ? SomeToken() : task.task_token());
  if (how == 2) result.mutable_status()->set_code(input_->ConsumeIntegralInRange(0, 20));
  const size_t tokens = how == 0 ? 3 : input_->ConsumeIntegralInRange<size_t>(0, 8);
  if (task.has_generate()) {
    AddColumn(result, "tokens", v1::DATA_TYPE_INT32, 4 * tokens + (how == 3 ? 1 : 0));
    AddColumn(result, "prompt_tokens", v1::DATA_TYPE_INT32, 8);
    if (how != 4) {
      AddColumn(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, 4 * tokens + (how == 5 ? 4 : 0));
    }
    result.set_response_text("1");
    result.set_finish_reason(how == 6 ? "length" : "stop");
  } else if (task.has_score() && task.role() == "reward") {
    if (how != 7) {
      (*result.mutable_metrics())["reward"] = how == 0 ? task.score().trajectory().sample_index()
                                                       : input_->ConsumeFloatingPoint<double>();
    }
    if (how == 8 || how == 9) result.set_error("fuzzed");
    result.set_infra_failed(how == 9);
  } else if (task.has_score()) {
    for (const v1::Column& column : task.score().trajectory().columns()) {
      if (column.name() != "tokens") continue;
      AddColumn(result, task.role() == "actor" ? "old_log_prob" : "ref_log_prob",
                v1::DATA_TYPE_FLOAT32, column.data().size() + (how == 10 ? 4 : 0));
    }
  } else if (task.has_save_checkpoint()) {
    v1::FileHash* file = result.add_files();
    file->set_path("weights");
    file->set_size_bytes(how == 0 ? 1 : input_->ConsumeIntegral<int64_t>());
  }
  return result;
}

std::string FuzzedController::SomeToken() {
  const auto jobs = jobs_.Below("");
  if (jobs.empty()) return "";
  const auto& job = jobs[input_->ConsumeIntegralInRange<size_t>(0, jobs.size() - 1)].job;
  return EncodeToken({job->token_name(), SomeRef()});
}

TaskRef FuzzedController::SomeRef() {
  TaskRef ref;
  if (!asked_.empty() && input_->ConsumeBool()) {
    const size_t which = input_->ConsumeIntegralInRange<size_t>(0, asked_.size() - 1);
    ref = DecodeToken(asked_[which].task.task_token())->ref;
    switch (input_->ConsumeIntegralInRange(0, 6)) {
      case 0:
        ref.subject = input_->ConsumeIntegral<uint64_t>();
        break;
      case 1:
        ref.target = input_->ConsumeIntegral<uint32_t>();
        break;
      case 2:
        ref.attempt = input_->ConsumeIntegral<uint64_t>();
        break;
      case 3:
        ref.step += input_->ConsumeIntegralInRange(-1, 1);
        break;
      case 4:
        ref.incarnation = input_->ConsumeIntegral<uint64_t>();
        ref.trajectory_uid = input_->ConsumeIntegral<uint64_t>();
        break;
      case 5:
        ref.kind = static_cast<TaskKind>(input_->ConsumeIntegralInRange(1, 10));
        break;
      default:
        break;
    }
    return ref;
  }
  ref.kind = static_cast<TaskKind>(input_->ConsumeIntegralInRange(1, 10));
  ref.subject = input_->ConsumeIntegralInRange<uint64_t>(0, 8);
  if (input_->ConsumeBool()) ref.subject |= uint64_t{1} << 56;
  ref.target = input_->ConsumeIntegralInRange<uint32_t>(0, 2);
  ref.attempt = FirstAttempt(context_.epoch) + input_->ConsumeIntegralInRange<uint64_t>(0, 2);
  if (IsTrajectoryTask(ref.kind)) {
    ref.trajectory_uid = input_->ConsumeIntegralInRange<uint64_t>(0, 40);
  }
  ref.step = input_->ConsumeIntegralInRange(0, 4);
  ref.incarnation = input_->ConsumeIntegralInRange<uint64_t>(0, 3);
  return ref;
}

}  // namespace baton::controller
