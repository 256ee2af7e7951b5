// One job: its state machine, its roles, its steps.
//
// Pure: an event and the time go in, effects come out. The runtime carries effects out only
// after the rows of the same turn are committed, so the world never knows more than the store.
//
// Owns the job's state and phase, and its parts. JobCore routes each event to the part that it
// concerns, and does what concerns several: it advances the job, loses a worker, goes back to a
// checkpoint. `Advance` looks at what is true (published version, evaluated step, saved step) and
// starts what is missing, so recovery and restart take its path. ARCHITECTURE.md lists the parts,
// docs/state-machines.md has the table of states. Within RUNNING the phases follow each other:
//
//   set up -> publish -> [evaluate] -> [save] -> generate -> batch -> update --+
//               ^                                                              |
//               +--------------------------------------------------------------+
//
// Files: job_core.cc (events, states) and those named below.
#ifndef BATON_CONTROLLER_CORE_JOB_CORE_H_
#define BATON_CONTROLLER_CORE_JOB_CORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/early_reports.h"
#include "controller/core/effect_sink.h"
#include "controller/core/events.h"
#include "controller/core/experience_buffer.h"
#include "controller/core/job_core_options.h"
#include "controller/core/job_parts.h"
#include "controller/core/job_state.h"
#include "controller/core/learning.h"
#include "controller/core/milestones.h"
#include "controller/core/policy_versions.h"
#include "controller/core/progress_feed.h"
#include "controller/core/prompt_data.h"
#include "controller/core/rank_groups.h"
#include "controller/core/send_commands.h"
#include "controller/core/shared_pools.h"
#include "controller/core/take_role.h"
#include "controller/core/trajectory_scheduler.h"
#include "controller/core/worker_slots.h"

namespace baton::controller {

class JobCore {
 public:
  /// A job just accepted: QUEUED. `job` has name, uid, specs, dataflow, create_time.
  JobCore(v1::Job job, int64_t submit_order, const JobCoreOptions& options);
  /// A job found in the store by a restarted controller of `epoch`, with the trajectory rows of
  /// the step in progress by serial. Call Start next.
  JobCore(store::v1::JobRow row, const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories,
          uint64_t epoch, const JobCoreOptions& options);

  /// First call. A new job asks for workers, a restored one waits for its own to come back.
  Effects Start(absl::Time now);
  Effects Handle(const Event& event, absl::Time now);

  /// Everything a restart needs but the trajectories; brief: without submitted(), checkpoints().
  store::v1::JobRow Row() const;
  store::v1::JobRow BriefRow() const;
  const std::vector<v1::Checkpoint>& checkpoints() const { return milestones_.checkpoints(); }
  /// The public face; brief: without what submitted() has.
  v1::Job Describe() const;
  v1::Job Brief() const;
  /// Brief in two parts: what changes with the job's row alone, and workers and phase.
  v1::Job Durable() const;
  v1::Job Progress() const;
  /// spec, effective_spec and dataflow, which never change.
  const std::shared_ptr<const v1::Job>& submitted() const { return submitted_; }
  v1::ExplainJobResponse Explain(absl::Time now) const;

  v1::Job::State state() const { return job_.state(); }
  const std::string& name() const { return job_.name(); }
  int64_t step() const { return out_.step(); }
  uint64_t incarnation() const { return out_.incarnation(); }
  const v1::JobSpec& effective_spec() const { return submitted_->effective_spec(); }
  const v1::Dataflow& dataflow() const { return submitted_->dataflow(); }
  /// A trajectory of the phase in progress; null: there is none of that id.
  const TrajectoryInfo* Find(uint64_t trajectory) const {
    return scheduler_.table().Find(trajectory);
  }
  /// False from a restart until the trajectories of its step are known again.
  bool knows_trajectories() const { return begun_; }
  /// The role that a task is for; "": there is no such task.
  std::string RoleOf(const TaskRef& ref) const;
  /// True when that task is still wanted of that worker.
  bool Wants(const std::string& worker, const TaskRef& ref) const;
  /// True while a checkpoint of that incarnation is being committed.
  bool WantsCheckpoint(uint64_t incarnation) const {
    return incarnation == out_.incarnation() && milestones_.committing() && IsActive(state());
  }
  /// Workers held (for a restart: expected to come back), with their roles, joined by "+".
  std::map<std::string, std::string> HeldWorkers() const { return roster().Held(); }

 private:
  using Phase = JobPhase;
  using Metrics = std::map<std::string, double>;
  // job_core.cc: events and states.
  void On(const WorkerGranted& event);
  void On(const WorkerLost& event);
  void On(const WorkerBack& event);
  void On(const DataLoaded& event);
  void On(const TaskProgressed& event);
  void On(const TaskDone& event);
  void On(const BatchBuilt& event);
  void On(const CheckpointCommitted& event);
  void On(const PayloadLost& event);   // job_core_payloads.cc
  void On(const PayloadsWait& event);  // the same
  void On(const RoleTroubled& event);
  void On(const CancelRequested& event);
  void On(const PauseRequested& event);
  void On(const ResumeRequested& event);
  void On(const YieldRequested& event);
  void On(const Tick& event);
  void On(const TimeLost& event);
  bool Trigger(JobTrigger trigger);
  void Fail(const absl::Status& status);
  void Stop(v1::Job::State as, JobTrigger trigger);
  void Heed(const LearningNews& news);
  // job_core_workers.cc: workers, ranks, the way back to a checkpoint.
  const Roster& roster() const { return slots_.roster(); }
  RoleContext Roles() {
    return {out_, slots_, groups_, versions_, scheduler_, options_, milestones_.saved_step()};
  }
  void OnRoleTask(const TaskDone& event, const Slot& slot);
  void OnLoadWeights(const TaskDone& event, const Slot& slot);
  void LoadWeights();
  void LoseWorker(const std::string& worker, const std::string& reason, bool moves = false);
  void Evict(const std::string& worker, const std::string& reason);
  void EvictSlow(PeerPace& pace, const std::string& role, const std::string& unit);
  void BreakGroup(const Group& group, const TaskDone& event);
  void CheckGroups();
  int64_t RollBack();
  void RecoverTrainer(const std::string& role, const std::string& reason);
  void ReleaseAll();
  void CheckReleased();
  void CheckSlotDeadlines();
  PoolView View() const {
    return {roster(), groups_, scheduler_.queues(), versions_, phase_ == Phase::kUpdate};
  }
  CommandContext Commands() {
    return {out_, groups_, pools_, View(), options_.command_deadline, buffer_.batch_size()};
  }
  TrajectoryScheduler::Context Work() { return {out_, buffer_, data_, versions_, UnderWay()}; }
  // job_core_step.cc: trajectories, batches. job_core_commands.cc: commands, deadlines.
  void Advance();
  void SetPhase(Phase phase);
  bool SetUpDone() const;
  void Finish();
  void BeginWork(Phase phase);
  void Dispatch();
  void OnGenerated(const TaskDone& event);
  void OnScored(const TaskDone& event, bool late = false);
  TrajectoryScheduler::Verdict OnWrongVersion(const TaskDone& event);
  void MaybePhaseDone();
  void FinishEvaluation();
  void FinishStep(const Metrics& update_metrics, bool updated);
  void UseBatch();
  bool SamplesMore();
  bool DrawsAnew();
  void StartUpdate();
  void IssueCommand(TaskKind kind, const Group& group);
  void IssueSave();
  void OnCommand(const TaskDone& event);
  void OnUpdated(const Group& group, Metrics metrics);
  void WaitForRoom(const TaskDone& event);
  void CheckTaskDeadlines();
  void CheckScoreDeadlines();
  void CheckCommandDeadlines();
  void CheckOwnDeadlines();
  void ClearWork(const std::string& reason);
  bool EmitEvaluation(const Metrics& metrics);
  TaskKind HandOver() const;
  bool is_rl() const { return spec().kind() == v1::JOB_KIND_RL; }
  const v1::JobSpec& spec() const { return submitted_->effective_spec(); }
  // job_core_row.cc.
  /// The step or the evaluation was under way before a restart, as rows or workers say.
  bool UnderWay() const { return buffer_.recalls() || !early_.empty(); }
  void AdoptRunning();
  void StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running);

  // Constant after construction.
  JobCoreOptions options_;
  bool restored_ = false;
  std::shared_ptr<const v1::Job> submitted_;  // spec, effective_spec, dataflow

  // Parts. Each has its share of the row, if it is durable.
  EffectSink out_;
  TrajectoryScheduler scheduler_;
  ExperienceBuffer buffer_;
  PolicyVersions versions_;
  RankGroups groups_;
  SharedPools pools_;
  Milestones milestones_;
  PromptData data_;
  WorkerSlots slots_;

  // Durable (job_core_row.cc).
  v1::Job job_;  // without what submitted_ has
  int64_t submit_order_ = 0;
  // What a stopping job becomes; of one that pauses, QUEUED: it was resumed meanwhile.
  v1::Job::State stopping_as_ = v1::Job::STATE_CANCELLED;

  // Volatile.
  Phase phase_ = Phase::kNone;
  absl::Time phase_since_, queued_since_;
  bool begun_ = false;  // the scheduler has the trajectories of the step in progress
  EarlyReports early_;  // what workers told before that
  ProgressFeed progress_;
  size_t dropped_names_ = 0;  // of metrics that updates reported since the last step
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_CORE_H_
