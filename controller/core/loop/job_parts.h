// The parts of one job.
//
// Each part owns its fields, its share of the job's row, its waits in `Explain` and its tests. A
// part is handed the other parts that it needs. Three layers, downwards only:
//
//   JobCore                        routes events, the job's row, what people see of it
//   StepLoop, the activities,      what follows from an event; they are handed all parts, and call
//   JobLife, workers, way back     each other: `Advance` may follow from anything
//   the parts                      one noun each; they know at most a few others
//
// Nothing here decides. What several of them need together in a turn is made here: the contexts.
#ifndef BATON_CONTROLLER_CORE_LOOP_JOB_PARTS_H_
#define BATON_CONTROLLER_CORE_LOOP_JOB_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/activities.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/loop/async_work.h"
#include "controller/core/loop/checkpoint_save.h"
#include "controller/core/loop/idle_clock.h"
#include "controller/core/loop/job_life.h"
#include "controller/core/loop/milestones.h"
#include "controller/core/loop/policy_update.h"
#include "controller/core/loop/response_work.h"
#include "controller/core/loop/run_ahead.h"
#include "controller/core/prompts/prompt_data.h"
#include "controller/core/trajectories/experience_buffer.h"
#include "controller/core/trajectories/trajectory_scheduler.h"
#include "controller/core/weights/policy_versions.h"
#include "controller/core/workers/group_commands.h"
#include "controller/core/workers/rank_groups.h"
#include "controller/core/workers/send_commands.h"
#include "controller/core/workers/shared_pools.h"
#include "controller/core/workers/take_role.h"
#include "controller/core/workers/worker_slots.h"
#include "controller/spec/replay.h"
#include "controller/spec/schedule.h"

namespace baton::controller {

struct JobParts {
  /// A job just accepted: QUEUED.
  JobParts(v1::Job job, int64_t submit_order, const JobCoreOptions& options);
  /// A job that a restarted controller of `epoch` found in the store.
  JobParts(store::v1::JobRow row, uint64_t epoch, const JobCoreOptions& options);

  const v1::JobSpec& spec() const { return submitted->effective_spec(); }
  const v1::Dataflow& dataflow() const { return submitted->dataflow(); }
  bool is_rl() const { return spec().kind() == v1::JOB_KIND_RL; }
  /// It trains on recorded batches (replay.h).
  bool replays() const { return Replays(dataflow()); }
  const Roster& roster() const { return slots.roster(); }
  /// What the step's batch is made of: it left the work in mode async, and is the work in mode
  /// sync.
  const ExperienceBuffer::Trajectories& InBatch() const {
    return is_async ? buffer.taken() : scheduler.table().all();
  }
  /// Draws of finished steps.
  uint64_t Cursor() const {
    return is_async ? async.groups.draws().spent() : scheduler.admission().draws().cursor();
  }

  // ---- What several parts need together.
  PoolView View() const;
  CommandContext Commands();
  TrajectoryScheduler::Context Work();
  RoleContext Roles();
  /// Who has work at this moment.
  IdleClock::Load Load() const;

  // ---- Giving out.
  void Switch(Activity to) { doing.Switch(to, out.now()); }
  /// Lets rollouts with the newest weights generate, and the others load these.
  void LoadWeights();
  /// Gives out what can begin: turns on shared workers, then commands, then tasks.
  void GiveOut();
  /// The same; an async job begins groups as long as rollouts have room for them.
  void Dispatch();

  // ---- Tasks.
  /// The role that a task is for; "": there is no such task.
  std::string RoleOf(const TaskRef& ref) const;
  /// True when that task is still wanted of that worker.
  bool Wants(const std::string& worker, const TaskRef& ref) const;

  // Constant after construction.
  JobCoreOptions options;
  bool restored = false;                     ///< From a row.
  std::shared_ptr<const v1::Job> submitted;  ///< spec, effective_spec, dataflow.
  bool is_async = false;                     ///< Responses are made while it trains (schedule.h).

  // Parts.
  EffectSink out;
  TrajectoryScheduler scheduler;
  ExperienceBuffer buffer;
  PolicyVersions versions;
  RankGroups groups;
  GroupCommands commands;
  SharedPools pools;
  Milestones milestones;
  PromptData data;
  WorkerSlots slots;

  // What the job is doing.
  JobLife life;
  Activities doing;
  IdleClock idle;
  ResponseWork work;
  AsyncWork async;
  PolicyUpdate update;
  CheckpointSave save;
  RunAhead ahead;

 private:
  /// A rollout's fair share is one of the responses that may be open.
  void BoundOpenResponses();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_JOB_PARTS_H_
