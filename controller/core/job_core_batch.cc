// JobCore: what becomes of a phase whose trajectories are all READY: a batch and its step, or an
// evaluation.
#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/lost_groups.h"
#include "controller/core/metric_names.h"
#include "controller/core/mutation.h"
#include "controller/core/roles.h"

namespace baton::controller {

void JobCore::MaybePhaseDone() {
  if (!begun_ || next_draw_ < draw_end_ || ready_ < trajectories_.size()) return;
  for (const auto& [id, trajectory] : trajectories_) {  // whatever was checked before
    const std::string stale = Mutated(Mutation::kStaleConsumed) ? "" : WhyStale(trajectory);
    if (!stale.empty()) return Fail(absl::InternalError(absl::StrCat("not consumed: ", stale)));
  }
  EvictSlow(rollout_pace_, "rollout", "token");
  for (auto& [role, scorer] : scorers_) EvictSlow(scorer.pace, role, "response");
  if (phase_ == Phase::kEvaluate) return FinishEvaluation();
  if (phase_ != Phase::kGenerate || DrawsAnew()) return;
  SetPhase(Phase::kBatch);
  BuildBatch batch;
  batch.step = step_ + 1;
  batch.incarnation = incarnation_;
  batch.algorithm = algorithm_;
  if (spec().algorithm().dynamic_sampling()) {
    batch.max_groups = static_cast<uint32_t>(spec().data().train_batch_size());
  }
  // A reward model is judged by the worker that trains it.
  const bool judged = spec().kind() == v1::JOB_KIND_REWARD_MODEL && EvaluatesAfter(step_ + 1);
  if (judged) batch.held_out = ValSize();
  batch.trajectories.reserve(trajectories_.size());
  const std::set<uint64_t> lost = LostGroups(trajectories_, LeastResponses(spec(), dataflow()));
  for (const auto& [id, trajectory] : trajectories_) {
    const bool failed = trajectory.failed != 0 && !Mutated(Mutation::kNoRewardInBatch);
    if (failed || lost.count(trajectory.draw) > 0) continue;
    if (trajectory.purpose == v1::PURPOSE_BASELINE) {
      batch.baselines[trajectory.draw] = trajectory.scores.at("reward");
    } else {
      batch.trajectories.push_back(trajectory);
    }
  }
  if (Mutated(Mutation::kGroupInPart)) batch.trajectories.pop_back();
  Do(std::move(batch));
}

// A group with too few rewards left is replaced by the next prompt. That is worked out once all
// trajectories are READY, from what their rows say: a restart draws the same.
bool JobCore::DrawsAnew() {
  if (!is_rl()) return false;
  const uint32_t least = LeastResponses(spec(), dataflow());
  const std::set<uint64_t> lost = LostGroups(trajectories_, least);
  if (lost.size() <= drawn_.replaced) return false;
  const uint64_t missing = lost.size() - drawn_.replaced;
  const std::string why =
      absl::StrCat(missing, " of ", next_draw_ - cursor_, " groups of step ", step_ + 1,
                   " have fewer than ", least, least == 1 ? " response" : " responses",
                   " with a reward, since rewards failed: ", LastError(trajectories_));
  if (drawn_.redraws >= options_.max_attempts) {
    Fail(absl::UnavailableError(absl::StrCat(
        why, "; groups were drawn anew ", drawn_.redraws,
        " times already. Mend what computes rewards and go on from the newest checkpoint, or set "
        "reward.error_reward to give such responses that reward")));
    return true;
  }
  ++drawn_.redraws;
  drawn_.replaced = lost.size();
  EmitWarning(absl::StrCat(why, "; as many are drawn anew"));
  MakeRound(missing);
  LoadWeights();
  Dispatch();
  MaybePhaseDone();
  return true;
}

// Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2): groups that teach nothing are replaced by
// more prompts.
bool JobCore::SamplesMore(const BatchBuilt& event) {
  const v1::AlgorithmSpec& algorithm = spec().algorithm();
  const auto wanted = static_cast<uint32_t>(spec().data().train_batch_size());
  if (!is_rl() || !algorithm.dynamic_sampling() || event.groups >= wanted) return false;
  if (drawn_.rounds >= static_cast<uint32_t>(algorithm.max_num_gen_batches())) {
    Fail(absl::FailedPreconditionError(absl::StrCat(
        "dynamic sampling: after ", drawn_.rounds, " batches of ", spec().data().gen_batch_size(),
        " prompts only ", event.groups, " of ", wanted,
        " groups have rewards that differ, so there is nothing to learn from the others; the task "
        "is too easy or too hard for the policy: change the data, give rollout.n more samples, or "
        "raise algorithm.max_num_gen_batches")));
    return true;
  }
  SetPhase(Phase::kGenerate);
  ++drawn_.rounds;
  MakeRound(GenBatchSize(spec()));
  LoadWeights();
  Dispatch();
  MaybePhaseDone();
  return true;
}

JobCore::Metrics JobCore::TrajectoryMetrics() const {
  struct Stat {
    double sum = 0, min = std::numeric_limits<double>::infinity(),
           max = -std::numeric_limits<double>::infinity();
    void Add(double v) {
      sum += v;
      min = std::min(min, v);
      max = std::max(max, v);
    }
  };
  Stat reward, response, prompt;
  std::map<std::string, Stat> others;
  double clipped = 0, errors = 0, failed = 0, count = 0;
  for (const auto& [id, t] : trajectories_) {
    if (t.purpose == v1::PURPOSE_BASELINE) continue;
    ++count;
    failed += t.failed == 0 ? 0 : 1;
    for (const auto& [name, value] : t.scores) {
      if (t.failed != 0) break;
      if (name == "reward") {
        reward.Add(value);
      } else {
        others[name].Add(value);
      }
    }
    response.Add(t.tokens);
    prompt.Add(t.prompt_tokens);
    clipped += t.finish_reason == "length" ? 1 : 0;
    errors += t.error.empty() ? 0 : 1;
  }
  Metrics out;
  auto put = [&](const std::string& name, const Stat& stat, double of) {
    out[name + "/mean"] = stat.sum / of;
    out[name + "/min"] = stat.min;
    out[name + "/max"] = stat.max;
  };
  const double scored = count - failed;  // above 0: no batch is made of nothing
  put("critic/score", reward, scored);
  put("critic/rewards", reward, scored);
  for (const auto& [name, stat] : others) out["reward/" + name + "/mean"] = stat.sum / scored;
  put("response_length", response, count);
  put("prompt_length", prompt, count);
  out["response_length/clip_ratio"] = clipped / count;
  out["reward/errors"] = errors;
  out["reward/infra_failed"] = failed;
  out["perf/total_num_tokens"] = response.sum + prompt.sum;
  const double generating = absl::ToDoubleSeconds(generated_at_ - step_since_);
  out["timing_s/gen"] = generating;
  out["timing_s/reward"] = absl::ToDoubleSeconds(scored_at_ - generated_at_);
  if (generating > 0) out["perf/rollout_tokens_per_second"] = response.sum / generating;
  return out;
}

void JobCore::FinishEvaluation() {
  // mean@N: the mean over all samples; best@N: the mean over prompts of the best of N.
  struct Source {
    double sum = 0, best = 0;
    uint64_t samples = 0, prompts = 0;
  };
  const SourceNames names(val_sources_, ValSize());
  std::map<std::string, Source> sources;
  double accuracy = 0, reward = 0;
  const uint32_t n = samples(v1::PURPOSE_EVAL);
  const auto source_of = [this](uint64_t prompt) -> std::string {
    return val_sources_[prompt].empty() ? "all" : val_sources_[prompt];
  };
  std::map<uint64_t, double> best;  // of a prompt, among its samples that have a reward
  double judged = 0;
  for (const auto& [id, t] : trajectories_) {
    if (t.failed != 0) continue;
    ++judged;
    const auto& scores = t.scores;
    const double r = scores.count("reward") > 0 ? scores.at("reward") : 0;
    const double a = scores.count("accuracy") > 0 ? scores.at("accuracy") : r;
    Source& source = sources[names.SeriesOf(source_of(t.prompt_id))];
    source.sum += a;
    ++source.samples;
    double& most = best.emplace(t.prompt_id, a).first->second;
    most = std::max(most, a);
    accuracy +=
        Mutated(Mutation::kEvaluationMiscounts) && id == trajectories_.begin()->first ? 0 : a;
    reward += r;
  }
  for (const auto& [prompt, most] : best) {
    Source& source = sources[names.SeriesOf(source_of(prompt))];
    source.best += most;
    ++source.prompts;
  }
  Metrics metrics;
  if (judged > 0) {
    metrics["val/accuracy"] = accuracy / judged;
    metrics["val/reward"] = reward / judged;
  }
  const double failed = static_cast<double>(trajectories_.size()) - judged;
  if (failed > 0) metrics["val/infra_failed"] = failed;
  metrics["timing_s/testing"] = absl::ToDoubleSeconds(now_ - step_since_);
  for (const auto& [name, source] : sources) {
    metrics[absl::StrCat("val-core/", name, "/mean@", n)] =
        source.sum / static_cast<double>(source.samples);
    metrics[absl::StrCat("val-core/", name, "/best@", n)] =
        source.best / static_cast<double>(std::max<uint64_t>(1, source.prompts));
  }
  if (names.folded() > 0) {
    metrics["val-core/sources_in_other"] = static_cast<double>(names.folded());
  }
  KeepFiles();
  evaluated_step_ = step_;
  auto& shown = *job_.mutable_metrics();
  for (auto it = shown.begin(); it != shown.end();) {  // of sources that there are no more
    it = absl::StartsWith(it->first, "val-core/") ? shown.erase(it) : std::next(it);
  }
  for (const auto& [name, value] : metrics) (*job_.mutable_metrics())[name] = value;
  v1::JobEvent event;
  event.set_type("evaluation");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  Emit(std::move(event));
  Do(PutMetrics{step_, metrics});
  ClearWork("");
  SetPhase(Phase::kNone);
  Do(PutJob{});
  Advance();
}

void JobCore::FinishStep(const Metrics& update_metrics, bool updated) {
  Metrics metrics = is_rl() ? TrajectoryMetrics() : Metrics();
  for (const auto& [name, value] : batch_metrics_) metrics[name] = value;
  for (const auto& [name, value] : update_metrics) metrics[name] = value;
  // What workers named; all else below is the controller's own.
  if (const size_t dropped = DropSurplus(job_.metrics(), &metrics) + dropped_names_; dropped > 0) {
    dropped_names_ = 0;
    metrics["training/dropped_metrics"] = static_cast<double>(dropped);
    if (!job_.metrics().contains("training/dropped_metrics")) {
      EmitWarning(absl::StrCat("workers reported ", dropped,
                               " metrics too many in one step; a job "
                               "has ",
                               kMostSeries, " and a response ", kMostScoreNames,
                               " scores, with names of ", kMostMetricName,
                               " bytes at most: the rest is dropped, and counted as "
                               "training/dropped_metrics"));
    }
  }
  const double seconds = absl::ToDoubleSeconds(now_ - step_since_);
  metrics["timing_s/step"] = seconds;
  metrics["perf/time_per_step"] = seconds;
  metrics["timing_s/adv"] = absl::ToDoubleSeconds(batch_at_ - scored_at_);
  if (is_rl()) metrics["timing_s/update_weights"] = update_weights_seconds_;
  if (seconds > 0 && metrics.count("perf/total_num_tokens") > 0) {
    metrics["perf/throughput"] = metrics["perf/total_num_tokens"] / seconds;
  }
  KeepFiles();
  if (drawn_.rounds > 1) metrics["train/num_gen_batches"] = drawn_.rounds;
  if (drawn_.replaced > 0) {
    metrics["train/groups_drawn_anew"] = static_cast<double>(drawn_.replaced);
  }
  ++step_;
  cursor_ = next_draw_;
  algorithm_ = std::exchange(batch_algorithm_, {});
  update_metrics_.clear();
  if (updated) {
    ++policy_version_;
    published_ = false;
  }
  metrics["training/global_step"] = static_cast<double>(step_);
  metrics["training/epoch"] =
      static_cast<double>(cursor_) / static_cast<double>(std::max<uint64_t>(1, prompts_.size()));
  job_.set_step(step_);
  job_.set_policy_version(policy_version_);
  for (const auto& [name, value] : metrics) (*job_.mutable_metrics())[name] = value;
  v1::JobEvent event;
  event.set_type("step");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  Emit(std::move(event));
  Do(PutMetrics{step_, metrics});
  if (!is_rl()) EmitEvaluation(metrics);
  ClearWork("");
  SetPhase(Phase::kNone);
  Do(PutJob{});
  Advance();
}

// What the trainer measured on held-out examples.
void JobCore::EmitEvaluation(const Metrics& metrics) {
  v1::JobEvent event;
  event.set_type("evaluation");
  for (auto m = metrics.lower_bound("val/"); m != metrics.end() && m->first < "val0"; ++m) {
    (*event.mutable_metrics())[m->first] = m->second;
  }
  if (!event.metrics().empty()) Emit(std::move(event));
}

}  // namespace baton::controller
