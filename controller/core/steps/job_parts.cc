#include "controller/core/steps/job_parts.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "controller/core/job/first_row.h"
#include "controller/core/trajectories/running_tasks.h"
#include "controller/core/workers/slot_views.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

JobParts::JobParts(v1::Job job, int64_t submit_order, const JobCoreOptions& options)
    : options(options),
      submitted(TakeSubmitted(&job)),
      plan(*submitted),
      schedule(ScheduleOf(spec())),
      scheduler(submitted, options),
      outdated(spec()),
      groups(spec(), dataflow()),
      commands(groups.all().size()),
      pools(spec(), dataflow(), plan.rounds ? absl::InfiniteDuration() : options.pool_quantum),
      slots(spec(), dataflow(), options),
      life(std::move(job), submit_order, spec().trainer().total_training_steps()),
      milestones(submitted, spec().trainer().total_training_steps()),
      ahead(spec()) {
  BoundOpenResponses();
}

JobParts::JobParts(store::v1::JobRow row, uint64_t epoch, const JobCoreOptions& options)
    : options(options),
      restored(true),
      submitted(TakeSubmitted(row.mutable_job())),
      plan(*submitted),
      schedule(ScheduleOf(spec())),
      out(row, FirstAttempt(epoch)),
      scheduler(submitted, options),
      outdated(spec()),
      groups(spec(), dataflow()),
      commands(groups.all().size()),
      pools(spec(), dataflow(), plan.rounds ? absl::InfiniteDuration() : options.pool_quantum),
      slots(spec(), dataflow(), options),
      life(row),
      milestones(submitted, row.job().total_steps()),
      ahead(spec()) {
  BoundOpenResponses();
  milestones.Restore(row);
  versions.Restore(row);
  buffer.Restore(row);
  trajectory_uids.Restore(row);
  prompt_groups.Restore(row);
  batch.Restore(row);
  evaluation.Restore(row);
  groups.Restore(row);
  commands.Restore(row, groups);
  reports.Restore(row);
  slots.Restore(row);
  data.Restore(row);
}

void JobParts::BoundOpenResponses() {
  const uint64_t most = GroupsPerBatch() * responses().PerPrompt();
  scheduler.admission().BeginWork(/*evaluates=*/false, most);
  if (plan.rounds) return;  // all of a round are queued
  rollouts().SetMostOpen(static_cast<int>((schedule.max_staleness + 1) * most));
}

// ---- Prompt groups ------------------------------------------------------------------------------

uint64_t JobParts::GroupsLeft() const {
  if (milestones.AtEnd(out.step())) return 0;
  const auto steps =
      static_cast<uint64_t>(std::max<int64_t>(0, life.job().total_steps() - out.step()));
  const uint64_t all = steps * GroupsPerBatch(), open = prompt_groups.prompts.open().size();
  return all <= open ? 0 : all - open;
}

std::optional<uint64_t> JobParts::StalenessOf(const TrajectoryInfo& trajectory) const {
  if (trajectory.state == TrajectoryState::kPending || !is_rl()) return 0;
  return versions.Behind(trajectory.policy_version);
}

bool JobParts::IsStale(const TrajectoryInfo& trajectory) const {
  const std::optional<uint64_t> behind = StalenessOf(trajectory);
  return !behind.has_value() || *behind > schedule.max_staleness;
}

bool JobParts::HasRestoredBatch() const {
  return !batch.taken.empty() || absl::c_all_of(batch.restored, [&](uint64_t prompt_index) {
    return prompt_groups.complete.Has(prompt_index);
  });
}

// ---- Contexts of several parts ------------------------------------------------------------------

PoolView JobParts::View() const {
  const bool updating = doing.Is(Activity::kUpdate);
  return {roster(),
          groups,
          commands,
          scheduler.queues(),
          versions,
          updating,
          updating || HasRestoredBatch(),
          !work.begun() && work.reports().AnyRuns()};
}

CommandContext JobParts::Commands() {
  return {out,
          groups,
          commands,
          pools,
          View(),
          options.command_deadline,
          buffer.batch().size(),
          evaluation.pin().version};
}

TrajectoryScheduler::Context JobParts::Work() {
  return {out, buffer, data, versions, plan.many_versions};
}

RoleContext JobParts::Roles() {
  return {out, slots, groups, commands, versions, scheduler, options, milestones.saved_step()};
}

AheadContext JobParts::Ahead() {
  return {out, rollouts(), roster(), data, prompt_groups.prompts, GroupsLeft()};
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
  // While the trainer waits for responses, its workers may score some, in this role or in another
  // one.
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
    // The attempts are unknown until the trajectories are restored. A task that a returning worker
    // reported was given to it by an earlier controller; anything else belongs to no task.
    return HasTrajectoryUid(ref.trajectory_uid) && work.reports().Reported(worker, ref) &&
           IsActive(life.state()) && life.state() != v1::Job::STATE_STOPPING;
  }
  if (ref.incarnation != out.incarnation() || ref.step != out.step()) return false;
  if (!IsGroupCommand(ref.kind)) return false;
  const Group& group = groups.all()[ref.target];
  return commands.Of(group) != nullptr && ref == commands.RefOf(group, out);
}

bool JobParts::HasTrajectoryUid(uint64_t trajectory_uid) const {
  return prompt_groups.prompts.HasTrajectoryUid(trajectory_uid, responses().PerPrompt()) ||
         (evaluation.active() && evaluation.Has(trajectory_uid));
}

}  // namespace baton::controller
