// What a decoder costs: parameters, FLOPs and bytes, from the numbers of its configuration.
#ifndef BATON_SDK_PLACEMENT_MODEL_COST_H_
#define BATON_SDK_PLACEMENT_MODEL_COST_H_

#include <cstdint>
#include <string>
#include <vector>

namespace baton::placement {

/// A decoder of the Llama family (Llama, Qwen2): gated feed-forward, grouped-query attention.
struct ModelConfig {
  std::string name;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;  ///< 0: hidden / heads.
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  bool tied = false;         ///< Embedding and head are one matrix.
  bool qkv_bias = false;     ///< Qwen2.
  bool scalar_head = false;  ///< hidden -> 1 in place of the head: critics, reward models.

  int64_t HeadSize() const { return head_size > 0 ? head_size : hidden / heads; }
};

/// "" or what is wrong with the numbers, e.g. "heads: 0 is below 1".
std::string Fault(const ModelConfig& model);

/// Every parameter: embedding, layers (q, k, v, o, gate, up, down, two norms), last norm, head.
int64_t ParameterCount(const ModelConfig& model);

/// Parameters that a token is multiplied with: all but embedding, norms and biases; the head
/// counts, whether or not it is tied.
int64_t MatrixParameters(const ModelConfig& model);

/// Forward FLOPs of one sequence of `tokens` (causal): 2 per matrix parameter and token, and
/// 2 heads head_size tokens² per layer for the scores and the weighted sum of attention.
double ForwardFlops(const ModelConfig& model, double tokens);

/// What the head is of them.
double HeadFlops(const ModelConfig& model, double tokens);

/// FLOPs of one generated token that attends to `context` tokens.
double DecodeFlops(const ModelConfig& model, double context);

/// Keys and values of one token in all layers, for elements of `bytes` bytes.
double KvBytes(const ModelConfig& model, double bytes);

/// Models that have a name, e.g. "llama-7b", "qwen2.5-32b"; from their published configurations.
const std::vector<ModelConfig>& KnownModels();
const ModelConfig* FindModel(const std::string& name);

}  // namespace baton::placement

#endif  // BATON_SDK_PLACEMENT_MODEL_COST_H_
