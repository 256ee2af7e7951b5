// The cost of a decoder: parameters, FLOPs and bytes, from the numbers of its configuration.
#ifndef BATON_SDK_PLANNER_PLACEMENT_MODEL_COST_H_
#define BATON_SDK_PLANNER_PLACEMENT_MODEL_COST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sdk/common/schema/model_config.h"

namespace baton::placement {

/// A model as the planner sees it: a configuration that need not be complete (ModelConfig::Sketch).
struct PlannedModel : ModelConfig {
  PlannedModel() = default;
  PlannedModel(std::string name, ModelConfig config)
      : ModelConfig(std::move(config)), name(std::move(name)) {}

  std::string name;
  bool scalar_head = false;  ///< hidden -> 1 in place of the head: critics, reward models.
};

/// "" or what is wrong with the numbers, e.g. "num_attention_heads: 0 is below 1".
std::string Fault(const PlannedModel& model);

/// Every parameter: embedding, layers (q, k, v, o, gate, up, down, two norms), last norm, head.
int64_t ParameterCount(const PlannedModel& model);

/// Parameters that a token is multiplied with: all but embedding, norms and biases; the head
/// counts, whether or not it is tied.
int64_t MatrixParameters(const PlannedModel& model);

/// Forward FLOPs of one sequence of `tokens` (causal): 2 per matrix parameter and token, and
/// 2 heads head_dim tokens² per layer for the scores and the weighted sum of attention.
double ForwardFlops(const PlannedModel& model, double tokens);

/// The head's part of ForwardFlops.
double HeadFlops(const PlannedModel& model, double tokens);

/// FLOPs of one generated token that attends to `context` tokens.
double DecodeFlops(const PlannedModel& model, double context);

/// Keys and values of one token in all layers, for elements of `bytes` bytes.
double KvBytes(const PlannedModel& model, double bytes);

/// Models that have a name, e.g. "llama-7b", "qwen2.5-32b"; from their published configurations.
const std::vector<PlannedModel>& KnownModels();
const PlannedModel* FindModel(const std::string& name);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_MODEL_COST_H_
