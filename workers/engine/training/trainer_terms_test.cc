// Every policy loss with every term, through the trainer: values and gradients against a scalar
// implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/engine/trainer.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/engine/training/trainer.h"
#include "workers/engine/training/trainer_loss.h"

namespace baton::engine {
namespace {

using testing::Gradients;
using ::testing::HasSubstr;
using testing::MakeModel;
using testing::MakeTrainer;
using testing::Measuring;
using testing::MixedBatch;
using testing::RandomBatch;
using testing::TinyConfig;

using Metrics = std::map<std::string, double>;

Metrics MeasureAll(Trainer& trainer, const std::vector<TrainSequence>& batch, const LossSpec& loss,
                   int64_t max_token_len = 0) {
  auto metrics = trainer.Update(batch, loss, {1, 0, max_token_len, {}});
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return metrics.ok() ? *metrics : Metrics();
}

LossSpec Everything(LossSpec::Kind kind, const std::string& rollout_is) {
  LossSpec loss;
  loss.kind = kind;
  loss.clip_ratio_high = 0.28;
  loss.clip_ratio_c = kind == LossSpec::kPpoClip ? 2 : 0;
  loss.temperature = 0.8;
  loss.use_kl_loss = true;
  loss.kl_loss_coef = 0.3;
  loss.entropy_coeff = 0.1;
  loss.rollout_is = rollout_is;
  loss.rollout_is_threshold = 1.4;
  loss.positive_nll_coef = 0.4;
  loss.ptx_coef = 0.7;
  return loss;
}

struct Token {
  size_t sequence;
  int64_t response;
};

struct SlowTerms {
  double pg_loss = 0, kl_loss = 0, positive_nll = 0, ptx = 0, is_mean = 0, is_truncated = 0;
  /// d total / d log_prob without the entropy's part, in the order of `tokens`.
  std::vector<double> slopes;
  std::vector<Token> tokens;
};

/// One token at a time; token-mean.
SlowTerms SlowTermsOf(const std::vector<TrainSequence>& batch,
                      const std::vector<std::vector<float>>& log_probs, const LossSpec& loss) {
  SlowTerms out;
  double policy = 0, positive = 0, pretraining = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const double n = static_cast<double>(batch[i].CountUnmasked());
    (batch[i].pretraining ? pretraining : policy) += n;
    if (batch[i].positive) positive += n;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    const TrainSequence& s = batch[i];
    double log_weight = 0, log_ratio = 0, n = 0;
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (s.pretraining || (!s.loss_mask.empty() && s.loss_mask[r] == 0)) continue;
      log_weight += s.old_log_probs[r] - s.behaviour_log_probs[r];
      log_ratio += log_probs[i][r] - s.old_log_probs[r];
      n += 1;
    }
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (!s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
      const double lp = log_probs[i][r];
      double slope = 0;
      if (s.pretraining) {
        out.ptx -= lp / pretraining;
        slope = -loss.ptx_coef / pretraining;
      } else {
        const double a = s.advantages.size() == 1 ? s.advantages[0] : s.advantages[r];
        double w = 1;
        if (loss.rollout_is == "token") w = std::exp(s.old_log_probs[r] - s.behaviour_log_probs[r]);
        if (loss.rollout_is == "sequence") w = std::exp(log_weight);
        w = std::min(w, loss.rollout_is_threshold);
        out.is_mean += w / policy;
        out.is_truncated += w == loss.rollout_is_threshold ? 1 / policy : 0;
        const double own = lp - s.old_log_probs[r];
        const double ratio = std::exp(loss.kind == LossSpec::kGspo ? log_ratio / n : own);
        const double bounded = std::min(std::max(ratio, 0.8), 1.28);
        double value = -a * lp, d = -a;
        if (loss.kind == LossSpec::kCispo) value *= bounded, d *= bounded;
        if (loss.kind == LossSpec::kPpoClip || loss.kind == LossSpec::kGspo) {
          value = std::max(-a * ratio, -a * bounded);
          d = -a * bounded > -a * ratio ? 0 : -a * ratio;
        }
        if (loss.kind == LossSpec::kPpoClip && a < 0 && value > -2 * a) value = -2 * a, d = 0;
        const double k = lp - s.ref_log_probs[r], k3 = std::exp(-k) + k - 1;
        out.pg_loss += w * value / policy;
        out.kl_loss += std::min(k3, 10.0) / policy;
        slope = (w * d + loss.kl_loss_coef * (k3 < 10 ? 1 - std::exp(-k) : 0)) / policy;
        if (s.positive) {
          out.positive_nll -= lp / positive;
          slope -= loss.positive_nll_coef / positive;
        }
      }
      out.slopes.push_back(slope);
      out.tokens.push_back({i, r});
    }
  }
  return out;
}

const LossSpec::Kind kKinds[] = {LossSpec::kPpoClip, LossSpec::kGspo, LossSpec::kCispo,
                                 LossSpec::kReinforce};

TEST(TrainerTermsTest, MetricsEqualAScalarImplementation) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  for (const LossSpec::Kind kind : kKinds) {
    for (const std::string rollout_is : {"", "token", "sequence"}) {
      const LossSpec loss = Everything(kind, rollout_is);
      for (uint32_t seed = 0; seed < 3; ++seed) {
        SCOPED_TRACE(absl::StrCat("kind ", kind, " ", rollout_is, " seed ", seed));
        const auto batch = MixedBatch(seed, 9, 11);
        const auto log_probs = trainer->LogProbs(batch, loss.temperature);
        ASSERT_TRUE(log_probs.ok()) << log_probs.status();
        const SlowTerms want = SlowTermsOf(batch, *log_probs, loss);
        for (const int64_t budget : {0, 12}) {
          const Metrics got = MeasureAll(*trainer, batch, loss, budget);
          EXPECT_NEAR(got.at("actor/pg_loss"), want.pg_loss, 1e-5);
          EXPECT_NEAR(got.at("actor/kl_loss"), want.kl_loss, 1e-5);
          EXPECT_NEAR(got.at("actor/positive_nll_loss"), want.positive_nll, 1e-5);
          EXPECT_NEAR(got.at("actor/ptx_loss"), want.ptx, 1e-5);
          EXPECT_EQ(got.count("rollout_corr/rollout_is_mean"), rollout_is.empty() ? 0u : 1u);
          if (rollout_is.empty()) continue;
          EXPECT_NEAR(got.at("rollout_corr/rollout_is_mean"), want.is_mean, 1e-6);
          EXPECT_NEAR(got.at("rollout_corr/rollout_is_truncated"), want.is_truncated, 1e-9);
          EXPECT_GT(want.is_truncated, 0) << "the batch should reach the threshold";
        }
      }
    }
  }
}

/// The gradient of sum over tokens of slope * log_prob, plus the entropy's, by the model.
std::vector<std::pair<std::string, torch::Tensor>> SlowGradients(
    CausalLM& model, const std::vector<TrainSequence>& batch, const SlowTerms& slow,
    const LossSpec& loss) {
  double policy = 0;
  for (const TrainSequence& s : batch) policy += s.pretraining ? 0 : s.CountUnmasked();
  for (const auto& named : model.parameters()) {
    if (named.second.grad().defined()) named.second.mutable_grad().zero_();
  }
  size_t next = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    if (batch[i].CountUnmasked() == 0) continue;
    const PackedRows packed = PackRows(batch, {index}, ResponseRows::kUnmasked);
    const TokenScores scores =
        ScoreTokens(model.Logits(PredictionStates(model, packed)), packed.targets, loss.temperature,
                    EntropyMode::kGradient);
    torch::Tensor total = torch::zeros({}, torch::kFloat64);
    for (int64_t m = 0; m < packed.targets.size(0); ++m, ++next) {
      total = total + slow.slopes[next] * scores.log_probs[m];
      if (!batch[i].pretraining) total = total - loss.entropy_coeff / policy * scores.entropy[m];
    }
    total.backward();
  }
  return Gradients(model);
}

TEST(TrainerTermsTest, GradientsEqualTheFormulasInFloat64) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  for (const LossSpec::Kind kind : kKinds) {
    for (const std::string rollout_is : {"token", "sequence"}) {
      const LossSpec loss = Everything(kind, rollout_is);
      const auto batch = MixedBatch(7, 9, 11);
      const auto log_probs = trainer->LogProbs(batch, loss.temperature);
      ASSERT_TRUE(log_probs.ok());
      MeasureAll(*trainer, batch, loss, 12);
      const auto got = Gradients(*model);
      const auto want = SlowGradients(*model, batch, SlowTermsOf(batch, *log_probs, loss), loss);
      for (size_t p = 0; p < got.size(); ++p) {
        const double size = want[p].second.abs().max().item<double>();
        const double error = (got[p].second - want[p].second).abs().max().item<double>();
        // The scalar implementation sees log-probs rounded to float32.
        EXPECT_LT(error, 1e-6 * (1 + size)) << got[p].first << " kind " << kind;
      }
    }
  }
}

TEST(TrainerTermsTest, AResponseInPiecesOfTheHeadHasTheSameSequenceRatio) {
  const torch::Tensor logits = torch::randn({7, 5}, torch::kFloat64);
  const torch::Tensor targets = torch::tensor({0, 1, 2, 3, 4, 0, 1}, torch::kInt64);
  LossSpec loss;
  loss.kind = LossSpec::kGspo;
  LossColumns whole;
  whole.weights = torch::full({7}, 1.0 / 7, torch::kFloat64);
  whole.old_log_probs = torch::full({7}, -1.6, torch::kFloat64);
  whole.advantages = torch::tensor({1., 1., 1., 1., -2., -2., -2.}, torch::kFloat64);
  whole.sequences = torch::tensor({0, 0, 0, 0, 1, 1, 1}, torch::kInt64);
  const auto name_row = [](int64_t row) { return std::to_string(row); };
  LossSums want;
  ASSERT_TRUE(WeightedLoss(logits, targets, whole, loss, name_row, want).ok());
  LossColumns cut = whole;
  AddSequenceLogRatios([&](int64_t b, int64_t n) { return logits.narrow(0, b, n); }, targets, 3,
                       loss, cut);
  LossSums got;
  for (int64_t b = 0; b < 7; b += 3) {
    const int64_t n = std::min<int64_t>(3, 7 - b);
    ASSERT_TRUE(WeightedLoss(logits.narrow(0, b, n), targets.narrow(0, b, n), cut.Narrow(b, n),
                             loss, name_row, got)
                    .ok());
  }
  EXPECT_NEAR(got.loss, want.loss, 1e-12);
  EXPECT_EQ(got.clipped, want.clipped);
}

TEST(TrainerTermsTest, WeightsByHand) {
  std::vector<TrainSequence> batch(4);
  const int64_t lengths[] = {2, 4, 3, 5};
  for (size_t i = 0; i < 4; ++i) {
    batch[i].prompt_length = 1;
    batch[i].tokens.resize(1 + lengths[i]);
  }
  batch[1].loss_mask = {1, 0, 1, 0};
  batch[1].positive = true;
  batch[2].positive = true;
  batch[3].pretraining = true;
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  EXPECT_TRUE(WeighSequences(batch, loss)->nll.empty());
  loss.positive_nll_coef = 0.1;
  loss.ptx_coef = 2;
  const auto weights = WeighSequences(batch, loss);
  ASSERT_TRUE(weights.ok());
  EXPECT_THAT(weights->loss, ::testing::ElementsAre(1.0 / 7, 1.0 / 7, 1.0 / 7, 0));
  EXPECT_THAT(weights->nll, ::testing::ElementsAre(0, 0.1 / 5, 0.1 / 5, 2.0 / 5));
  loss.loss_agg_mode = "seq-mean-token-sum-norm";
  EXPECT_EQ(WeighSequences(batch, loss)->loss[0], 1.0 / 3 / 4) << "the longest is of the policy";
}

TEST(TrainerTermsTest, SaysWhichColumnIsMissing) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  const auto fault = [&](std::vector<TrainSequence> batch, const LossSpec& loss) {
    return std::string(trainer->Update(batch, loss, {}).status().message());
  };
  auto batch = RandomBatch(3, 6, 11);
  LossSpec loss;
  loss.kind = LossSpec::kCispo;
  loss.rollout_is = "token";
  EXPECT_THAT(fault(batch, loss), HasSubstr("sequence 0: old_log_probs has 0 values"));
  loss.rollout_is = "";
  batch[0].behaviour_log_probs.clear();
  EXPECT_THAT(fault(batch, loss), HasSubstr("sequence 0: behaviour_log_probs has 0 values"));
  loss.kind = LossSpec::kReinforce;
  EXPECT_EQ(fault(batch, loss), "") << "no ratio, no old policy";
  batch[3].pretraining = true;
  EXPECT_THAT(fault(batch, loss), HasSubstr("sequence 3 is pretraining text"));
  loss.ptx_coef = 1;
  EXPECT_EQ(fault(batch, loss), "");
}

TEST(TrainerTermsTest, SftLearnsPretrainingTextAsAnyOther) {
  auto batch = RandomBatch(5, 9, 11);
  LossSpec sft;
  std::vector<Metrics> results;
  for (const bool text : {false, true}) {
    for (TrainSequence& s : batch) s.pretraining = text;
    auto model = MakeModel(TinyConfig(), torch::kFloat64);
    auto metrics = MakeTrainer(*model, Measuring())->Update(batch, sft, {1, 4, 0, {}});
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    results.push_back(*metrics);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[1].at("train/optimizer_steps"), 3);
}

TEST(TrainerTermsTest, MiniBatchesCountThePolicysSequencesAlone) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.ptx_coef = 1;
  auto batch = RandomBatch(6, 8, 11);
  for (const size_t i : {0, 5}) batch[i].pretraining = true;
  auto metrics = MakeTrainer(*model, Measuring())->Update(batch, loss, {1, 3, 0, {}});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->at("actor/optimizer_steps"), 2) << "six sequences, three at a time";
}

TEST(TrainerTermsTest, PretrainingTextAloneIsSftByItsCoefficient) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  auto batch = RandomBatch(5, 6, 11);
  LossSpec sft;
  MeasureAll(*trainer, batch, sft);
  const auto want = Gradients(*model);
  for (TrainSequence& s : batch) s.pretraining = true;
  LossSpec ptx;
  ptx.kind = LossSpec::kPpoClip;
  ptx.ptx_coef = 3;
  const Metrics metrics = MeasureAll(*trainer, batch, ptx);
  const auto got = Gradients(*model);
  for (size_t p = 0; p < got.size(); ++p) {
    EXPECT_LT((got[p].second - 3 * want[p].second).abs().max().item<double>(), 1e-12);
  }
  EXPECT_EQ(metrics.at("actor/pg_loss"), 0);
  EXPECT_EQ(metrics.at("actor/entropy"), 0);
}

}  // namespace
}  // namespace baton::engine
