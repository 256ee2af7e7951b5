// `baton-worker reward-test`: the reward of a job on lines of a data set, without a service.
#ifndef BATON_WORKERS_MAIN_REWARD_TEST_COMMAND_H_
#define BATON_WORKERS_MAIN_REWARD_TEST_COMMAND_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "workers/main/reward_role.h"

namespace baton {

struct RewardTestOptions {
  /// `reward`, and for what it asks of a model `judge`; `data` with the keys of lines; `model`,
  /// whose chat template may begin responses (reward.with_prompt_suffix); for samples `rollout`,
  /// too.
  v1::JobSpec spec;
  std::string data;     ///< A file as data sets are; empty: a few lines made up here.
  int64_t lines = 8;    ///< Number of its first lines to use.
  int64_t samples = 0;  ///< Responses that the model gives to each line; 0: none.
  std::string model;    ///< The policy: a Hugging Face directory; empty: spec.model.path.
  uint64_t seed = 1;    ///< Seed of the samples.
  std::string device = "cpu";
  bool json = false;  ///< One JSON object for each response, else text for people.
  CommandPermission commands;
};

/// The sinks of the output, which comes in pieces.
struct RewardTestOutput {
  std::function<void(absl::string_view text)> out;
  std::function<void(absl::string_view text)> err;  ///< The command's stderr and troubles, at once.
};

/// Reads lines as the job would (but for those made up): with the keys that `data` names. A list
/// without a single answer is refused where a rule compares with it, as the job refuses it.
///
/// Scores what the job would score: with what the chat template began the response with, where the
/// spec says so. INVALID_ARGUMENT and the like where that is not known, because the model cannot be
/// read here.
///
/// Scores each line's responses: its `responses` or its `response`; else those sampled; else its
/// `answer`, which should have the best reward. Shows each one's prompt, response, answer, reward,
/// scores, time (with up to 4 asked at once, as in a job) and error, then a summary.
///
/// True: a job would go on with such rewards; false: more fail than reward.max_error_rate allows,
/// or the command was given up. Errors: as MakeReward; of the data "FILE:LINE: what"; of models.
absl::StatusOr<bool> TestReward(const RewardTestOptions& options, const RewardTestOutput& output);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_REWARD_TEST_COMMAND_H_
