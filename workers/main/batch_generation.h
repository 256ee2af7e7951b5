// Responses to every prompt of a file, with continuous batching.
#ifndef BATON_WORKERS_MAIN_BATCH_GENERATION_H_
#define BATON_WORKERS_MAIN_BATCH_GENERATION_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/data_set/data_set.h"
#include "workers/engine/generation/generator.h"
#include "workers/policy/policy_source.h"

namespace baton {

struct BatchOptions {
  std::string prompts;  ///< A file as data sets are (docs/formats/data-set.md).
  DataSetOptions keys;  ///< How its lines are read: as a job of kind rl reads them.
  int64_t samples = 1;  ///< To each prompt.
  uint64_t seed = 1;    ///< Seed of the draws, with the prompt's line and the sample's index.
  bool tokens = false;  ///< Lines have the tokens of responses, too.
  // Limits, which one prompt's samples may pass.
  int64_t in_flight = 1;  ///< Responses begun and not complete.
  int64_t held = 1;       ///< Responses in memory: those, and complete ones that wait for them.
  engine::SamplingParams params;  ///< Responses are shorter where the model's positions end.
};

struct BatchProgress {
  int64_t prompts = 0;        ///< Written.
  int64_t held = 0;           ///< Responses in memory.
  int64_t tokens = 0;         ///< Tokens of all responses.
  int64_t failed = 0;         ///< Responses that ended with an error.
  std::string first_failure;  ///< "FILE:LINE: what" of the first of them.
};

/// Reads options.prompts whole and answers how many prompts it has. INVALID_ARGUMENT says of all
/// lines that are no prompts for this model what is wrong ("FILE:LINE: what"; the first 20);
/// NOT_FOUND: no such file.
[[nodiscard]] absl::StatusOr<int64_t> CheckPrompts(const policy::PolicySource& source,
                                                   const BatchOptions& options);

/// Calls `write` with a line for each prompt, in the file's order: what the prompt's line has, with
///   "responses": [text, ...]               of its samples
///   "finish_reasons": ["stop", "length"]   why each ended; "error": see BatchProgress
/// and with options.tokens
///   "response_tokens": [[id, ...], ...]    of each response
///   "response_log_probs": [[-0.1, ...]]    of each token, under the full softmax at the sampling
///                                          temperature; null: not finite
/// A line is a function of the model, its prompt, its number in the file and the options, but for
/// the limits (as Generator says: bitwise in float32 on a CPU). `progress` hears after every step.
///
/// `generator` must be idle, and its model that of `source`; an error leaves requests in it.
/// Errors: as CheckPrompts, of the first such line; those of `write` and of the generator.
[[nodiscard]] absl::Status GenerateBatch(
    const policy::PolicySource& source, engine::Generator* generator, const BatchOptions& options,
    const std::function<absl::Status(absl::string_view line)>& write,
    const std::function<void(const BatchProgress&)>& progress);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_BATCH_GENERATION_H_
