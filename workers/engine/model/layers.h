// The decoder's layers as functions on rows, differentiable once.
//
// On a CPU in float32 and float64 they run the kernels of row_kernels.h; elsewhere (CUDA, half
// types) they are composed of libtorch's operators. With gradients disabled nothing is recorded.
// All throw libtorch's exceptions on shapes that do not fit.
#ifndef BATON_WORKERS_ENGINE_MODEL_LAYERS_H_
#define BATON_WORKERS_ENGINE_MODEL_LAYERS_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/communicator.h"

namespace baton::engine {

/// x [N, D], weight [D] -> [N, D], with weights as the family's factor says. Half types are
/// normalised in float32, as transformers does.
torch::Tensor RmsNorm(const torch::Tensor& x, const torch::Tensor& weight, double eps,
                      ModelConfig::NormFactor factor = ModelConfig::NormFactor::kWeight);

/// gate_up [N, 2 I] -> f(gate) * up [N, I] with f the activation (row_kernels.h).
torch::Tensor GatedUnit(const torch::Tensor& gate_up, ModelConfig::Activation activation);

/// x [N, in], weight [out, in] -> x weight^T [N, out], or `base` [N, out] plus it, in place.
/// Records no gradients. On a CPU each row is computed alone and in one order (row_products.h), so
/// that its bits do not depend on the other rows nor on their number: in float32, which narrower
/// types are rounded from. In float64 it is the BLAS's.
torch::Tensor PlainProduct(const torch::Tensor& x, const torch::Tensor& weight,
                           torch::Tensor base = {});

/// The way to compute a product that records gradients. kByRow: as PlainProduct does, so that its
/// values are bitwise those without gradients. kBlas: by the BLAS, which is faster. A product that
/// records no gradients is a PlainProduct in both cases.
enum class ProductKind { kBlas, kByRow };

/// x [N, in], weight [out, in] -> x weight^T [N, out]. `weight` is a leaf.
torch::Tensor Product(const torch::Tensor& x, const torch::Tensor& weight, ProductKind kind);

/// Several linear maps of the same input, computed as one product.
struct FusedLinear {
  torch::Tensor weight;  ///< [sum of outs, in]: the storage of `weights`; no gradient.
  torch::Tensor bias;    ///< [sum of outs] or undefined; likewise.
  std::vector<torch::Tensor> weights;  ///< Leaves [out_i, in]: consecutive slices of `weight`.
  std::vector<torch::Tensor> biases;   ///< Leaves [out_i], or empty.

  /// All zero. `outs`: rows of each weight; `has_bias` applies to all.
  static FusedLinear Create(const std::vector<int64_t>& outs, int64_t in, bool has_bias,
                            const torch::TensorOptions& options);
  /// x [N, in] -> [N, sum of outs]. Gradients reach the leaves.
  torch::Tensor Forward(const torch::Tensor& x, ProductKind kind = ProductKind::kBlas) const;
  /// base [N, out] + the map of x. Only for a single map. With gradients disabled, `base` is
  /// overwritten and returned. With a group (tensor_parallel.h), x and the weight are this rank's
  /// columns, and the ranks' products are added up; the bias is whole.
  torch::Tensor AddTo(torch::Tensor base, const torch::Tensor& x, Communicator* group = nullptr,
                      ProductKind kind = ProductKind::kBlas) const;
};

/// Normalises the queries and keys in qkv [N, (num_heads + 2 num_kv_heads) head_dim] by the weights
/// q_norm and k_norm: each head alone (Qwen3, Gemma 3), or all heads of a token together (OLMo 2),
/// as config.head_norms() says; values stay. Returns the same shape.
torch::Tensor NormalizeHeads(const torch::Tensor& qkv, const torch::Tensor& q_norm,
                             const torch::Tensor& k_norm, const ModelConfig& config);

/// NormalizeHeads over all heads of a token where they are spread over several qkv, which several
/// ranks may have: the sums of the squares of its queries and of its keys in one of them, [N, 2] in
/// at least float32. They are added up.
torch::Tensor SquaresOfHeads(const torch::Tensor& qkv, const ModelConfig& config, ProductKind kind);
/// … and the rest: `squares` of all heads, q_norm and k_norm for those in qkv. `config` has the
/// sizes of qkv, `whole` those of the model.
torch::Tensor NormalizeHeadsBy(const torch::Tensor& squares, const torch::Tensor& qkv,
                               const torch::Tensor& q_norm, const torch::Tensor& k_norm,
                               const ModelConfig& config, const ModelConfig& whole);

/// One token's heads side by side, as attention takes them.
struct AttentionHeads {
  torch::Tensor q;  ///< [N, num_heads, head_dim].
  torch::Tensor k;  ///< [N, num_kv_heads, head_dim].
  torch::Tensor v;  ///< [N, num_kv_heads, head_dim].
};

/// qkv [N, (num_heads + 2 num_kv_heads) head_dim] as heads, not rotated: views of it.
AttentionHeads SplitHeads(const torch::Tensor& qkv, const ModelConfig& config);

/// Rotary positions: a table of cosines and sines, grown as positions ask for.
class Rotary {
 public:
  explicit Rotary(const ModelConfig& config);

  /// Rotation speed of each pair of channels, [rotary_dim / 2] radians a token, after scaling. In
  /// float32 steps as transformers computes them.
  static std::vector<float> InverseFrequencies(const ModelConfig& config);

  /// qkv [N, (num_heads + 2 num_kv_heads) head_dim], positions [N] int64 on the same device ->
  /// heads, queries and keys rotated. With gradients disabled qkv is rotated in place and the
  /// results are views of it.
  AttentionHeads Apply(const torch::Tensor& qkv, const torch::Tensor& positions);

 private:
  /// [>= positions needed, rotary_dim] in the dtype and on the device of `like`.
  const torch::Tensor& Table(const torch::Tensor& positions, const torch::Tensor& like);

  int64_t num_heads_;
  int64_t num_kv_heads_;
  int64_t head_dim_;
  int64_t rotary_dim_;
  int64_t max_positions_;
  double amplitude_;  // of cosines and sines
  std::vector<float> inverse_frequencies_;
  torch::Tensor table_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_LAYERS_H_
