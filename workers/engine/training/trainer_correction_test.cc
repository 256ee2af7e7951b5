// The off-policy correction through the trainer: what is rejected, weights, ranks, and PPO with
// three policies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "tests/support/engine/trainer.h"
#include "workers/engine/training/trainer_loss.h"

namespace baton::engine {
namespace {

using testing::Gradients;
using ::testing::HasSubstr;
using testing::MakeModel;
using testing::MakeTrainer;
using testing::Measuring;
using testing::MixedBatch;
using testing::SameBytes;
using testing::TinyConfig;
using testing::Weights;

LossSpec Rejecting(LossSpec::Kind kind = LossSpec::kPpoClip) {
  LossSpec loss;
  loss.kind = kind;
  loss.clip_ratio_high = 0.28;
  loss.temperature = 0.8;
  loss.entropy_coeff = 0.1;
  loss.use_kl_loss = true;
  loss.positive_nll_coef = 0.4;
  loss.ptx_coef = 0.7;
  loss.rollout_rs = "token";
  loss.rollout_rs_threshold = 1.5;
  return loss;
}

/// The same batch with the tokens masked that rollout_rs: token in [1/1.5, 1.5] rejects.
std::vector<TrainSequence> MaskedByHand(std::vector<TrainSequence> batch) {
  int masked = 0;
  for (TrainSequence& s : batch) {
    if (s.pretraining) continue;
    if (s.loss_mask.empty()) s.loss_mask.assign(s.response_length(), 1);
    for (int64_t r = 0; r < s.response_length(); ++r) {
      const double ratio = std::exp(s.old_log_probs[r] - s.behaviour_log_probs[r]);
      if (ratio >= 1 / 1.5 && ratio <= 1.5) continue;
      masked += s.loss_mask[r];
      s.loss_mask[r] = 0;
    }
  }
  EXPECT_GT(masked, 3);
  return batch;
}

UpdateOptions InMicroBatches(int64_t tokens) {
  UpdateOptions options;
  options.max_token_len = tokens;
  return options;
}

// A rejected token is one that the mask takes out: in every term of every loss, in the denominators
// of every aggregation and in every metric.
TEST(TrainerCorrectionTest, RejectedIsMasked) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  const auto trainer = MakeTrainer(*model, Measuring());
  const auto batch = MixedBatch(7, 12, 11), masked = MaskedByHand(batch);
  for (const auto kind :
       {LossSpec::kPpoClip, LossSpec::kGspo, LossSpec::kCispo, LossSpec::kReinforce}) {
    for (const char* aggregation :
         {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
      SCOPED_TRACE(absl::StrCat("kind ", kind, " ", aggregation));
      LossSpec loss = Rejecting(kind);
      loss.loss_agg_mode = aggregation;
      loss.rollout_is = kind == LossSpec::kReinforce ? "token" : "";
      LossSpec plain = loss;
      plain.rollout_rs.clear();
      for (const int64_t budget : {0, 12}) {
        const auto want = trainer->Update(masked, plain, InMicroBatches(budget));
        ASSERT_TRUE(want.ok()) << want.status();
        const auto want_gradients = Gradients(*model);
        const auto got = trainer->Update(batch, loss, InMicroBatches(budget));
        ASSERT_TRUE(got.ok()) << got.status();
        for (const auto& [name, value] : *want) {
          if (name.rfind("rollout_corr/", 0) == 0) continue;  // of all tokens: below
          EXPECT_NEAR(got->at(name), value, 1e-9 * (1 + std::abs(value))) << name;
        }
        const auto gradients = Gradients(*model);
        for (size_t p = 0; p < gradients.size(); ++p) {
          EXPECT_TRUE(torch::allclose(gradients[p].second, want_gradients[p].second, 1e-9, 1e-12))
              << gradients[p].first << " budget " << budget;
        }
      }
    }
  }
}

// A constant weight multiplies the policy's part of the gradient, and that alone.
TEST(TrainerCorrectionTest, WeightsAreConstantsOfThePolicyLoss) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  const auto trainer = MakeTrainer(*model, Measuring());
  auto batch = testing::RandomBatch(3, 8, 11);
  for (TrainSequence& s : batch) {
    s.old_log_probs = s.behaviour_log_probs;
    for (float& b : s.behaviour_log_probs) b -= static_cast<float>(std::log(1.5));
  }
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  ASSERT_TRUE(trainer->Update(batch, loss, {}).ok());
  const auto plain = Gradients(*model);
  loss.rollout_is = "token";
  ASSERT_TRUE(trainer->Update(batch, loss, {}).ok());
  const auto weighted = Gradients(*model);
  loss.rollout_is_batch_normalize = true;  // all weights are alike
  ASSERT_TRUE(trainer->Update(batch, loss, {}).ok());
  const auto normalised = Gradients(*model);
  for (size_t p = 0; p < plain.size(); ++p) {
    EXPECT_TRUE(torch::allclose(weighted[p].second, 1.5 * plain[p].second, 1e-6, 1e-12));
    EXPECT_TRUE(torch::allclose(normalised[p].second, plain[p].second, 1e-6, 1e-12));
  }
}

// ---- Three policies ---------------------------------------------------------------------------

// Decoupled PPO by hand: w = proximal / behaviour weighs, and rho = policy / proximal is clipped.
// Four tokens: rho inside the clip, above it, below it; and a capped weight.
TEST(TrainerCorrectionTest, DecoupledPpoByHand) {
  const double policy[] = {0.55, 0.8, 0.2, 0.5}, proximal[] = {0.5, 0.5, 0.5, 0.5};
  const double behaviour[] = {0.4, 0.625, 0.5, 0.1}, a[] = {2, 2, -1, -3};
  const double w[] = {1.25, 0.8, 1, 2}, rho[] = {1.1, 1.6, 0.4, 1};
  TrainSequence s;
  s.prompt_length = 1;
  s.tokens = {0, 0, 0, 0, 0};
  torch::Tensor logits = torch::empty({4, 2}, torch::kFloat64);
  for (int t = 0; t < 4; ++t) {
    s.old_log_probs.push_back(static_cast<float>(std::log(proximal[t])));
    s.behaviour_log_probs.push_back(static_cast<float>(std::log(behaviour[t])));
    s.advantages.push_back(static_cast<float>(a[t]));
    logits[t][0] = std::log(policy[t]);
    logits[t][1] = std::log(1 - policy[t]);
  }
  logits.requires_grad_(true);
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.rollout_is = "token";
  RankAgreement alone(nullptr, nullptr, torch::kCPU);
  const std::vector<TrainSequence> batch = {s};
  const auto correction = CorrectRollout(batch, {0}, loss, alone);
  ASSERT_TRUE(correction.ok()) << correction.status();
  const auto weights = WeighSequences(batch, loss, correction->counts);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const PackedRows packed = PackRows(batch, {0}, ResponseRows::kUnmasked);
  const LossColumns columns = MakeLossColumns(batch, *weights, correction->sequences, packed, loss,
                                              torch::TensorOptions().dtype(torch::kFloat64));
  LossSums sums;
  const auto total = WeightedLoss(
      logits, packed.targets, columns, loss, [](int64_t row) { return absl::StrCat(row); }, sums);
  ASSERT_TRUE(total.ok()) << total.status();
  // max(-A rho, -A clip(rho, 0.8, 1.2)): -2.2, -2.4 (clipped), 0.8 (clipped), 3.
  const double value = (1.25 * -2.2 + 0.8 * -2.4 + 1 * 0.8 + 2 * 3) / 4;
  EXPECT_NEAR(total->item<double>(), value, 1e-6);
  EXPECT_EQ(sums.clipped, 2);
  total->backward();
  for (int t = 0; t < 4; ++t) {
    const bool clipped = t == 1 || t == 2;
    // d/d logit of log softmax is 1 - p.
    const double slope = clipped ? 0 : -w[t] * a[t] * rho[t] * (1 - policy[t]) / 4;
    EXPECT_NEAR(logits.grad()[t][0].item<double>(), slope, 1e-6) << t;
  }
}

// A batch that an older policy generated: the ratio that is clipped departs from the actor as it
// stands, and not from the policy of the batch, whose distance the weights have.
TEST(TrainerCorrectionTest, AStaleBatchIsNotClippedBeforeAnythingIsLearned) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  OptimizerSpec spec;
  spec.lr = 0.1;
  const auto learner = MakeTrainer(*model, spec), still = MakeTrainer(*model, Measuring());
  auto batch = testing::RandomBatch(8, 10, 11);
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  const auto scored = [&] {
    auto log_probs = still->LogProbs(batch, loss.temperature);
    EXPECT_TRUE(log_probs.ok()) << log_probs.status();
    return *std::move(log_probs);
  };
  const auto behaviour = scored();
  for (size_t i = 0; i < batch.size(); ++i) batch[i].behaviour_log_probs = behaviour[i];
  ASSERT_TRUE(learner->Update(batch, loss, {}).ok());  // an update between generation and the draw
  const auto coupled = still->Update(batch, loss, {});
  ASSERT_TRUE(coupled.ok()) << coupled.status();
  EXPECT_GT(coupled->at("actor/pg_clipfrac"), 0.1) << "the policies should be apart";

  const auto proximal = scored();
  double weights = 0, policy_loss = 0, tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    TrainSequence& s = batch[i];
    s.old_log_probs = proximal[i];
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (!s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
      const double w = std::min(std::exp(double{proximal[i][r]} - behaviour[i][r]), 2.0);
      weights += w;
      policy_loss -= w * (s.advantages.size() == 1 ? s.advantages[0] : s.advantages[r]);
      tokens += 1;
    }
  }
  loss.rollout_is = "token";
  const auto decoupled = still->Update(batch, loss, {});
  ASSERT_TRUE(decoupled.ok()) << decoupled.status();
  EXPECT_EQ(decoupled->at("actor/pg_clipfrac"), 0);
  EXPECT_NEAR(decoupled->at("actor/ppo_kl"), 0, 1e-6);
  EXPECT_NEAR(decoupled->at("rollout_corr/rollout_is_mean"), weights / tokens, 1e-9);
  EXPECT_GT(decoupled->at("rollout_corr/rollout_is_std"), 0.1);
  EXPECT_NEAR(decoupled->at("actor/pg_loss"), policy_loss / tokens, 1e-6) << "rho is 1";
}

// ---- Nothing is left --------------------------------------------------------------------------

/// Rejects every token of these sequences.
void Estrange(std::vector<TrainSequence>& batch, const std::vector<size_t>& which) {
  for (const size_t i : which) {
    for (size_t r = 0; r < batch[i].old_log_probs.size(); ++r) {
      batch[i].behaviour_log_probs[r] = batch[i].old_log_probs[r] + 5;
    }
  }
}

/// Twelve sequences. Every token of them is kept.
std::vector<TrainSequence> OnPolicy() {
  auto batch = testing::RandomBatch(6, 12, 11);
  for (TrainSequence& s : batch) s.old_log_probs = s.behaviour_log_probs;
  return batch;
}

void ExpectFinite(const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) EXPECT_TRUE(std::isfinite(value)) << name;
}

// Each sequence is a micro-batch of its own: the first, the last and one between are rejected.
TEST(TrainerCorrectionTest, AMicroBatchMayBeRejectedWhole) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  const auto trainer = MakeTrainer(*model, Measuring());
  std::vector<TrainSequence> batch(5);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].prompt_length = 2;
    for (size_t t = 0; t < 9; ++t)
      batch[i].tokens.push_back(static_cast<int32_t>((3 * i + t) % 11));
    batch[i].old_log_probs.assign(7, -2.4F);
    batch[i].behaviour_log_probs.assign(7, -2.4F);
    batch[i].advantages.assign(1, 0.5F + static_cast<float>(i));
  }
  Estrange(batch, {0, 2, 4});
  const std::vector<TrainSequence> left = {batch[1], batch[3]};
  for (const char* rs : {"token", "sequence", "geometric", "veto"}) {
    LossSpec loss;
    loss.kind = LossSpec::kPpoClip;
    const auto want = trainer->Update(left, loss, InMicroBatches(8));
    ASSERT_TRUE(want.ok()) << want.status();
    const auto want_gradients = Gradients(*model);
    loss.rollout_rs = std::string(rs) == "veto" ? "" : rs;
    loss.rollout_rs_threshold = loss.rollout_rs.empty() ? 0 : 2;
    loss.rollout_token_veto_threshold = loss.rollout_rs.empty() ? 0.1 : 0;
    const auto got = trainer->Update(batch, loss, InMicroBatches(8));
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectFinite(*got);
    EXPECT_NEAR(got->at("actor/pg_loss"), want->at("actor/pg_loss"), 1e-9);
    EXPECT_NEAR(got->at("actor/entropy"), want->at("actor/entropy"), 1e-9);
    const auto gradients = Gradients(*model);
    for (size_t p = 0; p < gradients.size(); ++p) {
      EXPECT_TRUE(torch::allclose(gradients[p].second, want_gradients[p].second, 1e-9, 1e-12))
          << rs;
    }
  }
}

TEST(TrainerCorrectionTest, AMiniBatchThatIsRejectedWholeMakesNoStep) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  OptimizerSpec spec;
  spec.lr = 0.01;
  const auto trainer = MakeTrainer(*model, spec);
  auto batch = OnPolicy();
  Estrange(batch, {4, 5, 6, 7});
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.rollout_rs = "sequence";
  loss.rollout_rs_threshold = 2;
  UpdateOptions options;
  options.ppo_mini_batch_size = 4;
  const auto got = trainer->Update(batch, loss, options);
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectFinite(*got);
  EXPECT_EQ(got->at("actor/optimizer_steps"), 2);
  EXPECT_EQ(got->at("actor/skipped_steps"), 0);
}

TEST(TrainerCorrectionTest, AFullyRejectedBatchChangesNoWeights) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  OptimizerSpec spec;
  spec.lr = 0.01;
  const auto trainer = MakeTrainer(*model, spec);
  auto batch = OnPolicy();
  Estrange(batch, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.rollout_is = "token";
  loss.rollout_rs = "token";
  loss.rollout_rs_threshold = 2;
  const auto before = Weights(*model);
  const auto got = trainer->Update(batch, loss, {});
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectFinite(*got);
  EXPECT_EQ(got->at("actor/optimizer_steps"), 0);
  EXPECT_EQ(got->at("rollout_corr/rollout_rs_masked_fraction"), 1);
  EXPECT_EQ(got->count("actor/pg_loss"), 0u);
  EXPECT_EQ(got->count("actor/lr"), 0u);
  EXPECT_TRUE(SameBytes(Weights(*model), before));
  EXPECT_TRUE(trainer->Update(OnPolicy(), loss, {}).ok()) << "the trainer is still of use";
}

/// Four sequences, each with a pretraining text before it.
std::vector<TrainSequence> BesideTexts() {
  std::vector<TrainSequence> batch;
  const auto policy = OnPolicy();
  for (size_t i = 0; i < 4; ++i) {
    TrainSequence text;
    text.tokens = {1, 2, 3, static_cast<int32_t>(i)};
    text.prompt_length = 1;
    text.pretraining = true;
    batch.push_back(text);
    batch.push_back(policy[i]);
    batch.back().loss_mask.clear();
  }
  return batch;
}

// A step without policy tokens would learn from the text alone, and its entropy would be that of no
// token.
TEST(TrainerCorrectionTest, TextMakesNoStepBesideAPolicyThatIsRejectedWhole) {
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.ptx_coef = 0.5;
  loss.rollout_rs = "token";
  loss.rollout_rs_threshold = 2;
  OptimizerSpec spec;
  spec.lr = 0.01;
  UpdateOptions options;
  options.ppo_mini_batch_size = 2;
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  const auto trainer = MakeTrainer(*model, spec);
  auto batch = BesideTexts();
  Estrange(batch, {1, 3});
  auto got = trainer->Update(batch, loss, options);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("actor/optimizer_steps"), 1) << "of the second mini-batch";
  EXPECT_GT(got->at("actor/entropy"), 0.5);

  Estrange(batch, {5, 7});
  const auto before = Weights(*model);
  got = trainer->Update(batch, loss, options);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("actor/optimizer_steps"), 0);
  EXPECT_EQ(got->count("actor/entropy"), 0u);
  EXPECT_EQ(got->count("actor/ptx_loss"), 0u);
  EXPECT_EQ(got->count("actor/lr"), 0u) << "that of an earlier call";
  EXPECT_TRUE(SameBytes(Weights(*model), before));
}

// As a rejected one.
TEST(TrainerCorrectionTest, TextMakesNoStepBesideAPolicyThatIsMaskedWhole) {
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.ptx_coef = 0.5;
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto batch = BesideTexts();
  for (const size_t i : {1, 3}) batch[i].loss_mask.assign(batch[i].response_length(), 0);
  const auto got = MakeTrainer(*model, Measuring())->Update(batch, loss, {1, 2, 0, {}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("actor/optimizer_steps"), 1);
}

TEST(TrainerCorrectionTest, RefusesABatchWithoutTheLogProbsToCompare) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat64);
  const auto trainer = MakeTrainer(*model, Measuring());
  const auto batch = testing::RandomBatch(2, 6, 11);  // without old_log_probs
  LossSpec loss;
  loss.kind = LossSpec::kReinforce;
  loss.rollout_rs = "token";
  loss.rollout_rs_threshold = 2;
  const auto refused = trainer->Update(batch, loss, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("old_log_probs has 0 values"));
  loss.rollout_rs.clear();
  loss.rollout_token_veto_threshold = 1e-4;
  EXPECT_FALSE(trainer->Update(batch, loss, {}).ok());
}

// ---- Micro-batches and ranks ------------------------------------------------------------------

LossSpec AllCorrections() {
  LossSpec loss = Rejecting();
  loss.rollout_is = "sequence";
  loss.rollout_is_batch_normalize = true;
  loss.rollout_rs = "geometric";
  loss.rollout_rs_threshold = 1.4;
  loss.rollout_token_veto_threshold = 0.2;
  return loss;
}

void ExpectSame(const std::map<std::string, double>& got,
                const std::map<std::string, double>& want) {
  for (const auto& [name, value] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    EXPECT_NEAR(got.at(name), value, 1e-9 * std::max(1.0, std::abs(value))) << name;
    if (name.rfind("rollout_corr/", 0) == 0) EXPECT_EQ(got.at(name), value) << name;
  }
}

// One mini-batch of four has few tokens left, and some of five ranks have nothing to do. Each rank
// has its share alone. The mean weight is that of the whole batch, not of a mini-batch or a rank.
TEST(TrainerCorrectionTest, EqualHoweverTheBatchIsDivided) {
  const ModelConfig config = testing::SharedConfig(false);
  const auto batch = MixedBatch(4, 13, config.vocab_size);
  OptimizerSpec spec;
  spec.lr = 0.02;
  UpdateOptions options;
  options.ppo_epochs = 2;
  options.ppo_mini_batch_size = 4;
  const LossSpec loss = AllCorrections();
  const auto whole = testing::MakeSharedModel(config);
  const auto want = MakeTrainer(*whole, spec)->Update(batch, loss, options);
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_GT(want->at("rollout_corr/rollout_rs_masked_fraction"), 0.1);
  EXPECT_LT(want->at("rollout_corr/rollout_rs_masked_fraction"), 0.9);
  const auto expect_weights = [&](const CausalLM& model) {
    for (size_t i = 0; i < model.shards().size(); ++i) {
      const torch::Tensor slice = SliceOf(whole->parameters()[i].second, model.shards()[i].box);
      EXPECT_TRUE(torch::allclose(model.parameters()[i].second, slice, 1e-9, 1e-10))
          << model.shards()[i].name;
    }
  };
  for (const int64_t budget : {16, 30}) {
    options.max_token_len = budget;
    const auto model = testing::MakeSharedModel(config);
    const auto got = MakeTrainer(*model, spec)->Update(batch, loss, options);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectSame(*got, *want);
    expect_weights(*model);
  }
  const std::pair<int, int> grids[] = {{1, 2}, {2, 2}, {1, 5}};
  for (const auto& [tp, dp] : grids) {
    testing::RunGrid(tp, dp, [&](Communicator& tensor, Communicator& data) {
      const auto model = testing::MakeSharedModel(config, &tensor);
      const auto trainer = Trainer::Create(model.get(), spec, &data);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      const auto share = (*trainer)->Share(testing::KeepShare(batch, {}), loss, options);
      ASSERT_TRUE(share.ok()) << share.status();
      const auto got = (*trainer)->Update(testing::KeepShare(batch, *share), loss, options);
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectSame(*got, *want);
      expect_weights(*model);
    });
  }
}

// Float32 with the rollout's order of sums: the same metrics to the last bit, however the batch is
// cut.
TEST(TrainerCorrectionTest, ReproducesItselfInFloat32) {
  const auto run = [](int64_t budget) {
    const auto model = MakeModel(TinyConfig(), torch::kFloat32);
    OptimizerSpec spec;
    spec.lr = 0.02;
    const auto trainer = MakeTrainer(*model, spec);
    const auto metrics =
        trainer->Update(MixedBatch(9, 12, 11), AllCorrections(), InMicroBatches(budget));
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    ExpectFinite(*metrics);
    return std::make_pair(*metrics, Weights(*model));
  };
  const auto first = run(12), again = run(12), whole = run(0);
  EXPECT_EQ(first.first, again.first);
  EXPECT_TRUE(SameBytes(first.second, again.second));
  for (const auto& [name, value] : whole.first) {
    if (name.rfind("rollout_corr/", 0) == 0) EXPECT_EQ(first.first.at(name), value) << name;
  }
}

}  // namespace
}  // namespace baton::engine
