// Tiny models and random batches for the trainer's tests.
#ifndef BATON_TESTS_SUPPORT_ENGINE_TRAINER_H_
#define BATON_TESTS_SUPPORT_ENGINE_TRAINER_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "workers/engine/training/trainer.h"

namespace baton::engine::testing {

inline ModelConfig TinyConfig(ModelConfig::Family family = ModelConfig::Family::kLlama) {
  ModelConfig config;
  config.family = family;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = family == ModelConfig::Family::kQwen2;
  config.attention_bias = family == ModelConfig::Family::kQwen2;
  config.initializer_range = 0.3;
  return config;
}

inline std::unique_ptr<CausalLM> MakeModel(const ModelConfig& config, torch::Dtype dtype,
                                           uint64_t seed = 3) {
  auto model = CausalLM::Create(config, dtype, torch::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  (*model)->InitializeRandom(seed);
  return *std::move(model);
}

inline std::unique_ptr<Trainer> MakeTrainer(CausalLM& model, const OptimizerSpec& spec) {
  auto trainer = Trainer::Create(&model, spec);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

/// Leaves the weights as they are, so that Update only measures: the gradients stay in grad().
inline OptimizerSpec Measuring() {
  OptimizerSpec spec;
  spec.lr = 0;
  spec.grad_clip = 0;
  spec.weight_decay = 0;
  return spec;
}

/// Ragged prompts and responses with masks; columns near what a policy would give. Among them one
/// response of length 1, one without tokens, one fully masked and one with a single advantage.
inline std::vector<TrainSequence> RandomBatch(uint32_t seed, int count, int64_t vocab) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<TrainSequence> batch(count);
  for (int i = 0; i < count; ++i) {
    TrainSequence& s = batch[i];
    s.prompt_length = 1 + static_cast<int64_t>(rng() % 4);
    const int64_t response = i == 0 ? 1 : i == 1 ? 0 : 1 + static_cast<int64_t>(rng() % 7);
    for (int64_t t = 0; t < s.prompt_length + response; ++t) {
      s.tokens.push_back(static_cast<int32_t>(rng() % vocab));
    }
    for (int64_t r = 0; r < response; ++r) {
      s.behaviour_log_probs.push_back(-2.4f + 0.5f * normal(rng));
      s.ref_log_probs.push_back(-2.4f + 0.5f * normal(rng));
      s.advantages.push_back(r % 3 == 2 ? 0.0f : normal(rng));
      s.loss_mask.push_back(i != 2 && rng() % 4 != 0 ? 1 : 0);
    }
    if (i == 0) s.loss_mask = {1};
    if (i == 3) s.advantages.resize(1);
    if (i == 4) s.loss_mask.clear();
  }
  return batch;
}

/// The header of a sequence that other ranks train on.
inline TrainSequence HeaderOf(const TrainSequence& s) {
  TrainSequence header;
  header.remote_length = s.length();
  header.prompt_length = s.prompt_length;
  header.loss_mask = s.loss_mask;
  header.positive = s.positive;
  return header;
}

/// `batch` as held by the rank that has `share` of it, the texts, and the headers of the rest.
inline std::vector<TrainSequence> KeepShare(const std::vector<TrainSequence>& batch,
                                            const std::vector<int64_t>& share) {
  std::vector<TrainSequence> kept;
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool own = std::binary_search(share.begin(), share.end(), static_cast<int64_t>(i));
    kept.push_back(own || batch[i].pretraining ? batch[i] : HeaderOf(batch[i]));
  }
  return kept;
}

/// RandomBatch with recomputed log-probs; every third sequence is positive, two are pretraining
/// text without any column.
inline std::vector<TrainSequence> MixedBatch(uint32_t seed, int count, int64_t vocab) {
  std::vector<TrainSequence> batch = RandomBatch(seed, count, vocab);
  std::mt19937 rng(seed + 100);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < batch.size(); ++i) {
    for (const float b : batch[i].behaviour_log_probs) {
      batch[i].old_log_probs.push_back(b + 0.6F * normal(rng));
    }
    batch[i].positive = i % 3 == 0;
  }
  for (const size_t i : {size_t{4}, size_t{5}}) {
    TrainSequence text;
    text.tokens = batch[i].tokens;
    text.prompt_length = 1;
    text.pretraining = true;
    batch[i] = text;
  }
  return batch;
}

inline std::vector<std::pair<std::string, torch::Tensor>> Gradients(const CausalLM& model) {
  std::vector<std::pair<std::string, torch::Tensor>> out;
  for (const auto& [name, p] : model.parameters()) out.emplace_back(name, p.grad().clone());
  return out;
}

inline std::vector<torch::Tensor> Weights(const CausalLM& model) {
  std::vector<torch::Tensor> out;
  for (const auto& named : model.parameters()) out.push_back(named.second.detach().clone());
  return out;
}

inline void SetWeights(CausalLM& model, const std::vector<torch::Tensor>& weights) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < weights.size(); ++i) {
    torch::Tensor parameter = model.parameters()[i].second;
    parameter.copy_(weights[i]);
  }
}

inline bool SameBytes(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const torch::Tensor x = a[i].contiguous(), y = b[i].contiguous();
    if (x.nbytes() != y.nbytes() || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_TRAINER_H_
