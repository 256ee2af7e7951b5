// The trainer on several ranks of one process against the trainer on one: the same updates. (With
// processes and a transport: workers/parallel/parity_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include <cmath>

#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "tests/support/engine/trainer.h"
#include "workers/engine/training/sharded_adamw.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

OptimizerSpec AdamSpec() {
  OptimizerSpec spec;
  spec.lr = 0.02;
  spec.grad_clip = 0.5;
  return spec;
}

LossSpec Ppo(const std::string& aggregation) {
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.loss_agg_mode = aggregation;
  loss.entropy_coeff = 0.02;
  loss.use_kl_loss = true;
  loss.kl_loss_coef = 0.1;
  loss.clip_ratio_c = 3;
  loss.temperature = 0.9;
  return loss;
}

std::unique_ptr<Trainer> Make(CausalLM& model, Communicator* data = nullptr) {
  auto trainer = Trainer::Create(&model, AdamSpec(), data);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

void ExpectSameMetrics(const std::map<std::string, double>& got,
                       const std::map<std::string, double>& want) {
  for (const auto& [name, value] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    EXPECT_NEAR(got.at(name), value, 1e-9 * std::max(1.0, std::abs(value))) << name;
  }
}

TEST(ParallelTrainerTest, EqualsOneProcess) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::RandomBatch(4, 11, config.vocab_size);
  UpdateOptions options;
  options.ppo_epochs = 2;
  options.ppo_mini_batch_size = 4;  // 4, 4 and 3 sequences.
  options.max_token_len = 20;
  for (const std::string aggregation : {"token-mean", "seq-mean-token-mean"}) {
    const auto whole = testing::MakeSharedModel(config);
    const auto trainer = Make(*whole);
    const auto want = trainer->Update(batch, Ppo(aggregation), options);
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_EQ(want->count("perf/imbalance"), 0u);
    const auto scores = trainer->LogProbs(batch, 0.9);
    const std::pair<int, int> grids[] = {{1, 2}, {2, 1}, {2, 2}, {1, 5}};
    for (const auto& [tp, dp] : grids) {
      testing::RunGrid(tp, dp, [&](Communicator& tensor, Communicator& data) {
        const auto model = testing::MakeSharedModel(config, &tensor);
        const auto part = Make(*model, &data);
        const auto got = part->Update(batch, Ppo(aggregation), options);
        ASSERT_TRUE(got.ok()) << got.status();
        ExpectSameMetrics(*got, *want);
        if (data.size() > 1) {
          EXPECT_GE(got->at("perf/imbalance"), 1);
        }
        if (data.size() == 2) {  // One of five ranks has no sequence of a mini-batch of four.
          const auto& optimizer = dynamic_cast<const ShardedAdamW&>(part->optimizer());
          EXPECT_GT(optimizer.overlapped_buckets(), 0);
        }
        for (size_t i = 0; i < model->shards().size(); ++i) {
          const torch::Tensor slice =
              SliceOf(whole->parameters()[i].second, model->shards()[i].box);
          EXPECT_TRUE(torch::allclose(model->parameters()[i].second, slice, 1e-9, 1e-10))
              << model->shards()[i].name << " " << tensor.size() << "x" << data.size();
        }
        const auto part_scores = part->LogProbs(batch, 0.9);
        ASSERT_TRUE(part_scores.ok());
        for (size_t i = 0; i < batch.size(); ++i) {
          for (size_t t = 0; t < (*scores)[i].size(); ++t) {
            EXPECT_NEAR((*part_scores)[i][t], (*scores)[i][t], 1e-6);
          }
        }
      });
    }
  }
}

TEST(ParallelTrainerTest, EveryLossWithEveryTermEqualsOneProcess) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::MixedBatch(4, 11, config.vocab_size);
  UpdateOptions options;
  options.ppo_mini_batch_size = 6;
  options.max_token_len = 20;
  for (const auto kind : {LossSpec::kGspo, LossSpec::kCispo, LossSpec::kReinforce}) {
    LossSpec loss = Ppo("token-mean");
    loss.kind = kind;
    loss.rollout_is = kind == LossSpec::kGspo ? "sequence" : "token";
    loss.positive_nll_coef = 0.2;
    loss.ptx_coef = 0.5;
    const auto whole = testing::MakeSharedModel(config);
    const auto want = Make(*whole)->Update(batch, loss, options);
    ASSERT_TRUE(want.ok()) << want.status();
    testing::RunGrid(2, 2, [&](Communicator& tensor, Communicator& data) {
      const auto model = testing::MakeSharedModel(config, &tensor);
      const auto got = Make(*model, &data)->Update(batch, loss, options);
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectSameMetrics(*got, *want);
      for (size_t i = 0; i < model->shards().size(); ++i) {
        const torch::Tensor slice = SliceOf(whole->parameters()[i].second, model->shards()[i].box);
        EXPECT_TRUE(torch::allclose(model->parameters()[i].second, slice, 1e-9, 1e-10))
            << model->shards()[i].name << " kind " << kind;
      }
    });
  }
}

TEST(ParallelTrainerTest, ARanksBadLossSkipsTheStepOnAll) {
  const ModelConfig config = testing::SharedConfig(false);
  auto batch = testing::RandomBatch(4, 8, config.vocab_size);
  for (TrainSequence& s : batch) s.loss_mask.clear();
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.loss_agg_mode = "seq-mean-token-sum";
  batch[6].advantages.assign(batch[6].advantages.size(), 3e38f);  // The sum overflows float32.
  batch[6].behaviour_log_probs.assign(batch[6].behaviour_log_probs.size(), -60.0f);
  for (float& a : batch[6].advantages) a = -a;
  UpdateOptions options;
  options.ppo_mini_batch_size = 4;
  testing::RunGrid(2, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config, &tensor, torch::kFloat32);
    const auto trainer = Make(*model, &data);
    const auto metrics = trainer->Update(batch, loss, options);
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    EXPECT_EQ(metrics->at("actor/optimizer_steps"), 1);
    EXPECT_EQ(metrics->at("actor/skipped_steps"), 1);
    ASSERT_EQ(trainer->skip_reasons().size(), 1u);
    EXPECT_THAT(trainer->skip_reasons()[0], HasSubstr("mini-batch from sequence 4"));
    EXPECT_EQ(trainer->optimizer_steps(), 1);
  });
}

TEST(ParallelTrainerTest, DifferentBatchesAreRefusedByAll) {
  const ModelConfig config = testing::SharedConfig(false);
  testing::RunGrid(1, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config, &tensor);
    const auto trainer = Make(*model, &data);
    const auto batch = testing::RandomBatch(4 + data.rank(), 8, config.vocab_size);
    const auto metrics = trainer->Update(batch, Ppo("token-mean"), {});
    EXPECT_EQ(metrics.status().code(), absl::StatusCode::kInvalidArgument);
    // The trainers are still of use.
    const auto same = testing::RandomBatch(4, 8, config.vocab_size);
    EXPECT_TRUE(trainer->Update(same, Ppo("token-mean"), {}).ok());
  });
}

// Lengths are uneven, masks and texts among them, and one of five ranks has nothing to do: with the
// headers of the others' sequences every rank makes the very step that it makes with all of them.
TEST(ParallelTrainerTest, ARankNeedsItsShareAlone) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::MixedBatch(4, 11, config.vocab_size);
  UpdateOptions options;
  options.ppo_epochs = 2;
  options.ppo_mini_batch_size = 4;
  options.max_token_len = 20;
  LossSpec loss = Ppo("seq-mean-token-sum-norm");
  loss.positive_nll_coef = 0.2;
  loss.ptx_coef = 0.5;
  const std::pair<int, int> grids[] = {{1, 2}, {2, 2}, {1, 5}};
  for (const auto& [tp, dp] : grids) {
    std::mutex mu;
    std::map<int64_t, int> taken;  // by how many ranks
    testing::RunGrid(tp, dp, [&](Communicator& tensor, Communicator& data) {
      const auto whole = testing::MakeSharedModel(config, &tensor);
      const auto want = Make(*whole, &data)->Update(batch, loss, options);
      ASSERT_TRUE(want.ok()) << want.status();
      const auto model = testing::MakeSharedModel(config, &tensor);
      const auto trainer = Make(*model, &data);
      const auto share = trainer->Share(testing::KeepShare(batch, {}), loss, options);
      ASSERT_TRUE(share.ok()) << share.status();
      const auto got = trainer->Update(testing::KeepShare(batch, *share), loss, options);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(*got, *want);
      for (size_t i = 0; i < model->parameters().size(); ++i) {
        EXPECT_TRUE(torch::equal(model->parameters()[i].second, whole->parameters()[i].second));
      }
      const std::lock_guard<std::mutex> lock(mu);
      for (const int64_t index : *share) taken[index] += tensor.rank() == 0 ? 1 : 0;
    });
    for (size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(taken[static_cast<int64_t>(i)], batch[i].CountUnmasked() > 0 ? 1 : 0) << i;
    }
  }
}

TEST(ParallelTrainerTest, AllRanksReportAnErrorInOneRanksShare) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::RandomBatch(4, 8, config.vocab_size);
  const LossSpec loss = Ppo("token-mean");
  testing::RunGrid(1, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config, &tensor);
    const auto trainer = Make(*model, &data);
    const auto share = trainer->Share(batch, loss, {}).value();
    auto kept = testing::KeepShare(batch, share);
    if (data.rank() == 1) kept[share[0]].advantages.assign(1, NAN);
    const auto bad = trainer->Update(kept, loss, {});
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("advantages is nan"));
    if (data.rank() == 1) kept = testing::KeepShare(batch, {});
    const auto missing = trainer->Update(kept, loss, {});
    EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(missing.status().message()), HasSubstr("its tokens are not here"));
    // The trainers are still of use.
    EXPECT_TRUE(trainer->Update(testing::KeepShare(batch, share), loss, {}).ok());
  });
}

TEST(ParallelTrainerTest, RanksOfATensorGroupHaveOneShare) {
  const ModelConfig config = testing::SharedConfig(false);
  testing::RunGrid(2, 1, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config, &tensor);
    const auto trainer = Make(*model, &data);
    auto batch = testing::RandomBatch(4, 8, config.vocab_size);
    if (tensor.rank() == 1) batch[5].advantages[0] += 1;
    const auto refused = trainer->Update(batch, Ppo("token-mean"), {});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("different shares"));
  });
}

TEST(ParallelTrainerTest, CancellingOneRankCancelsAll) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = testing::RandomBatch(4, 8, config.vocab_size);
  testing::RunGrid(1, 2, [&](Communicator& tensor, Communicator& data) {
    const auto model = testing::MakeSharedModel(config, &tensor);
    const auto trainer = Make(*model, &data);
    UpdateOptions options;
    options.cancelled = [&] { return data.rank() == 1; };
    EXPECT_EQ(trainer->Update(batch, Ppo("token-mean"), options).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_TRUE(trainer->Update(batch, Ppo("token-mean"), {}).ok());
  });
}

}  // namespace
}  // namespace baton::engine
