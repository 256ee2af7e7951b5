// Tiny models with a scalar head for tests.
#ifndef BATON_TESTS_SUPPORT_ENGINE_SCALAR_H_
#define BATON_TESTS_SUPPORT_ENGINE_SCALAR_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/engine/trainer.h"
#include "workers/engine/scalar/scalar_trainer.h"

namespace baton::engine::testing {

/// A random decoder; its head is a language-model head's first row, so that plain logits tell what
/// the scalars must be.
struct ScalarAndPlain {
  std::unique_ptr<CausalLM> language_model;  ///< logits[:, 0] are the scalars.
  std::unique_ptr<ScalarModel> scalar;
};
inline ScalarAndPlain MakeScalar(torch::Dtype dtype,
                                 ModelConfig::Family family = ModelConfig::Family::kLlama,
                                 uint64_t seed = 3) {
  ModelConfig config = TinyConfig(family);
  config.tie_word_embeddings = false;
  ScalarAndPlain made;
  made.language_model = MakeModel(config, dtype, seed);
  auto scalar = ScalarModel::FromCausalLM(*made.language_model, dtype, torch::kCPU);
  EXPECT_TRUE(scalar.ok()) << scalar.status();
  made.scalar = *std::move(scalar);
  torch::NoGradGuard no_grad;
  torch::Tensor head = made.scalar->parameters().back().second, rows;
  for (const auto& [name, parameter] : made.language_model->parameters()) {
    if (name == "lm_head.weight") rows = parameter;
  }
  head.copy_(rows.narrow(0, 0, 1));
  return made;
}

inline std::unique_ptr<ScalarTrainer> MakeScalarTrainer(ScalarModel& model,
                                                        const OptimizerSpec& spec) {
  auto trainer = ScalarTrainer::Create(&model, spec);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

inline std::vector<torch::Tensor> ScalarWeights(const ScalarModel& model) {
  std::vector<torch::Tensor> out;
  for (const auto& named : model.parameters()) out.push_back(named.second.detach().clone());
  return out;
}

inline std::vector<torch::Tensor> ScalarGradients(const ScalarModel& model) {
  std::vector<torch::Tensor> out;
  for (const auto& named : model.parameters()) out.push_back(named.second.grad().clone());
  return out;
}

/// RandomBatch with the critic's columns.
inline std::vector<TrainSequence> RandomValueBatch(uint32_t seed, int count, int64_t vocab) {
  std::vector<TrainSequence> batch = RandomBatch(seed, count, vocab);
  std::mt19937 rng(seed + 1000);
  std::normal_distribution<float> normal;
  for (TrainSequence& s : batch) {
    for (int64_t r = 0; r < s.response_length(); ++r) {
      s.values.push_back(0.6f * normal(rng));
      s.returns.push_back(normal(rng));
    }
  }
  return batch;
}

inline PreferencePair MakePair(const std::vector<int32_t>& prompt,
                               const std::vector<int32_t>& chosen,
                               const std::vector<int32_t>& rejected) {
  const auto side = [&](const std::vector<int32_t>& response) {
    TrainSequence s;
    s.tokens = prompt;
    s.prompt_length = static_cast<int64_t>(prompt.size());
    s.tokens.insert(s.tokens.end(), response.begin(), response.end());
    return s;
  };
  return {side(chosen), side(rejected)};
}

/// Gradients by central differences of `loss` at a few elements of every parameter, compared with
/// `gradients`.
template <typename Loss>
void ExpectFiniteDifferences(const ScalarModel& model, const std::vector<torch::Tensor>& gradients,
                             const Loss& loss, double step = 1e-5, double tolerance = 1e-7) {
  torch::NoGradGuard no_grad;
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    torch::Tensor flat = model.parameters()[p].second.detach().flatten();
    ASSERT_EQ(flat.data_ptr(), model.parameters()[p].second.data_ptr());
    const torch::Tensor gradient = gradients[p].flatten();
    for (const int64_t at : {int64_t{0}, flat.numel() / 2, flat.numel() - 1}) {
      const double value = flat[at].item<double>();
      flat[at] = value + step;
      const double above = loss();
      flat[at] = value - step;
      const double below = loss();
      flat[at] = value;
      EXPECT_NEAR(gradient[at].item<double>(), (above - below) / (2 * step), tolerance)
          << model.parameters()[p].first << "[" << at << "]";
    }
  }
}

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_SCALAR_H_
