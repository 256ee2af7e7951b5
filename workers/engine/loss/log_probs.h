// Log-probs of given responses under a causal language model, without gradients: a reference's
// scores, and the trainer's own. A trainer is not needed for it.
#ifndef BATON_WORKERS_ENGINE_LOSS_LOG_PROBS_H_
#define BATON_WORKERS_ENGINE_LOSS_LOG_PROBS_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/loss/loss.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/model/model.h"

namespace baton::engine {

/// Rows of a micro-batch, padding included, unless the spec says otherwise. Longer sequences get
/// micro-batches of their own. (Small enough for a core's cache on the CPU.)
inline constexpr int64_t kDefaultMaxTokenLen = 4096;

/// Log-probs of all response tokens (masked or not) under softmax(logits / temperature), in the
/// order of the batch; other columns of the sequences are not looked at. `max_token_len`: rows of a
/// micro-batch; 0: kDefaultMaxTokenLen. With the model's SetDeterministic a sequence's log-probs do
/// not depend on the others, bitwise (model.h says where), and without a tensor group they are
/// bitwise those that a generator with equal weights reported when it sampled the response.
/// InvalidArgument names a sequence, a token or an option; FailedPrecondition a log-prob that is
/// not a number; Internal: libtorch failed.
absl::StatusOr<std::vector<std::vector<float>>> ComputeLogProbs(
    CausalLM& model, absl::Span<const TrainSequence> batch, double temperature,
    int64_t max_token_len = 0);

/// A model's scores of given responses.
struct ResponseReport {
  double loss = 0;      ///< Mean negative log-likelihood of a token, in nats.
  double accuracy = 0;  ///< Share of tokens than which none is likelier, given those before them.
};

/// Over all unmasked response tokens, each counted once. Errors as above.
absl::StatusOr<ResponseReport> EvaluateResponses(CausalLM& model,
                                                 absl::Span<const TrainSequence> batch,
                                                 int64_t max_token_len = 0);

// Parts that the trainers share.

/// `max_token_len`, or its default, which holds the longest of `lengths`.
int64_t TokenBudget(int64_t max_token_len, absl::Span<const int64_t> lengths);

/// Logits that may be held at once; the head runs over more rows than that piece by piece.
int64_t RowsPerPiece(const ModelConfig& config);

/// The way to score this model's logits: as they were sampled if the model is deterministic.
Scoring ScoringOf(const CausalLM& model);

/// Final hidden states of `packed`'s prediction rows, [M, hidden_size]. Throws libtorch's errors.
torch::Tensor PredictionStates(CausalLM& model, const PackedRows& packed);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_LOG_PROBS_H_
