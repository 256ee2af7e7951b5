#include "controller/core/loop/async_evaluation.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/job_parts.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void AsyncEvaluation::Begin(JobParts& job) {
  const uint64_t births =
      job.data.ValSize(job.spec().data()) * job.scheduler.table().plan().Samples(v1::PURPOSE_EVAL);
  pinned_.Begin({job.versions.served(), job.out.step()},
                job.scheduler.admission().births().Give(births, job.out), births, job.out.now());
}

void AsyncEvaluation::Stand(JobParts& job) {
  pinned_.GoOn(job.out.now());
  const uint32_t samples = job.scheduler.table().plan().Samples(v1::PURPOSE_EVAL);
  while (pinned_.left(samples) > 0) DrawOne(job);
}

void AsyncEvaluation::CheckPrompts(JobParts& job) {
  const uint32_t samples = job.scheduler.table().plan().Samples(v1::PURPOSE_EVAL);
  if (!pinned_.active() || Mutant("evaluation-of-gone-prompts")) return;
  if (pinned_.prompts(samples) == job.data.ValSize(job.spec().data())) return;
  Drop("its prompts have changed", job);
}

void AsyncEvaluation::DrawMore(JobParts& job) {
  const TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  const uint32_t samples = job.scheduler.table().plan().Samples(v1::PURPOSE_EVAL);
  // A response that waits for a rollout of its version makes that rollout load it first.
  while (pinned_.left(samples) > 0 && rollouts.PinnedVersion() == 0) {
    DrawOne(job);
    job.LoadWeights();
    job.GiveOut();
  }
}

void AsyncEvaluation::DrawOne(JobParts& job) {
  uint64_t birth = 0;
  const uint64_t prompt =
      pinned_.Draw(job.scheduler.table().plan().Samples(v1::PURPOSE_EVAL), &birth);
  std::vector<TrajectoryInfo> made = job.scheduler.admission().MakeDraw(
      v1::PURPOSE_EVAL, prompt, prompt, birth, job.scheduler.table(), job.Work());
  for (TrajectoryInfo& trajectory : made) trajectory.pin = pinned_.pin();
  job.scheduler.AddDraw(std::move(made));
  // What was stored before a restart may be all of it.
  FinishIfDone(job);
}

bool AsyncEvaluation::NoteReady(JobParts& job) {
  FinishIfDone(job);
  return !pinned_.active();
}

void AsyncEvaluation::FinishIfDone(JobParts& job) {
  TrajectoryTable& table = job.scheduler.table();
  if (!pinned_.active() || pinned_.left(table.plan().Samples(v1::PURPOSE_EVAL)) > 0) return;
  const auto& all = table.all();
  for (auto it = all.lower_bound(TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1));
       it != all.end() && it->second.purpose == v1::PURPOSE_EVAL; ++it) {
    if (it->second.state != TrajectoryState::kReady) return;
  }
  const int64_t step = pinned_.pin().step;
  const absl::Time began = pinned_.began();
  pinned_.End();
  const std::map<uint64_t, TrajectoryInfo> trajectories = table.TakeEvaluation();
  DropPayloads drop;
  for (const auto& [id, trajectory] : trajectories) drop.trajectories.push_back(id);
  job.out.Do(std::move(drop));
  TellEvaluation(step, began, trajectories, job);
}

void AsyncEvaluation::Drop(const std::string& reason, JobParts& job) {
  std::vector<TrajectoryInfo*> members;
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (trajectory.purpose == v1::PURPOSE_EVAL) members.push_back(job.scheduler.table().Find(id));
  }
  job.scheduler.DropAll(members, reason, job.Work());
  if (!Mutant("found-evaluation-stays")) job.buffer.DropFound(v1::PURPOSE_EVAL, job.out);
  pinned_.End();
  job.out.Do(PutJob{});
}

void AsyncEvaluation::RollBack(const std::string& reason, JobParts& job) {
  if (pinned_.active() && pinned_.pin().step > job.milestones.way_back()) Drop(reason, job);
}

void AsyncEvaluation::Explain(const JobParts& job, WaitList& waits) const {
  if (!job.doing.Is(Activity::kEvaluate)) return;
  waits.Add("evaluation", absl::StrCat("step ", job.out.step() + 1), pinned_.name(),
            job.doing.since(), absl::InfiniteDuration(), "the trainer goes on after it");
}

}  // namespace baton::controller
