#include "controller/core/loop/batch_work.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/results.h"
#include "controller/core/trajectories/lost_groups.h"
#include "controller/spec/least_responses.h"
#include "controller/spec/roles.h"

namespace baton::controller {

namespace {

// A group with too few rewards left is replaced by the next prompt. That is worked out once all
// trajectories are READY, from what their rows say: a restart draws the same.
bool DrawsAnew(JobParts& job) {
  if (!job.is_rl()) return false;
  StepDraws& draws = job.scheduler.admission().draws();
  const auto& trajectories = job.scheduler.table().all();
  const uint32_t least = LeastResponses(job.spec(), job.dataflow());
  const std::set<uint64_t> lost = LostGroups(trajectories, least);
  // Those that were replaced before are still among the lost ones.
  if (lost.size() <= draws.replaced()) return false;
  const uint64_t missing = lost.size() - draws.replaced();
  const std::string why =
      absl::StrCat(missing, " of ", draws.drawn(), " groups of step ", job.out.step() + 1,
                   " have fewer than ", least, least == 1 ? " response" : " responses",
                   " with a reward, because rewards failed: ", LastError(trajectories));
  if (draws.redraws() >= job.options.max_attempts) {
    // A reward that fails on every prompt would use up the data without a single step.
    job.life.Fail(
        absl::UnavailableError(absl::StrCat(
            why, "; other prompts replaced such groups ", draws.redraws(),
            " times already. Correct the reward and go on from the newest checkpoint, or set "
            "reward.error_reward to give such responses that reward")),
        job);
    return true;
  }
  draws.Replace(lost.size());
  job.out.Warn(absl::StrCat(why, "; other prompts replace them"));
  job.scheduler.DrawMore(job.Work());
  job.work.GoOn(job);
  return true;
}

// Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2): groups that teach nothing are replaced by
// more prompts.
bool SamplesMore(JobParts& job) {
  const v1::AlgorithmSpec& algorithm = job.spec().algorithm();
  const auto wanted = static_cast<uint32_t>(job.spec().data().train_batch_size());
  const uint32_t groups = job.buffer.batch().groups();
  if (!job.is_rl() || job.replays() || job.is_async || !algorithm.dynamic_sampling() ||
      groups >= wanted) {
    return false;
  }
  StepDraws& draws = job.scheduler.admission().draws();
  if (draws.rounds() >= static_cast<uint32_t>(algorithm.max_num_gen_batches())) {
    job.life.Fail(
        absl::FailedPreconditionError(absl::StrCat(
            "dynamic sampling: after ", draws.rounds(), " batches of ",
            job.spec().data().gen_batch_size(), " prompts only ", groups, " of ", wanted,
            " groups have rewards that differ, so there is nothing to learn from the others; the "
            "task is too easy or too hard for the policy: change the data, give rollout.n more "
            "samples, or raise algorithm.max_num_gen_batches")),
        job);
    return true;
  }
  job.Switch(Activity::kGenerate);
  draws.AddRound(GenBatchSize(job.spec()));
  job.scheduler.DrawMore(job.Work());
  job.work.GoOn(job);
  return true;
}

}  // namespace

void BuildBatchOf(JobParts& job) {
  // In mode async such a group was replaced when it was complete.
  if (!job.is_async && DrawsAnew(job)) return;
  job.Switch(Activity::kBatch);
  const int64_t step = job.out.step();
  // What generates nothing is judged by the worker that trains it.
  const bool judged =
      !job.is_rl() && job.milestones.EvaluatesAfter(step + 1, step, job.data.validates());
  // An update that a restart interrupted: its batch has a row.
  const bool has_row = job.is_rl() && job.commands.Any(TaskKind::kUpdate);
  job.buffer.Build(job.InBatch(), job.spec(), LeastResponses(job.spec(), job.dataflow()),
                   judged ? job.data.ValSize(job.spec().data()) : 0,
                   has_row ? Recorded::kCompare : Recorded::kNot, job.out);
}

void OnBatchBuilt(const BatchBuilt& event, JobParts& job) {
  // The job went back meanwhile, or a payload of the batch was lost: another one will be built.
  if (event.incarnation != job.out.incarnation() || event.step != job.out.step() + 1 ||
      !job.doing.Is(Activity::kBatch)) {
    return;
  }
  if (!event.status.ok()) return job.life.Fail(event.status, job);
  job.buffer.batch().Built(event, job.out.now());
  // The responses of a replay: from here on the step is like any other.
  for (const TrajectoryInfo& trajectory : event.replayed) {
    job.scheduler.table().Add(trajectory);
    job.scheduler.table().CountReady();
  }
  if (job.commands.Any(TaskKind::kPublish)) {
    job.buffer.batch().Hold();  // the weights are being published again; the actor is busy
    return;
  }
  UseBatch(job);
}

void UseBatch(JobParts& job) {
  if (SamplesMore(job)) return;
  if (!job.commands.Any(TaskKind::kUpdate)) return job.update.Begin(job);
  if (job.buffer.batch().part_of_row()) {
    return job.life.Fail(absl::DataLossError(absl::StrCat(
                             "the batch of step ", job.out.step() + 1,
                             " is not the one that was recorded: responses are missing")),
                         job);
  }
  // Restored: a rank may have its update, have done it, or never have seen it.
  job.Switch(Activity::kUpdate);
  job.work.early().Replay(/*commands=*/true,
                          [&](const TaskDone& early) { RouteResult(early, job); });
  SendWaitingCommands(job.Commands());
}

absl::Status CheckBatchDeadline(const JobParts& job) {
  const absl::Duration limit = job.options.setup_deadline;
  // A batch that stands and waits for its actor is late by the actor's publish, which has a
  // deadline of its own.
  if (!job.doing.Is(Activity::kBatch) || job.buffer.batch().held() ||
      job.out.now() - job.doing.since() <= limit) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the batch of step ", job.out.step() + 1, " was not built within ",
                   absl::FormatDuration(limit), "; check the disk of the data root"));
}

}  // namespace baton::controller
