#include "controller/core/loop/step_loop.h"

#include "absl/strings/match.h"
#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/batch_flow.h"
#include "controller/core/loop/checkpoint_flow.h"
#include "controller/core/loop/dispatch.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/publishing.h"
#include "controller/core/loop/restore_work.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

// The data are read, and the roles have the workers that the job needs to go on.
bool SetUpDone(const JobParts& job) {
  const Job::State state = job.life.state();
  const bool goes_on = state == Job::STATE_RUNNING || state == Job::STATE_PAUSING;
  return job.data.loaded() && AreSetUp(job.roster(), job.groups, goes_on);
}

// True if the next step may depend on an evaluation: it may end the job, or choose the best
// checkpoint.
bool AwaitsEvaluations(const v1::TrainerSpec& trainer) {
  return absl::StartsWith(trainer.keep_best(), "val") ||
         absl::StartsWith(trainer.early_stop().metric(), "val");
}

// The trainer waits in this activity; its time counts from the beginning of the wait.
void Wait(Activity activity, JobParts& job) {
  if (!job.doing.Is(activity)) job.Switch(activity);
}

// Called when the trainer is free. True: it waits for the evaluation under way.
bool TendEvaluation(bool pausing, JobParts& job) {
  const int64_t step = job.out.step();
  const auto evaluates_this = [&] {
    return job.evaluation.active() && job.evaluation.pin().step == step;
  };
  const bool due = EvaluationDue(job) && !evaluates_this();
  // One evaluation at a time, because a second one would need rollouts to keep a second version.
  if (due && !job.evaluation.active() && !pausing) BeginEvaluation(job);
  if (!job.evaluation.active()) return false;
  return job.plan.evaluation_blocks || (due && !evaluates_this()) || pausing ||
         job.milestones.AtEnd(step) || AwaitsEvaluations(job.spec().trainer());
}

// Called between two steps. True: the trainer is busy, or the job is over.
bool TendMilestones(JobParts& job) {
  const int64_t step = job.out.step();
  if (!job.milestones.AtEnd(step)) job.milestones.EndWhenOutOfTime();
  const bool pausing = job.life.state() == Job::STATE_PAUSING;
  if (TendEvaluation(pausing, job)) {
    Wait(Activity::kEvaluate, job);
    return true;
  }
  // After the evaluation, because only then it is known whether the step is the best one.
  if (job.milestones.SaveDue(step, pausing)) {
    job.Switch(Activity::kNone);
    BeginSave(job);
    return true;
  }
  if (job.milestones.AtEnd(step) && !EvaluationDue(job)) {
    Finish(job);
    return true;
  }
  if (pausing) ReleaseAll(job);
  return pausing;
}

void TendTrainer(JobParts& job) {
  if (job.commands.room().Waits(job.out.now())) {
    if (job.StepUnderWay()) Wait(Activity::kGenerate, job);
    return;
  }
  if (job.life.state() == Job::STATE_STARTING || job.life.state() == Job::STATE_RECOVERING) {
    Trigger(JobTrigger::kSetUp, job);
  }
  if (PublishDue(job)) {
    job.Switch(Activity::kNone);
    return Publish(job);
  }
  if (!job.StepUnderWay() && TendMilestones(job)) return;
  if (AwaitsTravel(job)) return Wait(Activity::kPublish, job);
  BeginRound(job);
  if (!job.life.runs()) return;
  if (TakeBatch(job)) return BuildBatchOf(job);
  if (job.life.runs()) Wait(Activity::kGenerate, job);
}

bool TrainerWorks(const JobParts& job) {
  return job.doing.Is(Activity::kBatch) || job.commands.Any() || job.save.committing();
}

}  // namespace

void Advance(JobParts& job) {
  if (!job.life.runs()) return;
  job.milestones.Count(/*works=*/true, job.out.now());
  if (!job.work.begun()) {
    if (!job.data.loaded()) return job.Switch(Activity::kSetUp);
    RestoreWork(job);
    if (!job.life.runs()) return;
  }
  const bool update_restored = job.commands.Any(TaskKind::kUpdate) &&
                               !job.doing.Is(Activity::kUpdate) && !job.doing.Is(Activity::kBatch);
  if (!SetUpDone(job)) {
    if (!TrainerWorks(job)) Wait(Activity::kSetUp, job);
  } else if (update_restored) {
    // After a restart in the middle of an update, its batch is built from the same responses.
    if (TakeRestoredBatch(job)) BuildBatchOf(job);
  } else if (!TrainerWorks(job)) {
    TendTrainer(job);
  }
  if (!job.life.runs()) return;
  LoadWeights(job);
  Dispatch(job);
}

}  // namespace baton::controller
