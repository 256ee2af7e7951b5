#include "controller/core/views/status_view.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/views/explain_groups.h"
#include "controller/core/views/explain_nodes.h"
#include "controller/core/views/explain_trajectories.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

std::string PhaseOf(const JobParts& job) {
  switch (job.doing.current()) {
    case Activity::kNone:
      return job.life.state() == Job::STATE_STOPPING ? "releasing workers" : "starting";
    case Activity::kSetUp:
      return "setting up";
    case Activity::kPublish:
      return "publishing weights";
    case Activity::kGenerate:
      return job.scheduler.AllGenerated() && job.prompt_groups.unmade.empty() ? "scoring"
                                                                              : "generating";
    case Activity::kBatch:
      return "computing advantages";
    case Activity::kUpdate:
      return "training";
    case Activity::kEvaluate:
      return "evaluating";
    case Activity::kSave:
      return "saving a checkpoint";
  }
  return "";
}

// The step that the trainer is at: the newest one while its weights, its checkpoint or its
// evaluation are made, otherwise the next one.
int64_t StepInProgress(const JobParts& job) {
  const int64_t done = job.out.step();
  switch (job.doing.current()) {
    case Activity::kPublish:
    case Activity::kEvaluate:
    case Activity::kSave:
      return done;
    default:
      return std::min(done + 1, job.life.job().total_steps());
  }
}

std::string JobIdOf(const JobParts& job) {
  const std::string& name = job.life.job().name();
  return name.substr(name.rfind('/') + 1);
}

std::string StatusSummary(const JobParts& job) {
  const Job::State state = job.life.state();
  const std::string id = JobIdOf(job);
  std::string summary = absl::StrCat("job ", id, " is ", StateName(state));
  if (IsActive(state)) {
    absl::StrAppend(&summary, ", ", PhaseOf(job));
    if (!job.spec().trainer().val_only()) {  // which has no steps
      absl::StrAppend(&summary, ", step ", StepInProgress(job), " of ",
                      job.life.job().total_steps());
    }
  }
  if (!IsTerminal(state)) return summary;
  const std::string& error = job.life.job().error().message();
  if (!error.empty()) absl::StrAppend(&summary, ": ", error);
  const auto& checkpoints = job.milestones.checkpoints();
  if (state != Job::STATE_SUCCEEDED && !checkpoints.empty()) {
    absl::StrAppend(&summary, "; `baton resume ", id, "` goes on from the checkpoint of step ",
                    checkpoints.back().step());
  }
  return summary;
}

// Micro-batches of the update that is furthest behind: of all roles that train, the step waits for
// the last one. None is known where the workers do not tell.
std::pair<int64_t, int64_t> UpdateProgressOf(const JobParts& job) {
  UpdateProgress least;
  for (const Group& group : job.groups.all()) {
    const auto progress = job.commands.ProgressOf(group);
    if (progress.has_value() && (least.total == 0 || progress->IsBehind(least))) least = *progress;
  }
  return {least.done, least.total};
}

// Of an update: its micro-batches. Else the responses that the trainer waits for: how many are
// READY, and how many it needs.
std::pair<int64_t, int64_t> PhaseProgress(const JobParts& job) {
  if (job.doing.Is(Activity::kUpdate)) return UpdateProgressOf(job);
  const auto& all = job.scheduler.table().all();
  if (job.doing.Is(Activity::kEvaluate)) {
    const auto first = all.lower_bound(TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1));
    const auto ready = std::count_if(first, all.end(), [](const auto& of) {
      return of.second.purpose == v1::PURPOSE_EVAL && of.second.state == TrajectoryState::kReady;
    });
    return {ready, static_cast<int64_t>(job.evaluation.prompts(1))};
  }
  const int64_t per_group = job.responses().PerPrompt();
  if (job.plan.rounds) {
    return {static_cast<int64_t>(job.scheduler.table().ready()),
            static_cast<int64_t>(job.prompt_groups.prompts.open().size()) * per_group};
  }
  // More groups may be under way than the trainer waits for.
  const int64_t total = job.spec().data().train_batch_size() * per_group;
  return {std::min(total, static_cast<int64_t>(job.prompt_groups.complete.size()) * per_group),
          total};
}

// Commands, and roles that wait for their turn on shared workers.
void ExplainCommands(const JobParts& job, WaitList& waits) {
  const PoolView view = job.View();
  const absl::Time since = job.doing.since();
  job.commands.room().Explain(job.out.step(), waits);
  for (const Group& group : job.groups.all()) {
    RankGroups::Explain(group, job.options.regroup_delay, waits);
    const bool waits_for_turn =
        job.commands.Of(group) != nullptr && !job.pools.MayCommand(group, view);
    job.commands.Explain(group, waits_for_turn ? job.pools.AtWorkIn(group.role, view) : "", since,
                         job.roster(), job.options.command_deadline, job.out.step(), waits);
  }
  job.pools.Explain(view, since, waits);
}

}  // namespace

v1::Job ProgressOf(const JobParts& job) {
  Job progress;
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.state != SlotState::kEmpty) {
      progress.add_workers(absl::StrCat(slot.role, ": ", slot.worker));
    }
  }
  if (!IsActive(job.life.state())) return progress;
  progress.set_phase(PhaseOf(job));
  if (!job.doing.OnResponses() && !job.doing.Is(Activity::kUpdate)) return progress;
  const auto [done, total] = PhaseProgress(job);
  progress.set_phase_done(done);
  progress.set_phase_total(total);
  return progress;
}

v1::ExplainJobResponse ExplainJob(const JobParts& job, absl::Time now) {
  v1::ExplainJobResponse out;
  WaitList waits(now, &out);
  const Job::State state = job.life.state();
  const absl::Time since = job.doing.since();
  ExplainNodes({job.spec(), job.dataflow(), job.scheduler, job.groups, job.commands,
                job.doing.current(), state == Job::STATE_SUCCEEDED},
               &out);
  out.set_summary(StatusSummary(job));
  if (IsTerminal(state)) return out;
  const std::string id = JobIdOf(job);
  if (state == Job::STATE_PAUSED) {
    waits.Add("user", absl::StrCat("job ", id), "its user to resume it", job.life.queued_since(),
              absl::InfiniteDuration(),
              absl::StrCat("nothing happens until `baton resume ", id, "`"));
    return out;
  }
  // Root causes first: failures, missing workers, workers that do not answer, then the waits that
  // follow from them.
  const bool scores = job.doing.OnResponses() && IsActive(state);
  const uint64_t total = scores ? job.scheduler.admission().Judged(job.scheduler.table()) : 0;
  const std::string work = job.scheduler.admission().WorkName(job.out);
  const RewardErrors& errors = job.scheduler.scores().errors();
  ExplainTrouble(job.roster(), errors.Limit(work, total), waits);
  errors.Explain(work, total, since, waits);
  if (!job.roster().AnyIn(SlotState::kReleasing) && state != Job::STATE_STOPPING) {
    const bool queued = state == Job::STATE_QUEUED;
    ExplainMissing(job.roster(), id, queued ? std::optional(job.life.queued_since()) : std::nullopt,
                   waits);
  }
  job.data.Explain(id, job.options.setup_deadline, waits);
  ExplainSlots(job.roster(), job.versions, job.options, waits);
  ExplainTrajectories({job.scheduler, job.roster(), job.dataflow(), job.options, job.out}, waits);
  job.scheduler.payload_wait().Explain(work, waits);
  ExplainGroups(job, waits);
  if (job.doing.Is(Activity::kBatch)) {
    waits.Add("batch", absl::StrCat("step ", job.out.step() + 1),
              "the controller to build its batch and to compute advantages", since,
              job.options.setup_deadline, "the job fails");
  }
  ExplainCommands(job, waits);
  job.save.Explain(job.out.step(), job.options.setup_deadline, waits);
  return out;
}

}  // namespace baton::controller
