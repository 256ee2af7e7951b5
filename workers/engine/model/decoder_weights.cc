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

DecoderLayer MakeLayer(const ModelConfig& c, const torch::TensorOptions& options,
                       const DecoderLayer* beside) {
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const auto norm = [&](Tensor DecoderLayer::*member, int64_t size) {
    return beside != nullptr ? beside->*member : torch::ones({size}, options);
  };
  const auto head_norm = [&](Tensor DecoderLayer::*member) {
    return c.has_head_norms() ? norm(member, c.head_dim) : Tensor();
  };
  return {norm(&DecoderLayer::input_norm, c.hidden_size),
          FusedLinear::Create({q, kv, kv}, c.hidden_size, c.attention_bias, options),
          head_norm(&DecoderLayer::q_norm),
          head_norm(&DecoderLayer::k_norm),
          MakeOutput(c.hidden_size, q, c.attention_output_bias, options,
                     beside != nullptr ? &beside->output : nullptr),
          norm(&DecoderLayer::post_attention_norm, c.hidden_size),
          FusedLinear::Create({c.intermediate_size, c.intermediate_size}, c.hidden_size, c.mlp_bias,
                              options),
          MakeOutput(c.hidden_size, c.intermediate_size, c.mlp_bias, options,
                     beside != nullptr ? &beside->down : nullptr)};
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
  weights->norm = beside != nullptr ? beside->norm : torch::ones({c.hidden_size}, options);
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

void DecoderWeights::NameParameters() {
  parameters.emplace_back("model.embed_tokens.weight", embedding);
  parameters.emplace_back("model.norm.weight", norm);
  if (!local.tie_word_embeddings) NameLinear("", {"lm_head"}, lm_head);
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string prefix = absl::StrCat("model.layers.", i, ".");
    const DecoderLayer& layer = layers[i];
    parameters.emplace_back(prefix + "input_layernorm.weight", layer.input_norm);
    parameters.emplace_back(prefix + "post_attention_layernorm.weight", layer.post_attention_norm);
    NameLinear(prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"}, layer.qkv);
    NameLinear(prefix + "self_attn.", {"o_proj"}, layer.output);
    if (layer.q_norm.defined()) {
      parameters.emplace_back(prefix + "self_attn.q_norm.weight", layer.q_norm);
      parameters.emplace_back(prefix + "self_attn.k_norm.weight", layer.k_norm);
    }
    NameLinear(prefix + "mlp.", {"gate_proj", "up_proj"}, layer.gate_up);
    NameLinear(prefix + "mlp.", {"down_proj"}, layer.down);
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace baton::engine
