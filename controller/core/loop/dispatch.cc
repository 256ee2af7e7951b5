#include "controller/core/loop/dispatch.h"

#include <algorithm>
#include <cstdint>

#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/group_flow.h"
#include "controller/core/loop/life_changes.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {
namespace {

constexpr uint64_t kMostWindow = 256;  // groups among which the longest is chosen

// If a long response begins last in its batch, the whole batch waits for it, so prompts with long
// responses begin first. Each window of prompt indices is begun whole before the next one, so no
// prompt is put off for ever. (The order is LPT, longest processing time first: Graham, "Bounds on
// Multiprocessing Timing Anomalies", 1969.)
uint64_t ChoosePrompt(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  if (!job.schedule.longest_first) return groups.prompts.Next();
  uint64_t chosen = groups.prompts.Next();
  double longest = -1;
  for (const uint64_t prompt_index :
       groups.prompts.Window(std::min(job.GroupsPerBatch(), kMostWindow))) {
    const double length = groups.lengths.Expected(job.data.PromptOf(prompt_index));
    if (length <= longest) continue;
    longest = length;
    chosen = prompt_index;
  }
  return chosen;
}

// Makes the trajectories of an open prompt group.
void MakeGroup(uint64_t prompt_index, JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  groups.late.NoteBegun(prompt_index, job.out.now());
  job.scheduler.AddGroup(job.scheduler.admission().MakeGroup(
      v1::PURPOSE_TRAIN, prompt_index, job.data.PromptOf(prompt_index),
      groups.prompts.open().at(prompt_index), job.scheduler.table(), job.Work()));
  NoteGroupReady(prompt_index, job);  // examples of kind sft are READY
}

// Makes the next groups of the open round; the rest is made when rollouts have taken these.
void MakeRound(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  while (!groups.unmade.empty() && job.rollouts().queued() < job.options.max_queued_responses) {
    const uint64_t prompt_index = groups.unmade.front();
    groups.unmade.pop_front();
    MakeGroup(prompt_index, job);
    if (groups.unmade.empty() || job.rollouts().queued() >= job.options.max_queued_responses) {
      AssignWork(job);
    }
  }
}

// A rollout's fair share is one of all that the pace lets begin. Otherwise the first rollout that
// has new weights could take a whole batch while the others still load them. The many responses of
// an evaluation need all places.
void ShareResponses(JobParts& job) {
  const uint64_t staleness =
      job.evaluation.active() ? job.schedule.max_staleness : PacedStaleness(job);
  job.rollouts().SetMostOpen(
      static_cast<int>((staleness + 1) * job.GroupsPerBatch() * job.responses().PerPrompt()));
}

// Begins groups during the trainer's work, while a rollout has room for them.
void BeginGroups(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  if (job.versions.served() == 0) return;
  ShareResponses(job);
  while (job.rollouts().HasRoom(0) && MayBeginGroup(job)) {
    const uint64_t prompt_index = ChoosePrompt(job);
    groups.prompts.Open(prompt_index,
                        job.trajectory_uids.Take(job.responses().PerPrompt(), job.out));
    MakeGroup(prompt_index, job);
    AssignWork(job);
  }
  // A worker that has its fair share of what may begin is held back all the same.
  const bool bounded = job.rollouts().HasFreePlace() && !MayBeginGroup(job) &&
                       job.life.state() == v1::Job::STATE_RUNNING;
  groups.paced = bounded && MayBeginWithin(job.schedule.max_staleness, job);
  if (groups.paced) groups.pace.NoteHeldBack();
  if (!bounded) {
    groups.bounded_since = absl::InfinitePast();
  } else if (groups.bounded_since == absl::InfinitePast()) {
    groups.bounded_since = job.out.now();
  }
}

}  // namespace

void BeginRound(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  const uint64_t complete = groups.complete.size(), batch = job.GroupsPerBatch();
  const bool open = complete < groups.prompts.open().size();  // some of them are not judged yet
  if (!job.plan.rounds || job.replays() || open || complete >= batch) return;
  if (absl::Status few = CheckFilteredGroups(job); !few.ok()) return Fail(few, job);
  const bool first = complete == 0 && groups.lost == 0 && groups.filtered == 0;
  const bool whole = first || job.spec().algorithm().dynamic_sampling();
  const uint64_t count = whole ? GenBatchSize(job.spec()) : batch - complete;
  const uint32_t per_prompt = job.responses().PerPrompt();
  if (first) {
    job.batch.times.began = job.out.now();
    job.scheduler.BeginWork(/*evaluates=*/false, count * per_prompt);
    job.rollouts().SetMostOpen(0);  // of those that are open: all are queued at once
  }
  uint64_t trajectory_uid = job.trajectory_uids.Take(count * per_prompt, job.out);
  for (uint64_t i = 0; i < count; ++i, trajectory_uid += per_prompt) {
    const uint64_t prompt_index = groups.prompts.Next();
    groups.prompts.Open(prompt_index, trajectory_uid);
    groups.unmade.push_back(prompt_index);
  }
}

void Dispatch(JobParts& job) {
  AssignWork(job);
  // Groups that an earlier controller began come first, because their tasks may be running.
  if (!job.work.begun() || !job.data.loaded()) return;
  GiveUpUnreachable(job);
  DrawEvaluation(job);
  job.plan.rounds ? MakeRound(job) : BeginGroups(job);
}

}  // namespace baton::controller
