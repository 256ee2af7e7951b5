// The decoder: causal language models of the families in model_families.h, on libtorch.
//
// The body works on flat rows: N tokens of any number of sequences, without padding. Everything
// but attention treats rows alone; what mixes rows is a strategy (AttentionContext), so training,
// scoring, prefill and cached decoding share one body.
//
// Threads: one at a time. Exceptions: the methods that compute may throw libtorch's (c10::Error);
// the engine's public entry points (generator, trainer, hf_directory) turn them into Status.
#ifndef BATON_WORKERS_ENGINE_MODEL_MODEL_H_
#define BATON_WORKERS_ENGINE_MODEL_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/communicator.h"
#include "workers/engine/model/tensor_parallel.h"
#include "workers/engine/model/vocabulary_parallel.h"

namespace baton::engine {

/// Which layer attends, and how far back.
struct AttentionLayer {
  int64_t index = 0;
  int64_t window = 0;  ///< Tokens that one attends to, itself included; 0: all before it.
};

/// The layer that mixes rows. One object serves one forward pass (or one of many, if its class says
/// so).
class AttentionContext {
 public:
  virtual ~AttentionContext() = default;

  /// Causal attention within each sequence and within the layer's window, scale 1/sqrt(head_dim) (a
  /// family's other factor is in q). q [N, num_heads, head_dim]; k and v [N, num_kv_heads,
  /// head_dim]; q and k after rotation. All may be strided views. Returns [N, num_heads, head_dim]
  /// in the same dtype and device.
  virtual torch::Tensor Attend(const AttentionLayer& layer, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& v) = 0;
};

class CausalLM {
 public:
  /// Parameters of the right shapes, all zero (norms one). InvalidArgument for a bad config.
  ///
  /// `tensor_group`: the ranks that hold the model together, one slice each (tensor_parallel.h);
  /// null or of size 1: the whole model. It must outlive the model, and all its ranks call
  /// InitializeRandom, Hidden and Logits together, with the same arguments.
  static absl::StatusOr<std::unique_ptr<CausalLM>> Create(const ModelConfig& config,
                                                          torch::Dtype dtype, torch::Device device,
                                                          Communicator* tensor_group = nullptr);
  /// A model of fewer tensor ranks, of which this rank and its neighbours have one slice each: the
  /// slices of `slice_group`'s ranks, in their order, and `mine` among them. `mine` stays where it
  /// is; memory for the others is new, lives with the result and is filled by the ranks of
  /// `slice_group`, which all call this. Tensors that `mine` has whole are taken as they are.
  ///
  /// `mine` is rank g m + s of a tensor group of t_g m ranks: s is this rank's place among the m of
  /// `slice_group`, g that in `tensor_group` of t_g, whose ranks compute together as Create says.
  /// Null is a group of 1. Groups and `mine` outlive the result. The result computes without
  /// gradients, by the products of each slice: sums over a column-cut weight (o, down) add the
  /// slices up in order. It has `mine`'s weights as they are when it computes; the others' stay
  /// those of this call.
  ///
  /// InvalidArgument: places that do not fit. ResourceExhausted: no memory. Unavailable,
  /// DeadlineExceeded: another rank is gone or late.
  static absl::StatusOr<std::unique_ptr<CausalLM>> Gather(const CausalLM& mine,
                                                          Communicator* slice_group,
                                                          Communicator* tensor_group);
  ~CausalLM();
  CausalLM(const CausalLM&) = delete;
  CausalLM& operator=(const CausalLM&) = delete;

  /// As transformers initialises: weights normal(0, initializer_range), norms 1 (Gemma 3: 0, for 1
  /// + w), biases 0. The
  /// values depend on `seed` and the config alone (drawn on the CPU in float32, in order of name;
  /// each rank keeps its slice).
  void InitializeRandom(uint64_t seed);

  /// tokens, positions: [N] int64 on any device. Returns the states after the last norm,
  /// [N, hidden_size]. Token ids outside the vocabulary throw.
  torch::Tensor Hidden(const torch::Tensor& tokens, const torch::Tensor& positions,
                       AttentionContext& attention);

  /// hidden [M, hidden_size] -> logits [M, vocab_size], in the model's dtype. Under a tensor group
  /// they are gathered, without gradients.
  torch::Tensor Logits(const torch::Tensor& hidden);
  /// The logits of this rank's part of the vocabulary, with gradients: `vocabulary_shard` says
  /// which. Without a tensor group they are all.
  torch::Tensor LocalLogits(const torch::Tensor& hidden);
  VocabularyShard vocabulary_shard() const;

  const ModelConfig& config() const;        ///< Configuration of the whole model.
  const ModelConfig& local_config() const;  ///< With this rank's heads, intermediate size, …
  Communicator* tensor_group() const;       ///< Null: this is the whole model.
  int slices() const;                       ///< 1, or those that Gather put side by side.
  torch::Dtype dtype() const;
  torch::Device device() const;

  /// Hugging Face names and parameters, sorted by name; a tied head appears once, as
  /// model.embed_tokens.weight. All are leaves. Change them IN PLACE only (under NoGradGuard):
  /// q/k/v and gate/up are slices of fused buffers which generation multiplies by at once.
  /// A gathered model's are those of its slices: a divided name comes once for each, in order, with
  /// its own shard. They are to be read alone.
  const std::vector<std::pair<std::string, torch::Tensor>>& parameters() const;
  /// The part of the whole tensor that each of parameters() is, in the same order.
  const std::vector<ParameterShard>& shards() const;

  /// Off after Create. Gradients accumulate in parameters()[i].second.grad().
  void SetRequiresGrad(bool requires_grad);

  /// A row's result then does not depend on the rows beside it, bitwise, nor on whether gradients
  /// are recorded (float32 on a CPU: every product sums each row alone, row_products.h). Elsewhere
  /// the BLAS decides. Pass deterministic to the attention context as well. (Sums over more than
  /// two ranks of a tensor group are not promised to keep it.)
  void SetDeterministic(bool deterministic);
  bool deterministic() const;

 private:
  struct Impl;
  explicit CausalLM(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_MODEL_H_
