// A summary of what a job has learned, in a line or two, for the end of `watch`.
#ifndef BATON_SDK_CLI_WATCH_LEARNING_SUMMARY_H_
#define BATON_SDK_CLI_WATCH_LEARNING_SUMMARY_H_

#include <cstdint>
#include <string>

#include "baton/v1/job_service.pb.h"

namespace baton::cli {

/// Compares the beginning of a job with its end, in lines that end with "\n":
///
///     reward 0.049 → 0.981: the mean of the first 10 and of the last 10 of 200 steps
///     val/accuracy 0.125 → 0.938: step 0 and step 200
///
/// The first line has the reward (critic/score/mean), or the loss (train/loss) of a job without
/// rewards. Each mean is over a fifth of the steps that have the metric, but 1 to 10 of them.
/// Evaluations (val/accuracy, val/loss) are compared one with one. A metric that fewer than two
/// steps have is left out; "" if none is left. `metrics` is in the order of steps. Those beyond
/// `last_step`, which the job has, are of steps that it lost when it went back to a checkpoint.
std::string LearningSummary(const v1::ListMetricsResponse& metrics, int64_t last_step);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_WATCH_LEARNING_SUMMARY_H_
