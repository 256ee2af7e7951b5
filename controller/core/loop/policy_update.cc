#include "controller/core/loop/policy_update.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/job/metric_names.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/group_flow.h"
#include "controller/core/loop/issue_command.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/worker_changes.h"
#include "controller/core/trajectories/step_metrics.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/settings/least_responses.h"

namespace baton::controller {
namespace {

using Metrics = std::map<std::string, double>;

// The smallest serial of the trajectories that the job works with.
uint64_t OldestSerial(const JobParts& job) {
  uint64_t oldest = ExperienceBuffer::kNoSerial;
  const auto look = [&](const std::map<uint64_t, TrajectoryInfo>& trajectories) {
    for (const auto& [id, trajectory] : trajectories) {
      if (trajectory.serial != 0) oldest = std::min(oldest, trajectory.serial);
    }
  };
  look(job.scheduler.table().all());
  look(job.buffer.taken());
  return oldest;
}

// Drops metrics with names from workers beyond the limits; all other metrics are the controller's
// own.
void DropSurplusOf(Metrics* metrics, JobParts& job) {
  const size_t dropped = DropSurplus(job.life.job().metrics(), metrics) +
                         job.scheduler.scores().TakeDroppedNames() +
                         std::exchange(job.reports.dropped_names, 0);
  if (dropped == 0) return;
  (*metrics)["training/dropped_metrics"] = static_cast<double>(dropped);
  // One warning per job is enough: a metric keeps the count.
  if (job.life.job().metrics().contains("training/dropped_metrics")) return;
  job.out.Warn(absl::StrCat("workers reported ", dropped,
                            " metrics too many in one step; a job "
                            "has ",
                            kMostSeries, " and a response ", kMostScoreNames,
                            " scores, with names of ", kMostMetricName,
                            " bytes at most: the rest is dropped, and counted as "
                            "training/dropped_metrics"));
}

void AddTimes(JobParts& job, Metrics& metrics) {
  const StepTimes& times = job.batch.times;
  const double seconds = absl::ToDoubleSeconds(job.out.now() - times.began);
  metrics["timing_s/step"] = seconds;
  metrics["perf/time_per_step"] = seconds;
  metrics["timing_s/adv"] = absl::ToDoubleSeconds(job.buffer.batch().built_at() - times.scored);
  if (job.is_rl()) {
    metrics["timing_s/update_weights"] = job.versions.update_weights_seconds();
    for (const auto& [name, value] : job.versions.relays().Metrics()) metrics[name] = value;
  }
  if (seconds > 0 && metrics.count("perf/total_num_tokens") > 0) {
    metrics["perf/throughput"] = metrics["perf/total_num_tokens"] / seconds;
  }
  if (!job.plan.many_versions || seconds <= 0) return;
  // The trainer's wait for its batch does not measure the speed of rollouts.
  double tokens = 0;
  for (const auto& [id, trajectory] : job.buffer.taken()) tokens += trajectory.tokens;
  metrics["perf/rollout_tokens_per_second"] = tokens / seconds;
}

// Responses that were generated and scored for the step count, whether or not its batch has them.
void AddGivenUp(const GivenUp& given_up, Metrics& metrics) {
  const auto tokens = static_cast<double>(given_up.tokens);
  metrics["reward/errors"] += static_cast<double>(given_up.errors);
  metrics["reward/infra_failed"] += static_cast<double>(given_up.unrewarded);
  metrics["perf/total_num_tokens"] += tokens + static_cast<double>(given_up.prompt_tokens);
  const double seconds = metrics["timing_s/gen"];
  if (seconds > 0) metrics["perf/rollout_tokens_per_second"] += tokens / seconds;
}

Metrics StepMetrics(JobParts& job) {
  const ExperienceBuffer::Trajectories& taken = job.buffer.taken();
  Metrics metrics = job.is_rl() ? ResponseMetrics(taken, job.batch.times) : Metrics();
  if (job.is_rl()) metrics.merge(SourceMetrics(taken, job.data.train_sources()));
  if (job.is_rl()) AddGivenUp(job.prompt_groups.given_up, metrics);
  if (job.data.prompts().files() > 0) metrics.merge(FileShares(taken, job.data.prompts()));
  for (const auto& [name, value] : job.buffer.batch().metrics()) metrics[name] = value;
  for (const auto& [name, value] : std::exchange(job.reports.metrics, {})) metrics[name] = value;
  DropSurplusOf(&metrics, job);
  AddTimes(job, metrics);
  AddGroupMetrics(job, metrics);
  metrics.merge(job.idle.Shares());
  metrics.merge(job.scheduler.generations().speculation().Take());
  metrics.merge(job.ahead.TakeMetrics());
  return metrics;
}

// Groups of the round that did not fit into the batch are spent with it.
void SpendSurplus(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  if (!job.plan.rounds) return;
  for (const uint64_t prompt_index : groups.complete.First(groups.complete.size())) {
    for (const TrajectoryInfo* member : job.scheduler.table().GroupMembers(prompt_index)) {
      groups.given_up.Add(*member);
    }
    job.scheduler.SpendGroup(prompt_index, job.Work());
    groups.prompts.Spend(prompt_index);
  }
  groups.complete.Clear();
}

void SpendBatch(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  for (const uint64_t prompt_index : std::exchange(job.batch.taken, {})) {
    groups.prompts.Spend(prompt_index);
  }
}

// Begins the next step.
void BeginNextStep(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  groups.EndStep();
  job.outdated.refresh.EndStep();
  job.buffer.EndBatch(job.out);
  job.scheduler.BeginWork(/*evaluates=*/false, job.GroupsPerBatch() * job.responses().PerPrompt());
  job.batch.times.began = job.out.now();
  if (!job.milestones.AtEnd(job.out.step())) BeginKeptStep(job);
  job.scheduler.queues().ForEach([&](const std::string& role, RoleQueue& queue) {
    DrainSlow(queue.stragglers, role, role == roles::kRollout ? "token" : "response", job);
  });
}

void FinishStep(bool updated, JobParts& job) {
  // Batches of prompts, with dynamic sampling.
  const uint64_t drawn = job.batch.taken.size() + job.prompt_groups.complete.size() +
                         job.prompt_groups.filtered + job.prompt_groups.lost;
  const uint64_t rounds = drawn / std::max<uint64_t>(1, GenBatchSize(job.spec()));
  SpendSurplus(job);
  Metrics metrics = StepMetrics(job);
  if (job.plan.rounds && job.spec().algorithm().dynamic_sampling() && rounds > 1) {
    metrics["train/num_gen_batches"] = static_cast<double>(rounds);
  }
  job.prompt_groups.pace.NoteStep(job.idle.trainer_busy(), job.idle.trainer_idle(), job.out.now());
  job.idle.BeginStep();
  // From here on the step counts as done: its number, prompts and algorithm state are final.
  job.out.StepDone();
  SpendBatch(job);
  job.buffer.Consume();
  if (updated) job.versions.Updated(job.out);
  const int64_t step = job.out.step();
  metrics["training/global_step"] = static_cast<double>(step);
  metrics["training/epoch"] = static_cast<double>(job.prompt_groups.prompts.spent()) /
                              static_cast<double>(std::max<uint64_t>(1, job.data.train_size()));
  job.life.ShowMetrics(metrics);
  v1::JobEvent event;
  event.set_type("step");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  job.out.Emit(std::move(event));
  job.out.Do(PutMetrics{step, metrics});
  const bool evaluated = !job.is_rl() && EmitHeldOut(metrics, job.out);
  const bool learns = !job.is_rl() || step > job.spec().algorithm().critic_warmup();
  ApplyLearning(job.milestones.NoteStep({step, learns, updated, metrics}), job);
  ApplyLearning(job.milestones.NoteValues(step, metrics, evaluated), job);
  BeginNextStep(job);
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAdvance);
}

}  // namespace

void BeginKeptStep(JobParts& job) {
  if (job.replays()) return;  // its batches were stored before it began
  job.buffer.BeginStep(job.options.kept_steps, KeepsAllExperience(job.spec()), OldestSerial(job),
                       job.out);
}

void BeginUpdate(JobParts& job) {
  job.reports.metrics.clear();
  // Also for a batch that filters left empty: the step is done, and the algorithm's state moves on.
  if (job.is_rl() && !job.replays()) {
    const absl::Status put =
        job.buffer.PutRow(job.buffer.taken(), LeastResponses(job.spec(), job.dataflow()),
                          job.options.max_batch_row_bytes, job.out);
    if (!put.ok()) return Fail(put, job);
  }
  if (job.buffer.batch().size() == 0) return FinishStep(/*updated=*/false, job);
  // An untrained critic would mislead the actor, so the critic learns alone for a while.
  const bool warms_up = job.out.step() < job.spec().algorithm().critic_warmup();
  for (const Group& group : job.groups.all()) {
    if (!group.trains || (warms_up && group.role == roles::kActor)) continue;
    IssueCommand(TaskKind::kUpdate, group, Activity::kUpdate, job);
  }
}

void OnGroupUpdated(const Group& group, Metrics metrics, JobParts& job) {
  // The actor's version grows when the step is done.
  if (group.role != roles::kActor) job.groups.MadeVersion(group);
  job.reports.dropped_names += DropSurplus(job.life.job().metrics(), &metrics);
  for (const auto& [name, value] : metrics) job.reports.metrics[name] = value;
  job.reports.metrics["timing_s/update_" + group.role] =
      absl::ToDoubleSeconds(job.out.now() - job.doing.since());
  if (job.commands.Any()) return job.out.Do(PutJob{});  // another group still works on the update
  FinishStep(job.out.step() >= job.spec().algorithm().critic_warmup(), job);
}

}  // namespace baton::controller
