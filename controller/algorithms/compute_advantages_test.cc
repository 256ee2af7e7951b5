#include "controller/algorithms/compute_advantages.h"

#include <cmath>
#include <limits>

#include "controller/algorithms/estimators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/algorithms.h"

namespace baton::algorithms {
namespace {

using ::testing::AllOf;
using testing::Batch;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RandomBatch;

EstimatorSpec Spec(const std::string& name, const Options& options = {}) {
  auto spec = MakeEstimatorSpec(name, options);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(EstimatorSpec());
}

BatchAdvantages Compute(absl::Span<const Sample> samples, const EstimatorSpec& spec) {
  auto out = ComputeAdvantages(samples, spec, InitialState(spec));
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? *std::move(out) : BatchAdvantages();
}

std::vector<Sample> OneTokenEach(const std::vector<double>& rewards) {
  std::vector<Sample> samples(rewards.size());
  for (size_t i = 0; i < rewards.size(); ++i) samples[i].length = 1, samples[i].reward = rewards[i];
  return samples;
}

TEST(ComputeAdvantagesTest, NoSamplesNoAdvantages) {
  for (const std::string& name : EstimatorNames()) {
    const BatchAdvantages out = Compute({}, Spec(name));
    EXPECT_THAT(out.advantages, IsEmpty());
    EXPECT_EQ(out.metrics.at("train/groups"), 0);
  }
  EXPECT_THAT(Compute({}, Spec("grpo", {{"use_cost", true}})).advantages, IsEmpty());
}

TEST(ComputeAdvantagesTest, OneValueOrOnePerToken) {
  std::vector<Sample> samples = OneTokenEach({1, 0});
  samples[0].length = 3;
  const BatchAdvantages grpo = Compute(samples, Spec("dr_grpo"));
  EXPECT_THAT(grpo.AdvantagesOf(0), ElementsAre(0.5F));
  EXPECT_THAT(grpo.ReturnsOf(0), IsEmpty());
  const BatchAdvantages tokens =
      Compute(samples, Spec("reinforce_plus_plus", {{"whiten_advantages", false}}));
  EXPECT_THAT(tokens.AdvantagesOf(0), ElementsAre(1, 1, 1));
  EXPECT_THAT(tokens.ReturnsOf(1), ElementsAre(0));
}

TEST(ComputeAdvantagesTest, WhitenedByHand) {
  // Returns 1, 1, 1 and 0 over four tokens: mean 3/4, variance (3 / 16 + 9 / 16) / 3 = 1/4.
  std::vector<Sample> samples = OneTokenEach({1, 0});
  samples[0].length = 3;
  const BatchAdvantages out = Compute(samples, Spec("reinforce_plus_plus"));
  EXPECT_THAT(out.AdvantagesOf(0), Each(FloatNear(0.5, 1e-6)));
  EXPECT_THAT(out.AdvantagesOf(1), ElementsAre(FloatNear(-1.5, 1e-6)));
  EXPECT_NEAR(out.metrics.at("critic/advantages/mean"), 0, 1e-6);
  EXPECT_NEAR(out.metrics.at("critic/advantages/min"), -1.5, 1e-6);
  EXPECT_EQ(out.metrics.at("critic/returns/mean"), 0.75);
}

// 2^24 and 2^24 + 1 are one float32.
TEST(ComputeAdvantagesTest, WhitensInFloat64) {
  const BatchAdvantages out =
      Compute(OneTokenEach({16777216, 16777217}), Spec("reinforce_plus_plus"));
  EXPECT_THAT(out.advantages,
              ElementsAre(FloatNear(-std::sqrt(0.5), 1e-6), FloatNear(std::sqrt(0.5), 1e-6)));
  const BatchAdvantages baseline =
      Compute(OneTokenEach({16777216, 16777217}), Spec("reinforce_plus_plus_baseline"));
  EXPECT_THAT(baseline.advantages,
              ElementsAre(FloatNear(-std::sqrt(0.5), 1e-6), FloatNear(std::sqrt(0.5), 1e-6)));
}

TEST(ComputeAdvantagesTest, TheAdaptiveKlCoefficientNeverReachesZero) {
  const EstimatorSpec spec = Spec("grpo", {{"use_kl_in_reward", true},
                                           {"kl_ctrl", std::string("adaptive")},
                                           {"kl_coef", 0.01},
                                           {"horizon", 1.0}});  // a batch of 10 is far beyond it
  const std::vector<float> same = {-1}, high = {-1}, low = {-3};
  std::vector<Sample> samples = OneTokenEach({1, 0, 1, 0, 1, 0, 1, 0, 1, 0});
  for (Sample& s : samples) s.log_probs = s.ref_log_probs = same;
  const BatchAdvantages fallen = Compute(samples, spec);
  EXPECT_DOUBLE_EQ(fallen.state.kl_coef, 1e-5);
  for (Sample& s : samples) s.log_probs = high, s.ref_log_probs = low;
  auto rises = ComputeAdvantages(samples, spec, fallen.state);
  ASSERT_TRUE(rises.ok()) << rises.status();
  EXPECT_NEAR(rises->state.kl_coef, 3e-5, 1e-12);                    // 1 + 0.2 * 10 / 1
  auto lifted = ComputeAdvantages(samples, spec, EstimatorState());  // 0
  ASSERT_TRUE(lifted.ok()) << lifted.status();
  EXPECT_DOUBLE_EQ(lifted->state.kl_coef, 1e-5);
}

TEST(ComputeAdvantagesTest, WhiteningEqualAdvantagesGivesZeroAndNotNoise) {
  EXPECT_THAT(Compute(OneTokenEach({.1, .1, .1}), Spec("reinforce_plus_plus")).advantages, Each(0));
  EXPECT_THAT(Compute(OneTokenEach({.1}), Spec("reinforce_plus_plus")).advantages, Each(0));
}

TEST(ComputeAdvantagesTest, AFullyMaskedRowTakesNoPart) {
  std::vector<Sample> samples = OneTokenEach({1, 0, 50});
  for (Sample& s : samples) s.length = 2;
  const std::vector<uint8_t> mask = {0, 0};
  const std::vector<float> values = {std::nanf(""), std::nanf("")}, fine = {0, 0};
  samples[0].values = samples[1].values = fine;
  samples[2].mask = mask;
  samples[2].values = values;
  const BatchAdvantages out = Compute(samples, Spec("gae"));
  EXPECT_THAT(out.AdvantagesOf(2), ElementsAre(0, 0));
  EXPECT_THAT(out.ReturnsOf(2), ElementsAre(0, 0));
  EXPECT_EQ(out.metrics.at("critic/returns/max"), 1);
  // Where each sample has one advantage, the masked sample has one too, but no weight.
  const BatchAdvantages grpo = Compute(samples, Spec("dr_grpo"));
  EXPECT_NEAR(grpo.metrics.at("critic/advantages/max"), -16, 1e-5) << "1 - 17, not 50 - 17";
}

TEST(ComputeAdvantagesTest, DroppedGroupsCountForNothing) {
  std::vector<Sample> samples = OneTokenEach({5, 5, 1, 0});
  samples[2].group = samples[3].group = 1;
  const BatchAdvantages out =
      Compute(samples, Spec("reinforce_plus_plus", {{"filter_groups", true}}));
  EXPECT_THAT(out.kept, ElementsAre(false, false, true, true));
  EXPECT_EQ(out.metrics.at("train/groups"), 2);
  EXPECT_EQ(out.metrics.at("train/filtered_groups"), 1);
  EXPECT_EQ(out.metrics.at("critic/returns/max"), 1);
  EXPECT_THAT(out.AdvantagesOf(2), ElementsAre(FloatNear(std::sqrt(0.5), 1e-6)));
}

// The metric that drops a group need not be the reward: a dropped group may have advantages.
TEST(ComputeAdvantagesTest, DroppedGroupsWithAdvantagesCountForNothing) {
  std::vector<Sample> samples = OneTokenEach({10, 0, 1, 0});
  samples[2].group = samples[3].group = 1;
  const std::vector<double> metrics = {1, 1, 1, 0};
  const std::vector<float> one = {1}, zero = {0}, far = {-3}, near = {-1};
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].filter_metric = metrics[i];
    samples[i].log_probs = near;
    samples[i].rollout_log_probs = i < 2 ? far : near;
    samples[i].values = i == 2 ? one : zero;
  }
  // The kept group's advantages are 1/2 and -1/2: mean 0, variance 1/2.
  const Options filter = {{"filter_groups", true}, {"filter_metric", "other"}};
  Options white = filter;
  white["whiten_advantages"] = true;
  const BatchAdvantages each = Compute(samples, Spec("reinforce_plus_plus_baseline", white));
  EXPECT_THAT(each.kept, ElementsAre(false, false, true, true));
  EXPECT_THAT(each.AdvantagesOf(2), ElementsAre(FloatNear(std::sqrt(0.5), 1e-6)));
  EXPECT_THAT(each.AdvantagesOf(3), ElementsAre(FloatNear(-std::sqrt(0.5), 1e-6)));
  EXPECT_NEAR(each.metrics.at("critic/advantages/max"), std::sqrt(0.5), 1e-6);
  EXPECT_EQ(each.metrics.at("rollout_corr/log_prob_abs_diff"), 0);
  EXPECT_EQ(each.metrics.at("rollout_corr/log_prob_diff_max"), 0);
  EXPECT_EQ(each.metrics.at("train/filtered_groups"), 1);
  // The critic predicted the kept group's returns exactly, and the other group's not at all.
  const BatchAdvantages gae = Compute(samples, Spec("gae", filter));
  EXPECT_EQ(gae.metrics.at("critic/vf_explained_var"), 1);
  EXPECT_EQ(gae.metrics.at("critic/returns/max"), 1);
}

TEST(ComputeAdvantagesTest, SafeRlhfByHand) {
  // dr_grpo on rewards 1, 0 and costs 4, 2: advantages ±1/2 and ±1, mean cost 3.
  std::vector<Sample> samples = OneTokenEach({1, 0});
  samples[0].cost = 4;
  samples[1].cost = 2;
  const EstimatorSpec spec =
      Spec("dr_grpo",
           {{"use_cost", true}, {"cost_limit", 1.0}, {"lambda_lr", 0.1}, {"lambda_init", 1.0}});
  const BatchAdvantages out = Compute(samples, spec);
  const double lambda = std::exp(0.1 * (3 - 1));  // learns before it is used
  EXPECT_NEAR(out.state.log_lambda, 0.2, 1e-12);
  EXPECT_NEAR(out.advantages[0], (0.5 - lambda) / (1 + lambda), 1e-6);
  EXPECT_NEAR(out.advantages[1], -(0.5 - lambda) / (1 + lambda), 1e-6);
  EXPECT_NEAR(out.metrics.at("train/lambda"), lambda, 1e-12);
  EXPECT_EQ(out.metrics.at("critic/cost/mean"), 3);
}

// Both signals by their critics, written out from the formulas: delta_t = r_t + gamma V_{t+1} -
// V_t, A_t = sum_l (gamma lam)^l delta_{t+l}, A = (A_r - lambda A_c) / (1 + lambda). Quadratic in
// length, over the unmasked tokens alone.
TEST(ComputeAdvantagesTest, SafeRlhfWithTwoCriticsIsItsFormula) {
  constexpr double kGamma = 0.97, kLam = 0.8, kLambda = 1.7;
  const EstimatorSpec spec = Spec("gae", {{"gamma", kGamma},
                                          {"lam", kLam},
                                          {"use_cost", true},
                                          {"whiten_advantages", false},
                                          {"lambda_lr", 0.0},
                                          {"lambda_init", kLambda}});
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Batch b = RandomBatch(seed, 12);
    for (auto& column : b.token_rewards) column.clear();
    b.Bind();
    const BatchAdvantages out = Compute(b.samples, spec);
    ASSERT_TRUE(out.per_token);
    double sum_of_values = 0, tokens = 0;
    for (size_t i = 0; i < b.samples.size(); ++i) {
      std::vector<size_t> places;
      for (size_t t = 0; t < b.samples[i].length; ++t) {
        if (b.In(i, t)) places.push_back(t);
      }
      const auto advantage = [&](size_t k, double outcome, const std::vector<float>& values) {
        double sum = 0;
        for (size_t l = k; l < places.size(); ++l) {
          const bool last = l + 1 == places.size();
          const double next = last ? 0 : values[places[l + 1]];
          const double delta = (last ? outcome : 0) + kGamma * next - values[places[l]];
          sum += std::pow(kGamma * kLam, static_cast<double>(l - k)) * delta;
        }
        return sum;
      };
      for (size_t k = 0; k < places.size(); ++k) {
        const size_t t = places[k];
        const double reward = advantage(k, b.samples[i].reward, b.values[i]);
        const double cost = advantage(k, *b.samples[i].cost, b.cost_values[i]);
        EXPECT_NEAR(out.AdvantagesOf(i)[t], (reward - kLambda * cost) / (1 + kLambda), 1e-5);
        EXPECT_NEAR(out.ReturnsOf(i)[t], reward + b.values[i][t], 1e-5);
        EXPECT_NEAR(out.CostReturnsOf(i)[t], cost + b.cost_values[i][t], 1e-5);
        sum_of_values += b.cost_values[i][t];
        ++tokens;
      }
    }
    EXPECT_NEAR(out.metrics.at("critic/cost_values/mean"), sum_of_values / tokens, 1e-5);
    EXPECT_EQ(out.metrics.count("critic/cost_returns/mean"), 1u);
  }
}

TEST(ComputeAdvantagesTest, ReportsTheExplainedVarianceOfEachCritic) {
  // Two responses of one token: returns are reward 1, 0 and cost 4, 2.
  std::vector<Sample> samples = OneTokenEach({1, 0});
  const std::vector<float> right = {1}, wrong = {0}, four = {4}, two = {2};
  samples[0].cost = 4, samples[0].values = right, samples[0].cost_values = two;
  samples[1].cost = 2, samples[1].values = wrong, samples[1].cost_values = four;
  const auto metrics =
      Compute(samples, Spec("gae", {{"use_cost", true}, {"whiten_advantages", false}})).metrics;
  EXPECT_NEAR(metrics.at("critic/vf_explained_var"), 1, 1e-9);
  // Residuals 2, -2 have variance 8; returns 4, 2 have 2.
  EXPECT_NEAR(metrics.at("cost_critic/vf_explained_var"), 1 - 8 / (2 + 1e-5), 1e-9);
  EXPECT_EQ(metrics.at("critic/cost_values/max"), 4);
  EXPECT_EQ(metrics.at("critic/cost_returns/mean"), 3);
}

TEST(ComputeAdvantagesTest, MeasuresHowFarTheRolloutIsFromTheActor) {
  std::vector<Sample> samples = OneTokenEach({1, 0, 0});
  samples[0].group = 7;  // the others are alike, and dropped
  samples[1].group = samples[2].group = 8;
  const std::vector<float> recomputed = {-1.0F, -2.0F, -9.0F}, rollout = {-1.5F, -1.0F, -5.0F};
  const std::vector<uint8_t> mask = {1, 1, 0};
  for (Sample& s : samples) {
    s.length = 3;
    s.mask = mask;
    s.log_probs = recomputed;
    s.rollout_log_probs = rollout;
  }
  samples[1].rollout_log_probs = samples[2].rollout_log_probs = recomputed;
  const EstimatorSpec spec = Spec("grpo", {{"filter_groups", true}});
  const auto metrics = Compute(samples, spec).metrics;
  // d = 0.5 and -1.
  EXPECT_NEAR(metrics.at("rollout_corr/log_prob_abs_diff"), 0.75, 1e-9);
  EXPECT_EQ(metrics.at("rollout_corr/log_prob_diff_max"), 1);
  const double k3 = (std::exp(0.5) - 0.5 - 1 + std::exp(-1.0) + 1 - 1) / 2;
  EXPECT_NEAR(metrics.at("rollout_corr/k3_kl"), k3, 1e-9);
  // Nothing to compare.
  for (Sample& s : samples) s.rollout_log_probs = {};
  EXPECT_EQ(Compute(samples, spec).metrics.count("rollout_corr/k3_kl"), 0u);
  // The error names the invalid value.
  const std::vector<float> bad = {-1.0F, std::nanf(""), 0};
  for (Sample& s : samples) s.rollout_log_probs = rollout;
  samples[0].log_probs = bad;
  const auto fault = [&] {
    return std::string(ComputeAdvantages(samples, spec, InitialState(spec)).status().message());
  };
  EXPECT_EQ(fault(), "sample 0 (group 7): token 1: log_probs is nan");
  samples[0].log_probs = absl::MakeConstSpan(bad).first(1);
  EXPECT_EQ(fault(), "sample 0 (group 7): log_probs has 1 values for 3 tokens");
}

TEST(ComputeAdvantagesTest, SafeRlhfOfTwoEstimatorsAgreesWithEachAlone) {
  const Batch b = RandomBatch(4, 12);
  const EstimatorSpec spec = Spec("gae", {{"use_cost", true},
                                          {"cost_estimator", "rloo"},
                                          {"whiten_advantages", false},
                                          {"lambda_lr", 0.0},
                                          {"lambda_init", 2.0}});
  const BatchAdvantages both = Compute(b.samples, spec);
  const BatchAdvantages reward = Compute(b.samples, Spec("gae", {{"whiten_advantages", false}}));
  std::vector<Sample> costs = b.samples;
  for (Sample& s : costs) s.reward = *s.cost, s.token_rewards = {};
  const BatchAdvantages cost = Compute(costs, Spec("rloo"));
  for (size_t i = 0; i < b.samples.size(); ++i) {
    for (size_t t = 0; t < b.samples[i].length; ++t) {
      const double want =
          b.In(i, t) ? (reward.AdvantagesOf(i)[t] - 2 * cost.AdvantagesOf(i)[0]) / 3 : 0;
      EXPECT_NEAR(both.AdvantagesOf(i)[t], want, 1e-5);
    }
  }
  EXPECT_EQ(both.returns, reward.returns);
  EXPECT_THAT(both.cost_returns, IsEmpty()) << "no cost critic to teach";
  const BatchAdvantages two = Compute(b.samples, Spec("gae", {{"use_cost", true}}));
  for (Sample& s : costs) s.values = s.cost_values;
  EXPECT_EQ(two.cost_returns, Compute(costs, Spec("gae")).returns);
}

TEST(ComputeAdvantagesTest, TheKlCoefficientLearnsAfterTheBatch) {
  const std::vector<float> log_probs = {-1, -1}, ref = {-2, -4};
  std::vector<Sample> samples = OneTokenEach({0});
  samples[0].length = 2, samples[0].log_probs = log_probs, samples[0].ref_log_probs = ref;
  const EstimatorSpec spec = Spec("reinforce_plus_plus", {{"use_kl_in_reward", true},
                                                          {"kl_ctrl", "adaptive"},
                                                          {"kl_coef", 0.5},
                                                          {"target_kl", 1.0},
                                                          {"horizon", 10.0},
                                                          {"whiten_advantages", false}});
  const BatchAdvantages out = Compute(samples, spec);
  EXPECT_THAT(out.advantages, ElementsAre(-2, -1.5F)) << "KL 1 and 3, at the old coefficient";
  EXPECT_EQ(out.metrics.at("actor/reward_kl_penalty"), 2);
  EXPECT_EQ(out.metrics.at("actor/reward_kl_penalty_coeff"), 0.5);
  EXPECT_NEAR(out.state.kl_coef, 0.5 * (1 + 0.2 / 10), 1e-12);
}

TEST(ComputeAdvantagesTest, ExplainedVarianceByHand) {
  // Values 1 and 0 for returns 1 and 0 explain everything; for returns 0 and 1, less than nothing.
  const std::vector<float> one = {1}, zero = {0};
  std::vector<Sample> samples = OneTokenEach({1, 0});
  samples[0].values = one, samples[1].values = zero;
  EXPECT_NEAR(Compute(samples, Spec("gae")).metrics.at("critic/vf_explained_var"), 1, 1e-9);
  samples[0].reward = 0, samples[1].reward = 1;
  // Errors -1 and 1 have variance 2, the returns 1/2.
  EXPECT_NEAR(Compute(samples, Spec("gae")).metrics.at("critic/vf_explained_var"),
              1 - 2 / (0.5 + 1e-5), 1e-9);
  EXPECT_EQ(Compute(samples, Spec("gae")).metrics.at("critic/values/mean"), 0.5);
}

TEST(ComputeAdvantagesTest, RandomBatchesAreWhitenedOverTheirUnmaskedTokens) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Batch b = RandomBatch(seed, 5 + seed % 9);
    for (const char* name : {"gae", "reinforce_plus_plus_baseline", "reinforce_plus_plus"}) {
      const BatchAdvantages raw = Compute(b.samples, Spec(name, {{"whiten_advantages", false}}));
      const BatchAdvantages white = Compute(b.samples, Spec(name));
      std::vector<double> before, after;
      for (size_t i = 0; i < b.samples.size(); ++i) {
        for (size_t t = 0; t < b.samples[i].length; ++t) {
          if (!b.In(i, t)) continue;
          before.push_back(raw.AdvantagesOf(i)[raw.per_token ? t : 0]);
          after.push_back(white.AdvantagesOf(i)[white.per_token ? t : 0]);
        }
      }
      double mean = 0, variance = 0;
      for (const double a : before) mean += a / static_cast<double>(before.size());
      for (const double a : before) {
        variance += (a - mean) * (a - mean) / static_cast<double>(before.size() - 1);
      }
      for (size_t k = 0; k < before.size(); ++k) {
        EXPECT_NEAR(after[k], (before[k] - mean) / std::sqrt(variance + 1e-8), 1e-4) << name;
      }
    }
  }
}

std::string FaultOf(const Batch& b, const EstimatorSpec& spec) {
  const auto out = ComputeAdvantages(b.samples, spec, InitialState(spec));
  EXPECT_EQ(out.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(out.status().message());
}

TEST(ComputeAdvantagesTest, NamesWhatIsMissingOrBad) {
  const Batch good = RandomBatch(1, 6);
  const EstimatorSpec gae = Spec("gae", {{"use_kl_in_reward", true}, {"use_cost", true}});
  EXPECT_TRUE(ComputeAdvantages(good.samples, gae, InitialState(gae)).ok());
  Batch b = good;
  b.Bind();
  b.samples[3].values = {};
  EXPECT_THAT(FaultOf(b, gae),
              AllOf(HasSubstr("sample 3 (group "), HasSubstr("values is missing")));
  b.Bind();
  const std::vector<uint8_t> long_mask(99, 1);
  const std::vector<float> long_column(99, 1);
  b.samples[4].mask = long_mask;
  EXPECT_THAT(FaultOf(b, gae), AllOf(HasSubstr("sample 4"), HasSubstr("mask has 99 values")));
  b.Bind();
  b.samples[5].cost.reset();
  EXPECT_THAT(FaultOf(b, gae), HasSubstr("sample 5 (group "));
  b.samples[5].cost = 1;
  b.samples[0].reward = std::nan("");
  EXPECT_THAT(FaultOf(b, gae), HasSubstr("reward is nan"));
  b.samples[0].reward = 0;
  b.samples[2].reward_baseline.reset();
  EXPECT_THAT(FaultOf(b, Spec("remax")), HasSubstr("sample 2 (group "));
  for (Sample& s : b.samples) s.advantage = 1;
  EXPECT_TRUE(ComputeAdvantages(b.samples, Spec("given"), {}).ok());
  b.samples[3].advantage = std::nan("");
  EXPECT_THAT(FaultOf(b, Spec("given")), HasSubstr("advantage is nan"));
  b.samples[3].advantage.reset();
  EXPECT_THAT(FaultOf(b, Spec("given")), HasSubstr("advantage is missing"));
  b.samples[3].token_advantages = long_column;
  EXPECT_THAT(FaultOf(b, Spec("given")), HasSubstr("advantage has 99 values"));
  b.values[3].back() = std::numeric_limits<float>::infinity();
  b.Bind();
  EXPECT_THAT(FaultOf(b, gae), AllOf(HasSubstr("sample 3"), HasSubstr("values is inf")));
  b = good;
  b.ref_log_probs[0][0] = std::nanf("");
  b.Bind();
  EXPECT_THAT(FaultOf(b, gae), AllOf(HasSubstr("sample 0"), HasSubstr("token 0: ref_log_probs")));
}

TEST(ComputeAdvantagesTest, OverflowIsAnErrorAndNotAnInfiniteAdvantage) {
  Batch b(2);
  b.samples[0].length = b.samples[1].length = 1;
  b.samples[0].reward = 1e300;
  EXPECT_THAT(FaultOf(b, Spec("dr_grpo")), HasSubstr("overflow"));
}

}  // namespace
}  // namespace baton::algorithms
