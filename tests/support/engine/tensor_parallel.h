// A small model that several ranks can share, with every kind of parameter.
#ifndef BATON_TESTS_SUPPORT_ENGINE_TENSOR_PARALLEL_H_
#define BATON_TESTS_SUPPORT_ENGINE_TENSOR_PARALLEL_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "workers/engine/model/model.h"

namespace baton::engine::testing {

/// Four query and four key heads; vocabulary and intermediate size that two ranks share unevenly.
inline ModelConfig SharedConfig(bool tied) {
  ModelConfig config;
  config.vocab_size = 13;
  config.hidden_size = 8;
  config.intermediate_size = 11;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.head_dim = 4;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = tied;
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  config.initializer_range = 0.3;
  return config;
}

/// Weights from `seed`; biases too, which InitializeRandom leaves at 0.
inline std::unique_ptr<CausalLM> MakeSharedModel(const ModelConfig& config,
                                                 Communicator* group = nullptr,
                                                 torch::Dtype dtype = torch::kFloat64) {
  auto model = CausalLM::Create(config, dtype, torch::kCPU, group);
  EXPECT_TRUE(model.ok()) << model.status();
  (*model)->InitializeRandom(7);
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < (*model)->parameters().size(); ++i) {
    torch::Tensor parameter = (*model)->parameters()[i].second;
    if (parameter.dim() != 1) continue;
    const ParameterShard& shard = (*model)->shards()[i];
    const torch::Tensor values = torch::arange(shard.shape[0], torch::kFloat64).mul(0.7).sin();
    parameter.add_(SliceOf(values, shard.box).to(dtype), 0.2);
  }
  return *std::move(model);
}

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_TENSOR_PARALLEL_H_
