#include "workers/engine/model/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "workers/engine/loss/loss.h"
#include "workers/engine/model/attention.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::Tensor;

TEST(TensorParallelTest, SlicesByHand) {
  const ModelConfig config = testing::SharedConfig(false);
  const ModelConfig local = LocalConfig(config, 1, 2);
  EXPECT_EQ(local.num_attention_heads, 2);
  EXPECT_EQ(local.num_key_value_heads, 2);
  EXPECT_EQ(local.intermediate_size, 6);  // 11 = 5 + 6
  EXPECT_EQ(local.vocab_size, 7);         // 13 = 6 + 7
  EXPECT_EQ(local.hidden_size, 8);
  const auto shard = [&](const char* name, std::vector<int64_t> local_shape) {
    return ShardOf(config, name, local_shape, 1, 2);
  };
  EXPECT_EQ(shard("lm_head.weight", {7, 8}).box, (relay::Box{{6, 0}, {13, 8}}));
  EXPECT_THAT(shard("lm_head.weight", {7, 8}).shape, ElementsAre(13, 8));
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(shard((layer + "self_attn.q_proj.bias").c_str(), {8}).box, (relay::Box{{8}, {16}}));
  EXPECT_EQ(shard((layer + "self_attn.o_proj.weight").c_str(), {8, 8}).box,
            (relay::Box{{0, 8}, {8, 16}}));
  EXPECT_EQ(shard((layer + "mlp.down_proj.weight").c_str(), {8, 6}).box,
            (relay::Box{{0, 5}, {8, 11}}));
  EXPECT_TRUE(shard((layer + "mlp.down_proj.bias").c_str(), {8}).whole());
  EXPECT_TRUE(shard((layer + "input_layernorm.weight").c_str(), {8}).whole());
}

// The hybrid engine relies on this: a slice of few ranks is made of whole slices of many.
TEST(TensorParallelTest, SlicesOfADivisorContainThoseOfTheMultiple) {
  ModelConfig config = testing::SharedConfig(false);
  config.num_attention_heads = config.num_key_value_heads = 8;
  const std::vector<int64_t> local = {0, 8};
  for (int few : {1, 2, 4}) {
    for (int rank = 0; rank < 8; ++rank) {
      const relay::Box small = ShardOf(config, "lm_head.weight", local, rank, 8).box;
      const relay::Box large = ShardOf(config, "lm_head.weight", local, rank / (8 / few), few).box;
      EXPECT_TRUE(large.Contains(small)) << few << " " << rank;
    }
  }
}

TEST(TensorParallelTest, NamesWhatCannotBeShared) {
  ModelConfig config = testing::SharedConfig(false);
  EXPECT_TRUE(CheckTensorParallel(config, 4).ok());
  config.num_key_value_heads = 2;
  const absl::Status status = CheckTensorParallel(config, 4);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "parallel.tp: 4 does not divide the model's num_key_value_heads (2); choose a divisor "
            "of it");
  EXPECT_THAT(CheckTensorParallel(config, 3).message(), HasSubstr("num_attention_heads (4)"));
  EXPECT_THAT(CheckTensorParallel(config, 0).message(), HasSubstr("below 1"));
  testing::RunRanks(3, [&](Communicator& group) {
    EXPECT_FALSE(CausalLM::Create(config, torch::kFloat32, torch::kCPU, &group).ok());
  });
}

const std::vector<int64_t> kLengths = {5, 1, 3};

struct Passed {
  Tensor log_probs, entropy;
  std::map<std::string, Tensor> gradients;
};

/// Forward and backward over three sequences, as the trainer does it.
Passed Pass(CausalLM& model) {
  model.SetRequiresGrad(true);
  PackedCausalAttention attention(kLengths);
  const Tensor tokens = torch::tensor({1, 12, 3, 6, 0, 5, 7, 6, 12}, torch::kInt64);
  const Tensor targets = torch::tensor({12, 3, 6, 0, 4, 5, 6, 7, 9}, torch::kInt64);
  const Tensor hidden = model.Hidden(tokens, attention.Positions(), attention);
  const TokenScores scores = ScoreTokens(model.LocalLogits(hidden), targets, 0.9,
                                         EntropyMode::kGradient, {model.vocabulary_shard()});
  const Tensor weights = torch::arange(9, torch::kFloat64).cos();
  ((scores.log_probs + 0.3 * scores.entropy) * weights).sum().backward();
  Passed passed{scores.log_probs.detach(), scores.entropy.detach(), {}};
  for (const auto& [name, parameter] : model.parameters()) {
    passed.gradients[name] = parameter.grad().clone();
  }
  return passed;
}

TEST(TensorParallelTest, ForwardAndBackwardEqualTheWholeModel) {
  for (const bool tied : {false, true}) {
    const ModelConfig config = testing::SharedConfig(tied);
    const auto whole_model = testing::MakeSharedModel(config);
    const Passed whole = Pass(*whole_model);
    for (const int size : {2, 4}) {
      testing::RunRanks(size, [&](Communicator& group) {
        const auto model = testing::MakeSharedModel(config, &group);
        const Passed part = Pass(*model);
        EXPECT_TRUE(torch::allclose(part.log_probs, whole.log_probs, 1e-11, 1e-12));
        EXPECT_TRUE(torch::allclose(part.entropy, whole.entropy, 1e-11, 1e-12));
        for (const ParameterShard& shard : model->shards()) {
          EXPECT_TRUE(torch::allclose(part.gradients.at(shard.name),
                                      SliceOf(whole.gradients.at(shard.name), shard.box), 1e-10,
                                      1e-12))
              << shard.name << " tied " << tied << " ranks " << size;
        }
      });
    }
  }
}

/// One model of each family that has more than SharedConfig: norms of heads and behind the layers,
/// which are whole on every rank, or cut by heads (OLMo 2), factors, layers that rotate otherwise.
std::vector<ModelConfig> OtherFamilies() {
  std::vector<ModelConfig> out(6, testing::SharedConfig(false));
  out[0].family = ModelFamily::kQwen3;
  out[1].family = ModelFamily::kSmolLm3;
  out[1].layers.rotary = {true, false};
  out[2].family = ModelFamily::kPhi3;
  for (const size_t i : {1, 2}) out[i].attention_bias = out[i].attention_output_bias = false;
  out[2].rope.partial_rotary_factor = 0.5;
  out[3].family = ModelFamily::kGranite;
  out[3].embedding_multiplier = 3;
  out[3].residual_multiplier = 0.6;
  out[3].attention_multiplier = 0.4;
  out[3].logits_scaling = 1.5;
  out[4].family = ModelFamily::kGemma3;
  out[4].tie_word_embeddings = true;
  out[4].layers.sliding_window = 3;
  out[4].layers.sliding = {true, false};
  out[5].family = ModelFamily::kOlmo2;
  for (const size_t i : {0, 2, 4, 5}) out[i].mlp_bias = false;
  return out;
}

// Each rank has the gradient of its heads alone.
TEST(TensorParallelTest, EveryFamilyEqualsTheWholeModel) {
  for (const ModelConfig& config : OtherFamilies()) {
    const Passed whole = Pass(*testing::MakeSharedModel(config));
    for (const auto& [name, gradient] : whole.gradients) {
      EXPECT_GT(gradient.abs().max().item<double>(), 1e-4) << name << config.FamilyName();
    }
    for (const int size : {2, 4}) {
      testing::RunRanks(size, [&](Communicator& group) {
        const auto model = testing::MakeSharedModel(config, &group);
        const Passed part = Pass(*model);
        EXPECT_TRUE(torch::allclose(part.log_probs, whole.log_probs, 1e-11, 1e-12));
        for (const ParameterShard& shard : model->shards()) {
          EXPECT_TRUE(torch::allclose(part.gradients.at(shard.name),
                                      SliceOf(whole.gradients.at(shard.name), shard.box), 1e-10,
                                      1e-12))
              << shard.name << " " << config.FamilyName() << " ranks " << size;
        }
      });
    }
  }
}

TEST(TensorParallelTest, GathersLogitsWithoutGradients) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto whole_model = testing::MakeSharedModel(config);
  torch::manual_seed(2);
  const Tensor hidden = torch::randn({4, 8}, torch::kFloat64);
  const Tensor whole = whole_model->Logits(hidden).detach();
  testing::RunRanks(2, [&](Communicator& group) {
    const auto model = testing::MakeSharedModel(config, &group);
    const Tensor logits = model->Logits(hidden);
    EXPECT_TRUE(torch::allclose(logits, whole, 1e-12, 1e-12));
    EXPECT_FALSE(logits.requires_grad());
    torch::NoGradGuard no_grad;
    PackedCausalAttention attention(kLengths);
    EXPECT_ANY_THROW(model->Hidden(torch::tensor({1, 12, 3, 13, 0, 5, 7, 6, 12}, torch::kInt64),
                                   attention.Positions(), attention));
  });
}

TEST(TensorParallelTest, AGroupOfOneMeansNoTensorParallelism) {
  testing::RunRanks(1, [&](Communicator& group) {
    const auto model = testing::MakeSharedModel(testing::SharedConfig(false), &group);
    EXPECT_EQ(model->tensor_group(), nullptr);
    EXPECT_EQ(model->vocabulary_shard().group, nullptr);
  });
}

}  // namespace
}  // namespace baton::engine
