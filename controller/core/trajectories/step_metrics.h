// Metrics of the responses of a step or an evaluation. Pure functions of their records.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_METRICS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/metric_names.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/prompts/prompt_mix.h"

namespace baton::controller {

/// The times at which a step or an evaluation began, and at which its last response and its last
/// score came.
struct StepTimes {
  absl::Time began;
  absl::Time generated;
  absl::Time scored;
};

/// Metrics of a step's training responses: rewards, scores, lengths, errors and times. Greedy
/// baselines are left out. Responses without a reward count for lengths, but not for rewards or
/// scores. A score is a mean over the responses that have it, with 0 for those that the reward said
/// it failed on.
std::map<std::string, double> ResponseMetrics(
    const std::map<uint64_t, TrajectoryInfo>& trajectories, const StepTimes& times);

/// Of the same responses by the source of their prompts, where there are several:
/// "train-core/SOURCE/score/mean", and "…/accuracy/mean" of those that have one.
std::map<std::string, double> SourceMetrics(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                                            const SourceSeries& sources);

/// For a step of a job with data.train_mix: each file's share of its prompts, as "data/share_0" and
/// so on.
std::map<std::string, double> FileShares(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                                         const PromptMix& prompts);

/// Metrics of an evaluation with `samples` responses per prompt: mean@N is the mean over all
/// samples, best@N the mean over prompts of the best of N, both by source. The value of a response
/// is its score "accuracy", or its reward if it has none. Responses without a reward are left out,
/// and counted as val/infra_failed. `sources`: the source of each prompt; the first `prompts`
/// prompts are used.
std::map<std::string, double> EvaluationMetrics(
    const std::map<uint64_t, TrajectoryInfo>& trajectories, uint32_t samples,
    const std::vector<std::string>& sources, uint64_t prompts);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_METRICS_H_
