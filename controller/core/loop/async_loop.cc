#include "controller/core/loop/async_loop.h"

#include "absl/strings/match.h"
#include "controller/core/loop/batch_work.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/publishing.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

// What the next step may depend on: whether the job ends, and which checkpoint is its best.
bool AwaitsEvaluations(const v1::TrainerSpec& trainer) {
  return absl::StartsWith(trainer.keep_best(), "val") ||
         absl::StartsWith(trainer.early_stop().metric(), "val");
}

// The trainer waits, and goes on with what it waits for since.
void Wait(Activity activity, JobParts& job) {
  if (!job.doing.Is(activity)) job.Switch(activity);
}

// The trainer is free. True: it waits for the evaluation that is under way.
bool TendEvaluation(bool pausing, JobParts& job) {
  const int64_t step = job.out.step();
  const PinnedEvaluation& evaluation = job.async.evaluation.pinned();
  const bool due = EvaluationDue(job) && !(evaluation.active() && evaluation.pin().step == step);
  // One at a time: a second one would need a second version that rollouts keep.
  if (due && !evaluation.active() && !pausing) job.async.evaluation.Begin(job);
  if (!evaluation.active()) return false;
  return (due && evaluation.pin().step != step) || pausing || job.milestones.AtEnd(step) ||
         AwaitsEvaluations(job.spec().trainer());
}

void TendTrainer(JobParts& job) {
  if (job.commands.room().Waits(job.out.now())) return;
  if (job.life.state() == Job::STATE_STARTING || job.life.state() == Job::STATE_RECOVERING) {
    job.life.Trigger(JobTrigger::kSetUp, job);
  }
  if (PublishDue(job)) {
    job.Switch(Activity::kNone);
    return Publish(job);
  }
  const int64_t step = job.out.step();
  if (!job.milestones.AtEnd(step)) job.milestones.EndWhenOutOfTime();
  const bool pausing = job.life.state() == Job::STATE_PAUSING;
  if (TendEvaluation(pausing, job)) return Wait(Activity::kEvaluate, job);
  if (job.milestones.SaveDue(step, pausing)) {
    job.Switch(Activity::kNone);
    return job.save.Begin(job);
  }
  if (job.milestones.AtEnd(step)) return job.life.Finish(job);
  if (pausing) return job.life.ReleaseAll(job);
  if (job.async.batch.Take(job)) return BuildBatchOf(job);
  Wait(Activity::kGenerate, job);
}

bool TrainerWorks(const JobParts& job) {
  return job.doing.Is(Activity::kBatch) || job.commands.Any() || job.save.committing();
}

}  // namespace

void AdvanceAsync(JobParts& job) {
  if (!job.work.begun()) {
    if (!job.data.loaded()) return job.Switch(Activity::kSetUp);
    job.work.Stand(job);
    if (!IsActive(job.life.state()) || job.life.state() == Job::STATE_STOPPING) return;
  }
  const bool update_restored = job.commands.Any(TaskKind::kUpdate) &&
                               !job.doing.Is(Activity::kUpdate) && !job.doing.Is(Activity::kBatch);
  if (!SetUpDone(job)) {
    if (!TrainerWorks(job)) Wait(Activity::kSetUp, job);
  } else if (update_restored) {
    // A restart in the middle of an update: its batch is made of the same responses.
    if (job.async.batch.TakeRestored(job)) BuildBatchOf(job);
  } else if (!TrainerWorks(job)) {
    TendTrainer(job);
  }
  if (!IsActive(job.life.state()) || job.life.state() == Job::STATE_STOPPING) return;
  job.LoadWeights();
  job.Dispatch();
}

}  // namespace baton::controller
