#include "controller/core/loop/dispatch.h"

#include <algorithm>
#include <cstdint>

#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/give_out.h"
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
uint64_t ChooseDraw(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  if (!job.schedule.longest_first) return groups.draws.Next();
  uint64_t chosen = groups.draws.Next();
  double longest = -1;
  for (const uint64_t draw : groups.draws.Window(std::min(job.GroupsPerBatch(), kMostWindow))) {
    const double length = groups.lengths.Expected(job.data.PromptOf(draw));
    if (length <= longest) continue;
    longest = length;
    chosen = draw;
  }
  return chosen;
}

// Makes the trajectories of an open prompt group.
void MakeGroup(uint64_t draw, JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  groups.late.NoteBegun(draw, job.out.now());
  job.scheduler.AddDraw(job.scheduler.admission().MakeDraw(
      v1::PURPOSE_TRAIN, draw, job.data.PromptOf(draw), groups.draws.open().at(draw),
      job.scheduler.table(), job.Work()));
  NoteGroupReady(draw, job);  // examples of kind sft are READY
}

// Makes the next groups of the open round; the rest is made when rollouts have taken these.
void MakeRound(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  while (!groups.unmade.empty() && job.rollouts().queued() < job.options.drawn_ahead) {
    const uint64_t draw = groups.unmade.front();
    groups.unmade.pop_front();
    MakeGroup(draw, job);
    if (groups.unmade.empty() || job.rollouts().queued() >= job.options.drawn_ahead) GiveOut(job);
  }
}

// Begins groups during the trainer's work, while a rollout has room for them.
void BeginGroups(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  if (job.versions.served() == 0) return;
  while (job.rollouts().HasRoom(0) && MayBeginGroup(job)) {
    const uint64_t draw = ChooseDraw(job);
    groups.draws.Open(draw, job.births.Take(job.responses().PerDraw(), job.out));
    MakeGroup(draw, job);
    GiveOut(job);
  }
  const bool bounded = job.rollouts().HasRoom(0) && job.life.state() == v1::Job::STATE_RUNNING;
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
  const bool open = complete < groups.draws.open().size();  // some of them are not judged yet
  if (!job.plan.rounds || job.replays() || open || complete >= batch) return;
  if (absl::Status few = CheckFilteredGroups(job); !few.ok()) return Fail(few, job);
  const bool first = complete == 0 && groups.lost == 0 && groups.filtered == 0;
  const bool whole = first || job.spec().algorithm().dynamic_sampling();
  const uint64_t count = whole ? GenBatchSize(job.spec()) : batch - complete;
  const uint32_t per_draw = job.responses().PerDraw();
  if (first) {
    job.batch.times.began = job.out.now();
    job.scheduler.BeginWork(/*evaluates=*/false, count * per_draw);
    job.rollouts().SetMostOpen(0);  // of those that are open: all are queued at once
  }
  uint64_t birth = job.births.Take(count * per_draw, job.out);
  for (uint64_t i = 0; i < count; ++i, birth += per_draw) {
    const uint64_t draw = groups.draws.Next();
    groups.draws.Open(draw, birth);
    groups.unmade.push_back(draw);
  }
}

void Dispatch(JobParts& job) {
  GiveOut(job);
  // Groups that an earlier controller began come first, because their tasks may be running.
  if (!job.work.begun() || !job.data.loaded()) return;
  DrawEvaluation(job);
  job.plan.rounds ? MakeRound(job) : BeginGroups(job);
}

}  // namespace baton::controller
