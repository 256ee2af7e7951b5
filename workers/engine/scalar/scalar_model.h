// A decoder with a scalar head: a critic (one value per response token) or a reward model (one
// score per sequence). Hugging Face's LlamaForSequenceClassification and
// Qwen2ForSequenceClassification with one label; also …ForTokenClassification, whose head has a
// bias.
//
// Threads and exceptions as in model.h.
#ifndef BATON_WORKERS_ENGINE_SCALAR_SCALAR_MODEL_H_
#define BATON_WORKERS_ENGINE_SCALAR_SCALAR_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/model/layers.h"
#include "workers/engine/model/model.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {

class ScalarModel {
 public:
  /// Parameters of the right shapes, all zero (norms one). `config` describes the decoder; whether
  /// its word embeddings are tied does not matter, for there is no language-model head.
  /// `tensor_group`: the ranks that share the decoder (model.h); each has the whole head.
  static absl::StatusOr<std::unique_ptr<ScalarModel>> Create(const ModelConfig& config,
                                                             torch::Dtype dtype,
                                                             torch::Device device,
                                                             bool head_bias = false,
                                                             Communicator* tensor_group = nullptr);

  /// The decoder of `model`, copied, under a head of zeros: every value is 0 until it learns. It
  /// has the same tensor group.
  static absl::StatusOr<std::unique_ptr<ScalarModel>> FromCausalLM(const CausalLM& model,
                                                                   torch::Dtype dtype,
                                                                   torch::Device device);

  /// The scalars of `packed`'s prediction rows, [M] in the model's dtype. Gradients reach the
  /// parameters unless they are disabled.
  torch::Tensor Forward(const PackedRows& packed) { return Scalars(States(packed)); }
  /// The two halves of the forward pass: final states of those rows [M, hidden_size], and the head
  /// on states.
  torch::Tensor States(const PackedRows& packed);
  torch::Tensor Scalars(const torch::Tensor& states);

  const ModelConfig& config() const { return config_; }
  torch::Dtype dtype() const { return trunk_->dtype(); }
  torch::Device device() const { return trunk_->device(); }
  bool has_head_bias() const { return !head_.biases.empty(); }

  /// Hugging Face names and parameters, sorted by name: the decoder's (model.…) and score.weight
  /// [1, hidden_size], and score.bias [1] if there is one. Change them in place only (model.h).
  const NamedTensors& parameters() const { return parameters_; }
  /// As above, as the parts of the whole tensors that a rank holds (model.h: shards).
  std::vector<TensorPart> parts() const;
  /// Whole tensors, gathered by all ranks of the tensor group together; without one, parameters().
  absl::StatusOr<NamedTensors> WholeParameters() const;
  Communicator* tensor_group() const { return trunk_->tensor_group(); }

  /// As CausalLM's: a sequence's scalars then do not depend on the sequences beside it.
  void SetDeterministic(bool deterministic) { trunk_->SetDeterministic(deterministic); }
  bool deterministic() const { return trunk_->deterministic(); }

 private:
  ScalarModel(const ModelConfig& config, std::unique_ptr<CausalLM> trunk, FusedLinear head);

  const ModelConfig config_;
  const std::unique_ptr<CausalLM> trunk_;  ///< Built without a language-model head.
  const FusedLinear head_;
  NamedTensors parameters_;
};

/// All tokens of the chosen sequences; the one row of each that is wanted is its last token's,
/// whose state has seen everything: what a reward model scores. `targets` are empty.
PackedRows PackLastRows(absl::Span<const TrainSequence> batch, absl::Span<const int64_t> indices);

/// The value of every response token (masked or not), in the order of the batch. The value of
/// token t is the scalar of the row that predicts it, the state before the token (as verl and TRL
/// have it): V(prompt and tokens < t). No gradients; other columns are not looked at.
/// `max_token_len` and errors as in ComputeLogProbs (log_probs.h).
absl::StatusOr<std::vector<std::vector<float>>> ComputeValues(ScalarModel& model,
                                                              absl::Span<const TrainSequence> batch,
                                                              int64_t max_token_len = 0);

/// One score per sequence: the scalar of its last token, as transformers' sequence classification
/// pools it. No gradients. Sequences need no response.
absl::StatusOr<std::vector<float>> ComputeScores(ScalarModel& model,
                                                 absl::Span<const TrainSequence> batch,
                                                 int64_t max_token_len = 0);

/// ValidateSequences, and that the last token too has a position.
[[nodiscard]] absl::Status ValidateForScores(absl::Span<const TrainSequence> batch,
                                             const ModelConfig& config);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SCALAR_SCALAR_MODEL_H_
