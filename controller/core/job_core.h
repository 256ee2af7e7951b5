// One job: its state machine, its roles, its steps.
//
// Pure: an event and the time go in, effects come out. The runtime carries effects out only
// after the rows of the same turn are committed, so the world never knows more than the store.
//
// A step: draw prompts, generate, score, build the batch, update, publish, load (ARCHITECTURE.md
// has its life). What is next is worked out: `Advance` looks at what is true (published version,
// evaluated step, saved step) and starts what is missing. So recovery, restart and the plain case
// take one path.
// Files: job_core.cc (events, states) and those named below; roster.h: who plays what.
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
#include "controller/core/events.h"
#include "controller/core/job_core_options.h"
#include "controller/core/job_parts.h"
#include "controller/core/job_state.h"
#include "controller/core/peer_pace.h"
#include "controller/core/prompt_source.h"
#include "controller/core/rollout_manager.h"
#include "controller/core/score_graph.h"

namespace baton::controller {

class JobCore {
 public:
  /// A job just accepted: QUEUED. `job` has name, uid, specs, dataflow, create_time.
  JobCore(v1::Job job, int64_t submit_order, const JobCoreOptions& options);
  /// A job found in the store by a restarted controller of `epoch`, with the trajectory rows of
  /// the step in progress by serial. Call Start next.
  JobCore(store::v1::JobRow row, const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories,
          uint64_t epoch, const JobCoreOptions& options);

  /// First call. A new job asks for workers; a restored one loads its data and waits for its
  /// workers to come back.
  Effects Start(absl::Time now);
  Effects Handle(const Event& event, absl::Time now);

  /// Everything a restart needs but the trajectories; brief: without submitted(), checkpoints().
  store::v1::JobRow Row() const;
  store::v1::JobRow BriefRow() const;
  const std::vector<v1::Checkpoint>& checkpoints() const { return checkpoints_; }
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
  int64_t step() const { return step_; }
  uint64_t incarnation() const { return incarnation_; }
  const v1::JobSpec& effective_spec() const { return submitted_->effective_spec(); }
  const v1::Dataflow& dataflow() const { return submitted_->dataflow(); }
  /// A trajectory of the phase in progress; null: there is none of that id.
  const TrajectoryInfo* Find(uint64_t trajectory) const;
  /// False from a restart until the trajectories of its step are known again.
  bool knows_trajectories() const { return begun_; }
  /// The role that a task is for; "": there is no such task.
  std::string RoleOf(const TaskRef& ref) const;
  /// True when that task is still wanted of that worker.
  bool Wants(const std::string& worker, const TaskRef& ref) const;
  /// Workers held (for a restart: expected to come back), with their roles, joined by "+".
  std::map<std::string, std::string> HeldWorkers() const { return roster_.Held(); }

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
  void On(const PayloadLost& event);  // job_core_payloads.cc
  void On(const CancelRequested& event);
  void On(const PauseRequested& event);
  void On(const ResumeRequested& event);
  void On(const YieldRequested& event);
  void On(const Tick& event);
  void On(const TimeLost& event);
  bool Trigger(JobTrigger trigger);
  void Fail(const absl::Status& status);
  void Stop(v1::Job::State as, JobTrigger trigger);
  void EmitProgress();
  void Emit(v1::JobEvent event);
  void EmitState();
  void EmitWarning(const std::string& message);
  template <typename T>
  void Do(T effect) {
    effects_.push_back(std::move(effect));
  }

  // job_core_workers.cc: slots.
  void MakeGroups();
  uint64_t IndexOf(const Slot& slot) const { return static_cast<uint64_t>(roster_.IndexOf(slot)); }
  void AskForWorkers();
  void AssignRole(Slot& slot);
  void SendAssign(Slot& slot, const Group* group);
  void OnRoleTask(const TaskDone& event, Slot& slot);
  void OnLoadWeights(const TaskDone& event, Slot& slot);
  void LoseWorker(std::string worker, const std::string& reason, bool moves = false);
  void Empty(Slot& slot);
  void Back(Slot& slot, const WorkerBack& event);
  void NoteCommand(const Slot& slot, const WorkerBack& event);
  void BackToWork(Slot& slot, const WorkerBack& event, bool first_time);
  void Evict(const std::string& worker, const std::string& reason);
  void EvictSlow(PeerPace& pace, const std::string& role, const std::string& unit);
  void RequeueTasksOf(Slot& slot, const std::string& worker, const std::string& stop = "");
  void Requeue(const Slot& slot, uint64_t work);
  RolloutManager& ManagerOf(const std::string& role);
  Group* GroupOf(const std::string& role);
  const Group* GroupOf(const std::string& role) const;
  Group& actor_group() { return groups_.front(); }
  uint64_t VersionOf(const Group& group) const;
  bool Commanded() const;  // some group has a command without a result; of that kind
  bool Commanded(TaskKind kind) const;
  void DropCommands();
  void StopCommands(const std::string& reason);
  void DropCommand(Group& group);
  void LoadWeights();
  void ReleaseAll();
  void SendRelease(Slot& slot);
  void CheckReleased();
  bool Releasing() const { return roster_.AnyIn(SlotState::kReleasing); }
  void Join(const Slot& slot);
  void RecoverTrainer(const std::string& role, const std::string& reason);
  void CheckSlotDeadlines();
  // job_core_groups.cc: ranks.
  void Gather(Slot& slot);
  void FormGroup(Group& group);
  void FormAnew(Group& group);
  static bool Breaks(const Group& group, const absl::Status& status);
  void BreakGroup(Group& group, const TaskDone& event);
  void CheckGroups();
  // job_core_turns.cc: roles that share workers.
  bool TakeTurns();
  bool IsAtWork(const std::string& role) const;
  bool HasWork(const std::string& role) const;
  bool HasTurn(const std::string& role) const;
  bool PoolCommanded(const SharedPool& pool) const;
  bool MayCommand(const Group& group) const;
  void SendCommands();
  void OnHandedOver();
  // job_core_step.cc: trajectories, batches. job_core_commands.cc: commands, deadlines.
  void Advance();
  void SetPhase(Phase phase);
  bool Busy() const;
  void StepTrajectories();
  void EnqueueNext(TrajectoryInfo& trajectory);
  void EnqueueNode(TrajectoryInfo& trajectory, uint32_t node, const std::string& avoid = "");
  std::vector<TrajectoryInfo*> MatesOf(const TrajectoryInfo& trajectory);
  void StartLoadingData();
  void KeepStep();
  void KeepFiles();
  bool SetUpDone() const;
  void BeginStep();
  void MakeRound(uint64_t groups);
  void DrawMore();
  void BeginEvaluation();
  void MakeTrajectory(v1::Purpose purpose, uint64_t draw, uint32_t sample, uint64_t prompt_id);
  void Dispatch();
  void StartGenerate(const RolloutManager::Assignment& assignment);
  void StartScore(const std::string& role, const RolloutManager::Assignment& assignment);
  void OnGenerated(const TaskDone& event);
  void OnScored(const TaskDone& event, bool late = false);
  void RetryGenerate(TrajectoryInfo& t, const absl::Status& status, const std::string& failed_on);
  void RetryScore(TrajectoryInfo& trajectory, uint32_t node, const absl::Status& status,
                  const std::string& failed_on);
  void Scored(TrajectoryInfo& trajectory, uint32_t node);
  void GenerateAnew(TrajectoryInfo& trajectory);
  void MaybePhaseDone();
  void FinishEvaluation();
  void FinishStep(const Metrics& update_metrics, bool updated);
  bool SamplesMore(const BatchBuilt& event);
  bool DrawsAnew();
  void StartUpdate();
  void IssueCommand(TaskKind kind, Group& group);
  void IssueSave();
  void SendCommand(Group& group, const Slot& slot);
  void OnCommand(const TaskDone& event);
  void OnUpdated(Group& group, Metrics metrics);
  bool WaitsForRoom() const { return no_room_.has_value() && now_ < no_room_->retry; }
  void WaitForRoom(TaskKind kind, const TaskDone& event);
  void CheckTaskDeadlines();
  void CheckScoreDeadlines();
  void CheckCommandDeadlines();
  double Since(absl::Time time) const { return absl::ToDoubleSeconds(now_ - time); }
  void CheckOwnDeadlines();
  void ClearWork(const std::string& reason);
  void EmitEvaluation(const Metrics& metrics);
  bool EvaluationDue() const;
  bool EvaluatesAfter(int64_t step) const;
  bool SaveDue() const;
  TaskKind HandOver() const;
  bool is_rl() const { return spec().kind() == v1::JOB_KIND_RL; }
  const v1::JobSpec& spec() const { return submitted_->effective_spec(); }
  bool has_baseline() const;
  uint32_t samples(v1::Purpose purpose) const;
  int64_t StepOf(v1::Purpose purpose) const;  // it is made for, or after which it evaluates
  uint64_t ValSize() const;
  TaskRef Ref(TaskKind kind, uint64_t subject, uint64_t attempt, uint32_t part = 0) const;
  TaskRef RefOf(const Group& group) const;  // of the command that it has not answered
  TaskRef RefOfWork(const std::string& role, uint64_t work) const;  // see WorkId
  static bool Mentions(const std::vector<TaskRef>& refs, const TaskRef& ref);
  Metrics TrajectoryMetrics() const;
  std::string OpenGroups() const;  // job_core_explain.cc
  std::string AtWorkIn(const std::string& role) const;
  void ExplainNodes(v1::ExplainJobResponse* out) const;

  // job_core_row.cc.
  void RestoreTrajectory(TrajectoryInfo& trajectory);
  std::string WhyStale(const TrajectoryInfo& trajectory) const;
  bool Restored(v1::Purpose purpose) const;  // a step or evaluation of which was under way
  void AdoptRunning();
  void Adopt(const Adoptable& running);
  void StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running);
  uint64_t NextAttempt(uint64_t a) const { return controller::NextAttempt(a, attempt_base_); }
  void ReplayEarly(bool commands);

  // Constant after construction.
  JobCoreOptions options_;
  uint64_t attempt_base_ = 0;  // attempts of this controller's epoch start here
  bool restored_ = false;
  std::shared_ptr<const v1::Job> submitted_;  // spec, effective_spec, dataflow
  ScoreGraph graph_;

  // Durable (job_core_row.cc).
  v1::Job job_;  // without what submitted_ has
  int64_t submit_order_ = 0;
  uint64_t incarnation_ = 1;
  int64_t step_ = 0;             // steps done
  uint64_t policy_version_ = 0;  // of the actor's weights
  bool published_ = false;       // policy_version_ is in the relay
  uint64_t cursor_ = 0;          // prompts drawn by finished steps
  Metrics algorithm_;            // what the algorithm carries from step to step
  uint64_t saved_cursor_ = 0;    // both, as of saved_step_
  Metrics saved_algorithm_;
  uint64_t next_serial_ = 1;
  std::vector<Group> groups_;  // constant in number and role; the actor's is the first
  Metrics update_metrics_;     // of the groups that have done the update in progress
  Roster roster_;
  int64_t evaluated_step_ = -1, saved_step_ = -1;
  // What a stopping job becomes; of one that pauses, QUEUED: it was resumed meanwhile.
  v1::Job::State stopping_as_ = v1::Job::STATE_CANCELLED;
  std::vector<v1::Checkpoint> checkpoints_;  // complete ones that are kept, oldest first
  std::vector<store::v1::StepSerials> kept_;

  // Volatile.
  absl::Time now_, data_since_, phase_since_;
  Effects effects_;
  bool data_loaded_ = false, data_loading_ = false, committing_checkpoint_ = false;
  PromptSource prompts_;
  std::vector<std::string> val_sources_;
  Phase phase_ = Phase::kNone;
  std::map<uint64_t, TrajectoryInfo> trajectories_;             // of the phase, by id
  std::map<uint64_t, store::v1::TrajectoryRow> restored_rows_;  // by id, until the step stands
  std::map<uint64_t, uint64_t> restored_serials_;
  bool begun_ = false;                // trajectories_ are those of the step or the evaluation
  std::vector<TaskDone> early_;       // results that came back before their step was restored
  std::vector<Adoptable> adoptable_;  // running when their worker came back
  uint64_t ready_ = 0;
  StepDraws drawn_;                        // by the step in progress
  uint64_t next_draw_ = 0, draw_end_ = 0;  // of the round or evaluation: not made yet
  RolloutManager rollouts_;
  PeerPace rollout_pace_;                  // seconds per token
  std::map<std::string, Scorer> scorers_;  // by role
  absl::Time step_since_, generated_at_, scored_at_, batch_at_;
  Metrics batch_metrics_, batch_algorithm_;  // algorithm_ once the step is done
  size_t dropped_names_ = 0;                 // of metrics that workers reported since the last step
  uint32_t batch_size_ = 0;
  bool batch_built_ = false;  // and waits for the actor to publish again
  absl::Time publish_since_;  // infinite past: nothing is being published
  double update_weights_seconds_ = 0;
  std::optional<NoRoom> no_room_;
  int64_t last_progress_ = -1;
  absl::Time last_progress_at_, committing_since_, queued_since_, releasing_since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_CORE_H_
