#include "controller/core/loop/job_parts.h"

#include <algorithm>
#include <utility>

#include "controller/core/job/first_row.h"
#include "controller/core/trajectories/running_tasks.h"
#include "controller/core/workers/slot_views.h"
#include "controller/spec/role_names.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

JobParts::JobParts(v1::Job job, int64_t submit_order, const JobCoreOptions& options)
    : options(options),
      submitted(TakeSubmitted(&job)),
      is_async(IsAsync(spec(), dataflow())),
      scheduler(submitted, options),
      groups(spec(), dataflow()),
      commands(groups.all().size()),
      pools(spec(), dataflow(), is_async ? options.pool_quantum : absl::InfiniteDuration()),
      milestones(submitted, spec().trainer().total_training_steps()),
      slots(spec(), dataflow(), options),
      life(std::move(job), submit_order, spec().trainer().total_training_steps()),
      async(spec()),
      ahead(spec()) {
  BoundOpenResponses();
}

JobParts::JobParts(store::v1::JobRow row, uint64_t epoch, const JobCoreOptions& options)
    : options(options),
      restored(true),
      submitted(TakeSubmitted(row.mutable_job())),
      is_async(IsAsync(spec(), dataflow())),
      out(row, Mutant("epoch-not-in-attempts") ? 0 : FirstAttempt(epoch)),
      scheduler(submitted, options),
      groups(spec(), dataflow()),
      commands(groups.all().size()),
      pools(spec(), dataflow(), is_async ? options.pool_quantum : absl::InfiniteDuration()),
      milestones(submitted, row.job().total_steps()),
      slots(spec(), dataflow(), options),
      life(row),
      async(spec()),
      ahead(spec()) {
  BoundOpenResponses();
  milestones.Restore(row);
  versions.Restore(row);
  buffer.Restore(row);
  scheduler.admission().draws().RollBack(row.cursor());
  scheduler.admission().births().Restore(row);
  if (is_async) async.Restore(row);
  groups.Restore(row);
  commands.Restore(row, groups);
  update.Restore(row);
  slots.Restore(row);
  data.Restore(row);
}

void JobParts::BoundOpenResponses() {
  if (!is_async) return;
  const uint64_t groups = (ScheduleOf(spec()).max_staleness + 1) *
                          static_cast<uint64_t>(std::max(1, spec().data().train_batch_size()));
  scheduler.queues().rollouts().tasks.SetMostOpen(
      static_cast<int>(groups * scheduler.table().plan().PerDraw()));
}

PoolView JobParts::View() const {
  const bool updating = doing.Is(Activity::kUpdate);
  // Mode sync has no other work than the batch's.
  const bool made = updating || (is_async && async.batch.HasRestored(*this));
  // In mode sync a command may come before the work that it makes possible.
  const bool unadopted = is_async && !work.begun() && work.early().AnyRuns();
  return {roster(), groups, commands, scheduler.queues(), versions, updating, made, unadopted};
}

CommandContext JobParts::Commands() {
  return {out,
          groups,
          commands,
          pools,
          View(),
          options.command_deadline,
          buffer.batch().size(),
          async.evaluation.pinned().pin().version};
}

TrajectoryScheduler::Context JobParts::Work() {
  return {out, buffer, data, versions, work.UnderWay(buffer), is_async};
}

RoleContext JobParts::Roles() {
  return {out, slots, groups, commands, versions, scheduler, options, milestones.saved_step()};
}

IdleClock::Load JobParts::Load() const {
  IdleClock::Load load;
  const v1::Job::State state = life.state();
  load.runs = is_rl() && !replays() &&
              (state == v1::Job::STATE_RUNNING || state == v1::Job::STATE_RECOVERING ||
               state == v1::Job::STATE_PAUSING);
  if (!load.runs) return load;
  const auto works = [&](const std::string& role) {
    const RoleQueue* const queue = scheduler.queues().Find(role);
    return queue != nullptr && !queue->tasks.running().empty();
  };
  // Its workers may score responses while it waits for them, in this role or in another one.
  const SharedPool* const pool = pools.Of(roles::kActor);
  load.trainer_idle =
      doing.OnResponses() && !works(roles::kActor) &&
      (pool == nullptr || std::none_of(pool->roles.begin(), pool->roles.end(), works));
  if (pools.Of(roles::kRollout) != nullptr) return load;
  for (const RoleSlot& slot : roster().slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    ++load.rollouts;
    if (scheduler.queues().rollouts().tasks.load(slot.worker) > 0) continue;
    const bool loads = versions.replicas().Of(slots.IndexOf(slot)).loading != 0;
    ++(loads ? load.loading : load.resting);
  }
  return load;
}

void JobParts::LoadWeights() {
  if (!is_async && !versions.published()) return;
  // A rollout may still make responses that an earlier controller asked for. Until they are taken
  // in, it seems idle, and no response may be of two versions.
  if (is_async && !work.begun() && !Mutant("weights-before-early-work")) return;
  // Loading needs the rollouts' turn, which may be free by now.
  pools.TakeTurns(View(), scheduler.queues(), out.now());
  if (is_async) async.RecallOutdated(*this);
  slots.LoadWeights(pools.HasTurn(roles::kRollout, View()), versions,
                    scheduler.queues().rollouts().tasks, out);
}

void JobParts::GiveOut() {
  // Rollouts whose turn has just come may lack the newest weights.
  if (pools.TakeTurns(View(), scheduler.queues(), out.now())) LoadWeights();
  // Without shared pools no command ever waits.
  if (!pools.empty()) SendWaitingCommands(Commands());
  // An async job that goes on after a pause has responses to make, whose prompts it must know.
  if (data.loaded() || Mutant("tasks-before-data")) scheduler.Dispatch(Work());
}

void JobParts::Dispatch() {
  GiveOut();
  if (is_async) async.Begin(*this);
}

std::string JobParts::RoleOf(const TaskRef& ref) const {
  if (ref.kind == TaskKind::kGenerate || ref.kind == TaskKind::kRunAhead) return roles::kRollout;
  if (ref.kind == TaskKind::kScore) {
    const ScoreGraph& graph = scheduler.table().plan().graph();
    return ref.target < static_cast<uint32_t>(graph.size()) ? graph.role(ref.target) : "";
  }
  if (IsGroupCommand(ref.kind)) {
    return ref.target < groups.all().size() ? groups.all()[ref.target].role : "";
  }
  return ref.subject < roster().slots().size() ? roster().slots()[ref.subject].role : "";
}

bool JobParts::Wants(const std::string& worker, const TaskRef& ref) const {
  if (ref.kind == TaskKind::kAssignRole || ref.kind == TaskKind::kReleaseRole ||
      ref.kind == TaskKind::kLoadWeights) {
    return AwaitingSlot(roster(), worker, ref, versions) != nullptr;
  }
  if (roster().Find(worker, RoleOf(ref)) == nullptr) return false;
  if (ref.kind == TaskKind::kRunAhead) return ahead.Wants(worker, ref);
  if (IsTrajectoryTask(ref.kind)) {
    if (work.begun()) return IsWanted(scheduler, worker, ref);
    // The attempts are unknown until the trajectories stand. What a worker that came back said
    // it has was asked of it by an earlier controller; anything else is of no task.
    const bool known = is_async ? async.HasBirth(ref.birth, scheduler.table().plan().PerDraw())
                                : scheduler.admission().births().Has(ref.birth, out);
    return known && work.early().Told(worker, ref) && IsActive(life.state()) &&
           life.state() != v1::Job::STATE_STOPPING;
  }
  if (ref.incarnation != out.incarnation() || ref.step != out.step()) return false;
  if (!IsGroupCommand(ref.kind)) return false;
  const Group& group = groups.all()[ref.target];
  return commands.Of(group) != nullptr && ref == commands.RefOf(group, out);
}

}  // namespace baton::controller
