#include "controller/core/loop/job_life.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/loop/way_back.h"
#include "controller/core/trajectories/running_tasks.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

using Job = v1::Job;

JobLife::JobLife(v1::Job job, int64_t submit_order, int64_t total_steps)
    : job_(std::move(job)), submit_order_(submit_order) {
  job_.set_state(Job::STATE_QUEUED);
  job_.set_total_steps(total_steps);
}

JobLife::JobLife(const store::v1::JobRow& row)
    : job_(row.job()),
      submit_order_(row.submit_order()),
      stopping_as_(static_cast<Job::State>(row.stopping_as())) {}

void JobLife::Save(store::v1::JobRow* row) const {
  row->set_submit_order(submit_order_);
  row->set_stopping_as(stopping_as_);
}

void JobLife::ShowMetrics(const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) (*job_.mutable_metrics())[name] = value;
}

void JobLife::HideEvaluation() {
  auto& shown = *job_.mutable_metrics();
  for (auto it = shown.begin(); it != shown.end();) {
    it = absl::StartsWith(it->first, "val-core/") ? shown.erase(it) : std::next(it);
  }
}

void JobLife::EmitState(EffectSink& out) const {
  v1::JobEvent event;
  event.set_type("state");
  event.set_state(job_.state());
  event.set_message(job_.error().message());
  out.Emit(std::move(event));
}

void JobLife::NoteStart(absl::Time now) {
  // A job that was paused got workers before: it started then.
  if (!job_.has_start_time()) job_.mutable_start_time()->set_seconds(absl::ToUnixSeconds(now));
}

// ---- States -------------------------------------------------------------------------------------

bool JobLife::Trigger(JobTrigger trigger, JobParts& job) {
  const auto next = NextJobState(state(), trigger, stopping_as_);
  if (!next.has_value()) return false;
  if (*next == state()) return true;
  // The hours until here count as those of the state that ends.
  job.milestones.Count(IsActive(state()), job.out.now());
  job_.set_state(*next);
  if (IsTerminal(*next)) {
    job_.mutable_end_time()->set_seconds(absl::ToUnixSeconds(job.out.now()));
    job_.clear_phase();
    job.buffer.ForgetHistory();
  }
  EmitState(job.out);
  if (IsTerminal(*next) || *next == Job::STATE_PAUSED) {
    // What an async job has generated waits for it.
    if (IsTerminal(*next) || !job.is_async) job.work.Clear("the job ended", job);
    job.data.Forget();  // a job that rests holds no data
    job.out.Do(LeaveQueue{});
  }
  job.out.Do(PutJob{});
  return true;
}

void JobLife::ApplyLearning(const LearningNews& news, JobParts& job) {
  for (const std::string& warning : news.warnings) job.out.Warn(warning);
  if (!news.failure.ok()) Fail(news.failure, job);
}

void JobLife::Stop(Job::State as, JobTrigger trigger, JobParts& job) {
  const Job::State before = std::exchange(stopping_as_, as);
  if (!Trigger(trigger, job)) {
    stopping_as_ = before;  // it stops already, and as something else
    return;
  }
  // A job without workers has ended in that very call.
  if (state() != Job::STATE_STOPPING) return;
  for (const std::string& line :
       LearningSummary(job.spec(), job.out.step(), job.milestones.learning())) {
    job.out.Warn(line);
  }
  job.work.Clear("the job stops", job);
  job.commands.Stop("the job stops", job.groups, job.roster(), job.out);
  job.commands.DropAll(job.out);
  ReleaseAll(job);
}

void JobLife::Fail(const absl::Status& status, JobParts& job) {
  // The first error counts: what fails after it follows from it.
  if (IsTerminal(state()) || state() == Job::STATE_STOPPING) return;
  job_.mutable_error()->set_code(static_cast<int>(status.code()));
  job_.mutable_error()->set_message(std::string(status.message()));
  Stop(Job::STATE_FAILED, JobTrigger::kFail, job);
}

void JobLife::Finish(JobParts& job) {
  const std::string& why = job.milestones.learning().stop_reason();
  if (!why.empty()) {
    job.out.Warn(absl::StrCat("the job ends early, after step ", job.out.step(), " of ",
                              job_.total_steps(), ": ", why),
                 "notice");
  }
  Stop(Job::STATE_SUCCEEDED, JobTrigger::kFinish, job);
}

// ---- Requests -----------------------------------------------------------------------------------

void JobLife::Cancel(JobParts& job) { Stop(Job::STATE_CANCELLED, JobTrigger::kCancel, job); }

void JobLife::Pause(JobParts& job) {
  if (state() == Job::STATE_PAUSING) {
    // It was to be resumed as soon as it rests. The newest request counts: it stays at rest.
    stopping_as_ = Job::STATE_CANCELLED;
    job.out.Do(PutJob{});
  }
  const bool set_up = state() == Job::STATE_RUNNING;
  if (!Trigger(JobTrigger::kPause, job) || state() != Job::STATE_PAUSING) return;
  if (!set_up) return ReleaseAll(job);  // nothing is ahead of the checkpoint
  Advance(job);
}

void JobLife::Resume(JobParts& job) {
  if (state() == Job::STATE_PAUSING && job.roster().AnyIn(SlotState::kReleasing)) {
    stopping_as_ = Job::STATE_QUEUED;  // CheckReleased resumes it
    return job.out.Do(PutJob{});
  }
  if (NextJobState(state(), JobTrigger::kResume, stopping_as_).has_value() && IsTerminal(state())) {
    // It failed or was cancelled, and goes on as after the loss of its trainer. What stopped it may
    // have been any part of it, so all of them begin anew.
    job_.clear_error();
    job_.clear_end_time();
    stopping_as_ = Job::STATE_CANCELLED;
    job.data.Forget();
    RollBack(job);
    job.versions.Unpublish();  // what the rollouts can get may be what failed
    job.slots.ForgetAllFailures();
    job.groups.ForgetAllFailures();
  }
  if (!Trigger(JobTrigger::kResume, job)) return;
  if (state() == Job::STATE_QUEUED) {
    queued_since_ = job.out.now();
    job.out.Do(NeedOf(job.roster(), job.groups));
  }
  Advance(job);
}

void JobLife::Yield(const YieldRequested& event, JobParts& job) {
  if (!IsActive(state()) || state() == Job::STATE_STOPPING ||
      job.roster().AnyIn(SlotState::kReleasing))
    return;
  const bool set_up = state() == Job::STATE_RUNNING || state() == Job::STATE_PAUSING;
  // A job that its user pauses rests afterwards; any other one queues.
  if (state() != Job::STATE_PAUSING) {
    Trigger(JobTrigger::kPause, job);
    stopping_as_ = Job::STATE_QUEUED;  // CheckReleased resumes it
  }
  const std::string reason = absl::StrCat("the job gives its workers back: ", event.reason);
  // The workers take the weights with them, so what came after the checkpoint is lost.
  if (set_up) return RecoverTrainer("", reason, job);
  job.out.Warn(absl::StrCat(reason, "; it waits for workers again"));
  ReleaseAll(job);
}

// ---- Workers are given back ---------------------------------------------------------------------

void JobLife::ReleaseAll(JobParts& job) {
  job.Switch(Activity::kNone);
  job.out.Do(NeedWorkers{});  // or what it gives back would be granted to it again
  // An async job may run something while it pauses. It is begun anew when the job is resumed: what
  // runs of each role of a worker, before the worker leaves them all.
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.state == SlotState::kEmpty || !job.is_async) continue;
    TakeTasksBack(job.scheduler, slot.role, slot.worker, "the job pauses", job.out);
  }
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.state != SlotState::kEmpty) job.scheduler.queues().RemoveWorker(slot.worker);
  }
  job.ahead.Clear();
  job.slots.ReleaseAll(job.out);
  // The job gives its ranks back, so no rank waits for another.
  for (const Group& group : job.groups.all()) job.groups.ForgetBroken(group);
  job.out.Do(PutJob{});
  CheckReleased(job);
}

void JobLife::CheckReleased(JobParts& job) {
  if (state() != Job::STATE_STOPPING && state() != Job::STATE_PAUSING) return;
  if (!job.roster().Held().empty()) return;
  // Its user, or the queue, wanted it to go on while it still gave its workers back.
  const bool resume = state() == Job::STATE_PAUSING && stopping_as_ == Job::STATE_QUEUED;
  Trigger(JobTrigger::kReleased, job);
  if (!resume) return;
  stopping_as_ = Job::STATE_CANCELLED;
  Resume(job);
}

}  // namespace baton::controller
