#include "controller/core/job_core.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/batch_work.h"
#include "controller/core/command_flow.h"
#include "controller/core/job_face.h"
#include "controller/core/job_row.h"
#include "controller/core/lose_payloads.h"
#include "controller/core/results.h"
#include "controller/core/slot_views.h"
#include "controller/core/step_loop.h"
#include "controller/core/way_back.h"
#include "controller/core/worker_changes.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

// Deadlines of what the controller itself has to do: read data, build a batch, complete a
// checkpoint. All of it depends on the disk of the data root alone, so another try would not help.
void CheckOwnDeadlines(JobParts& job) {
  const absl::Time now = job.out.now();
  const absl::Duration limit = job.options.setup_deadline;
  absl::Status late = job.data.CheckDeadline(now, limit);
  if (late.ok()) late = CheckBatchDeadline(job);
  if (late.ok()) late = job.save.CheckDeadline(job.out.step(), now, limit);
  if (!late.ok()) job.life.Fail(late, job);
}

}  // namespace

JobCore::JobCore(v1::Job job, int64_t submit_order, const JobCoreOptions& options)
    : job_(std::move(job), submit_order, options) {}

JobCore::JobCore(store::v1::JobRow row,
                 const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories, uint64_t epoch,
                 const JobCoreOptions& options)
    : job_(std::move(row), epoch, options) {
  for (const auto& [serial, trajectory] : trajectories) {
    // Rows of earlier steps are kept for readers. The work in progress goes on with its own alone.
    if (job_.is_async) {
      job_.buffer.Found(serial, trajectory,
                        job_.async.Recalls(trajectory, job_.scheduler.table().PerDraw()));
      continue;
    }
    const bool current = (trajectory.incarnation() == incarnation() ||
                          (Mutant("stale-restored") || Mutant("stale-consumed"))) &&
                         trajectory.step() == StepOf(trajectory.purpose(), step()) && job_.is_rl();
    const bool evaluated =
        trajectory.purpose() == v1::PURPOSE_EVAL && job_.milestones.evaluated_step() == step();
    job_.buffer.Found(serial, trajectory, current && !evaluated);
  }
}

Effects JobCore::Start(absl::Time now) {
  job_.out.Begin(now);
  job_.idle.Advance(now);
  job_.milestones.Count(/*works=*/false, now);  // the controller was away: it held no workers
  job_.life.Begin(now);
  job_.Switch(Activity::kNone);
  job_.slots.Begin(now);
  if (job_.commands.Any(TaskKind::kSaveCheckpoint)) {
    // The answers of a group that was done are not kept, so all groups save again, together.
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
  if (state() == Job::STATE_QUEUED) job_.out.Do(NeedOf(job_.roster(), job_.groups));
  if (IsActive(state())) {
    if (state() == Job::STATE_STOPPING || job_.roster().AnyIn(SlotState::kReleasing)) {
      job_.life.ReleaseAll(job_);
    } else {
      job_.data.Load(job_.out);
      job_.out.Do(NeedOf(job_.roster(), job_.groups));
    }
  }
  job_.idle.Note(job_.Load());
  return job_.out.Take();
}

Effects JobCore::Handle(const Event& event, absl::Time now) {
  job_.out.Begin(now);
  job_.idle.Advance(now);
  std::visit([this](const auto& e) { On(e); }, event);
  // Tokens come often, and neither begin nor end anything.
  if (!std::holds_alternative<TaskProgressed>(event)) job_.idle.Note(job_.Load());
  return job_.out.Take();
}

// ---- Workers and tasks --------------------------------------------------------------------------

void JobCore::On(const WorkerGranted& event) { PlaceWorker(event, job_); }

void JobCore::On(const WorkerLost& event) {
  if (event.moves) {  // it takes on another role next, and leaves these
    for (const RoleSlot* slot : job_.roster().Of(event.worker))
      job_.slots.SendRelease(*slot, job_.out);
  }
  LoseWorker(event.worker, event.reason, event.moves, job_);
}

void JobCore::On(const WorkerBack& event) { TakeBackWorker(event, job_); }

void JobCore::On(const RoleTroubled& event) {
  if (!job_.slots.NoteTrouble(event, job_.out.now())) return;
  job_.scheduler.scores().errors().Tell(
      absl::StrCat("role ", event.role, ", worker ", event.worker, ": ", event.message), job_.out);
}

void JobCore::On(const TaskProgressed& event) {
  const bool known = Find(event.ref.subject) != nullptr;
  if (!known || !Wants(event.worker, event.ref)) return;
  job_.scheduler.generations().Progressed(event, job_.scheduler.Work(), job_.out.now());
}

void JobCore::On(const TaskDone& event) { RouteResult(event, job_); }

// ---- What the runtime did -----------------------------------------------------------------------

void JobCore::On(const DataLoaded& event) {
  if (!job_.data.loading() && !IsActive(state())) return;  // asked for before the job ended
  const absl::Status status = job_.data.Loaded(event, job_.spec().data());
  if (!status.ok()) return job_.life.Fail(status, job_);
  Advance(job_);
}

void JobCore::On(const BatchBuilt& event) { OnBatchBuilt(event, job_); }

void JobCore::On(const PayloadLost& event) { LosePayloads(event, job_); }

void JobCore::On(const PayloadsWait& event) {
  job_.scheduler.payload_wait().Heard(event, job_.out.now());
  if (IsActive(job_.life.state()) && !event.waits) job_.Dispatch();
}

void JobCore::On(const CheckpointCommitted& event) { job_.save.OnCommitted(event, job_); }

// ---- Requests -----------------------------------------------------------------------------------

void JobCore::On(const CancelRequested&) { job_.life.Cancel(job_); }
void JobCore::On(const PauseRequested&) { job_.life.Pause(job_); }
void JobCore::On(const ResumeRequested&) { job_.life.Resume(job_); }
void JobCore::On(const YieldRequested& event) { job_.life.Yield(event, job_); }

// ---- Time ---------------------------------------------------------------------------------------

void JobCore::On(const Tick&) {
  if (!IsActive(state())) return;
  job_.milestones.Count(/*works=*/true, job_.out.now());
  if (job_.commands.room().RetryDue(job_.out.now()) && !job_.commands.Any()) Advance(job_);
  CheckSlotDeadlines(job_);
  CheckOwnDeadlines(job_);
  CheckGroups(job_);
  if (job_.work.CheckDeadlines(job_)) {
    CheckCommandDeadlines(job_);
    // A rollout that has nothing left to do may lack the newest weights.
    if (job_.is_async) job_.LoadWeights();
    // What was taken back from workers is given to others.
    job_.Dispatch();
  }
  progress_.Tell(job_.doing.current(), Progress(), job_.out);
}

// The controller could send nothing during that time, so no worker could answer. Every deadline
// moves by it.
void JobCore::On(const TimeLost& event) {
  const absl::Time now = job_.out.now();
  job_.slots.Delay(event.duration, now);
  job_.doing.Delay(event.duration, now);
  job_.data.Delay(event.duration, now);
  job_.milestones.Delay(event.duration, now);
  job_.save.Delay(event.duration, now);
  job_.groups.Delay(event.duration, now);
  job_.commands.Delay(event.duration, now);
  job_.scheduler.queues().Delay(event.duration, now);
}

// ---- What is kept and seen of it ----------------------------------------------------------------

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
