#include "tests/simulation/world/turn_rules.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "controller/core/weights/refresh.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/rpc/error.h"
#include "tests/simulation/rules/async_rules.h"
#include "tests/simulation/world/commit_rules.h"
#include "tests/simulation/world/simulated_worker.h"

namespace baton::simulation {

using namespace controller;  // NOLINT: the rules are about its types

namespace {

constexpr int kCreditsOffered = 4;

std::string NameOnly(const std::string& job) { return job.substr(job.rfind('/') + 1); }

// Ranks that work on it together may miss each other, which is the fault of none of them.
bool RanksTogether(const JobCore& core, const TaskRef& ref) {
  const std::string role = ref.kind == TaskKind::kScore
                               ? core.dataflow().score(static_cast<int>(ref.target)).role()
                               : "actor";  // whose ranks generate, if several do
  return ShapeOf(core.effective_spec(), role).tp > 1;
}

}  // namespace

std::string JobOfToken(const TaskToken& token) { return token.job.substr(0, token.job.find('#')); }

// ---- Before and after the core ------------------------------------------------------------------

void TurnRules::OnEvent(const JobCore& core, const Event& event) {
  if (world_.scenario().digests_turns) world_.turns().Add(core.name(), event);
  Job& job = jobs_[core.name()];
  job.taking = nullptr;
  world_.coverage().Met(core.state(), event);
  const auto* done = std::get_if<TaskDone>(&event);
  JobHistory& history = world_.history().jobs[core.name()];
  if (done != nullptr) {
    world_.Check("StaleTokenChangesNothing",
                 StaleTokenChangesNothing(history, core, *done, world_.now()));
  }
  if (done != nullptr) job.awaited.erase({done->ref, done->worker});
  if (const auto* lost = std::get_if<WorkerLost>(&event)) {
    std::erase_if(job.awaited, [&](const auto& result) { return result.second == lost->worker; });
  }
  if (const auto* lost = std::get_if<controller::PayloadLost>(&event)) {
    for (const auto& [id, serial] : lost->trajectories) job.lost.insert(id);
  }
  const bool wanted = done != nullptr && core.Wants(done->worker, done->ref);
  if (wanted) {
    history.forgotten.erase(SubjectOf(done->ref, done->worker));
    job.taking = &done->ref;
    job.worker = done->worker;
  }
  job.done.reset();
  const std::optional<Tries> tries =
      wanted && core.knows_trajectories() ? TriesOf(core, done->ref) : std::nullopt;
  if (tries.has_value() && !RanksTogether(core, done->ref)) {
    job.done = *done;
    job.tries = *tries;
  }
  if (!world_.tracing() || std::holds_alternative<controller::Tick>(event)) return;
  std::string what;
  if (done != nullptr) {
    what = absl::StrCat(" ", MethodName(done->ref.kind), " ", done->ref.subject, " of ",
                        done->worker, wanted ? "" : " (stale)", " ", done->status.ToString());
  }
  world_.Trace(absl::StrCat("  ", NameOnly(core.name()), " <- ", EventName(event), what));
}

void TurnRules::OnTurn(const JobCore& core, const Effects& effects) {
  if (world_.scenario().digests_turns) world_.turns().Add(core.name(), effects);
  Job& job = jobs_[core.name()];
  job.changed = true;
  if (job.core == nullptr) {
    for (RolePool& pool : PoolsOf(core.effective_spec(), core.dataflow())) {
      if (pool.roles.size() > 1) job.pools.push_back(std::move(pool));
    }
    job.core = &core;
    job.next_trajectory_uid = core.BriefRow().next_trajectory_uid();
  }
  if (const auto done = std::exchange(job.done, std::nullopt); done.has_value()) {
    const std::optional<Tries> tries = TriesOf(core, done->ref);
    if (tries.has_value()) {
      world_.Check("FailuresAreCounted",
                   FailuresAreCounted(job.tries, *tries, *done, job.asked.count(done->ref) > 0));
    }
  }
  const TaskRef* const taking = std::exchange(job.taking, nullptr);
  if (taking == nullptr) return;
  const bool puts = std::any_of(effects.begin(), effects.end(), [](const Effect& effect) {
    return std::holds_alternative<PutTrajectory>(effect);
  });
  if (puts || IsGroupCommand(taking->kind)) job.taken.insert({*taking, job.worker});
}

void TurnRules::OnEffect(const JobCore& core, const Effect& effect) {
  std::visit([&](const auto& e) { See(core, e); }, effect);
}

void TurnRules::OnResult(const JobCore& core, const std::string& worker, const TaskRef& ref,
                         const v1::TaskResult& result) {
  if (core.Wants(worker, ref)) {
    if (IsTrajectoryTask(ref.kind)) jobs_[core.name()].awaited.insert({ref, worker});
    return;
  }
  TaskDone done;
  done.worker = worker;
  done.ref = ref;
  done.status = FromProto(result.status());
  world_.Check(
      "StaleTokenChangesNothing",
      StaleTokenChangesNothing(world_.history().jobs[core.name()], core, done, world_.now()));
}

// ---- What leaves --------------------------------------------------------------------------------

void TurnRules::See(const JobCore& core, const StartTask& task) {
  JobHistory& history = world_.history().jobs[core.name()];
  const std::string subject = SubjectOf(task.ref, task.worker);
  history.forgotten.erase(subject);
  jobs_[core.name()].asked.insert(task.ref);
  history.current[subject] = absl::StrCat(EncodeToken({core.name(), task.ref}), task.worker);
  const store::v1::JobRow row = StoredRow(world_, core.name());
  world_.Check("NothingAfterTheEnd", NothingAfterTheEnd(shown_(core.name()), task));
  world_.Check("CreditsAreKept", CreditsAreKept(core, history.current, task, kCreditsOffered));
  if (IsTrajectoryTask(task.ref.kind)) {
    // By now the core may be of a later incarnation. A group that is open in an async job outlives
    // a rollback, and belongs to the incarnation of the weights that begin it anew.
    const uint64_t incarnation =
        IsAsync(core.effective_spec()) ? 0 : task.args.trajectory.incarnation;
    world_.Check("UidNamesOneTrajectory", UidNamesOneTrajectory(history, incarnation, task.ref));
    history.trajectory_uids.try_emplace(task.ref.trajectory_uid, incarnation, task.ref.subject);
  }
  if (task.ref.kind == TaskKind::kGenerate) {
    world_.Check("BegunInOrder",
                 IsAsync(core.effective_spec())
                     ? history.begun.AskedAhead(task.ref, jobs_[core.name()].next_trajectory_uid)
                     : history.begun.Asked(task.ref, task.args.trajectory.incarnation));
    world_.Check("ReadyIsNotLost", ReadyIsNotLost(StoredTrajectories(world_, core.name()), task));
  } else if (IsGroupCommand(task.ref.kind)) {
    world_.Check("CommandIsCommitted", CommandIsCommitted(row, task));
    world_.Check("VersionsOnlyGrow", VersionsOnlyGrow(history, task));
    const bool hands_over =
        task.ref.kind == TaskKind::kPublish || task.ref.kind == TaskKind::kToGeneration;
    if (hands_over) history.asked = task.args.policy_version;
  }
  if (!world_.tracing()) return;
  world_.Trace(absl::StrCat("  ", NameOnly(core.name()), " -> ", MethodName(task.ref.kind), " ",
                            task.ref.subject, " try ", task.ref.attempt, " to ", task.worker,
                            ", version ", task.args.policy_version));
}

void TurnRules::See(const JobCore& core, const StartAhead& start) {
  JobHistory& history = world_.history().jobs[core.name()];
  history.current[SubjectOf(start.ref, start.worker)] =
      absl::StrCat(EncodeToken({core.name(), start.ref}), start.worker);
  world_.Check("IdleRolloutsRunAhead",
               IdleRolloutsRunAhead(core, history.current, start, kCreditsOffered));
  if (!world_.tracing()) return;
  world_.Trace(absl::StrCat("  ", NameOnly(core.name()), " -> run ahead prompt index ",
                            start.response.prompt_index, " sample ", start.response.sample, " to ",
                            start.worker, ", version ", start.policy_version));
}

void TurnRules::See(const JobCore& core, const StopTask& stop) {
  if (world_.tracing()) {
    world_.Trace(absl::StrCat("  ", NameOnly(core.name()), " -x ", MethodName(stop.ref.kind), " ",
                              stop.ref.subject, " try ", stop.ref.attempt, " at ", stop.worker,
                              ": ", stop.reason));
  }
  if (stop.reason == controller::kMadeAgain || stop.reason == controller::kTooOldToFinish) {
    world_.coverage().Happened("responses recalled");
    return;  // it is wanted still: it is to say what it has
  }
  JobHistory& history = world_.history().jobs[core.name()];
  const auto it = history.current.find(SubjectOf(stop.ref, stop.worker));
  if (it == history.current.end()) return;
  if (it->second != EncodeToken({core.name(), stop.ref}) + stop.worker) return;
  history.stopped.insert(it->first);
  history.current.erase(it);
}

void TurnRules::See(const JobCore& core, const BuildBatch& batch) {
  world_.Check("BatchIsWhole",
               BatchIsWhole(core.effective_spec(), world_.history().jobs[core.name()], batch));
  world_.Check("ErrorsAreWithinTheRate", ErrorsAreWithinTheRate(core, batch));
}

void TurnRules::See(const JobCore& core, const EmitEvent& emit) {
  if (!emit.kept) return;
  const v1::JobEvent& event = emit.event;
  if (world_.tracing()) {
    world_.Trace(absl::StrCat("  ", NameOnly(core.name()), " == ", event.type(), " ",
                              event.type() == "state" ? std::string(StateName(event.state()))
                                                      : absl::StrCat(event.step()),
                              " ", event.message()));
  }
  Job& job = jobs_[core.name()];
  const auto row = world_.disk().store.Get(
      kEventTable, NumberKey(core.name(), static_cast<uint64_t>(event.revision())));
  world_.Check("ToldIsStored", ToldIsStored(row.ok() && row->has_value(), event));
  world_.Check("ToldInOrder", ToldInOrder(std::exchange(job.told, event.revision()), event));
  if (event.type() != "state" || !IsTerminal(event.state())) return;
  if (core.Brief().error().message().find("max_error_rate") != std::string::npos) {
    world_.coverage().Happened("jobs that ended since too many rewards failed", 1);
  }
}

void TurnRules::See(const JobCore& /*core*/, const PutMetrics& effect) {
  const auto count = [&](const char* metric, const char* what) {
    const auto it = effect.metrics.find(metric);
    if (it == effect.metrics.end() || it->second <= 0) return;
    world_.coverage().Happened(what, static_cast<uint64_t>(it->second));
  };
  count("reward/infra_failed", "responses without a reward, of steps");
  count("val/infra_failed", "responses without a reward, of evaluations");
  count("train/groups_replaced", "groups replaced");
  count("buffer/stale_dropped_groups", "groups that were too old");
  count("buffer/given_up_responses", "responses that were given up");
  const auto stale = effect.metrics.find("staleness/max");
  if (stale != effect.metrics.end() && stale->second > 0) {
    world_.coverage().Happened("steps with stale responses");
  }
}

void TurnRules::See(const JobCore& /*core*/, const ReturnWorker& back) {
  if (back.return_reason != ReturnReason::kSlow) return;
  world_.coverage().DrainedAsSlow();
  world_.RestartLater(back.worker);
}

void TurnRules::OnCluster(const ClusterEffects& effects) {
  for (const ClusterEffect& effect : effects) {
    const auto* lost = std::get_if<ClusterLost>(&effect);
    if (lost == nullptr || lost->reason != "its lease ended without a heartbeat") continue;
    const SimulatedWorker* worker = world_.FindWorker(lost->worker);
    if (worker == nullptr) continue;
    world_.Check(
        "FencedBeforeReassigned",
        FencedBeforeReassigned(worker->Holds(lost->job), worker->lease_end(), world_.now()));
  }
}

void TurnRules::OnSend(const std::string& worker, const v1::ControllerMessage& message) {
  if (message.has_result_ack()) OnAck(worker, message.result_ack().task_token());
}

// A repeat is acknowledged by a turn without rows; it may not overtake the first one's.
void TurnRules::OnAck(const std::string& worker, const std::string& bytes) {
  const auto token = DecodeToken(bytes);
  const auto it = token.has_value() ? jobs_.find(JobOfToken(*token)) : jobs_.end();
  if (it == jobs_.end() || it->second.core == nullptr) return;
  Job& job = it->second;
  const bool awaited =
      job.awaited.count({token->ref, worker}) > 0 && job.core->Wants(worker, token->ref);
  world_.Check("AckedIsTakenIn", AckedIsTakenIn(awaited, token->ref));
  if (job.taken.count({token->ref, worker}) == 0 || !IsActive(job.core->state())) return;
  world_.Check("AckedIsCommitted", AckedIsCommitted(IsStored(job, token->ref), token->ref));
}

// Whether no work of the job in its row has that trajectory uid.
bool TurnRules::WorkIsOver(const store::v1::JobRow& row, uint64_t trajectory_uid) {
  const auto has = [&](uint64_t first, uint64_t count) {
    return trajectory_uid >= first && trajectory_uid - first < count;
  };
  return !has(row.evaluation().first_uid(), row.evaluation().trajectory_count()) &&
         std::none_of(row.open_prompts().begin(), row.open_prompts().end(), [&](const auto& open) {
           return has(open.first_uid(), open.count() * open.per_prompt());
         });
}

// Whether the task's rows are in the store, or were overwritten by later ones.
bool TurnRules::IsStored(const Job& job, const TaskRef& ref) {
  const std::string& name = job.core->name();
  const store::v1::JobRow row = StoredRow(world_, name);
  const bool trajectory = IsTrajectoryTask(ref.kind);
  const bool over = trajectory ? WorkIsOver(row, ref.trajectory_uid)
                               : row.incarnation() > ref.incarnation || row.job().step() > ref.step;
  if (over) return true;
  if (IsGroupCommand(ref.kind)) {
    return CommandIsAnswered(row.groups(static_cast<int>(ref.target)), ref);
  }
  if (!trajectory) return true;
  for (const store::v1::TrajectoryRow& stored : StoredTrajectories(world_, name)) {
    if (stored.id() != ref.subject || stored.trajectory_uid() != ref.trajectory_uid) continue;
    if (ref.kind == TaskKind::kGenerate || (stored.scored_nodes() >> ref.target & 1) != 0)
      return true;
  }
  return job.lost.count(ref.subject) > 0;
}

// ---- At any time --------------------------------------------------------------------------------

const JobCore* TurnRules::CoreOf(const std::string& job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.core;
}

bool TurnRules::Wants(const std::string& job, const std::string& worker,
                      const std::string& token) const {
  const JobCore* core = CoreOf(job);
  const auto decoded = DecodeToken(token);
  return core != nullptr && decoded.has_value() && core->knows_trajectories() &&
         core->Wants(worker, decoded->ref);
}

void TurnRules::CheckTurns(const std::string& name) {
  const auto it = jobs_.find(name);
  if (it == jobs_.end() || it->second.pools.empty()) return;
  std::vector<TaskAtWork> running;
  for (const auto& worker : world_.workers()) {
    for (auto& [token, task] : worker->AtWork(name)) {
      if (Wants(name, worker->id(), token)) running.push_back(task);
    }
  }
  world_.Check("OneRoleOfAPoolAtATime", OneRoleOfAPoolAtATime(it->second.pools, running));
}

void TurnRules::CheckJobs() {
  for (auto& [name, job] : jobs_) {
    if (!std::exchange(job.changed, false)) continue;
    world_.Check("EveryWaitHasADeadline",
                 EveryWaitHasADeadline(*job.core, world_.now(), absl::Seconds(3)));
    world_.Check("PayloadsAreOfKnownTrajectories",
                 PayloadsAreOfKnownTrajectories(*job.core, held_(name)));
    CheckTurns(name);
  }
}

}  // namespace baton::simulation
