#include "controller/core/loop/policy_update.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/metric_names.h"
#include "controller/core/loop/command_flow.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/trajectories/lost_groups.h"
#include "controller/core/trajectories/step_metrics.h"
#include "controller/spec/least_responses.h"
#include "controller/spec/role_names.h"

namespace baton::controller {

void PolicyUpdate::Restore(const store::v1::JobRow& row) {
  reports_ = {row.update_metrics().begin(), row.update_metrics().end()};
}

void PolicyUpdate::Save(store::v1::JobRow* row) const {
  for (const auto& [name, value] : reports_) (*row->mutable_update_metrics())[name] = value;
}

void PolicyUpdate::Begin(JobParts& job) {
  reports_.clear();
  // Also of a batch that filters left nothing of: the step is done, and the algorithm goes on.
  if (job.is_rl() && !job.replays()) {
    const absl::Status put =
        job.buffer.PutRow(job.InBatch(), LeastResponses(job.spec(), job.dataflow()),
                          job.options.max_batch_row_bytes, job.out);
    if (!put.ok()) return job.life.Fail(put, job);
  }
  if (job.buffer.batch().size() == 0) return FinishStep(/*updated=*/false, job);
  // A critic that knows nothing yet would mislead the actor, so it learns alone for a while.
  const bool warms_up = job.out.step() < job.spec().algorithm().critic_warmup();
  for (const Group& group : job.groups.all()) {
    if (!group.trains || (warms_up && group.role == roles::kActor)) continue;
    IssueCommand(TaskKind::kUpdate, group, Activity::kUpdate, job);
  }
}

void PolicyUpdate::OnGroupDone(const Group& group, Metrics metrics, JobParts& job) {
  // The actor's version grows when the step is done.
  if (group.role != roles::kActor) job.groups.MadeVersion(group);
  dropped_names_ += DropSurplus(job.life.job().metrics(), &metrics);
  for (const auto& [name, value] : metrics) reports_[name] = value;
  reports_["timing_s/update_" + group.role] =
      absl::ToDoubleSeconds(job.out.now() - job.doing.since());
  if (job.commands.Any()) return job.out.Do(PutJob{});  // another group is still at it
  FinishStep(job.out.step() >= job.spec().algorithm().critic_warmup(), job);
}

// What workers named beyond the limits is dropped; all other metrics are the controller's own.
void PolicyUpdate::DropSurplusOf(Metrics* metrics, JobParts& job) {
  const size_t dropped = DropSurplus(job.life.job().metrics(), metrics) +
                         job.scheduler.scores().TakeDroppedNames() +
                         std::exchange(dropped_names_, 0);
  if (dropped == 0) return;
  (*metrics)["training/dropped_metrics"] = static_cast<double>(dropped);
  // Once per job is enough: the count goes on as a metric.
  if (job.life.job().metrics().contains("training/dropped_metrics")) return;
  job.out.Warn(absl::StrCat("workers reported ", dropped,
                            " metrics too many in one step; a job "
                            "has ",
                            kMostSeries, " and a response ", kMostScoreNames,
                            " scores, with names of ", kMostMetricName,
                            " bytes at most: the rest is dropped, and counted as "
                            "training/dropped_metrics"));
}

PolicyUpdate::Metrics PolicyUpdate::StepMetrics(JobParts& job) {
  const StepTimes& times = job.is_async ? job.async.batch.times() : job.scheduler.times();
  const StepDraws& draws = job.scheduler.admission().draws();
  Metrics metrics = job.is_rl() ? ResponseMetrics(job.InBatch(), times) : Metrics();
  if (job.data.prompts().files() > 0) metrics.merge(FileShares(job.InBatch(), job.data.prompts()));
  for (const auto& [name, value] : job.buffer.batch().metrics()) metrics[name] = value;
  for (const auto& [name, value] : std::exchange(reports_, {})) metrics[name] = value;
  DropSurplusOf(&metrics, job);
  const double seconds = absl::ToDoubleSeconds(job.out.now() - times.began);
  metrics["timing_s/step"] = seconds;
  metrics["perf/time_per_step"] = seconds;
  metrics["timing_s/adv"] = absl::ToDoubleSeconds(job.buffer.batch().built_at() - times.scored);
  if (job.is_rl()) metrics["timing_s/update_weights"] = job.versions.update_weights_seconds();
  if (seconds > 0 && metrics.count("perf/total_num_tokens") > 0) {
    metrics["perf/throughput"] = metrics["perf/total_num_tokens"] / seconds;
  }
  if (job.is_async) {
    metrics.merge(job.async.Metrics(job));
    // The trainer's wait for its batch says nothing of how fast rollouts are.
    double tokens = 0;
    for (const auto& [id, trajectory] : job.InBatch()) tokens += trajectory.tokens;
    if (seconds > 0) metrics["perf/rollout_tokens_per_second"] = tokens / seconds;
  }
  metrics.merge(job.idle.Shares());
  metrics.merge(job.scheduler.generations().speculation().Take());
  metrics.merge(job.ahead.TakeMetrics());
  if (draws.rounds() > 1) metrics["train/num_gen_batches"] = draws.rounds();
  if (draws.replaced() > 0) {
    metrics["train/groups_drawn_anew"] = static_cast<double>(draws.replaced());
  }
  return metrics;
}

void PolicyUpdate::FinishStep(bool updated, JobParts& job) {
  Metrics metrics = StepMetrics(job);
  job.idle.BeginStep();
  // From here on the step counts: it has its number, its prompts and its algorithm's state.
  job.out.StepDone();
  if (job.is_async) {
    job.async.batch.Consume(job);
  } else {
    job.scheduler.admission().draws().Consume();
  }
  job.buffer.Consume();
  if (updated) job.versions.Updated(job.out);
  const int64_t step = job.out.step();
  metrics["training/global_step"] = static_cast<double>(step);
  metrics["training/epoch"] = static_cast<double>(job.Cursor()) /
                              static_cast<double>(std::max<uint64_t>(1, job.data.train_size()));
  job.life.ShowMetrics(metrics);
  v1::JobEvent event;
  event.set_type("step");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  job.out.Emit(std::move(event));
  job.out.Do(PutMetrics{step, metrics});
  const bool evaluated = !job.is_rl() && EmitHeldOut(metrics, job.out);
  const bool learns = !job.is_rl() || step > job.spec().algorithm().critic_warmup();
  job.life.ApplyLearning(job.milestones.NoteStep({step, learns, updated, metrics}), job);
  job.life.ApplyLearning(job.milestones.NoteValues(step, metrics, evaluated), job);
  if (job.is_async) {
    job.async.EndStep(metrics, job);
  } else {
    job.work.Clear("", job);
  }
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  Advance(job);
}

}  // namespace baton::controller
