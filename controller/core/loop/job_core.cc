#include "controller/core/loop/job_core.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/batch_flow.h"
#include "controller/core/loop/checkpoint_flow.h"
#include "controller/core/loop/command_flow.h"
#include "controller/core/loop/dispatch.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/issue_command.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/lose_payloads.h"
#include "controller/core/loop/publishing.h"
#include "controller/core/loop/responses.h"
#include "controller/core/loop/restore_work.h"
#include "controller/core/loop/results.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/loop/worker_changes.h"
#include "controller/core/views/job_row.h"
#include "controller/core/views/status_view.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

// Deadlines of the controller's own work: reading data, building a batch, completing a checkpoint.
// All of these depend only on the disk of the data root, so another try would not help.
void CheckOwnDeadlines(JobParts& job) {
  const absl::Time now = job.out.now();
  const absl::Duration limit = job.options.setup_deadline;
  job.data.Retry(job.out);
  // A job that pauses is already giving its workers back; then it forgets its data.
  if (const std::string room = job.data.HasWaitedFor(now, limit);
      !room.empty() && job.life.state() != Job::STATE_PAUSING) {
    return Yield({absl::StrCat("it waited for ", room)}, job);
  }
  absl::Status late = job.data.CheckDeadline(now, limit);
  if (late.ok()) late = CheckBatchDeadline(job);
  if (late.ok()) late = job.save.CheckDeadline(job.out.step(), now, limit);
  if (!late.ok()) Fail(late, job);
}

// A job resumed after a pause has responses to prompts of the data files as they were before the
// pause.
absl::Status KnowsPrompts(const JobParts& job) {
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    const bool evaluates = trajectory.purpose == v1::PURPOSE_EVAL;
    const uint64_t size = evaluates ? job.data.val_sources().size() : job.data.train_size();
    if (trajectory.prompt_id < size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        evaluates ? "data.val_files" : "data.train_files", " have ", size,
        " prompts, and a response to number ", trajectory.prompt_id + 1,
        " is begun: they were cut while the job was paused. `baton resume` goes on from the last "
        "checkpoint, with the files as they are"));
  }
  return absl::OkStatus();
}

// Routes each event to the functions that it concerns.
struct EventRouter {
  JobParts& job;
  ProgressFeed& progress;

  // ---- Workers and tasks ------------------------------------------------------------------------

  void operator()(const WorkerGranted& event) { PlaceWorker(event, job); }

  void operator()(const WorkerLost& event) {
    if (event.moves) {  // it takes on another role next, and leaves these
      for (const RoleSlot* slot : job.roster().Of(event.worker))
        job.slots.SendRelease(*slot, job.out);
    }
    LoseWorker(event.worker, event.reason, event.moves, job);
  }

  void operator()(const WorkerReconnected& event) { TakeBackWorker(event, job); }

  void operator()(const RoleTroubled& event) {
    if (!job.slots.NoteTrouble(event, job.out.now())) return;
    job.scheduler.scores().errors().Tell(
        absl::StrCat("role ", event.role, ", worker ", event.worker, ": ", event.message), job.out);
  }

  void operator()(const TaskProgressed& event) {
    const bool known = job.scheduler.table().Find(event.ref.subject) != nullptr;
    if (!known || !job.Wants(event.worker, event.ref)) return;
    job.scheduler.generations().Progressed(event, job.scheduler.Work(), job.out.now());
  }

  void operator()(const UpdateProgressed& event) {
    if (event.ref.kind != TaskKind::kUpdate || !job.Wants(event.worker, event.ref)) return;
    const Group& group = job.groups.all()[event.ref.target];
    const uint32_t rank = job.roster().Find(event.worker, group.role)->rank;
    job.commands.NoteProgress(group, rank, {event.done, event.total});
  }

  void operator()(const TaskDone& event) { RouteResult(event, job); }

  void operator()(const RelaysSeen& event) { OnRelaysSeen(event, job); }

  // ---- What the runtime did ---------------------------------------------------------------------

  void operator()(const DataLoaded& event) {
    if (!job.data.loading() && !IsActive(job.life.state()))
      return;  // asked for before the job ended
    const uint64_t before = job.data.train_size();
    absl::Status status = job.data.Loaded(event, job.spec().data());
    if (status.ok()) CheckEvaluationPrompts(job);
    if (status.ok()) status = KnowsPrompts(job);
    if (!status.ok()) return Fail(status, job);
    const uint64_t now = job.data.train_size();
    if (before != 0 && before != now) {
      job.out.Warn(absl::StrCat("data.train_files have ", now, " prompts, and had ", before,
                                " when they were read last: which prompts come next has "
                                "changed with them"));
    }
    job.Then(FollowUp::kAdvance);
  }

  void operator()(const DataWaits& event) { job.data.Waits(event, job.out.now()); }

  void operator()(const BatchBuilt& event) { OnBatchBuilt(event, job); }

  void operator()(const PayloadLost& event) { LosePayloads(event, job); }

  void operator()(const PayloadsWait& event) {
    job.scheduler.payload_wait().Heard(event, job.out.now());
    if (IsActive(job.life.state()) && !event.waits) job.Then(FollowUp::kAssignWork);
  }

  void operator()(const CheckpointCommitted& event) { OnCommitted(event, job); }

  void operator()(const OptimizersDropped&) {
    job.milestones.OptimizersDropped();
    job.out.Do(PutJob{});
  }

  void operator()(const RowsRefused& event) { Fail(event.status, job); }

  // ---- Requests ---------------------------------------------------------------------------------

  void operator()(const CancelRequested&) { Cancel(job); }
  void operator()(const PauseRequested&) { Pause(job); }
  void operator()(const ResumeRequested&) { Resume(job); }
  void operator()(const YieldRequested& event) { Yield(event, job); }

  // ---- Time -------------------------------------------------------------------------------------

  void operator()(const Tick&) {
    if (!IsActive(job.life.state())) return;
    job.ahead.Tick(job.out.now());
    job.milestones.Count(/*works=*/true, job.out.now());
    if (job.commands.room().RetryDue(job.out.now()) && !job.commands.Any())
      job.Then(FollowUp::kAdvance);
    ServePublished(job);
    CheckSlotDeadlines(job);
    CheckOwnDeadlines(job);
    CheckGroups(job);
    CheckResponseDeadlines(job);
    if (IsActive(job.life.state())) {
      CheckCommandDeadlines(job);
      // A rollout that became idle may lack the newest weights.
      LoadWeights(job);
      // Tasks that were taken back from workers go to others.
      job.Then(FollowUp::kAssignWork);
    }
    progress.Tell(job.doing.current(), ProgressOf(job), job.out);
  }

  // The controller could send nothing during that time, so no worker could answer. Every deadline
  // moves by it.
  void operator()(const TimeLost& event) {
    const absl::Time now = job.out.now();
    job.slots.Delay(event.duration, now);
    job.versions.Delay(event.duration, now);
    job.doing.Delay(event.duration, now);
    job.data.Delay(event.duration, now);
    job.milestones.Delay(event.duration, now);
    job.save.Delay(event.duration, now);
    job.groups.Delay(event.duration, now);
    job.commands.Delay(event.duration, now);
    job.scheduler.queues().Delay(event.duration, now);
  }
};

}  // namespace

void ProgressFeed::Tell(Activity activity, const v1::Job& progress, EffectSink& out) {
  const int64_t mark = progress.phase_done() * 16 + static_cast<int>(activity);
  if (mark == sent_ || out.now() - sent_at_ < absl::Milliseconds(200)) return;
  sent_ = mark;
  sent_at_ = out.now();
  v1::JobEvent event;
  event.set_type("progress");
  event.set_step(out.step());
  event.set_phase(progress.phase());
  event.set_phase_done(progress.phase_done());
  event.set_phase_total(progress.phase_total());
  out.Do(EmitEvent{std::move(event), false});
}

JobCore::JobCore(v1::Job job, int64_t submit_order, const JobCoreOptions& options)
    : job_(std::move(job), submit_order, options) {}

JobCore::JobCore(store::v1::JobRow row,
                 const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories, uint64_t epoch,
                 const JobCoreOptions& options)
    : job_(std::move(row), epoch, options) {
  for (const auto& [serial, trajectory] : trajectories) {
    // Rows of earlier steps are kept for readers. The work in progress uses only its own rows.
    const bool open = IsOfOpenWork(trajectory, job_);
    if (!open) RecallGivenUp(trajectory, job_);
    job_.buffer.NoteFound(serial, trajectory, open);
  }
}

Effects JobCore::Start(absl::Time now) {
  job_.out.Begin(now);
  job_.idle.Advance(now);
  job_.milestones.Count(/*works=*/false, now);  // the controller was away: it held no workers
  job_.life.Queue(now);
  job_.Switch(Activity::kNone);
  job_.slots.Begin(now);
  if (job_.commands.Any(TaskKind::kSaveCheckpoint)) {
    // The answers of groups that were done are not stored, so all groups save again, together.
    for (const Group& group : job_.groups.all()) {
      if (group.trains && job_.commands.Of(group) == nullptr) {
        IssueCommand(TaskKind::kSaveCheckpoint, group, Activity::kSave, job_);
      }
    }
  }
  if (!job_.restored || job_.out.revision() == 0) {  // new, if from a checkpoint
    job_.life.EmitState(job_.out);
    for (const v1::Checkpoint& checkpoint : checkpoints()) job_.out.Do(PutCheckpoint{checkpoint});
    job_.out.Do(PutJob{});
  }
  job_.milestones.GoOnDropping(job_.out);
  if (state() == Job::STATE_QUEUED) job_.out.Do(NeedOf(job_.roster(), job_.groups));
  if (IsActive(state())) {
    if (state() == Job::STATE_STOPPING || job_.roster().AnyIn(SlotState::kReleasing)) {
      ReleaseAll(job_);
    } else {
      job_.data.Load(/*held=*/true, job_.out);
      job_.out.Do(NeedOf(job_.roster(), job_.groups));
    }
  }
  return EndTurn();
}

Effects JobCore::Handle(const Event& event, absl::Time now) {
  job_.out.Begin(now);
  job_.idle.Advance(now);
  std::visit(EventRouter{job_, progress_}, event);
  // Progress comes often, and neither begins nor ends anything.
  if (std::holds_alternative<TaskProgressed>(event) ||
      std::holds_alternative<UpdateProgressed>(event)) {
    return job_.out.Take();
  }
  return EndTurn();
}

Effects JobCore::EndTurn() {
  // A step's work may be done as soon as it begins: after a restart, all of it may be stored.
  while (job_.next != FollowUp::kNothing) {
    const bool advances = std::exchange(job_.next, FollowUp::kNothing) == FollowUp::kAdvance;
    advances ? Advance(job_) : Dispatch(job_);
  }
  // Rollouts that got nothing in this turn run ahead. Not before the work is restored: until then a
  // rollout may have responses of an earlier controller.
  if (job_.life.state() == Job::STATE_RUNNING && job_.work.begun()) {
    job_.ahead.AssignWork(job_.Ahead());
  }
  job_.idle.Note(job_.Load());
  return job_.out.Take();
}

// ---- Rows and status views ----------------------------------------------------------------------

store::v1::JobRow JobCore::BriefRow() const { return RowOf(job_); }

store::v1::JobRow JobCore::Row() const {
  store::v1::JobRow row = BriefRow();
  row.mutable_job()->MergeFrom(*submitted());
  row.mutable_checkpoints()->Assign(checkpoints().begin(), checkpoints().end());
  return row;
}

v1::Job JobCore::Durable() const { return DurableOf(job_); }
v1::Job JobCore::Progress() const { return ProgressOf(job_); }

v1::Job JobCore::Brief() const {
  Job job = Durable();
  job.MergeFrom(Progress());
  return job;
}

v1::Job JobCore::Describe() const {
  Job job = Brief();
  job.MergeFrom(*submitted());
  return job;
}

v1::ExplainJobResponse JobCore::Explain(absl::Time now) const { return ExplainJob(job_, now); }

}  // namespace baton::controller
