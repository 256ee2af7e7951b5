#include "workers/engine/model/decoder_weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton::engine {
namespace {

using torch::Tensor;

/// [hidden, in] with a bias that all slices have whole.
FusedLinear MakeOutput(int64_t hidden, int64_t in, bool has_bias,
                       const torch::TensorOptions& options, const FusedLinear* beside) {
  if (beside == nullptr) return FusedLinear::Create({hidden}, in, has_bias, options);
  FusedLinear linear = FusedLinear::Create({hidden}, in, false, options);
  linear.bias = beside->bias;
  linear.biases = beside->biases;
  return linear;
}

/// A norm's weights before training.
Tensor MakeNorm(const ModelConfig& c, int64_t size, const torch::TensorOptions& options) {
  return c.norm_factor() == ModelConfig::NormFactor::kOnePlus ? torch::zeros({size}, options)
                                                              : torch::ones({size}, options);
}

DecoderLayer MakeLayer(const ModelConfig& c, const torch::TensorOptions& options,
                       const DecoderLayer* beside) {
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const auto norm = [&](Tensor DecoderLayer::*member, bool has, int64_t size, bool own = false) {
    if (!has) return Tensor();
    return beside != nullptr && !own ? beside->*member : MakeNorm(c, size, options);
  };
  using HeadNorms = ModelConfig::HeadNorms;
  const bool heads = c.head_norms() != HeadNorms::kNone;
  const bool together = c.head_norms() == HeadNorms::kAllHeads;  // then each slice has its part
  const bool before = c.has_input_norms(), behind = c.has_output_norms();
  return {norm(&DecoderLayer::attention_input_norm, before, c.hidden_size),
          FusedLinear::Create({q, kv, kv}, c.hidden_size, c.attention_bias, options),
          norm(&DecoderLayer::q_norm, heads, together ? q : c.head_dim, together),
          norm(&DecoderLayer::k_norm, heads, together ? kv : c.head_dim, together),
          MakeOutput(c.hidden_size, q, c.attention_output_bias, options,
                     beside != nullptr ? &beside->output : nullptr),
          norm(&DecoderLayer::attention_output_norm, behind, c.hidden_size),
          norm(&DecoderLayer::mlp_input_norm, before, c.hidden_size),
          FusedLinear::Create({c.intermediate_size, c.intermediate_size}, c.hidden_size, c.mlp_bias,
                              options),
          MakeOutput(c.hidden_size, c.intermediate_size, c.mlp_bias, options,
                     beside != nullptr ? &beside->down : nullptr),
          norm(&DecoderLayer::mlp_output_norm, behind, c.hidden_size)};
}

}  // namespace

std::shared_ptr<DecoderWeights> DecoderWeights::Create(const ModelConfig& config, int rank,
                                                       int ranks,
                                                       const torch::TensorOptions& options,
                                                       const DecoderWeights* beside) {
  auto weights = std::make_shared<DecoderWeights>();
  weights->local = LocalConfig(config, rank, ranks);
  const ModelConfig& c = weights->local;
  weights->embedding = torch::zeros({c.vocab_size, c.hidden_size}, options);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    weights->layers.push_back(
        MakeLayer(c, options, beside != nullptr ? &beside->layers[i] : nullptr));
  }
  weights->norm = beside != nullptr ? beside->norm : MakeNorm(c, c.hidden_size, options);
  if (!c.tie_word_embeddings) {
    weights->lm_head = FusedLinear::Create({c.vocab_size}, c.hidden_size, false, options);
  }
  weights->NameParameters();
  for (const auto& [name, parameter] : weights->parameters) {
    weights->shards.push_back(ShardOf(config, name, parameter.sizes(), rank, ranks));
    if (name == "model.embed_tokens.weight") {
      weights->vocabulary_begin = weights->shards.back().box.begin[0];
    }
  }
  return weights;
}

std::vector<Tensor> DecoderWeights::SliceStorages() const {
  std::vector<Tensor> storages = {embedding.detach()};
  if (lm_head.weight.defined()) storages.push_back(lm_head.weight);
  for (const DecoderLayer& layer : layers) {
    for (const FusedLinear* rows : {&layer.qkv, &layer.gate_up}) {
      storages.push_back(rows->weight);
      if (rows->bias.defined()) storages.push_back(rows->bias);
    }
    storages.push_back(layer.output.weight);
    storages.push_back(layer.down.weight);
    if (local.head_norms() != ModelConfig::HeadNorms::kAllHeads) continue;
    storages.push_back(layer.q_norm.detach());
    storages.push_back(layer.k_norm.detach());
  }
  return storages;
}

void DecoderWeights::NameLinear(const std::string& prefix, const std::vector<std::string>& names,
                                const FusedLinear& linear) {
  for (size_t i = 0; i < names.size(); ++i) {
    parameters.emplace_back(absl::StrCat(prefix, names[i], ".weight"), linear.weights[i]);
    if (!linear.biases.empty()) {
      parameters.emplace_back(absl::StrCat(prefix, names[i], ".bias"), linear.biases[i]);
    }
  }
}

void DecoderWeights::NameNorm(const std::string& name, const Tensor& norm) {
  if (norm.defined()) parameters.emplace_back(name + ".weight", norm);
}

void DecoderWeights::NameLayer(const std::string& prefix, const DecoderLayer& layer) {
  // post_attention_layernorm stands behind attention in families with norms behind, and in the
  // others before the feed-forward layer.
  const bool behind = local.has_output_norms();
  NameNorm(prefix + "input_layernorm", layer.attention_input_norm);
  NameNorm(prefix + "post_attention_layernorm",
           behind ? layer.attention_output_norm : layer.mlp_input_norm);
  if (behind) {
    NameNorm(prefix + "pre_feedforward_layernorm", layer.mlp_input_norm);
    NameNorm(prefix + "post_feedforward_layernorm", layer.mlp_output_norm);
  }
  NameLinear(prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"}, layer.qkv);
  NameLinear(prefix + "self_attn.", {"o_proj"}, layer.output);
  NameNorm(prefix + "self_attn.q_norm", layer.q_norm);
  NameNorm(prefix + "self_attn.k_norm", layer.k_norm);
  NameLinear(prefix + "mlp.", {"gate_proj", "up_proj"}, layer.gate_up);
  NameLinear(prefix + "mlp.", {"down_proj"}, layer.down);
}

void DecoderWeights::NameParameters() {
  parameters.emplace_back("model.embed_tokens.weight", embedding);
  NameNorm("model.norm", norm);
  if (!local.tie_word_embeddings) NameLinear("", {"lm_head"}, lm_head);
  for (size_t i = 0; i < layers.size(); ++i) {
    NameLayer(absl::StrCat("model.layers.", i, "."), layers[i]);
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace baton::engine
