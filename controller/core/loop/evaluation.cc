#include "controller/core/loop/evaluation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/rollback.h"
#include "controller/core/trajectories/step_metrics.h"
#include "controller/core/views/evaluation_text.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {
namespace {

uint32_t SamplesOf(const JobParts& job) { return job.responses().Samples(v1::PURPOSE_EVAL); }

// If the evaluation blocks the steps, its failed rewards are counted by themselves.
void BeginJudging(uint64_t responses, JobParts& job) {
  if (!job.plan.evaluation_blocks) return;
  job.scheduler.BeginWork(/*evaluates=*/true, responses);
  // Few of the responses are queued at a time, but a rollout's fair share is a share of all of
  // them.
  job.rollouts().SetMostOpen(static_cast<int>(responses));
}

void TellEvaluation(int64_t step, absl::Time began,
                    const std::map<uint64_t, TrajectoryInfo>& trajectories, JobParts& job) {
  std::map<std::string, double> metrics = EvaluationMetrics(
      trajectories, SamplesOf(job), job.data.val_sources(), job.data.ValSize(job.spec().data()));
  metrics["timing_s/testing"] = absl::ToDoubleSeconds(job.out.now() - began);
  job.milestones.Evaluated(step);
  job.life.HideEvaluation();
  job.life.ShowMetrics(metrics);
  v1::JobEvent event;
  event.set_type("evaluation");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  event.set_message(EvaluationText(event.metrics()));
  job.out.EmitAt(step, std::move(event));
  job.out.Do(PutMetrics{step, metrics});
  ApplyLearning(job.milestones.NoteValues(step, metrics, /*evaluation=*/true), job);
  job.milestones.KeepEvaluation(step, metrics, job.out);
  job.out.Do(PutJob{});
}

// True if some response from the id `from` on is not READY. One before it may need generation
// again, because its payload was lost.
bool WaitsForResponse(uint64_t from, JobParts& job) {
  const auto& all = job.scheduler.table().all();
  const uint64_t first = TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1);
  for (auto it = all.lower_bound(std::max(from, first));
       it != all.end() && it->second.purpose == v1::PURPOSE_EVAL; ++it) {
    if (it->second.state == TrajectoryState::kReady) continue;
    job.evaluation.WaitFor(it->first);
    return true;
  }
  return false;
}

void DrawPrompt(JobParts& job) {
  uint64_t trajectory_uid = 0;
  const uint64_t prompt = job.evaluation.NextPrompt(SamplesOf(job), &trajectory_uid);
  std::vector<TrajectoryInfo> made = job.scheduler.admission().MakeGroup(
      v1::PURPOSE_EVAL, prompt, prompt, trajectory_uid, job.scheduler.table(), job.Work());
  for (TrajectoryInfo& trajectory : made) trajectory.pin = job.evaluation.pin();
  job.scheduler.AddGroup(std::move(made));
  // All responses may have been stored before a restart.
  FinishEvaluationIfDone(job);
}

}  // namespace

bool EvaluationDue(const JobParts& job) {
  return job.milestones.EvaluationDue(job.out.step(), job.data.validates());
}

void BeginEvaluation(JobParts& job) {
  const uint64_t responses = job.data.ValSize(job.spec().data()) * SamplesOf(job);
  job.evaluation.Begin({job.versions.published_version(), job.out.step()},
                       job.trajectory_uids.Take(responses, job.out), responses, job.out.now());
  BeginJudging(responses, job);
}

void RestoreEvaluation(JobParts& job) {
  if (!job.evaluation.active()) return;
  job.evaluation.GoOn(job.out.now());
  BeginJudging(job.evaluation.left(1), job);
  while (job.evaluation.left(SamplesOf(job)) > 0) DrawPrompt(job);
}

void CheckEvaluationPrompts(JobParts& job) {
  if (!job.evaluation.active()) return;
  if (job.evaluation.prompts(SamplesOf(job)) == job.data.ValSize(job.spec().data())) return;
  DropEvaluation("its prompts have changed", job);
}

void GiveUpUnreachable(JobParts& job) {
  const uint64_t pin = job.evaluation.pin().version;
  if (!job.evaluation.active() || pin == 0 || pin >= job.versions.served()) return;
  if (!job.versions.relays().seen()) return;
  bool any = false;
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.role != roles::kRollout) continue;
    if (slot.state == SlotState::kReady && !slot.present) return;  // it may come back with them
    if (!slot.ready()) continue;
    const auto index = static_cast<uint64_t>(job.roster().IndexOf(slot));
    const ReplicaWeights::Replica& replica = job.versions.replicas().Of(index);
    if (replica.version == pin || replica.loading == pin) return;
    if (job.versions.relays().IsAt(slot.worker, pin, job.roster())) return;
    any = true;
  }
  if (!any) return;
  const std::string reason = "no host of a rollout has its weights any more";
  job.out.Warn(absl::StrCat(job.evaluation.name(), " is given up: ", reason));
  DropEvaluation(reason, job);
  job.Then(FollowUp::kAdvance);
}

void DrawEvaluation(JobParts& job) {
  // A response that waits for its version makes a rollout load that version first.
  while (job.evaluation.left(SamplesOf(job)) > 0 && job.rollouts().PinnedVersion() == 0) {
    DrawPrompt(job);
    LoadWeights(job);
    AssignWork(job);
  }
}

void FinishEvaluationIfDone(JobParts& job) {
  if (!job.evaluation.active() || job.evaluation.left(SamplesOf(job)) > 0) return;
  if (WaitsForResponse(job.evaluation.waits_for(), job) || WaitsForResponse(0, job)) return;
  TrajectoryTable& table = job.scheduler.table();
  const int64_t step = job.evaluation.pin().step;
  const absl::Time began = job.evaluation.began();
  job.evaluation.End();
  const std::map<uint64_t, TrajectoryInfo> trajectories = table.TakeEvaluation();
  DropPayloads drop;
  for (const auto& [id, trajectory] : trajectories) drop.trajectories.push_back(id);
  job.out.Do(std::move(drop));
  TellEvaluation(step, began, trajectories, job);
  job.Then(FollowUp::kAdvance);
}

bool EmitHeldOut(const std::map<std::string, double>& metrics, EffectSink& out) {
  v1::JobEvent event;
  event.set_type("evaluation");
  // "val0" is the first name after all that begin with "val/".
  for (auto m = metrics.lower_bound("val/"); m != metrics.end() && m->first < "val0"; ++m) {
    (*event.mutable_metrics())[m->first] = m->second;
  }
  if (event.metrics().empty()) return false;
  event.set_message(EvaluationText(event.metrics()));
  out.Emit(std::move(event));
  return true;
}

}  // namespace baton::controller
