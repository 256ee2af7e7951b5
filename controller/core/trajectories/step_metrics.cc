#include "controller/core/trajectories/step_metrics.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace baton::controller {

std::map<std::string, double> ResponseMetrics(
    const std::map<uint64_t, TrajectoryInfo>& trajectories, const StepTimes& times) {
  struct Stat {
    double sum = 0, min = std::numeric_limits<double>::infinity(),
           max = -std::numeric_limits<double>::infinity(), count = 0;
    void Add(double v) {
      ++count;
      sum += v;
      min = std::min(min, v);
      max = std::max(max, v);
    }
  };
  Stat reward, response, prompt;
  std::map<std::string, Stat> others;
  double clipped = 0, errors = 0, failed = 0, unscored = 0, count = 0;
  for (const auto& [id, t] : trajectories) {
    // ReMax's greedy responses are only baselines, never trained on.
    if (t.purpose == v1::PURPOSE_BASELINE) continue;
    ++count;
    failed += t.failed == 0 ? 0 : 1;
    for (const auto& [name, value] : t.scores) {
      if (t.failed != 0) break;  // its scores are not all there; it is in no mean
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
    unscored += t.error.empty() || t.failed != 0 ? 0 : 1;
  }
  std::map<std::string, double> out;
  auto put = [&](const std::string& name, const Stat& stat, double of) {
    out[name + "/mean"] = stat.sum / of;
    out[name + "/min"] = stat.min;
    out[name + "/max"] = stat.max;
  };
  const double scored = count - failed;  // above 0: no batch is made of nothing
  put("critic/score", reward, scored);
  put("critic/rewards", reward, scored);
  // A rule that is limited to sources scores some responses alone.
  for (const auto& [name, stat] : others) {
    out["reward/" + name + "/mean"] = stat.sum / std::min(scored, stat.count + unscored);
  }
  put("response_length", response, count);
  put("prompt_length", prompt, count);
  out["response_length/clip_ratio"] = clipped / count;
  out["reward/errors"] = errors;
  out["reward/infra_failed"] = failed;
  out["perf/total_num_tokens"] = response.sum + prompt.sum;
  const double generating = absl::ToDoubleSeconds(times.generated - times.began);
  out["timing_s/gen"] = generating;
  out["timing_s/reward"] = absl::ToDoubleSeconds(times.scored - times.generated);
  if (generating > 0) out["perf/rollout_tokens_per_second"] = response.sum / generating;
  return out;
}

std::map<std::string, double> SourceMetrics(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                                            const SourceSeries& sources) {
  struct Sum {
    double score = 0, scored = 0, accuracy = 0, judged = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto& [id, t] : trajectories) {
    if (t.purpose == v1::PURPOSE_BASELINE || t.failed != 0) continue;
    if (t.prompt_id >= sources.of.size()) continue;
    Sum& sum = sums[sources.names[sources.of[t.prompt_id]]];
    const auto score = t.scores.find("reward"), accuracy = t.scores.find("accuracy");
    if (score != t.scores.end()) {
      sum.score += score->second;
      ++sum.scored;
    }
    if (accuracy != t.scores.end()) {
      sum.accuracy += accuracy->second;
      ++sum.judged;
    }
  }
  std::map<std::string, double> out;
  for (const auto& [name, sum] : sums) {
    const std::string prefix = absl::StrCat("train-core/", name);
    if (sum.scored > 0) out[prefix + "/score/mean"] = sum.score / sum.scored;
    if (sum.judged > 0) out[prefix + "/accuracy/mean"] = sum.accuracy / sum.judged;
  }
  return out;
}

std::map<std::string, double> FileShares(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                                         const PromptMix& prompts) {
  std::map<uint64_t, uint64_t> drawn;  // prompt index -> prompt: one for all responses to it
  for (const auto& [id, t] : trajectories) {
    if (t.purpose == v1::PURPOSE_TRAIN) drawn[t.prompt_index] = t.prompt_id;
  }
  std::vector<double> counts(prompts.files());
  for (const auto& [prompt_index, prompt] : drawn) ++counts[prompts.FileOf(prompt)];
  std::map<std::string, double> out;
  for (size_t file = 0; file < counts.size() && !drawn.empty(); ++file) {
    out[absl::StrCat("data/share_", file)] = counts[file] / static_cast<double>(drawn.size());
  }
  return out;
}

std::map<std::string, double> EvaluationMetrics(
    const std::map<uint64_t, TrajectoryInfo>& trajectories, uint32_t n,
    const std::vector<std::string>& all_sources, uint64_t prompts) {
  struct Source {
    double sum = 0, best = 0;
    uint64_t samples = 0, prompts = 0;
  };
  const SourceNames names(all_sources, prompts);
  std::map<std::string, Source> sources;
  double accuracy = 0, reward = 0;
  const auto source_of = [&](uint64_t prompt) -> std::string {
    return all_sources[prompt].empty() ? "all" : all_sources[prompt];
  };
  std::map<uint64_t, double> best;  // of a prompt, among its samples that have a reward
  double judged = 0;                // samples that have a reward
  for (const auto& [id, t] : trajectories) {
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
    accuracy += a;
    reward += r;
  }
  for (const auto& [prompt, most] : best) {
    Source& source = sources[names.SeriesOf(source_of(prompt))];
    source.best += most;
    ++source.prompts;
  }
  std::map<std::string, double> metrics;
  // If all rewards failed there is no accuracy: 0 would look like a policy that is always wrong.
  if (judged > 0) {
    metrics["val/accuracy"] = accuracy / judged;
    metrics["val/reward"] = reward / judged;
  }
  const double failed = static_cast<double>(trajectories.size()) - judged;
  if (failed > 0) metrics["val/infra_failed"] = failed;
  for (const auto& [name, source] : sources) {
    metrics[absl::StrCat("val-core/", name, "/mean@", n)] =
        source.sum / static_cast<double>(source.samples);
    metrics[absl::StrCat("val-core/", name, "/best@", n)] =
        source.best / static_cast<double>(std::max<uint64_t>(1, source.prompts));
  }
  if (names.folded() > 0) {
    metrics["val-core/sources_in_other"] = static_cast<double>(names.folded());
  }
  return metrics;
}

}  // namespace baton::controller
