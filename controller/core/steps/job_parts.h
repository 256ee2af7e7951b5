// The parts of one job.
//
// Each part owns its fields and its share of the job's row, and has its tests. No part knows this
// struct: a part gets the other parts that it needs as arguments. Functions on all parts handle
// events (controller/core/loop), and views show them to people (controller/core/views).
//
// No decisions are made here. This struct makes the contexts, which pass several parts together in
// a turn.
#ifndef BATON_CONTROLLER_CORE_STEPS_JOB_PARTS_H_
#define BATON_CONTROLLER_CORE_STEPS_JOB_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/activities.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/step_plan.h"
#include "controller/core/prompts/prompt_data.h"
#include "controller/core/prompts/trajectory_uids.h"
#include "controller/core/steps/checkpoint_save.h"
#include "controller/core/steps/idle_clock.h"
#include "controller/core/steps/job_life.h"
#include "controller/core/steps/milestones.h"
#include "controller/core/steps/pinned_evaluation.h"
#include "controller/core/steps/prompt_groups.h"
#include "controller/core/steps/response_work.h"
#include "controller/core/steps/run_ahead.h"
#include "controller/core/steps/step_batch.h"
#include "controller/core/steps/update_reports.h"
#include "controller/core/trajectories/experience_buffer.h"
#include "controller/core/trajectories/trajectory_scheduler.h"
#include "controller/core/weights/outdated_replicas.h"
#include "controller/core/weights/policy_versions.h"
#include "controller/core/workers/group_commands.h"
#include "controller/core/workers/rank_groups.h"
#include "controller/core/workers/send_commands.h"
#include "controller/core/workers/shared_pools.h"
#include "controller/core/workers/take_role.h"
#include "controller/core/workers/worker_slots.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/settings/schedule.h"

namespace baton::controller {

/// The follow-up to an event, at the end of its turn.
enum class FollowUp {
  kNothing,
  kAssignWork,  ///< A worker may have room, or new tasks may wait: tasks are given to workers.
  kAdvance,     ///< Something may have become due (step_loop.h).
};

struct JobParts {
  /// A job just accepted: QUEUED.
  JobParts(v1::Job job, int64_t submit_order, const JobCoreOptions& options);
  /// A job that a restarted controller of `epoch` found in the store.
  JobParts(store::v1::JobRow row, uint64_t epoch, const JobCoreOptions& options);

  const v1::JobSpec& spec() const { return submitted->effective_spec(); }
  const v1::Dataflow& dataflow() const { return submitted->dataflow(); }
  bool is_rl() const { return spec().kind() == v1::JOB_KIND_RL; }
  /// True if the job trains on recorded batches (replay.h).
  bool replays() const { return Replays(dataflow()); }
  const Roster& roster() const { return slots.roster(); }
  const ResponsePlan& responses() const { return scheduler.table().plan(); }
  TaskScheduler& rollouts() { return scheduler.queues().rollouts().tasks; }
  const TaskScheduler& rollouts() const { return scheduler.queues().rollouts().tasks; }

  // ---- Prompt groups.
  /// Groups that an update consumes.
  uint64_t GroupsPerBatch() const {
    return static_cast<uint64_t>(std::max(1, spec().data().train_batch_size()));
  }
  /// Groups that the steps to come may still open.
  uint64_t GroupsLeft() const;
  /// True if the trajectories of an open group are all READY, except those that were given up.
  bool IsWhole(uint64_t prompt_index) const {
    return scheduler.table().GroupReady(prompt_index,
                                        prompt_groups.prompts.given_up(prompt_index).size());
  }
  /// Updates between the weights that make or made the response and the newest weights; nullopt:
  /// not known. 0 for a response that is not begun, because it begins with newer weights.
  std::optional<uint64_t> StalenessOf(const TrajectoryInfo& trajectory) const;
  /// True if no batch may consume the response any more.
  bool IsStale(const TrajectoryInfo& trajectory) const;
  /// True if the step in progress has begun, and must be finished before anything else begins.
  bool StepUnderWay() const { return !plan.keeps_groups && prompt_groups.any(); }
  /// True if all groups of the update that a restart interrupted are complete or taken.
  bool HasRestoredBatch() const;

  // ---- Contexts of several parts.
  PoolView View() const;
  CommandContext Commands();
  TrajectoryScheduler::Context Work();
  RoleContext Roles();
  AheadContext Ahead();
  /// The parts that have work at this moment.
  IdleClock::Load Load() const;

  // ---- In a turn.
  void Switch(Activity to) { doing.Switch(to, out.now()); }
  void Then(FollowUp what) { next = std::max(next, what); }

  // ---- Tasks.
  /// The role that a task is for; "": there is no such task.
  std::string RoleOf(const TaskRef& ref) const;
  /// True if the job still wants that task from that worker.
  bool Wants(const std::string& worker, const TaskRef& ref) const;
  /// True if an open trajectory has this uid.
  bool HasTrajectoryUid(uint64_t trajectory_uid) const;

  // Constant after construction.
  JobCoreOptions options;
  bool restored = false;                     ///< True if made from a row.
  std::shared_ptr<const v1::Job> submitted;  ///< spec, effective_spec, dataflow.
  StepPlan plan;
  Schedule schedule;

  // Parts.
  EffectSink out;
  TrajectoryScheduler scheduler;
  ExperienceBuffer buffer;
  TrajectoryUids trajectory_uids;
  PolicyVersions versions;
  OutdatedReplicas outdated;
  RankGroups groups;
  GroupCommands commands;
  SharedPools pools;
  PromptData data;
  WorkerSlots slots;

  // The state of the job and its work.
  JobLife life;
  Milestones milestones;
  Activities doing;
  IdleClock idle;
  ResponseWork work;
  PromptGroups prompt_groups;
  StepBatch batch;
  PinnedEvaluation evaluation;
  UpdateReports reports;
  CheckpointSave save;
  RunAhead ahead;

  FollowUp next = FollowUp::kNothing;  ///< Of this turn.

 private:
  /// Makes a rollout's fair share a share of the responses that may be open.
  void BoundOpenResponses();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_JOB_PARTS_H_
