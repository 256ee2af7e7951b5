#include "controller/core/loop/step_loop.h"

#include "controller/core/loop/async_loop.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/publishing.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

using Job = v1::Job;

bool SetUpDone(const JobParts& job) {
  const Job::State state = job.life.state();
  const bool goes_on = state == Job::STATE_RUNNING || state == Job::STATE_PAUSING;
  return job.data.loaded() && AreSetUp(job.roster(), job.groups, goes_on);
}

namespace {

// An activity is under way: responses, a batch, a command, or a checkpoint. What can begin
// meanwhile begins.
void GoOn(JobParts& job) {
  const bool room = !job.commands.room().Waits(job.out.now());
  if (job.doing.OnResponses() && PublishDue(job) && !job.commands.Any() && room && SetUpDone(job)) {
    Publish(job);  // the relay lost the version that the work goes on with
  }
  job.LoadWeights();
  job.Dispatch();
}

}  // namespace

void Advance(JobParts& job) {
  if (!IsActive(job.life.state()) || job.life.state() == Job::STATE_STOPPING) return;
  job.milestones.Count(/*works=*/true, job.out.now());
  if (job.is_async) return AdvanceAsync(job);
  if (job.restored && !job.work.begun() && job.commands.Any(TaskKind::kUpdate)) {
    // A restart in the middle of an update: its batch is rebuilt from the READY rows.
    if (SetUpDone(job)) job.work.Begin(Activity::kGenerate, job);
    return;
  }
  const bool busy = job.doing.OnResponses() || job.doing.Is(Activity::kBatch) ||
                    job.commands.Any() || job.save.committing();
  if (busy) return GoOn(job);
  if (!SetUpDone(job)) return job.Switch(Activity::kSetUp);
  if (job.commands.room().Waits(job.out.now())) return;
  if (job.life.state() == Job::STATE_STARTING || job.life.state() == Job::STATE_RECOVERING) {
    job.life.Trigger(JobTrigger::kSetUp, job);
  }
  // Everything else needs the newest weights where they are sampled.
  if (PublishDue(job)) return Publish(job);
  job.LoadWeights();
  Milestones& milestones = job.milestones;
  const int64_t step = job.out.step();
  // A step or an evaluation that a restart interrupted is finished first.
  if (!milestones.AtEnd(step) && !job.work.UnderWay(job.buffer)) milestones.EndWhenOutOfTime();
  const bool pausing = job.life.state() == Job::STATE_PAUSING;  // what is due is done afterwards
  const bool evaluates = EvaluationDue(job);
  // An evaluation that a restart interrupted goes on even if the job pauses: its rows are there.
  if (evaluates && (!pausing || job.buffer.found().Has(v1::PURPOSE_EVAL))) {
    return job.work.Begin(Activity::kEvaluate, job);
  }
  // After the evaluation: whether a step is the best one is known by then.
  if (milestones.SaveDue(step, pausing)) return job.save.Begin(job);
  if (milestones.AtEnd(step) && !evaluates) return job.life.Finish(job);
  if (pausing && !job.buffer.found().Has(v1::PURPOSE_TRAIN)) return job.life.ReleaseAll(job);
  job.work.Begin(Activity::kGenerate, job);
}

}  // namespace baton::controller
