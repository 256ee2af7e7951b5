// Recorded epochs of responses that an engine makes: their tokens, and how much of them occurred
// before.
#ifndef BATON_BENCH_SPECULATION_SPECULATION_TRACES_H_
#define BATON_BENCH_SPECULATION_SPECULATION_TRACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "workers/engine/generation/sampler.h"

namespace baton::bench {

/// The requests of every epoch: `samples` responses to each prompt.
struct EpochLoad {
  std::vector<std::vector<int32_t>> prompts;  // token ids
  int64_t samples = 0;
  engine::SamplingParams params;

  size_t responses() const { return prompts.size() * static_cast<size_t>(samples); }
  /// The prompt of the response with that number.
  const std::vector<int32_t>& PromptOf(size_t response) const {
    return prompts[response / static_cast<size_t>(samples)];
  }
};

/// A response's number is its prompt times the samples, plus its sample.
struct Epoch {
  struct Response {
    std::vector<int32_t> tokens;
    std::vector<float> log_probs, sampling_log_probs;  // one per token
    std::string finish_reason;
  };
  std::vector<Response> responses;
  int64_t tokens = 0;
};

/// Whether `part` is a prefix of `whole`: the same tokens, the same ends, and log-probs that are
/// equal bit for bit.
bool IsPartOf(const Epoch& part, const Epoch& whole);

/// The mean of -log p over the tokens drawn. At temperature 1 that is an estimate, without bias, of
/// the mean entropy of the distributions they were drawn from.
double MeanEntropy(const Epoch& epoch);

/// The share of the n-grams in the responses of epochs[which] that an earlier response to the same
/// prompt had: one of an earlier epoch, or of an earlier sample of this one.
double NgramOverlap(const EpochLoad& load, const std::vector<Epoch>& epochs, size_t which,
                    size_t n);

}  // namespace baton::bench

#endif  // BATON_BENCH_SPECULATION_SPECULATION_TRACES_H_
