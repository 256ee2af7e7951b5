// SimulatedController: the store, sessions, calls (controller/runtime/controller*.cc).
#include "tests/simulation/simulated_controller.h"

#include <algorithm>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/core/spec.h"
#include "controller/runtime/stored_job.h"
#include "controller/runtime/tables.h"
#include "sdk/base/mutant.h"
#include "tests/simulation/simulated_worker.h"

namespace baton::simulation {

using namespace controller;  // NOLINT: this file is the controller's double

namespace {
constexpr absl::Duration kTick = absl::Milliseconds(250);
constexpr KeptRows kKept = {1000, 50, 100};
}  // namespace

JobCoreOptions SimulatedDeadlines() {
  JobCoreOptions options;
  options.setup_deadline = absl::Seconds(20);
  options.generate_stall = absl::Seconds(5);
  options.score_deadline = absl::Seconds(8);
  options.command_deadline = absl::Seconds(15);
  options.release_deadline = absl::Seconds(5);
  options.kept_steps = 3;
  options.pace.min_samples = 1;  // these jobs have few responses and few steps
  options.pace.min_phases = 1;
  options.pace.persists = absl::ZeroDuration();
  return options;
}

SimulatedController::SimulatedController(World* world)
    : world_(*world),
      clock_(world),
      executors_(world, &calls_),
      store_(world, &calls_),
      files_(world, &calls_),
      rules_(world, [this](const std::string& job) { return jobs_.at(job).runtime->state(); }) {
  context_.executors = &executors_;
  context_.clock = &clock_;
  context_.store = &store_;
  context_.files = &files_;
  context_.workers = this;
  context_.queue = this;
  context_.observer = &rules_;
  context_.kept = kKept;
  context_.sync_payloads = world_.scenario().sync_payloads;
  context_.secret = "secret";
  context_.core = SimulatedDeadlines();
}

void SimulatedController::OnCluster(std::function<void()> work) {
  if (!calls_.Take()) return;
  cluster_last_ = std::max(cluster_last_, world_.now() + world_.random().Milliseconds(0, 1));
  world_.time().At(cluster_last_, world_.controller_process(), std::move(work));
}

// Controller::Restore.
void SimulatedController::Restore() {
  store::Store& store = world_.disk().store;
  const auto epoch = store.Get(kMetaTable, "epoch");
  if (epoch->has_value()) (void)absl::SimpleAtoi(**epoch, &context_.epoch);
  ++context_.epoch;
  world_.Check("EpochsOnlyGrow", EpochsOnlyGrow(world_.history().epoch, context_.epoch));
  world_.history().epoch = context_.epoch;
  const auto durability =
      Mutant("unsynced-epoch") ? store::Durability::kProcess : store::Durability::kPowerCut;
  store.Commit({{kMetaTable, "epoch", absl::StrCat(context_.epoch)}}, durability,
               [](absl::Status) {});
  cluster_ = std::make_unique<ClusterCore>(context_.epoch, ClusterOptions());
  cluster_last_ = world_.now();
  const auto drained = store.Scan(kWorkerTable, {});
  for (const store::Row& row : *drained) cluster_->KeepDrained(row.key, "a user asked for it");
  const auto rows = store.Scan(kJobTable, {});
  for (const store::Row& stored : *rows) RestoreJob(stored);
  for (auto& [name, job] : jobs_) {
    for (const auto& [worker, roles] : job.runtime->HeldWorkers()) {
      if (IsActive(job.runtime->state())) cluster_->Expect(name, worker, roles, world_.now());
    }
    job.runtime->Start({}, nullptr);
  }
  OnCluster([this] { Tick(); });
}

// Controller::RestoreJob.
void SimulatedController::RestoreJob(const store::Row& stored) {
  auto read = ReadStoredJob(store_, stored);
  world_.Check("StoredJobsAreSound", read.ok() ? "" : read.status().ToString());
  if (!read.ok()) return;
  JobHistory& history = world_.history().jobs[stored.key];
  for (const auto& [subject, token] : history.current) {
    const bool attempts_in_rows = subject.rfind("generate", 0) != 0 && subject.rfind("score", 0);
    if (!attempts_in_rows) history.forgotten.insert(subject);
  }
  history.forgotten.insert(history.stopped.begin(), history.stopped.end());
  Job& job = jobs_[stored.key];
  job.order = read->row.submit_order();
  job.runtime = std::make_shared<JobRuntime>(
      &context_, JobCore(read->row, read->trajectories, context_.epoch, context_.core),
      read->next_log_sequence, /*stored=*/true);
  next_order_ = std::max(next_order_, job.order + 1);
}

// Controller::Tick.
void SimulatedController::Tick() {
  Apply(cluster_->OnTick(world_.now()));
  for (auto& [name, job] : jobs_) {
    if (IsActive(job.runtime->state())) job.runtime->Tick();
  }
  world_.time().After(kTick, world_.controller_process(),
                      [this] { OnCluster([this] { Tick(); }); });
}

// ---- Ports of the jobs (worker_directory.h, controller_workers.cc) ---------------------------

void SimulatedController::Send(const std::string& worker, v1::ControllerMessage message) {
  const auto it = directory_.find(worker);
  if (it == directory_.end() || !calls_.Take()) return;
  rules_.OnSend(worker, message);
  world_.SendDown(it->second, std::move(message));
}

bool SimulatedController::Promises(const std::string& worker, const std::string& feature) const {
  const auto offer = offers_.find(worker);
  if (offer == offers_.end()) return false;
  const auto& features = offer->second.features();
  return std::count(features.begin(), features.end(), feature) > 0;
}

std::string SimulatedController::GroupStoreOf(const std::string& worker) const {
  const auto offer = offers_.find(worker);
  return offer == offers_.end() ? "" : offer->second.group_store();
}

void SimulatedController::Need(const std::string& job, const NeedWorkers& need) {
  OnCluster([this, job, need] {
    const Job& waiting = jobs_.at(job);
    Apply(cluster_->OnNeed(job, waiting.runtime->priority(), waiting.order,
                           IsActive(waiting.runtime->state()), need.missing, world_.now(),
                           need.hints, waiting.runtime->role_needs()));
  });
}

void SimulatedController::Return(const std::string& job, const ReturnWorker& back) {
  OnCluster([this, job, back] {
    Apply(cluster_->OnReturn(job, back.worker, world_.now(), back.conduct));
    if (back.conduct != Conduct::kSlow) return;
    world_.coverage().DrainedAsSlow();
    world_.RestartLater(back.worker);
  });
}

void SimulatedController::Leave(const std::string& job) {
  OnCluster([this, job] {
    cluster_->OnLeave(job);
    Apply(cluster_->OnTick(world_.now()));
  });
}

// ---- Sessions (controller_workers.cc) -------------------------------------------------------

void SimulatedController::OnMessage(uint64_t stream, v1::WorkerMessage message) {
  Session& session = sessions_[stream];
  if (message.has_hello()) {
    session.worker = message.hello().worker_id();
    OnCluster([this, stream, hello = message.hello()] { OnHello(stream, hello); });
  } else if (!session.welcome) {
    session.held.push_back(std::move(message));
  } else {
    Route(stream, session.worker, std::move(message));
  }
}

void SimulatedController::OnHello(uint64_t stream, const v1::Hello& hello) {
  const ClusterEffects effects = cluster_->OnHello(stream, hello, world_.now());
  world_.Check("StaleEpochIsRefused", StaleEpochIsRefused(context_.epoch, hello, effects));
  if (cluster_->workers().SessionOf(hello.worker_id()) == stream) {
    offers_[hello.worker_id()] = hello;
    world_.history().lease_end[hello.worker_id()] = world_.now() + ClusterOptions().lease;
  }
  Apply(effects);
}

void SimulatedController::OnClosed(uint64_t stream) {
  OnCluster([this, stream] {
    const auto session = sessions_.find(stream);
    if (session != sessions_.end()) {
      const auto directed = directory_.find(session->second.worker);
      if (directed != directory_.end() && directed->second == stream) directory_.erase(directed);
      sessions_.erase(session);
    }
    Apply(cluster_->OnClosed(stream, world_.now()));
  });
}

void SimulatedController::OnHeartbeat(uint64_t stream, const std::string& worker,
                                      uint64_t sequence) {
  if (!cluster_->OnHeartbeat(stream, world_.now())) return world_.CloseByController(stream);
  absl::Time& lease_end = world_.history().lease_end[worker];
  world_.Check("LeaseIsNotRenewedAfterItsEnd",
               LeaseIsNotRenewedAfterItsEnd(lease_end, world_.now()));
  lease_end = world_.now() + ClusterOptions().lease;
  v1::ControllerMessage answer;
  answer.mutable_heartbeat_ack()->set_epoch(context_.epoch);
  answer.mutable_heartbeat_ack()->set_sequence(sequence);
  world_.SendDown(stream, std::move(answer));
}

void SimulatedController::Route(uint64_t stream, const std::string& worker,
                                v1::WorkerMessage message) {
  if (message.has_heartbeat()) {
    OnCluster([this, stream, worker, sequence = message.heartbeat().sequence()] {
      OnHeartbeat(stream, worker, sequence);
    });
  } else if (message.has_progress()) {
    const auto token = DecodeToken(message.progress().task_token());
    const Runtime job = token.has_value() ? FindJobOf(*token) : nullptr;
    if (job != nullptr) job->OnProgress(worker, token->ref, message.progress());
  } else if (message.has_result()) {
    OnResult(stream, worker, std::move(*message.mutable_result()));
  }
}

void SimulatedController::OnResult(uint64_t stream, const std::string& worker,
                                   v1::TaskResult result) {
  const auto token = DecodeToken(result.task_token());
  const Runtime job = token.has_value() ? FindJobOf(*token) : nullptr;
  if (job == nullptr) {  // nobody waits for it: the worker may forget it
    v1::ControllerMessage ack;
    ack.mutable_result_ack()->set_task_token(result.task_token());
    return world_.SendDown(stream, std::move(ack));
  }
  if (const JobCore* core = rules_.CoreOf(job->name())) {
    rules_.OnResult(*core, worker, token->ref, result);
  }
  job->OnResult(worker, token->ref, std::move(result));
}

void SimulatedController::Apply(const ClusterEffects& effects) {
  for (const ClusterEffect& effect : effects) {
    std::visit([this](const auto& e) { Apply(e); }, effect);
  }
  for (const ClusterEffect& effect : effects) {
    const auto* welcome = std::get_if<ClusterWelcome>(&effect);
    if (welcome == nullptr || sessions_.count(welcome->session) == 0) continue;
    Session& session = sessions_[welcome->session];
    session.welcome = true;
    for (v1::WorkerMessage& message : std::exchange(session.held, {})) {
      Route(welcome->session, session.worker, std::move(message));
    }
  }
}

void SimulatedController::Apply(const ClusterWelcome& welcome) {
  if (sessions_.count(welcome.session) == 0) return;
  v1::ControllerMessage message;
  message.mutable_welcome()->set_epoch(context_.epoch);
  for (const v1::RoleHeld& role : welcome.release) *message.mutable_welcome()->add_release() = role;
  world_.SendDown(welcome.session, std::move(message));
  const uint64_t before = std::exchange(directory_[welcome.worker], welcome.session);
  if (before != 0 && before != welcome.session) world_.CloseByController(before);
}

void SimulatedController::Apply(const ClusterRefuse& refuse) {
  if (world_.tracing()) world_.Trace(absl::StrCat("controller refuses: ", refuse.reason));
  world_.CloseByController(refuse.session);
}

void SimulatedController::Apply(const ClusterGrant& grant) {
  if (const Runtime job = FindJob(grant.job)) {
    job->Post(WorkerGranted{grant.worker, grant.roles, grant.credits});
  }
}

void SimulatedController::Apply(const ClusterLost& lost) {
  const SimulatedWorker* worker = world_.FindWorker(lost.worker);
  if (worker != nullptr && lost.reason == "its lease ended without a heartbeat") {
    world_.Check(
        "FencedBeforeReassigned",
        FencedBeforeReassigned(worker->Holds(lost.job), worker->lease_end(), world_.now()));
  }
  if (const Runtime job = FindJob(lost.job)) {
    job->Post(WorkerLost{lost.worker, lost.reason, lost.moves});
  }
}

void SimulatedController::Apply(const ClusterYield& yield) {
  if (const Runtime job = FindJob(yield.job)) job->Post(YieldRequested{yield.reason});
}

// Controller::Back.
void SimulatedController::Apply(const ClusterBack& back) {
  const Runtime job = FindJob(back.job);
  if (job == nullptr) return;
  WorkerBack event;
  event.worker = back.worker;
  for (const v1::RoleHeld& held : back.hello.roles_held()) {
    if (held.job() != back.job) continue;
    event.holds[held.role()] = held.policy_version();
  }
  for (const v1::RunningTask& running : back.hello.running()) {
    const auto token = DecodeToken(running.task_token());
    if (token.has_value() && FindJobOf(*token) == job) event.running.push_back(token->ref);
  }
  for (const std::string& bytes : back.hello.unacknowledged()) {
    const auto token = DecodeToken(bytes);
    if (token.has_value() && FindJobOf(*token) == job) event.unacked.push_back(token->ref);
  }
  job->Post(event);
}

SimulatedController::Runtime SimulatedController::FindJob(const std::string& name) const {
  const auto it = jobs_.find(name);
  return it == jobs_.end() || !it->second.runtime->visible() ? nullptr : it->second.runtime;
}

SimulatedController::Runtime SimulatedController::FindJobOf(const TaskToken& token) const {
  const Runtime job = FindJob(JobOfToken(token));
  return job != nullptr && job->token_name() == token.job ? job : nullptr;
}

// ---- Calls (controller_jobs.cc) -------------------------------------------------------------

namespace {

// What a client of the simulator asks for.
Callback<v1::Job> StateFor(const SimulatedController::Answer& done) {
  return [done](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return done(job.status());
    done(job->state());
  };
}

v1::Job JobOf(const std::string& name, const JobPlan& plan, const CheckedSpec& checked) {
  v1::Job job;
  job.set_name(name);
  job.set_uid("uid-" + plan.id);
  *job.mutable_spec() = SpecOf(plan);
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

}  // namespace

// Controller::Admit and AnswerRepeat.
void SimulatedController::Create(const JobPlan& plan, const std::string& request_id,
                                 const Answer& done) {
  const std::string name = "projects/default/jobs/" + plan.id;
  if (jobs_.count(name) > 0) {  // of this request: ids are not shared between requests here
    return jobs_.at(name).runtime->Describe(StateFor(done));
  }
  const CheckedSpec checked = CheckSpec(SpecOf(plan));
  if (!checked.violations.empty()) {
    return done(absl::InvalidArgumentError(checked.violations[0].description()));
  }
  Job& job = jobs_[name];
  job.order = next_order_++;
  job.runtime = std::make_shared<JobRuntime>(
      &context_, JobCore(JobOf(name, plan, checked), job.order, context_.core),
      /*next_log_sequence=*/1, /*stored=*/false);
  store::v1::RequestRow request;
  request.set_job(name);
  job.runtime->Start({{kRequestTable, "default/" + request_id, request.SerializeAsString()}},
                     [runtime = job.runtime, done] { done(runtime->state()); });
}

// PauseJob, ResumeJob, CancelJob.
void SimulatedController::Steer(const std::string& name, const Event& event, const Answer& done) {
  const Runtime job = FindJob(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  const auto check = [this, name, event](const JobCore& core) -> absl::Status {
    // It has ended, or nothing stops it from ending. What failed or was cancelled may be resumed.
    const bool ends = !NextJobState(core.state(), JobTrigger::kCancel, {}).has_value();
    // That is asked for once: a call that comes twice changes nothing (request ids see to it).
    bool& revivable = world_.history().jobs[name].revivable;
    const bool goes_on = std::holds_alternative<ResumeRequested>(event) && revivable &&
                         NextJobState(core.state(), JobTrigger::kResume, {}).has_value();
    if (ends && goes_on) revivable = false;
    if (!ends || goes_on || std::holds_alternative<CancelRequested>(event)) return absl::OkStatus();
    return absl::FailedPreconditionError("JOB_ENDED");
  };
  job->PostAndDescribe(event, check, nullptr, StateFor(done));
}

void SimulatedController::Get(const std::string& name, const Answer& done) {
  const Runtime job = FindJob(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  done(job->state());
}

// Controller::SetDrained.
void SimulatedController::Drain(const std::string& worker) {
  OnCluster([this, worker] {
    if (!cluster_->workers().Knows(worker)) return;
    store::v1::WorkerRow row;
    row.set_drain_reason("a user asked for it");
    store_.Commit({{kWorkerTable, worker, row.SerializeAsString()}},
                  [this, worker](const absl::Status& status) {
                    if (!status.ok()) return;
                    OnCluster([this, worker] {
                      const auto effects = cluster_->OnDrain(worker, world_.now());
                      if (effects.ok()) return Apply(*effects);
                      cluster_->KeepDrained(worker, "a user asked for it");
                    });
                  });
  });
}

void SimulatedController::Undrain(const std::string& worker) {
  OnCluster([this, worker] {
    store_.Commit({{kWorkerTable, worker, std::nullopt}},
                  [this, worker](const absl::Status& status) {
                    if (!status.ok()) return;
                    OnCluster([this, worker] {
                      const auto effects = cluster_->OnUndrain(worker);
                      if (effects.ok()) Apply(*effects);
                    });
                  });
  });
}

void SimulatedController::FetchBatch(const v1::FetchBatchRequest& request,
                                     const Callback<BatchPart>& done) {
  const Runtime job = FindJob(request.job());
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  job->FetchBatch(request, done);
}

std::optional<std::pair<v1::Job::State, std::string>> SimulatedController::Where(
    const std::string& name) const {
  const JobCore* core = rules_.CoreOf(name);
  if (core == nullptr) return std::nullopt;
  return std::make_pair(core->state(), core->Describe().phase());
}

}  // namespace baton::simulation
