// What the responses of a step or an evaluation add up to. Pure functions of their records.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_METRICS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/prompts/prompt_mix.h"

namespace baton::controller {

/// When a step or an evaluation began, and when its last response and its last score came.
struct StepTimes {
  absl::Time began;
  absl::Time generated;
  absl::Time scored;
};

/// Of the training responses of a step: rewards, scores, lengths, errors and times. Greedy
/// baselines are left out. Responses without a reward count for lengths, and for no reward or
/// score.
std::map<std::string, double> ResponseMetrics(
    const std::map<uint64_t, TrajectoryInfo>& trajectories, const StepTimes& times);

/// Of a step of a job with data.train_mix: the share of its prompts that each file has, as
/// "data/share_0" and so on.
std::map<std::string, double> FileShares(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                                         const PromptMix& prompts);

/// Of an evaluation with `samples` responses a prompt: mean@N is the mean over all samples, best@N
/// the mean over prompts of the best of N, both by source. The value of a response is its score
/// "accuracy", without one its reward. Responses without a reward are left out, and counted as
/// val/infra_failed. `sources`: of each prompt, of which the first `prompts` are asked.
std::map<std::string, double> EvaluationMetrics(
    const std::map<uint64_t, TrajectoryInfo>& trajectories, uint32_t samples,
    const std::vector<std::string>& sources, uint64_t prompts);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_METRICS_H_
