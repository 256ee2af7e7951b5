// The loss against a slow scalar implementation, and its gradient against finite differences.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine/trainer.h"
#include "workers/engine/training/trainer.h"

namespace baton::engine {
namespace {

using testing::Gradients;
using testing::MakeModel;
using testing::MakeTrainer;
using testing::Measuring;
using testing::RandomBatch;
using testing::TinyConfig;

LossSpec Ppo(const std::string& mode) {
  LossSpec spec;
  spec.kind = LossSpec::kPpoClip;
  spec.clip_ratio_low = 0.2;
  spec.clip_ratio_high = 0.28;
  spec.clip_ratio_c = 2;
  spec.loss_agg_mode = mode;
  spec.use_kl_loss = true;
  spec.kl_loss_coef = 0.3;
  spec.kl_loss_type = "k3";
  spec.temperature = 0.8;
  return spec;
}

std::map<std::string, double> Measure(Trainer& trainer, const std::vector<TrainSequence>& batch,
                                      const LossSpec& loss) {
  auto metrics = trainer.Update(batch, loss, UpdateOptions());
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return metrics.ok() ? *metrics : std::map<std::string, double>();
}

double Total(const std::map<std::string, double>& metrics, const LossSpec& loss) {
  if (loss.kind == LossSpec::kSft) return metrics.at("train/loss");
  return metrics.at("actor/pg_loss") - loss.entropy_coeff * metrics.at("actor/entropy") +
         (loss.use_kl_loss ? loss.kl_loss_coef * metrics.at("actor/kl_loss") : 0.0);
}

// --- Values --------------------------------------------------------------------------------------

struct SlowResult {
  double pg_loss = 0, kl_loss = 0, clipfrac = 0, clipfrac_lower = 0, ppo_kl = 0;
};

double Aggregate(const std::string& mode, const std::vector<std::vector<double>>& losses) {
  double sum = 0, tokens = 0, rows = 0, longest = 0;
  for (const auto& row : losses) {
    tokens += static_cast<double>(row.size());
    rows += row.empty() ? 0 : 1;
  }
  longest = 9;  // loss_scale_factor of the test
  for (const auto& row : losses) {
    double row_sum = 0;
    for (double x : row) row_sum += x;
    if (row.empty()) continue;
    if (mode == "token-mean") sum += row_sum / tokens;
    if (mode == "seq-mean-token-sum") sum += row_sum / rows;
    if (mode == "seq-mean-token-mean") sum += row_sum / static_cast<double>(row.size()) / rows;
    if (mode == "seq-mean-token-sum-norm") sum += row_sum / longest / rows;
  }
  return sum;
}

SlowResult SlowPpo(const std::vector<TrainSequence>& batch,
                   const std::vector<std::vector<float>>& log_probs, const LossSpec& spec) {
  std::vector<std::vector<double>> losses(batch.size()), kls(batch.size());
  SlowResult result;
  double tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const TrainSequence& s = batch[i];
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (!s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
      const double a = s.advantages.size() == 1 ? s.advantages[0] : s.advantages[r];
      const double d = log_probs[i][r] - s.behaviour_log_probs[r];
      const double ratio = std::exp(d);
      double bounded = ratio;
      if (bounded < 1 - spec.clip_ratio_low) bounded = 1 - spec.clip_ratio_low;
      if (bounded > 1 + spec.clip_ratio_high) bounded = 1 + spec.clip_ratio_high;
      double loss = -a * ratio;
      if (-a * bounded > loss) {
        loss = -a * bounded;
        result.clipfrac += 1;
      }
      if (a < 0 && loss > -a * spec.clip_ratio_c) {
        loss = -a * spec.clip_ratio_c;
        result.clipfrac_lower += 1;
      }
      losses[i].push_back(loss);
      const double k = log_probs[i][r] - s.ref_log_probs[r];
      kls[i].push_back(std::min(std::exp(-k) + k - 1, 10.0));
      result.ppo_kl -= d;
      tokens += 1;
    }
  }
  result.pg_loss = Aggregate(spec.loss_agg_mode, losses);
  result.kl_loss = Aggregate(spec.loss_agg_mode, kls);
  result.clipfrac /= tokens;
  result.clipfrac_lower /= tokens;
  result.ppo_kl /= tokens;
  return result;
}

class AggregatedLossTest : public ::testing::TestWithParam<std::string> {};

TEST_P(AggregatedLossTest, MetricsEqualAScalarImplementation) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  LossSpec loss = Ppo(GetParam());
  loss.loss_scale_factor = 9;
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const std::vector<TrainSequence> batch = RandomBatch(seed, 9, 11);
    const auto log_probs = trainer->LogProbs(batch, loss.temperature);
    ASSERT_TRUE(log_probs.ok()) << log_probs.status();
    const SlowResult want = SlowPpo(batch, *log_probs, loss);
    auto got = Measure(*trainer, batch, loss);
    EXPECT_NEAR(got["actor/pg_loss"], want.pg_loss, 1e-5);
    EXPECT_NEAR(got["actor/kl_loss"], want.kl_loss, 1e-5);
    EXPECT_NEAR(got["actor/pg_clipfrac"], want.clipfrac, 1e-12);
    EXPECT_NEAR(got["actor/pg_clipfrac_lower"], want.clipfrac_lower, 1e-12);
    EXPECT_NEAR(got["actor/ppo_kl"], want.ppo_kl, 1e-5);
    EXPECT_GT(want.clipfrac, 0) << "the batch should reach the clipped branch";
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, AggregatedLossTest,
                         ::testing::Values("token-mean", "seq-mean-token-sum",
                                           "seq-mean-token-mean", "seq-mean-token-sum-norm"));

// --- Gradients -----------------------------------------------------------------------------------

/// Compares the gradient of every parameter tensor with central differences at some entries.
void ExpectGradient(const ModelConfig& config, const LossSpec& loss, uint32_t seed) {
  auto model = MakeModel(config, torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  const std::vector<TrainSequence> batch = RandomBatch(seed, 6, config.vocab_size);
  Measure(*trainer, batch, loss);
  const auto gradients = Gradients(*model);
  std::mt19937 rng(seed);
  constexpr double kStep = 1e-6;
  double largest = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto& [name, gradient] = gradients[i];
    torch::Tensor parameter = model->parameters()[i].second;
    for (int trial = 0; trial < 3; ++trial) {
      const int64_t place = static_cast<int64_t>(rng() % gradient.numel());
      double* value = parameter.data_ptr<double>() + place;
      const double before = *value;
      *value = before + kStep;
      const double above = Total(Measure(*trainer, batch, loss), loss);
      *value = before - kStep;
      const double below = Total(Measure(*trainer, batch, loss), loss);
      *value = before;
      const double want = (above - below) / (2 * kStep);
      const double got = gradient.contiguous().data_ptr<double>()[place];
      EXPECT_NEAR(got, want, 1e-7 * std::max(1.0, std::fabs(want)) + 2e-8) << name << " " << place;
      largest = std::max(largest, std::fabs(got));
    }
  }
  EXPECT_GT(largest, 1e-3) << "the gradient vanished";
}

TEST(TrainerGradientTest, SftEqualsFiniteDifferences) {
  LossSpec loss;
  ExpectGradient(TinyConfig(), loss, 1);
  loss.loss_agg_mode = "seq-mean-token-mean";
  ExpectGradient(TinyConfig(ModelConfig::Family::kQwen2), loss, 2);
}

TEST(TrainerGradientTest, PpoWithEntropyAndKlEqualsFiniteDifferences) {
  LossSpec loss = Ppo("token-mean");
  loss.entropy_coeff = 0.7;
  for (const char* type : {"k1", "k2", "k3"}) {
    loss.kl_loss_type = type;
    ExpectGradient(TinyConfig(), loss, 3);
  }
  ExpectGradient(TinyConfig(ModelConfig::Family::kQwen2), loss, 4);
}

TEST(TrainerGradientTest, EveryAggregationEqualsFiniteDifferences) {
  for (const char* mode :
       {"seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    ExpectGradient(TinyConfig(), Ppo(mode), 5);
  }
}

}  // namespace
}  // namespace baton::engine
