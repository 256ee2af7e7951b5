// SimulatedController: the store, sessions, calls (controller/runtime/controller*.cc).
#include "tests/simulation/simulated_controller.h"

#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/core/mutation.h"
#include "controller/core/spec.h"
#include "controller/runtime/tables.h"
#include "tests/simulation/simulated_worker.h"

namespace baton::simulation {

using namespace controller;  // NOLINT: this file is the controller's double

namespace {
constexpr absl::Duration kTick = absl::Milliseconds(250);
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

void SimulatedController::OnCluster(std::function<void()> work) {
  cluster_last_ = std::max(cluster_last_, world_.now() + world_.random().Milliseconds(0, 1));
  world_.time().At(cluster_last_, world_.controller_process(), std::move(work));
}

void SimulatedController::OnStrand(Job& job, std::function<void()> work) {
  job.strand_last = std::max(job.strand_last, world_.now() + world_.random().Milliseconds(0, 1));
  world_.time().At(job.strand_last, world_.controller_process(), std::move(work));
}

void SimulatedController::OnDisk(Job& job, std::function<void()> work) {
  job.disk_last = std::max(job.disk_last, world_.now()) + world_.random().Milliseconds(0, 10);
  world_.time().At(job.disk_last, world_.controller_process(), std::move(work));
}

// ---- The store ----------------------------------------------------------------------------

void SimulatedController::Commit(std::vector<store::Write> writes, std::function<void()> done) {
  commits_.emplace_back(std::move(writes), std::move(done));
  if (!std::exchange(pumping_, true)) {
    world_.time().After(world_.random().Milliseconds(0, 8), world_.controller_process(),
                        [this] { PumpStore(); });
  }
}

// One group: everything that waits, in order. Its answers come later, and not if it dies.
void SimulatedController::PumpStore() {
  pumping_ = false;
  if (world_.disk().refuses) {
    pumping_ = true;
    world_.time().After(absl::Milliseconds(50), world_.controller_process(),
                        [this] { PumpStore(); });
    return;
  }
  for (auto& [writes, done] : std::exchange(commits_, {})) {
    CheckCommitted(writes);
    const store::Durability durability = DurabilityWith(writes);
    world_.disk().store.Commit(std::move(writes), durability, [](absl::Status) {});
    if (done) {
      world_.time().After(absl::Microseconds(200), world_.controller_process(), std::move(done));
    }
  }
}

store::Durability SimulatedController::DurabilityWith(const std::vector<store::Write>& writes) {
  for (const store::Write& write : writes) {
    if (write.table != kJobTable || !write.value.has_value()) continue;
    if (Mutated(Mutation::kUnsyncedTurn)) return store::Durability::kProcess;
    if (!Mutated(Mutation::kUnsyncedCheckpoint)) continue;
    store::v1::JobRow row;
    (void)row.ParseFromString(*write.value);
    const bool saved = row.saved_step() != StoredRow(write.key).saved_step();
    if (saved) return store::Durability::kProcess;
  }
  return DurabilityOf(writes);
}

void SimulatedController::CheckCommitted(const std::vector<store::Write>& writes) {
  for (const store::Write& write : writes) {
    if (write.table == kEventTable && write.value.has_value()) {
      JobHistory& history = world_.history().jobs[write.key.substr(0, write.key.rfind('#'))];
      const auto revision = static_cast<int64_t>(KeyNumber(write.key));
      world_.Check("RevisionsHaveNoGap", RevisionsHaveNoGap(history, revision));
      history.revision = revision;
    } else if (write.table == kTrajectoryTable && write.value.has_value()) {
      store::v1::TrajectoryRow row;
      (void)row.ParseFromString(*write.value);
      JobHistory& history = world_.history().jobs[write.key.substr(0, write.key.rfind('#'))];
      history.scored_by_error |= !row.error().empty() && row.error() != kNoReward;
    } else if (write.table == kJobTable && write.value.has_value()) {
      store::v1::JobRow row;
      (void)row.ParseFromString(*write.value);
      world_.Check("ListedCheckpointsAreComplete",
                   ListedCheckpointsAreComplete(row, world_.disk().jobs[write.key]));
    }
  }
}

store::v1::JobRow SimulatedController::StoredRow(const std::string& job) {
  store::v1::JobRow row;
  const auto stored = world_.disk().store.Get(kJobTable, job);
  if (stored.ok() && stored->has_value()) (void)row.ParseFromString(**stored);
  return row;
}

std::vector<store::v1::TrajectoryRow> SimulatedController::StoredTrajectories(
    const std::string& job) {
  std::vector<store::v1::TrajectoryRow> out;
  const auto rows = world_.disk().store.Scan(kTrajectoryTable, NumberRange(job, 0));
  for (const store::Row& row : *rows) {
    out.emplace_back();
    (void)out.back().ParseFromString(row.value);
  }
  return out;
}

// Controller::Restore.
void SimulatedController::Restore() {
  store::Store& store = world_.disk().store;
  const auto epoch = store.Get(kMetaTable, "epoch");
  if (epoch->has_value()) (void)absl::SimpleAtoi(**epoch, &epoch_);
  ++epoch_;
  world_.Check("EpochsOnlyGrow", EpochsOnlyGrow(world_.history().epoch, epoch_));
  world_.history().epoch = epoch_;
  const auto durability = Mutated(Mutation::kUnsyncedEpoch) ? store::Durability::kProcess
                                                            : store::Durability::kPowerCut;
  store.Commit({{kMetaTable, "epoch", absl::StrCat(epoch_)}}, durability, [](absl::Status) {});
  cluster_ = std::make_unique<ClusterCore>(epoch_, ClusterOptions());
  cluster_last_ = world_.now();
  const auto drained = store.Scan(kWorkerTable, {});
  for (const store::Row& row : *drained) cluster_->KeepDrained(row.key, "it was asked for");
  const auto rows = store.Scan(kJobTable, {});
  for (const store::Row& stored : *rows) {
    store::v1::JobRow row;
    (void)row.ParseFromString(stored.value);
    std::map<uint64_t, store::v1::TrajectoryRow> trajectories;
    if (IsActive(row.job().state()) && row.kept_steps_size() > 0) {
      const uint64_t first = row.kept_steps(row.kept_steps_size() - 1).first_serial();
      const auto kept = store.Scan(kTrajectoryTable, NumberRange(stored.key, first));
      for (const store::Row& t : *kept) {
        (void)trajectories[KeyNumber(t.key)].ParseFromString(t.value);
      }
    }
    JobHistory& history = world_.history().jobs[stored.key];
    for (const auto& [subject, token] : history.current) {
      const bool attempts_in_rows = subject.rfind("generate", 0) != 0 && subject.rfind("score", 0);
      if (!attempts_in_rows) history.forgotten.insert(subject);
    }
    history.forgotten.insert(history.stopped.begin(), history.stopped.end());
    auto job = std::make_unique<Job>();
    job->name = stored.key;
    job->order = row.submit_order();
    job->core = std::make_unique<JobCore>(row, trajectories, epoch_, SimulatedDeadlines());
    job->priority = job->core->effective_spec().priority();
    NotePools(*job);
    job->snapshot = job->core->state();
    job->visible = true;
    next_order_ = std::max(next_order_, job->order + 1);
    jobs_[stored.key] = std::move(job);
  }
  for (auto& [name, job] : jobs_) {
    for (const auto& [worker, roles] : job->core->HeldWorkers()) {
      if (!IsActive(job->snapshot)) continue;
      cluster_->Expect(name, worker, roles, world_.now());
    }
    OnStrand(*job, [this, job = job.get()] {
      Effects effects = job->core->Start(world_.now());
      std::vector<store::Write> writes = RowsOf(*job, effects);
      Finish(*job, std::move(effects), std::move(writes), nullptr);
    });
  }
  OnCluster([this] { Tick(); });
}

// Controller::Tick.
void SimulatedController::Tick() {
  Apply(cluster_->OnTick(world_.now()));
  for (auto& [name, job] : jobs_) {
    if (!IsActive(job->snapshot)) continue;
    OnStrand(*job, [this, job = job.get()] { Tick(*job); });
  }
  world_.time().After(kTick, world_.controller_process(),
                      [this] { OnCluster([this] { Tick(); }); });
}

// JobRuntime::Tick.
void SimulatedController::Tick(Job& job) {
  const absl::Time now = world_.now();
  if (world_.disk().refuses) {
    if (job.held_since == absl::InfinitePast()) job.held_since = now;
    return;
  }
  const absl::Time since = std::exchange(job.held_since, absl::InfinitePast());
  if (since != absl::InfinitePast()) Run(job, controller::TimeLost{now - since});
  Run(job, controller::Tick{});
}

// ---- Sessions (controller_workers.cc) -------------------------------------------------------

void SimulatedController::OnMessage(uint64_t stream, WorkerMessage message) {
  Session& session = sessions_[stream];
  if (message.kind == WorkerMessage::Kind::kHello) {
    session.worker = message.hello.worker_id();
    OnCluster([this, stream, hello = message.hello] { OnHello(stream, hello); });
  } else if (!session.welcome) {
    session.held.push_back(std::move(message));
  } else {
    Route(stream, session.worker, std::move(message));
  }
}

void SimulatedController::OnHello(uint64_t stream, const v1::Hello& hello) {
  const ClusterEffects effects = cluster_->OnHello(stream, hello, world_.now());
  world_.Check("StaleEpochIsRefused", StaleEpochIsRefused(epoch_, hello, effects));
  if (cluster_->SessionOf(hello.worker_id()) == stream) {
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

void SimulatedController::Route(uint64_t stream, const std::string& worker, WorkerMessage message) {
  if (message.kind == WorkerMessage::Kind::kHeartbeat) {
    OnCluster([this, stream, worker, sequence = message.sequence] {
      if (!cluster_->OnHeartbeat(stream, world_.now())) return world_.CloseByController(stream);
      absl::Time& lease_end = world_.history().lease_end[worker];
      world_.Check("LeaseIsNotRenewedAfterItsEnd",
                   LeaseIsNotRenewedAfterItsEnd(lease_end, world_.now()));
      lease_end = world_.now() + ClusterOptions().lease;
      ControllerMessage answer;
      answer.kind = ControllerMessage::Kind::kHeartbeatAck;
      answer.epoch = epoch_;
      answer.sequence = sequence;
      world_.SendDown(stream, std::move(answer));
    });
    return;
  }
  const auto token = DecodeToken(message.token);
  Job* job = token.has_value() ? FindJob(token->job) : nullptr;
  if (message.kind == WorkerMessage::Kind::kProgress) {
    if (job == nullptr) return;
    OnStrand(*job, [this, job, worker, ref = token->ref, message] {
      OnProgress(*job, worker, ref, message);
    });
    return;
  }
  if (job == nullptr) {  // nobody waits for it: the worker may forget it
    ControllerMessage ack;
    ack.kind = ControllerMessage::Kind::kAck;
    ack.token = message.token;
    return world_.SendDown(stream, std::move(ack));
  }
  OnStrand(*job, [this, job, worker, ref = token->ref, result = message.result] {
    OnResult(*job, worker, ref, result);
  });
}

void SimulatedController::Apply(const ClusterEffects& effects) {
  for (const ClusterEffect& effect : effects) {
    if (const auto* welcome = std::get_if<ClusterWelcome>(&effect)) {
      if (sessions_.count(welcome->session) == 0) continue;
      ControllerMessage message;
      message.kind = ControllerMessage::Kind::kWelcome;
      message.epoch = epoch_;
      message.release = welcome->release;
      world_.SendDown(welcome->session, std::move(message));
      const uint64_t before = std::exchange(directory_[welcome->worker], welcome->session);
      if (before != 0 && before != welcome->session) world_.CloseByController(before);
    } else if (const auto* refuse = std::get_if<ClusterRefuse>(&effect)) {
      if (world_.tracing()) world_.Trace(absl::StrCat("controller refuses: ", refuse->reason));
      world_.CloseByController(refuse->session);
    } else if (const auto* grant = std::get_if<ClusterGrant>(&effect)) {
      if (Job* job = FindJob(grant->job)) {
        OnStrand(*job, [this, job, grant = *grant] {
          Run(*job, WorkerGranted{grant.worker, grant.roles, grant.credits});
        });
      }
    } else if (const auto* lost = std::get_if<ClusterLost>(&effect)) {
      if (const SimulatedWorker* worker = world_.FindWorker(lost->worker);
          worker != nullptr && lost->reason == "its lease ended without a heartbeat") {
        world_.Check(
            "FencedBeforeReassigned",
            FencedBeforeReassigned(worker->Holds(lost->job), worker->lease_end(), world_.now()));
      }
      if (Job* job = FindJob(lost->job)) {
        OnStrand(*job, [this, job, lost = *lost] {
          Run(*job, WorkerLost{lost.worker, lost.reason, lost.moves});
        });
      }
    } else if (const auto* yield = std::get_if<ClusterYield>(&effect)) {
      if (Job* job = FindJob(yield->job)) {
        OnStrand(*job, [this, job, yield = *yield] { Run(*job, YieldRequested{yield.reason}); });
      }
    } else if (const auto* back = std::get_if<ClusterBack>(&effect)) {
      Back(*back);
    }
  }
  for (const ClusterEffect& effect : effects) {
    const auto* welcome = std::get_if<ClusterWelcome>(&effect);
    if (welcome == nullptr || sessions_.count(welcome->session) == 0) continue;
    Session& session = sessions_[welcome->session];
    session.welcome = true;
    for (WorkerMessage& message : std::exchange(session.held, {})) {
      Route(welcome->session, session.worker, std::move(message));
    }
  }
}

void SimulatedController::Back(const ClusterBack& back) {
  Job* job = FindJob(back.job);
  if (job == nullptr) return;
  WorkerBack event;
  event.worker = back.worker;
  for (const v1::RoleHeld& held : back.hello.roles_held()) {
    if (held.job() != back.job) continue;
    event.holds[held.role()] = held.policy_version();
  }
  for (const v1::RunningTask& running : back.hello.running()) {
    const auto token = DecodeToken(running.task_token());
    if (token.has_value() && token->job == back.job) event.running.push_back(token->ref);
  }
  for (const std::string& bytes : back.hello.unacknowledged()) {
    const auto token = DecodeToken(bytes);
    if (token.has_value() && token->job == back.job) event.unacked.push_back(token->ref);
  }
  OnStrand(*job, [this, job, event] { Run(*job, event); });
}

SimulatedController::Job* SimulatedController::FindJob(const std::string& name) {
  const auto it = jobs_.find(name);
  return it == jobs_.end() || !it->second->visible ? nullptr : it->second.get();
}

// ---- Calls (controller_jobs.cc) -------------------------------------------------------------

// Controller::Admit and AnswerRepeat.
void SimulatedController::Create(const JobPlan& plan, const std::string& request_id,
                                 const Answer& done) {
  const std::string name = "projects/default/jobs/" + plan.id;
  if (jobs_.count(name) > 0) {  // of this request: ids are not shared between requests here
    Job* job = jobs_[name].get();
    OnStrand(*job,
             [this, job, done] { Finish(*job, {}, {}, [job, done] { done(job->snapshot); }); });
    return;
  }
  const CheckedSpec checked = CheckSpec(SpecOf(plan));
  if (!checked.violations.empty()) {
    return done(absl::InvalidArgumentError(checked.violations[0].description()));
  }
  v1::Job described;
  described.set_name(name);
  *described.mutable_spec() = SpecOf(plan);
  *described.mutable_effective_spec() = checked.effective;
  *described.mutable_dataflow() = checked.dataflow;
  auto created = std::make_unique<Job>();
  Job* job = created.get();
  job->name = name;
  job->order = next_order_++;
  job->priority = checked.effective.priority();
  job->core = std::make_unique<JobCore>(described, job->order, SimulatedDeadlines());
  NotePools(*job);
  jobs_[name] = std::move(created);
  store::v1::RequestRow request;
  request.set_job(name);
  const store::Write extra = {kRequestTable, "default/" + request_id, request.SerializeAsString()};
  OnStrand(*job, [this, job, extra, done] {
    Effects effects = job->core->Start(world_.now());
    std::vector<store::Write> writes = RowsOf(*job, effects);
    writes.push_back(extra);
    Finish(*job, std::move(effects), std::move(writes), [job, done] { done(job->snapshot); });
  });
}

// PauseJob, ResumeJob, CancelJob: JobRuntime::PostAndDescribe.
void SimulatedController::Steer(const std::string& name, const Event& event, const Answer& done) {
  Job* job = FindJob(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  OnStrand(*job, [this, job, event, done] {
    // It has ended, or nothing stops it from ending.
    const bool ends = !NextJobState(job->core->state(), JobTrigger::kCancel, {}).has_value();
    if (ends && !std::holds_alternative<CancelRequested>(event)) {
      return done(absl::FailedPreconditionError("JOB_ENDED"));
    }
    Run(*job, event, [job, done] { done(job->snapshot); });
  });
}

void SimulatedController::Get(const std::string& name, const Answer& done) {
  Job* job = FindJob(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  done(job->snapshot);
}

// Controller::SetDrained.
void SimulatedController::Drain(const std::string& worker) {
  OnCluster([this, worker] {
    if (!cluster_->Knows(worker)) return;
    store::v1::WorkerRow row;
    row.set_drain_reason("it was asked for");
    Commit({{kWorkerTable, worker, row.SerializeAsString()}}, [this, worker] {
      OnCluster([this, worker] {
        const auto effects = cluster_->OnDrain(worker, world_.now());
        if (effects.ok()) return Apply(*effects);
        cluster_->KeepDrained(worker, "it was asked for");
      });
    });
  });
}

void SimulatedController::Undrain(const std::string& worker) {
  OnCluster([this, worker] {
    Commit({{kWorkerTable, worker, std::nullopt}}, [this, worker] {
      OnCluster([this, worker] {
        const auto effects = cluster_->OnUndrain(worker);
        if (effects.ok()) Apply(*effects);
      });
    });
  });
}

// JobRuntime::FetchBatch.
void SimulatedController::FetchBatch(
    const std::string& name, const std::string& batch,
    const std::function<void(absl::StatusOr<std::vector<Payload>>)>& done) {
  Job* job = FindJob(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  OnStrand(*job, [job, batch, done] {
    if (job->batch_id == batch) return done(job->batch);
    const bool coming =
        IsActive(job->core->state()) &&
        batch == absl::StrCat("step-", job->core->step() + 1, "-", job->core->incarnation());
    done(coming ? absl::UnavailableError("BATCH_NOT_READY")
                : absl::NotFoundError("BATCH_NOT_FOUND"));
  });
}

std::optional<std::pair<v1::Job::State, std::string>> SimulatedController::Where(
    const std::string& name) const {
  const auto it = jobs_.find(name);
  if (it == jobs_.end()) return std::nullopt;
  return std::make_pair(it->second->core->state(), it->second->core->Describe().phase());
}

void SimulatedController::NotePools(Job& job) {
  for (RolePool& pool : PoolsOf(job.core->effective_spec(), job.core->dataflow())) {
    if (pool.roles.size() > 1) job.pools.push_back(std::move(pool));
  }
}

bool SimulatedController::Wants(const std::string& job, const std::string& worker,
                                const std::string& token) const {
  const auto it = jobs_.find(job);
  const auto decoded = DecodeToken(token);
  return it != jobs_.end() && decoded.has_value() && it->second->core->knows_trajectories() &&
         it->second->core->Wants(worker, decoded->ref);
}

void SimulatedController::CheckTurns(const std::string& name) {
  const auto it = jobs_.find(name);
  if (it == jobs_.end() || it->second->pools.empty()) return;
  std::vector<TaskAtWork> running;
  for (const auto& worker : world_.workers()) {
    for (auto& [token, task] : worker->AtWork(name)) {
      if (Wants(name, worker->id(), token)) running.push_back(task);
    }
  }
  world_.Check("OneRoleOfAPoolAtATime", OneRoleOfAPoolAtATime(it->second->pools, running));
}

void SimulatedController::CheckJobs() {
  for (auto& [name, job] : jobs_) {
    if (!std::exchange(job->changed, false)) continue;
    world_.Check("EveryWaitHasADeadline",
                 EveryWaitHasADeadline(*job->core, world_.now(), absl::Seconds(3)));
    CheckTurns(name);
  }
}

}  // namespace baton::simulation
