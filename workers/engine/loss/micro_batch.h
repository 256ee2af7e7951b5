// Training sequences, their split into micro-batches, and the flat rows of one micro-batch.
//
// Everything here is a pure function of the batch: the same sequences in the same order give the
// same micro-batches, bit for bit.
#ifndef BATON_WORKERS_ENGINE_LOSS_MICRO_BATCH_H_
#define BATON_WORKERS_ENGINE_LOSS_MICRO_BATCH_H_

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sdk/common/parallel/balance.h"
#include "sdk/common/schema/model_config.h"

namespace baton::engine {

/// [n] int64 on the CPU.
torch::Tensor ToTensor(const std::vector<int64_t>& values);

/// A prompt with one response: response length R = length() - prompt_length. All columns are per
/// response token.
struct TrainSequence {
  std::vector<int32_t> tokens;  ///< Prompt, then response.
  int64_t prompt_length = 0;    ///< At least 1: something must predict the first response token.
  /// [R] log-probs under the distribution that the tokens were sampled from.
  std::vector<float> behaviour_log_probs;
  std::vector<float> ref_log_probs;  ///< [R], or empty without a KL loss.
  std::vector<float> advantages;     ///< [R], or one value for every token.
  std::vector<float> values;       ///< [R] the critic's when the tokens were scored; critics only.
  std::vector<float> returns;      ///< [R] what the critic shall predict; critics only.
  std::vector<uint8_t> loss_mask;  ///< [R]; 0 takes a token out of the loss. Empty: all ones.
  /// [R] under the full softmax of the policy before the update, as the rollout said or as the
  /// actor recomputed them: what the ratio divides by. Empty: the behaviour log-probs.
  std::vector<float> old_log_probs;
  bool positive = false;  ///< Right: takes part in the positive NLL term.
  /// A text without the policy's columns: under a policy loss it takes part in the pretraining term
  /// alone. sft learns it as any other.
  bool pretraining = false;
  bool cut = false;  ///< The text was longer than a response may be, and lost its end.
  /// Above 0: another rank has the tokens, so many, and their columns. This one knows
  /// prompt_length, loss_mask, positive and pretraining: what the weights of a mini-batch's tokens
  /// depend on.
  int64_t remote_length = 0;
  int64_t row = 0;  ///< For the caller: the sequence's place in the controller's batch.

  bool remote() const { return remote_length > 0; }
  int64_t length() const { return remote() ? remote_length : static_cast<int64_t>(tokens.size()); }
  int64_t response_length() const { return length() - prompt_length; }
  /// Response tokens that take part in the loss.
  int64_t CountUnmasked() const;
};

/// InvalidArgument naming the sequence and what is wrong: a prompt_length outside [1, tokens], a
/// token outside [0, vocab_size), more input rows than the config has positions(), a loss_mask of
/// another length.
[[nodiscard]] absl::Status ValidateSequences(absl::Span<const TrainSequence> sequences,
                                             const ModelConfig& config);

/// InvalidArgument naming the first of these sequences that is remote.
[[nodiscard]] absl::Status CheckPresent(absl::Span<const TrainSequence> sequences,
                                        absl::Span<const int64_t> indices);

/// The rows a sequence feeds to the model: all tokens but the last, whose prediction is not needed.
int64_t InputLength(const TrainSequence& sequence);

/// Splits items of the given row counts into micro-batches of at most `max_token_len` rows, padding
/// to the longest item of the micro-batch included. Items are taken longest first (ties: in order
/// of index), so lengths within one are similar. Items of length 0 are left out.
/// InvalidArgument when one item alone exceeds the budget; `max_token_len` 0 means no limit.
absl::StatusOr<std::vector<std::vector<int64_t>>> PlanMicroBatches(
    absl::Span<const int64_t> lengths, int64_t max_token_len);

/// The cost of a sequence, in multiply-adds of a forward pass: the products for every row, and
/// causal attention, half of rows x rows for keys and as much for values.
SequenceCost CostOf(const ModelConfig& config);

/// Splits items of the given row counts, without padding, into micro-batches of at most
/// `max_token_len` rows and nearly equal cost (sdk/common/parallel/balance.h): as few as fit so. In
/// order of their first items. Else as PlanMicroBatches.
absl::StatusOr<std::vector<std::vector<int64_t>>> PlanBalancedMicroBatches(
    absl::Span<const int64_t> lengths, const SequenceCost& cost, int64_t max_token_len);

/// The end of the mini-batch that begins at `begin`: after `size` of the policy's sequences. A
/// pretraining text belongs to the sequence that follows it; what stands at the end, to the last.
/// `size` at least 1. Without such texts: begin + size, or the batch's end. (sft knows none.)
size_t MiniBatchEnd(absl::Span<const TrainSequence> batch, size_t begin, size_t size);

/// Puts the pretraining texts, in order and evenly, in front of the mini-batches of `size` of the
/// policy's sequences (0: one mini-batch). The policy's keep their order.
std::vector<TrainSequence> SpreadPretraining(std::vector<TrainSequence> batch, size_t size);

/// The sequences of all micro-batches of a plan, ascending. A MiniBatch has `begin`, the index of
/// its first sequence, and `micro_batches`, indices from there on.
template <typename MiniBatch>
std::vector<int64_t> SequencesOf(absl::Span<const MiniBatch> plan) {
  std::vector<int64_t> sequences;
  for (const MiniBatch& mini_batch : plan) {
    for (const std::vector<int64_t>& indices : mini_batch.micro_batches) {
      for (int64_t index : indices) sequences.push_back(mini_batch.begin + index);
    }
  }
  std::sort(sequences.begin(), sequences.end());
  return sequences;
}

/// The response tokens whose predictions a pass needs.
enum class ResponseRows { kAll, kUnmasked };

/// N rows: the inputs of the chosen sequences one after the other. M predictions: the rows whose
/// next token is wanted, sequence by sequence. Tensors are int64 on the CPU.
struct PackedRows {
  torch::Tensor tokens;                 ///< [N]
  torch::Tensor prediction_rows;        ///< [M], into the N rows.
  torch::Tensor targets;                ///< [M] token ids.
  std::vector<int64_t> lengths;         ///< Rows of each sequence; they add up to N.
  std::vector<int64_t> prompt_lengths;  ///< Tokens of each sequence's prompt; or empty.
  std::vector<int64_t> sequence_index;  ///< [M]: index into the batch.
  std::vector<int64_t> response_index;  ///< [M]: which token of that response.
};

PackedRows PackRows(absl::Span<const TrainSequence> batch, absl::Span<const int64_t> indices,
                    ResponseRows which);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_MICRO_BATCH_H_
