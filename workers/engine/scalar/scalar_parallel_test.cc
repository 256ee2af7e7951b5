// Models with a scalar head on several ranks of one process against one rank: the same updates, and
// the same directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "relay/weights/file_io.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/scalar.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "workers/engine/scalar/scalar_directory.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using Metrics = ScalarTrainer::Metrics;

std::unique_ptr<ScalarModel> MakeShared(const ModelConfig& config, Communicator* tensor = nullptr) {
  const auto decoder = testing::MakeSharedModel(config, tensor);
  auto model = ScalarModel::FromCausalLM(*decoder, decoder->dtype(), torch::kCPU).value();
  torch::NoGradGuard no_grad;
  torch::Tensor head = model->parameters().back().second;
  head.copy_(torch::linspace(-1, 1, head.numel(), head.options()).reshape_as(head));
  return model;
}

std::unique_ptr<ScalarTrainer> MakeTrainer(ScalarModel& model, Communicator* data = nullptr) {
  OptimizerSpec spec;
  spec.lr = 0.02;
  spec.grad_clip = 0.5;
  auto trainer = ScalarTrainer::Create(&model, spec, data);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

void ExpectSameMetrics(const Metrics& got, const Metrics& want) {
  for (const auto& [name, value] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    EXPECT_NEAR(got.at(name), value, 1e-9 * std::max(1.0, std::abs(value))) << name;
  }
}

void ExpectSameWeights(const ScalarModel& part, const ScalarModel& whole) {
  const auto parts = part.parts();
  ASSERT_EQ(parts.size(), whole.parameters().size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(torch::allclose(
        parts[i].tensor, SliceOf(whole.parameters()[i].second, parts[i].shard.box), 1e-9, 1e-10))
        << parts[i].shard.name;
  }
}

TEST(ParallelScalarTrainer, EqualsOneProcess) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::RandomValueBatch(4, 11, config.vocab_size);
  std::vector<PreferencePair> pairs;
  for (int i = 0; i < 7; ++i) {
    pairs.push_back(testing::MakePair({1, i}, {2, i, 3}, {4 + i % 3}));
  }
  UpdateOptions options;
  options.ppo_epochs = 2;
  options.ppo_mini_batch_size = 4;
  options.max_token_len = 24;
  const auto whole = MakeShared(config);
  const auto trainer = MakeTrainer(*whole);
  const auto values = trainer->UpdateValues(batch, {}, options);
  ASSERT_TRUE(values.ok()) << values.status();
  const auto preferences = trainer->UpdatePreferences(pairs, options);
  ASSERT_TRUE(preferences.ok()) << preferences.status();
  const auto scored = ComputeValues(*whole, batch).value();
  const std::pair<int, int> grids[] = {{1, 2}, {2, 1}, {2, 2}, {1, 5}};
  for (const auto& [tp, dp] : grids) {
    testing::RunGrid(tp, dp, [&](Communicator& tensor, Communicator& data) {
      const auto model = MakeShared(config, &tensor);
      const auto part = MakeTrainer(*model, &data);
      const auto got_values = part->UpdateValues(batch, {}, options);
      ASSERT_TRUE(got_values.ok()) << got_values.status();
      ExpectSameMetrics(*got_values, *values);
      const auto got_preferences = part->UpdatePreferences(pairs, options);
      ASSERT_TRUE(got_preferences.ok()) << got_preferences.status();
      ExpectSameMetrics(*got_preferences, *preferences);
      ExpectSameWeights(*model, *whole);
      const auto part_scored = ComputeValues(*model, batch);
      ASSERT_TRUE(part_scored.ok());
      for (size_t i = 0; i < batch.size(); ++i) {
        for (size_t t = 0; t < scored[i].size(); ++t) {
          EXPECT_NEAR((*part_scored)[i][t], scored[i][t], 1e-6);
        }
      }
    });
  }
}

TEST(ParallelScalarTrainer, ARankNeedsItsShareAlone) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::RandomValueBatch(4, 11, config.vocab_size);
  UpdateOptions options;
  options.ppo_mini_batch_size = 4;
  options.max_token_len = 24;
  const auto alone = MakeShared(config);
  const auto metrics = MakeTrainer(*alone)->UpdateValues(batch, {}, options);
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  ASSERT_EQ(metrics->count("critic/vf_explained_var"), 1u);
  const std::pair<int, int> grids[] = {{1, 2}, {2, 2}, {1, 5}};
  for (const auto& [tp, dp] : grids) {
    testing::RunGrid(tp, dp, [&](Communicator& tensor, Communicator& data) {
      const auto whole = MakeShared(config, &tensor);
      const auto want = MakeTrainer(*whole, &data)->UpdateValues(batch, {}, options);
      ASSERT_TRUE(want.ok()) << want.status();
      const auto model = MakeShared(config, &tensor);
      const auto trainer = MakeTrainer(*model, &data);
      const auto share = trainer->Share(testing::KeepShare(batch, {}), {}, options);
      ASSERT_TRUE(share.ok()) << share.status();
      const auto got = trainer->UpdateValues(testing::KeepShare(batch, *share), {}, options);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(*got, *want);
      ExpectSameMetrics(*got, *metrics);
      EXPECT_TRUE(
          testing::SameBytes(testing::ScalarWeights(*model), testing::ScalarWeights(*whole)));
      const auto missing = trainer->UpdateValues(testing::KeepShare(batch, {}), {}, options);
      EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(missing.status().message()), HasSubstr("its tokens are not here"));
    });
  }
}

TEST(ParallelScalarTrainer, ABatchThatIsNotFiniteIsSkippedByAllRanks) {
  const ModelConfig config = testing::SharedConfig(false);
  auto batch = testing::RandomValueBatch(5, 8, config.vocab_size);
  batch[5].returns.assign(batch[5].returns.size(), 3e38f);
  batch[5].loss_mask.clear();
  for (float& value : batch[5].returns) value = std::numeric_limits<float>::max();
  testing::RunGrid(1, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = MakeShared(config, &tensor);
    torch::NoGradGuard no_grad;
    torch::Tensor head = model->parameters().back().second;
    head.mul_(1e160);  // Float64 holds the square of a float; not of this.
    const torch::AutoGradMode enabled(true);
    const auto part = MakeTrainer(*model, &data);
    const auto before = testing::ScalarWeights(*model);
    LossSpec loss;
    loss.cliprange_value = 0;
    const auto refused = part->UpdateValues(batch, loss, {});
    EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
    EXPECT_TRUE(testing::SameBytes(before, testing::ScalarWeights(*model)));
    EXPECT_EQ(part->optimizer_steps(), 0);
  });
}

TEST(ParallelScalarModel, RanksReadTheirSlicesAndWriteTheWhole) {
  const TestFolder folder;
  const ModelConfig config = testing::SharedConfig(false);
  const auto whole = MakeShared(config);
  ASSERT_TRUE(SaveScalarModel(*whole, folder.path("one")).ok());
  testing::RunGrid(2, 1, [&](Communicator& tensor, Communicator&) {
    const auto model = LoadScalarModel(folder.path("one"), whole->dtype(), torch::kCPU,
                                       HeadWanted::kRequired, &tensor);
    ASSERT_TRUE(model.ok()) << model.status();
    ExpectSameWeights(**model, *whole);
    ASSERT_TRUE(SaveScalarModel(**model, folder.path("two")).ok());
  });
  EXPECT_EQ(relay::ReadFile(folder.path("one/model.safetensors")).value(),
            relay::ReadFile(folder.path("two/model.safetensors")).value());
  EXPECT_EQ(relay::ReadFile(folder.path("one/config.json")).value(),
            relay::ReadFile(folder.path("two/config.json")).value());
}

}  // namespace
}  // namespace baton::engine
