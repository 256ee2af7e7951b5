// A request to a generator, and the updates that its steps add.
#ifndef BATON_WORKERS_ENGINE_GENERATION_GENERATE_REQUEST_H_
#define BATON_WORKERS_ENGINE_GENERATION_GENERATE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "workers/engine/generation/sampler.h"
#include "workers/engine/kernels/philox.h"

namespace baton::engine {

struct GenerateRequest {
  uint64_t id = 0;              // the caller's; unique among live requests
  std::vector<int32_t> prompt;  // at least one token
  std::vector<int32_t> resume;  // the response's first tokens, if it was begun elsewhere
  // Tokens that other weights drew with the same key after `resume`, or any other guess. The draft
  // changes nothing in the response, only how many of its tokens one step yields. The draft ends
  // before the first token that is not in the vocabulary.
  std::vector<int32_t> draft;
  SamplingParams params;  // limits count the resumed tokens too
  SamplingKey key;
};

/// A step's addition to one request.
struct GenerateUpdate {
  uint64_t id = 0;
  std::vector<int32_t> new_tokens;  // not the resumed ones
  // One per new token (SampledToken): under the full softmax, under the distribution sampled from.
  std::vector<float> new_log_probs;
  std::vector<float> new_sampling_log_probs;
  bool finished = false;
  std::string finish_reason;   // "stop", "length", "cancelled" or "error", once finished
  absl::Status error;          // with "error": what ended it after new_tokens, naming the token
  int64_t draft_accepted = 0;  // of new_tokens: the first ones, which request.draft had predicted
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_GENERATE_REQUEST_H_
