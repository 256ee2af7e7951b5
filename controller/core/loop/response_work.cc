#include "controller/core/loop/response_work.h"

#include "absl/strings/str_cat.h"
#include "controller/core/loop/batch_work.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/results.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/loop/worker_changes.h"
#include "controller/core/trajectories/running_tasks.h"
#include "controller/spec/roles.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

using Next = TrajectoryScheduler::Next;

void ResponseWork::Begin(Activity what, JobParts& job) {
  if (job.replays()) return BeginReplay(job);
  job.buffer.BeginStep(job.options.kept_steps, KeepsAllExperience(job.spec()), job.out);
  job.Switch(what);
  job.scheduler.Begin(/*evaluates=*/what == Activity::kEvaluate, job.Work());
  begun_ = true;
  // Before anything is given out: a task that a worker still runs is not begun a second time.
  AdoptRunning(job);
  early_.Replay(/*commands=*/false, [&](const TaskDone& early) { RouteResult(early, job); });
  // A result may have ended the work, or the job.
  if (!job.doing.OnResponses()) return;
  GoOn(job);
}

void ResponseWork::Stand(JobParts& job) {
  begun_ = true;
  job.async.Stand(job);
  AdoptRunning(job);
  early_.Replay(/*commands=*/false, [&](const TaskDone& early) { RouteResult(early, job); });
}

// Nothing is drawn, generated or scored: the runtime reads the row of the step's batch and builds
// the batch of it.
void ResponseWork::BeginReplay(JobParts& job) {
  job.scheduler.Begin(/*evaluates=*/false, job.Work());
  begun_ = true;
  job.Switch(Activity::kBatch);
  job.buffer.Replay(job.spec(), job.out);
}

void ResponseWork::GoOn(JobParts& job) {
  job.LoadWeights();
  job.Dispatch();
  // A step may consist of what is stored already.
  MaybeAllReady(job);
}

void ResponseWork::Clear(const std::string& reason, JobParts& job) {
  job.scheduler.Clear(reason, job.Work());
  job.async.Clear();
  // Of an async job that is resumed, what is open is made when its data are read.
  begun_ = !job.is_async;  // what was early or adoptable belonged to the work that ends here
  early_.Drop(reason, job.out);
}

// ---- Results ------------------------------------------------------------------------------------

void ResponseWork::OnGenerated(const TaskDone& event, JobParts& job) {
  TrajectoryScheduler::Verdict verdict = job.scheduler.OnGenerated(event, job.Work());
  if (verdict.next == Next::kWrongVersion) verdict = OnWrongVersion(event, job);
  switch (verdict.next) {
    case Next::kFails:
      return job.life.Fail(verdict.status, job);
    case Next::kGroupBroken:  // a replica's ranks are the actor's
      return OnGroupBroken(job.groups.actor(), event, job);
    case Next::kAgain:
    case Next::kWrongVersion:
      // The weights may have to be published again before the next try.
      return Advance(job);
    case Next::kDone:
      break;
  }
  if (job.is_async) job.async.NoteGenerated(event, job);
  // The ranks gathered weights that generate, so failures before count no more.
  if (job.roster().hybrid()) {
    job.slots.ForgetFailures(*job.roster().Find(event.worker, roles::kRollout));
  }
  // An idle rollout loads the weights that came while it worked.
  if (job.scheduler.queues().rollouts().tasks.load(event.worker) == 0) job.LoadWeights();
  GoOnAfter(event, job);
}

void ResponseWork::GoOnAfter(const TaskDone& event, JobParts& job) {
  job.Dispatch();
  if (!job.is_async) return MaybeAllReady(job);
  if (job.async.NoteProgress(event.ref.subject, job)) Advance(job);
}

// The rollout holds another version after all; it loads the right one.
TrajectoryScheduler::Verdict ResponseWork::OnWrongVersion(const TaskDone& event, JobParts& job) {
  const RoleSlot& slot = *job.roster().Find(event.worker, roles::kRollout);
  job.versions.replicas().Hold(job.slots.IndexOf(slot), 0);
  job.scheduler.queues().rollouts().tasks.SetEnabled(event.worker, false);
  // The ranks gather it anew: of all that one gathering fails, the first counts.
  if (job.roster().hybrid() && job.versions.Unpublish() &&
      job.slots.CountFailure(slot) >= job.options.max_attempts) {
    return {Next::kFails,
            absl::Status(event.status.code(),
                         absl::StrCat("worker ", event.worker,
                                      " cannot generate with the weights that it loaded, ",
                                      slot.failures, " times so far: ", event.status.message()))};
  }
  TrajectoryInfo& trajectory = job.scheduler.table().At(event.ref.subject);
  job.scheduler.generations().Retry(trajectory, event.status, event.worker, job.scheduler.Work(),
                                    job.Work());
  return {Next::kAgain};
}

void ResponseWork::OnScored(const TaskDone& event, bool late, JobParts& job) {
  const TrajectoryScheduler::Verdict verdict = job.scheduler.OnScored(event, late, job.Work());
  if (verdict.next == Next::kFails) return job.life.Fail(verdict.status, job);
  if (verdict.next == Next::kGroupBroken) {
    OnGroupBroken(*job.groups.Find(job.RoleOf(event.ref)), event, job);
  }
  if (verdict.next == Next::kDone) return GoOnAfter(event, job);
  job.Dispatch();
}

void ResponseWork::MaybeAllReady(JobParts& job) {
  if (!begun_ || !job.scheduler.Done()) return;
  // Whatever was checked before: nothing that other weights sampled is trained on or judged.
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (!job.is_rl() || Mutant("stale-consumed")) break;
    const std::string stale = job.versions.WhyStale(trajectory, job.out);
    if (!stale.empty()) {
      return job.life.Fail(absl::InternalError(absl::StrCat("not consumed: ", stale)), job);
    }
  }
  job.scheduler.queues().ForEach([&](const std::string& role, RoleQueue& queue) {
    DrainSlow(queue.stragglers, role, role == roles::kRollout ? "token" : "response", job);
  });
  if (job.doing.Is(Activity::kEvaluate)) return FinishEvaluation(job);
  // A payload may be lost, and generated again, after the batch was asked for.
  if (job.doing.Is(Activity::kGenerate)) BuildBatchOf(job);
}

// ---- A restart ----------------------------------------------------------------------------------

void ResponseWork::OnWorkerBack(const WorkerBack& event, bool first_time, JobParts& job) {
  if (first_time) {
    early_.NoteTasks(event);
    if (begun_) AdoptRunning(job);
  } else if (begun_) {
    StopUnwanted(event.worker, event.running, job);
    job.scheduler.generations().RepeatRecalls(event.worker, job.scheduler.Work(), job.Work());
  }
}

// Workers that came back before the work was restored told what they run; it stays with them.
void ResponseWork::AdoptRunning(JobParts& job) {
  for (const EarlyReports::Running& running : early_.TakeTasks()) {
    AdoptTask(job.scheduler, running.worker, running.ref, job.roster().hybrid(), job.Work());
    StopUnwanted(running.worker, {running.ref}, job);
  }
}

// Stops tasks that the job no longer needs.
void ResponseWork::StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running,
                                JobParts& job) {
  for (const TaskRef& ref : running) {
    if (IsTrajectoryTask(ref.kind) && !job.Wants(worker, ref)) {
      job.out.Do(StopTask{worker, ref, "it is not wanted any more"});
    }
  }
}

// ---- What does not come -------------------------------------------------------------------------

absl::StatusOr<bool> ResponseWork::OnPayloadLost(const PayloadLost& event, JobParts& job) {
  // The ranks of an update read payloads too; of kind sft the data files are the payloads.
  if (!begun_ || !job.is_rl() || !IsActive(job.life.state())) return false;
  if (job.replays()) {
    return absl::DataLossError(
        absl::StrCat("step ", job.out.step() + 1, " cannot be replayed: ", event.reason));
  }
  std::vector<TrajectoryInfo*> lost;
  for (const auto& [id, serial] : event.trajectories) {
    TrajectoryInfo* const found = job.scheduler.table().Find(id);
    // Of another serial: it was generated again meanwhile.
    if (found == nullptr || found->serial != serial || found->location.size == 0) {
      continue;
    }
    if (++found->losses > job.options.max_attempts) {
      return absl::DataLossError(
          absl::StrCat("the payload of ", TrajectoryName(id), " was lost ", found->losses,
                       " times; check the disk of the data root; the last time: ", event.reason));
    }
    lost.push_back(found);
  }
  if (lost.empty()) return false;
  job.out.Warn(absl::StrCat(
      "the payload of ", TrajectoryName(lost[0]->id),
      lost.size() > 1 ? absl::StrCat(" and of ", lost.size() - 1, " others") : std::string(),
      " cannot be read (", event.reason, "); generated again with the same draw"));
  for (TrajectoryInfo* trajectory : lost) {
    if (job.is_async) job.async.NoteLost(*trajectory, job);
    job.scheduler.GenerateAnew(*trajectory, job.Work());
  }
  return true;
}

bool ResponseWork::CheckDeadlines(JobParts& job) {
  const absl::Duration stall = job.options.generate_stall;
  // Asked before the stalled ones are taken back: afterwards such a worker runs nothing.
  const std::vector<std::string> silent =
      job.scheduler.queues().rollouts().tasks.watch().SilentSince(job.out.now() - stall);
  const absl::Status status =
      job.scheduler.generations().CheckStalls(job.scheduler.Work(), job.Work());
  if (!status.ok()) {
    job.life.Fail(status, job);
    return false;
  }
  // A worker that let all its generations stall hangs itself, and would take new ones in vain.
  for (const std::string& worker : silent) {
    Evict(worker, absl::StrCat("it did not answer for ", absl::FormatDuration(stall)), job);
  }
  CheckScoreDeadlines(job);
  if (job.is_async && begun_ && job.async.groups.GiveUpStragglers(job)) Advance(job);
  return IsActive(job.life.state());
}

void ResponseWork::CheckScoreDeadlines(JobParts& job) {
  const TrajectoryScores& scores = job.scheduler.scores();
  for (const auto& [role, queue] : job.scheduler.queues().scorers()) {
    for (uint64_t score : scores.Stalled(role, job.scheduler.queues(), job.out.now())) {
      const auto late = scores.Late(role, score, job.scheduler.Work());
      if (!late.has_value()) continue;  // the one before it ended the job
      job.out.Do(StopTask{late->worker, late->ref, "too slow"});
      OnScored(*late, /*late=*/true, job);
    }
  }
}

}  // namespace baton::controller
