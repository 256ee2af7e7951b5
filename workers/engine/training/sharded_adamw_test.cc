#include "workers/engine/training/sharded_adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "tests/support/engine/trainer.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

OptimizerSpec ShardedSpec() {
  OptimizerSpec spec;
  spec.lr = 0.05;
  spec.weight_decay = 0.1;
  spec.grad_clip = 0.7;
  return spec;
}

/// A gradient of parameter `index` at `step`, whole.
Tensor GradientOf(const std::vector<int64_t>& shape, size_t index, int step) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return torch::arange(count, torch::kFloat64)
      .add(static_cast<double>(index) * 1.7 + step * 0.3)
      .sin()
      .view(shape);
}

/// Adds rank `rank` of `ranks`' share of the gradient to the slices that `model` holds.
void AddGradients(const CausalLM& model, int step, int rank, int ranks) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < model.shards().size(); ++i) {
    const ParameterShard& shard = model.shards()[i];
    const double share = ranks == 1 ? 1 : rank == 0 ? 1.5 : -0.5 / (ranks - 1);
    Tensor gradient = model.parameters()[i].second.grad();
    gradient.add_(SliceOf(GradientOf(shard.shape, i, step), shard.box), share);
  }
}

class ShardedAdamWTest : public ::testing::Test {
 protected:
  static std::unique_ptr<ShardedAdamW> Make(const CausalLM& model, Communicator& tensor,
                                            Communicator& data) {
    ShardedAdamWOptions options;
    options.tensor_group = tensor.size() > 1 ? &tensor : nullptr;
    options.data_group = &data;
    options.bucket_bytes = 256;
    auto made = ShardedAdamW::Create(model.config(), ModelParts(model), ShardedSpec(), options);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  /// Steps [from, to) of the plain optimizer; its norms go to `norms`.
  static void RunWhole(CausalLM& model, AdamW& adamw, int from, int to,
                       std::vector<double>& norms) {
    for (int step = from; step < to; ++step) {
      adamw.ZeroGradients();
      AddGradients(model, step, 0, 1);
      norms.push_back(*adamw.GradientNorm());
      adamw.Step(norms.back(), adamw.schedule().At(step));
    }
  }

  const TestFolder folder_;
  const ModelConfig config_ = testing::SharedConfig(true);
};

void ExpectSlices(const CausalLM& model, const std::vector<Tensor>& whole) {
  for (size_t i = 0; i < whole.size(); ++i) {
    const Tensor want = SliceOf(whole[i], model.shards()[i].box);
    EXPECT_TRUE(torch::allclose(model.parameters()[i].second, want, 1e-12, 1e-12))
        << model.shards()[i].name;
  }
}

TEST_F(ShardedAdamWTest, EqualsAdamWOnAnyRanksAndContinuesOnOthers) {
  const auto whole = testing::MakeSharedModel(config_);
  auto adamw = AdamW::Create(whole->parameters(), ShardedSpec());
  ASSERT_TRUE(adamw.ok());
  std::vector<double> norms;
  RunWhole(*whole, *adamw, 0, 3, norms);
  const std::vector<Tensor> after3 = testing::Weights(*whole);
  ASSERT_TRUE(adamw->Save(folder_.path("plain")).ok());
  RunWhole(*whole, *adamw, 3, 5, norms);
  const std::vector<Tensor> after5 = testing::Weights(*whole);

  std::string previous = folder_.path("plain");
  const std::pair<int, int> grids[] = {{1, 2}, {2, 1}, {2, 2}, {4, 3}, {1, 1}};
  for (const auto& [tp, dp] : grids) {
    const std::string file = folder_.path(std::to_string(tp) + "x" + std::to_string(dp));
    testing::RunGrid(tp, dp, [&](Communicator& tensor, Communicator& data) {
      const auto model = testing::MakeSharedModel(config_, &tensor);
      const auto optimizer = Make(*model, tensor, data);
      const auto run = [&](int from, int to) {
        for (int step = from; step < to; ++step) {
          optimizer->ZeroGradients();
          AddGradients(*model, step, data.rank(), data.size());
          optimizer->ReduceGradients();
          const double norm = *optimizer->GradientNorm();
          EXPECT_NEAR(norm, norms[step], 1e-12 * norms[step]);
          optimizer->Step(norm, optimizer->schedule().At(step));
        }
      };
      run(0, 3);
      ExpectSlices(*model, after3);
      EXPECT_TRUE(optimizer->Save(file).ok());
      run(3, 5);
      ExpectSlices(*model, after5);
      // A state that other ranks have saved, or none but one, goes on here.
      testing::SetWeights(*model, [&] {
        std::vector<Tensor> slices;
        for (size_t i = 0; i < after3.size(); ++i) {
          slices.push_back(SliceOf(after3[i], model->shards()[i].box));
        }
        return slices;
      }());
      EXPECT_TRUE(optimizer->Load(previous).ok());
      EXPECT_EQ(optimizer->step(), 3);
      run(3, 5);
      ExpectSlices(*model, after5);
      const int64_t elements = optimizer->state_bytes() / 16;
      int64_t held = 0;
      for (const auto& named : model->parameters()) held += named.second.numel();
      EXPECT_EQ(elements, (held + data.size() - 1) / data.size());
    });
    previous = file;
  }
  // And back in one process.
  testing::SetWeights(*whole, after3);
  ASSERT_TRUE(adamw->Load(previous).ok());
  RunWhole(*whole, *adamw, 3, 5, norms);
  ExpectSlices(*whole, after5);
}

TEST_F(ShardedAdamWTest, AllRanksRefuseAGradientThatIsNotFinite) {
  testing::RunGrid(2, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config_, &tensor);
    const auto optimizer = Make(*model, tensor, data);
    optimizer->ZeroGradients();
    const size_t embedding = 0;
    if (tensor.rank() == 1 && data.rank() == 0) {
      model->parameters()[embedding].second.grad()[0][0].fill_(
          std::numeric_limits<double>::infinity());
    }
    optimizer->ReduceGradients();
    const auto norm = optimizer->GradientNorm();
    EXPECT_EQ(norm.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(norm.status().message(),
                HasSubstr(tensor.rank() == 1 ? "model.embed_tokens.weight" : "another rank"));
  });
}

TEST_F(ShardedAdamWTest, ABadFileChangesNothing) {
  testing::RunGrid(1, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config_, &tensor);
    const auto optimizer = Make(*model, tensor, data);
    EXPECT_EQ(optimizer->Load(folder_.path("none")).code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(optimizer->step(), 0);
  });
}

TEST_F(ShardedAdamWTest, OneRankGetsThePlainOptimizer) {
  testing::RunGrid(1, 1, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config_, &tensor);
    const auto made =
        MakeOptimizer(model->config(), ModelParts(*model), ShardedSpec(), {&tensor, &data});
    ASSERT_TRUE(made.ok());
    EXPECT_NE(dynamic_cast<AdamW*>(made->get()), nullptr);
  });
}

}  // namespace
}  // namespace baton::engine
