#include "controller/core/loop/life_changes.h"

#include "absl/strings/str_cat.h"
#include "controller/core/loop/rollback.h"
#include "controller/core/trajectories/running_tasks.h"
#include "controller/core/workers/slot_views.h"
#include "controller/core/workers/take_role.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

using Job = v1::Job;

// ---- States -------------------------------------------------------------------------------------

bool Trigger(JobTrigger trigger, JobParts& job) {
  const Job::State state = job.life.state();
  const auto next = NextJobState(state, trigger, job.life.stopping_as());
  if (!next.has_value()) return false;
  if (*next == state) return true;
  // The time until here counts for the state that ends.
  job.milestones.Count(IsActive(state), job.out.now());
  job.life.Enter(*next, job.out);
  if (IsTerminal(*next)) {
    job.buffer.ForgetHistory();
    CloseWork("the job ended", job);
    job.work.End();
  }
  if (*next == Job::STATE_SUCCEEDED) job.milestones.DropOptimizers(job.out);
  if (IsTerminal(*next) || *next == Job::STATE_PAUSED) {
    job.data.Forget();  // a job that rests holds no data
    job.out.Do(LeaveQueue{});
  }
  job.out.Do(PutJob{});
  return true;
}

void ApplyLearning(const LearningNews& news, JobParts& job) {
  for (const std::string& warning : news.warnings) job.out.Warn(warning);
  if (!news.failure.ok()) Fail(news.failure, job);
}

namespace {

void Stop(Job::State as, JobTrigger trigger, JobParts& job) {
  const Job::State before = job.life.StopAs(as);
  if (!Trigger(trigger, job)) {
    job.life.StopAs(before);  // it stops already, with another final state
    return;
  }
  // A job without workers has already ended in that call.
  if (job.life.state() != Job::STATE_STOPPING) return;
  for (const std::string& line :
       LearningSummary(job.spec(), job.out.step(), job.milestones.learning())) {
    job.out.Warn(line);
  }
  CloseWork("the job stops", job);
  job.work.End();
  job.commands.Stop("the job stops", job.groups, job.roster(), job.out);
  job.commands.DropAll(job.out);
  ReleaseAll(job);
}

}  // namespace

void Fail(const absl::Status& status, JobParts& job) {
  // The first error counts, because later ones follow from it.
  if (IsTerminal(job.life.state()) || job.life.state() == Job::STATE_STOPPING) return;
  job.life.NoteError(status);
  Stop(Job::STATE_FAILED, JobTrigger::kFail, job);
}

void Finish(JobParts& job) {
  const std::string& why = job.milestones.learning().stop_reason();
  if (!why.empty()) {
    job.out.Warn(absl::StrCat("the job ends early, after step ", job.out.step(), " of ",
                              job.life.job().total_steps(), ": ", why),
                 "notice");
  }
  Stop(Job::STATE_SUCCEEDED, JobTrigger::kFinish, job);
}

void RecoverTrainer(const std::string& role, const std::string& reason, JobParts& job) {
  const int64_t lost_steps = RollBack(job);
  const std::string what = role.empty()
                               ? reason
                               : absl::StrCat("the ", role == roles::kActor ? "trainer" : role,
                                              " is lost (", reason, ")");
  job.out.Warn(absl::StrCat(
      what, "; it restarts from step ", job.out.step(),
      lost_steps > 0 ? absl::StrCat(", ", lost_steps, " steps are redone") : std::string()));
  Trigger(JobTrigger::kTrainerLost, job);
  // A pausing job is back at its checkpoint now, and the pause waited only for that.
  if (job.life.state() == v1::Job::STATE_PAUSING) return ReleaseAll(job);
  job.Switch(Activity::kSetUp);
  // All groups that train go back to the same checkpoint.
  for (const Group& group : job.groups.all()) {
    if (group.trains && job.roster().AnyIn(group.role, SlotState::kReady)) {
      FormAnew(group, job.Roles());
    }
  }
}

// ---- Requests -----------------------------------------------------------------------------------

void Cancel(JobParts& job) { Stop(Job::STATE_CANCELLED, JobTrigger::kCancel, job); }

void Pause(JobParts& job) {
  if (job.life.state() == Job::STATE_PAUSING) {
    // The job was to be resumed as soon as it was paused. The newest request counts: it stays
    // paused.
    job.life.StopAs(Job::STATE_CANCELLED);
    job.out.Do(PutJob{});
  }
  const bool set_up = job.life.state() == Job::STATE_RUNNING;
  if (!Trigger(JobTrigger::kPause, job) || job.life.state() != Job::STATE_PAUSING) return;
  if (!set_up) return ReleaseAll(job);  // nothing was done since the checkpoint
  job.Then(FollowUp::kAdvance);
}

void Resume(JobParts& job) {
  if (job.life.state() == Job::STATE_PAUSING && job.roster().AnyIn(SlotState::kReleasing)) {
    job.life.StopAs(Job::STATE_QUEUED);  // CheckReleased resumes it
    return job.out.Do(PutJob{});
  }
  if (NextJobState(job.life.state(), JobTrigger::kResume, job.life.stopping_as()).has_value() &&
      IsTerminal(job.life.state())) {
    // The job failed or was cancelled, and goes on as after the loss of its trainer. Any part of it
    // may have caused the stop, so all of them begin anew.
    job.life.ForgetEnd();
    job.life.StopAs(Job::STATE_CANCELLED);
    job.data.Forget();
    RollBack(job);
    job.versions.Unpublish();  // the published version may be the one that failed
    job.slots.ForgetAllFailures();
    job.groups.ForgetAllFailures();
  }
  if (!Trigger(JobTrigger::kResume, job)) return;
  if (job.life.state() == Job::STATE_QUEUED) {
    job.life.Queue(job.out.now());
    job.out.Do(NeedOf(job.roster(), job.groups));
  }
  job.Then(FollowUp::kAdvance);
}

void Yield(const YieldRequested& event, JobParts& job) {
  if (!job.life.runs() || job.roster().AnyIn(SlotState::kReleasing)) return;
  const bool set_up =
      job.life.state() == Job::STATE_RUNNING || job.life.state() == Job::STATE_PAUSING;
  // A job that its user pauses stays paused afterwards; any other job queues.
  if (job.life.state() != Job::STATE_PAUSING) {
    Trigger(JobTrigger::kPause, job);
    job.life.StopAs(Job::STATE_QUEUED);  // CheckReleased resumes it
  }
  const std::string reason = absl::StrCat("the job gives its workers back: ", event.reason);
  // The weights leave with the workers, so the work after the checkpoint is lost.
  if (set_up) return RecoverTrainer("", reason, job);
  job.out.Warn(absl::StrCat(reason, "; it waits for workers again"));
  ReleaseAll(job);
}

// ---- Workers are given back ---------------------------------------------------------------------

void ReleaseAll(JobParts& job) {
  job.Switch(Activity::kNone);
  job.out.Do(NeedWorkers{});  // or what it gives back would be granted to it again
  // Tasks may run while the job pauses, and begin anew when it is resumed. So each role's tasks are
  // taken back before the worker leaves its roles.
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.state == SlotState::kEmpty) continue;
    TakeTasksBack(job.scheduler, slot.role, slot.worker, "the job pauses", job.out);
    job.work.reports().Forget(slot.worker);
  }
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.state != SlotState::kEmpty) job.scheduler.queues().RemoveWorker(slot.worker);
  }
  job.ahead.Clear();
  job.slots.ReleaseAll(job.out);
  // The job gives all ranks back, so no rank waits for another.
  for (const Group& group : job.groups.all()) job.groups.ForgetBroken(group);
  job.out.Do(PutJob{});
  CheckReleased(job);
}

void CheckReleased(JobParts& job) {
  if (job.life.state() != Job::STATE_STOPPING && job.life.state() != Job::STATE_PAUSING) return;
  if (!job.roster().Held().empty()) return;
  // The user or the queue wanted the job to go on while it was still giving its workers back.
  const bool resume =
      job.life.state() == Job::STATE_PAUSING && job.life.stopping_as() == Job::STATE_QUEUED;
  Trigger(JobTrigger::kReleased, job);
  if (!resume) return;
  job.life.StopAs(Job::STATE_CANCELLED);
  Resume(job);
}

}  // namespace baton::controller
