// JobCore: what becomes of a phase whose trajectories are all READY: a batch and its step, or an
// evaluation.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/evaluation_text.h"
#include "controller/core/job_core.h"
#include "controller/core/lost_groups.h"
#include "controller/core/metric_names.h"
#include "controller/core/roles.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void JobCore::MaybePhaseDone() {
  if (!begun_ || !scheduler_.Done()) return;
  // Whatever was checked before: nothing that other weights sampled is trained on or judged.
  for (const auto& [id, trajectory] : scheduler_.table().all()) {
    if (!is_rl() || Mutant("stale-consumed")) break;
    const std::string stale = versions_.WhyStale(trajectory, out_);
    if (!stale.empty()) return Fail(absl::InternalError(absl::StrCat("not consumed: ", stale)));
  }
  scheduler_.queues().ForEach([&](const std::string& role, RoleQueue& queue) {
    EvictSlow(queue.pace, role, role == roles::kRollout ? "token" : "response");
  });
  if (phase_ == Phase::kEvaluate) return FinishEvaluation();
  if (phase_ != Phase::kGenerate || DrawsAnew()) return;
  SetPhase(Phase::kBatch);
  // What generates nothing is judged by the worker that trains it.
  const bool judged =
      !is_rl() && milestones_.EvaluatesAfter(out_.step() + 1, out_.step(), data_.validates());
  buffer_.Build(scheduler_.table().all(), spec(), LeastResponses(spec(), dataflow()),
                judged ? data_.ValSize(spec().data()) : 0, out_);
}

// A group with too few rewards left is replaced by the next prompt. That is worked out once all
// trajectories are READY, from what their rows say: a restart draws the same.
bool JobCore::DrawsAnew() {
  if (!is_rl()) return false;
  const uint32_t least = LeastResponses(spec(), dataflow());
  const std::set<uint64_t> lost = LostGroups(scheduler_.table().all(), least);
  if (lost.size() <= scheduler_.draws().replaced()) return false;
  const uint64_t missing = lost.size() - scheduler_.draws().replaced();
  const std::string why =
      absl::StrCat(missing, " of ", scheduler_.draws().drawn(), " groups of step ", out_.step() + 1,
                   " have fewer than ", least, least == 1 ? " response" : " responses",
                   " with a reward, because rewards failed: ", LastError(scheduler_.table().all()));
  if (scheduler_.draws().redraws() >= options_.max_attempts) {
    Fail(absl::UnavailableError(absl::StrCat(
        why, "; other prompts replaced such groups ", scheduler_.draws().redraws(),
        " times already. Correct the reward and go on from the newest checkpoint, or set "
        "reward.error_reward to give such responses that reward")));
    return true;
  }
  scheduler_.draws().Replace(lost.size());
  out_.Warn(absl::StrCat(why, "; other prompts replace them"));
  scheduler_.DrawMore(Work());
  LoadWeights();
  Dispatch();
  MaybePhaseDone();
  return true;
}

// Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2): groups that teach nothing are replaced by
// more prompts.
bool JobCore::SamplesMore() {
  const v1::AlgorithmSpec& algorithm = spec().algorithm();
  const auto wanted = static_cast<uint32_t>(spec().data().train_batch_size());
  if (!is_rl() || !algorithm.dynamic_sampling() || buffer_.batch_groups() >= wanted) return false;
  if (scheduler_.draws().rounds() >= static_cast<uint32_t>(algorithm.max_num_gen_batches())) {
    Fail(absl::FailedPreconditionError(absl::StrCat(
        "dynamic sampling: after ", scheduler_.draws().rounds(), " batches of ",
        spec().data().gen_batch_size(), " prompts only ", buffer_.batch_groups(), " of ", wanted,
        " groups have rewards that differ, so there is nothing to learn from the others; the task "
        "is too easy or too hard for the policy: change the data, give rollout.n more samples, or "
        "raise algorithm.max_num_gen_batches")));
    return true;
  }
  SetPhase(Phase::kGenerate);
  scheduler_.draws().AddRound(GenBatchSize(spec()));
  scheduler_.DrawMore(Work());
  LoadWeights();
  Dispatch();
  MaybePhaseDone();
  return true;
}

void JobCore::FinishEvaluation() {
  Metrics metrics =
      EvaluationMetrics(scheduler_.table().all(), scheduler_.table().Samples(v1::PURPOSE_EVAL),
                        data_.val_sources(), data_.ValSize(spec().data()));
  metrics["timing_s/testing"] = absl::ToDoubleSeconds(out_.now() - scheduler_.times().began);
  milestones_.Evaluated(out_.step());
  auto& shown = *job_.mutable_metrics();
  for (auto it = shown.begin(); it != shown.end();) {  // of sources that there are no more
    it = absl::StartsWith(it->first, "val-core/") ? shown.erase(it) : std::next(it);
  }
  for (const auto& [name, value] : metrics) (*job_.mutable_metrics())[name] = value;
  v1::JobEvent event;
  event.set_type("evaluation");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  event.set_message(EvaluationText(event.metrics()));
  out_.Emit(std::move(event));
  out_.Do(PutMetrics{out_.step(), metrics});
  Heed(milestones_.NoteValues(out_.step(), metrics, /*evaluation=*/true));
  milestones_.KeepEvaluation(out_);
  ClearWork("");
  SetPhase(Phase::kNone);
  out_.Do(PutJob{});
  Advance();
}

void JobCore::FinishStep(const Metrics& update_metrics, bool updated) {
  Metrics metrics =
      is_rl() ? ResponseMetrics(scheduler_.table().all(), scheduler_.times()) : Metrics();
  for (const auto& [name, value] : buffer_.batch_metrics()) metrics[name] = value;
  for (const auto& [name, value] : update_metrics) metrics[name] = value;
  // What workers named; all else below is the controller's own.
  const size_t dropped = DropSurplus(job_.metrics(), &metrics) + scheduler_.TakeDroppedNames() +
                         std::exchange(dropped_names_, 0);
  if (dropped > 0) {
    metrics["training/dropped_metrics"] = static_cast<double>(dropped);
    if (!job_.metrics().contains("training/dropped_metrics")) {
      out_.Warn(absl::StrCat("workers reported ", dropped,
                             " metrics too many in one step; a job "
                             "has ",
                             kMostSeries, " and a response ", kMostScoreNames,
                             " scores, with names of ", kMostMetricName,
                             " bytes at most: the rest is dropped, and counted as "
                             "training/dropped_metrics"));
    }
  }
  const double seconds = absl::ToDoubleSeconds(out_.now() - scheduler_.times().began);
  metrics["timing_s/step"] = seconds;
  metrics["perf/time_per_step"] = seconds;
  metrics["timing_s/adv"] = absl::ToDoubleSeconds(buffer_.built_at() - scheduler_.times().scored);
  if (is_rl()) metrics["timing_s/update_weights"] = versions_.update_weights_seconds();
  if (seconds > 0 && metrics.count("perf/total_num_tokens") > 0) {
    metrics["perf/throughput"] = metrics["perf/total_num_tokens"] / seconds;
  }
  if (scheduler_.draws().rounds() > 1)
    metrics["train/num_gen_batches"] = scheduler_.draws().rounds();
  if (scheduler_.draws().replaced() > 0) {
    metrics["train/groups_drawn_anew"] = static_cast<double>(scheduler_.draws().replaced());
  }
  out_.StepDone();
  scheduler_.draws().Consume();
  buffer_.Consume();
  groups_.TakeReports();
  if (updated) {
    versions_.Updated(out_);
  }
  metrics["training/global_step"] = static_cast<double>(out_.step());
  metrics["training/epoch"] = static_cast<double>(scheduler_.draws().cursor()) /
                              static_cast<double>(std::max<uint64_t>(1, data_.train_size()));
  for (const auto& [name, value] : metrics) (*job_.mutable_metrics())[name] = value;
  v1::JobEvent event;
  event.set_type("step");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  out_.Emit(std::move(event));
  out_.Do(PutMetrics{out_.step(), metrics});
  const bool evaluated = !is_rl() && EmitEvaluation(metrics);
  const bool learns = !is_rl() || out_.step() > spec().algorithm().critic_warmup();
  Heed(milestones_.NoteStep({out_.step(), learns, updated, metrics}));
  Heed(milestones_.NoteValues(out_.step(), metrics, evaluated));
  ClearWork("");
  SetPhase(Phase::kNone);
  out_.Do(PutJob{});
  Advance();
}

// What the trainer measured on held-out examples; false: nothing.
bool JobCore::EmitEvaluation(const Metrics& metrics) {
  v1::JobEvent event;
  event.set_type("evaluation");
  for (auto m = metrics.lower_bound("val/"); m != metrics.end() && m->first < "val0"; ++m) {
    (*event.mutable_metrics())[m->first] = m->second;
  }
  const bool evaluated = !event.metrics().empty();
  if (!evaluated) return false;
  event.set_message(EvaluationText(event.metrics()));
  out_.Emit(std::move(event));
  return true;
}

}  // namespace baton::controller
