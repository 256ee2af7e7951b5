#include "controller/core/loop/responses.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/group_flow.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/worker_changes.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {
namespace {

using Verdict = TrajectoryScheduler::Verdict;

// Notes the response's length and draft, which help to predict later ones.
void NoteGenerated(const TaskDone& event, JobParts& job) {
  TrajectoryInfo& trajectory = job.scheduler.table().At(event.ref.subject);
  if (trajectory.purpose == v1::PURPOSE_TRAIN) {
    job.outdated.refresh.NoteLength(trajectory.tokens);
    job.prompt_groups.lengths.Note(trajectory.prompt_id, trajectory.tokens);
  }
  const uint32_t drafted = std::exchange(trajectory.drafted, 0);
  // If the response was resumed, it is not known how much of its draft had been judged before.
  if (drafted == 0 || trajectory.resumed > 0) return;
  // A worker that uses no drafts accepts none; then soon nothing is refreshed.
  const auto reported = event.output.metrics.find(kDraftAccepted);
  const double accepted = reported == event.output.metrics.end() ? 0 : reported->second;
  const auto updates =
      Staleness(job.versions.known(), trajectory.draft_version, trajectory.policy_version);
  // A worker may report any number, even NaN.
  const bool some = accepted > 0;
  job.outdated.refresh.NoteJudged(
      drafted, some ? static_cast<uint32_t>(std::min<double>(drafted, accepted)) : 0,
      updates.value_or(1));
}

// A response was generated or scored: its group may be complete, or the evaluation done.
void NoteProgress(const TaskDone& event, JobParts& job) {
  job.Then(FollowUp::kAssignWork);
  const TrajectoryInfo* const found = job.scheduler.table().Find(event.ref.subject);
  if (found == nullptr || found->state != TrajectoryState::kReady) return;
  if (found->purpose == v1::PURPOSE_EVAL) return FinishEvaluationIfDone(job);
  if (found->selected) {
    return job.Then(FollowUp::kAdvance);  // it was judged when its group was complete
  }
  NoteGroupReady(found->prompt_index, job);
}

// The rollout holds another version than expected; it loads the right one.
Verdict OnWrongVersion(const TaskDone& event, JobParts& job) {
  const RoleSlot& slot = *job.roster().Find(event.worker, roles::kRollout);
  job.versions.replicas().Hold(job.slots.IndexOf(slot), 0);
  job.rollouts().SetEnabled(event.worker, false);
  job.rollouts().SetVersion(event.worker, 0);
  // The ranks gather the weights anew. If one gathering fails many responses, only the first
  // counts.
  if (job.roster().hybrid() && job.versions.Unpublish() &&
      job.slots.CountFailure(slot) >= job.options.max_attempts) {
    return {Verdict::Next::kFails,
            absl::Status(event.status.code(),
                         absl::StrCat("worker ", event.worker,
                                      " cannot generate with the weights that it loaded, ",
                                      slot.failures, " times so far: ", event.status.message()))};
  }
  TrajectoryInfo& trajectory = job.scheduler.table().At(event.ref.subject);
  job.scheduler.generations().Retry(trajectory, event.status, event.worker, job.scheduler.Work(),
                                    job.Work());
  return {Verdict::Next::kAgain};
}

void CheckScoreDeadlines(JobParts& job) {
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

}  // namespace

void OnGenerated(const TaskDone& event, JobParts& job) {
  Verdict verdict = job.scheduler.OnGenerated(event, job.Work());
  if (verdict.next == Verdict::Next::kWrongVersion) verdict = OnWrongVersion(event, job);
  switch (verdict.next) {
    case Verdict::Next::kFails:
      return Fail(verdict.status, job);
    case Verdict::Next::kGroupBroken:  // a replica's ranks are the actor's
      return OnGroupBroken(job.groups.actor(), event, job);
    case Verdict::Next::kAgain:
    case Verdict::Next::kWrongVersion:
      // The weights may have to be published again before the next try.
      return job.Then(FollowUp::kAdvance);
    case Verdict::Next::kDone:
      break;
  }
  NoteGenerated(event, job);
  // The ranks gathered weights that generate, so failures before count no more.
  if (job.roster().hybrid()) {
    job.slots.ForgetFailures(*job.roster().Find(event.worker, roles::kRollout));
  }
  // An idle rollout loads weights that came while it worked.
  if (job.rollouts().load(event.worker) == 0) LoadWeights(job);
  NoteProgress(event, job);
}

void OnScored(const TaskDone& event, bool late, JobParts& job) {
  const Verdict verdict = job.scheduler.OnScored(event, late, job.Work());
  if (verdict.next == Verdict::Next::kFails) return Fail(verdict.status, job);
  if (verdict.next == Verdict::Next::kGroupBroken) {
    OnGroupBroken(*job.groups.Find(job.RoleOf(event.ref)), event, job);
  }
  job.Then(FollowUp::kAssignWork);
  if (verdict.next == Verdict::Next::kDone) NoteProgress(event, job);
}

void CheckResponseDeadlines(JobParts& job) {
  const absl::Duration stall = job.options.generate_stall;
  // Asked before the stalled responses are taken back, because afterwards such a worker runs
  // nothing.
  const std::vector<std::string> silent = job.rollouts().watch().SilentSince(job.out.now() - stall);
  const absl::Status status =
      job.scheduler.generations().CheckStalls(job.scheduler.Work(), job.Work());
  if (!status.ok()) return Fail(status, job);
  // A worker whose generations all stalled hangs itself, and would take new ones in vain.
  for (const std::string& worker : silent) {
    Evict(worker, absl::StrCat("it did not answer for ", absl::FormatDuration(stall)), job);
  }
  CheckScoreDeadlines(job);
  GiveUpStragglers(job);
}

}  // namespace baton::controller
