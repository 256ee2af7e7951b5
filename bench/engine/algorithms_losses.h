// The losses of algorithms_bench, on one thread.
#ifndef BATON_BENCH_ENGINE_ALGORITHMS_LOSSES_H_
#define BATON_BENCH_ENGINE_ALGORITHMS_LOSSES_H_

#include <cstdint>
#include <string>

namespace baton::bench {

/// Tokens per second, forward and backward, of a policy loss (LossNames) on `tokens` rows
/// of responses of 512 tokens, with a KL loss: from log-probs on, no vocabulary.
double LossTokensPerSecond(const std::string& loss, int64_t tokens, int repeats);

/// As above, but from logits [tokens, vocabulary] on: softmax, entropy as a metric, loss, gradient
/// by the logits.
double LogitsTokensPerSecond(const std::string& loss, int64_t tokens, int64_t vocabulary,
                             int repeats);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_ALGORITHMS_LOSSES_H_
