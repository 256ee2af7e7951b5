// Bradley-Terry training of a model with a scalar head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine/scalar.h"
#include "workers/engine/scalar/scalar_trainer.h"

namespace baton::engine {
namespace {

using ::testing::AllOf;
using testing::ExpectFiniteDifferences;
using ::testing::HasSubstr;
using testing::MakePair;
using testing::MakeScalar;
using testing::MakeScalarTrainer;
using testing::Measuring;
using testing::ScalarGradients;

using Metrics = ScalarTrainer::Metrics;

/// Ragged pairs; sides of one pair differ in length and may be empty.
std::vector<PreferencePair> RandomPairs(uint32_t seed, int count) {
  std::mt19937 rng(seed);
  const auto tokens = [&](int length) {
    std::vector<int32_t> out(length);
    for (int32_t& token : out) token = static_cast<int32_t>(rng() % 11);
    return out;
  };
  std::vector<PreferencePair> pairs;
  for (int i = 0; i < count; ++i) {
    const auto prompt = tokens(1 + static_cast<int>(rng() % 4));
    auto chosen = tokens(static_cast<int>(rng() % 7)), rejected = chosen;
    rejected.push_back(static_cast<int32_t>(rng() % 11));
    if (i % 2 == 0) std::swap(chosen, rejected);
    pairs.push_back(MakePair(prompt, chosen, rejected));
  }
  return pairs;
}

Metrics UpdateByPairs(ScalarTrainer& trainer, const std::vector<PreferencePair>& pairs,
                      const UpdateOptions& options = {}) {
  auto metrics = trainer.UpdatePreferences(pairs, options);
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return metrics.ok() ? *metrics : Metrics();
}

TEST(PreferenceLoss, CasesByHand) {
  const auto loss = [](double chosen, double rejected) {
    return PreferenceLoss(torch::full({1}, chosen, torch::kFloat64),
                          torch::full({1}, rejected, torch::kFloat64))
        .item<double>();
  };
  EXPECT_NEAR(loss(1, 1), std::log(2.0), 1e-15);
  EXPECT_NEAR(loss(std::log(3.0), 0), std::log(4.0 / 3.0), 1e-15);  // sigmoid(ln 3) = 3/4
  EXPECT_NEAR(loss(-500, 500), 1000, 1e-9);
  EXPECT_EQ(loss(500, -500), 0);
}

TEST(Preferences, LossAgreesWithASlowOne) {
  const auto made = MakeScalar(torch::kFloat64);
  const auto pairs = RandomPairs(1, 11);
  double loss = 0, accuracy = 0, margin = 0, tokens = 0;
  for (const PreferencePair& pair : pairs) {
    const auto scores = ComputeScores(*made.scalar, {pair.chosen, pair.rejected}).value();
    const double d = double{scores[0]} - scores[1];
    loss += std::log(1 + std::exp(-d)) / 11;
    accuracy += (d > 0 ? 1.0 : 0.0) / 11;
    margin += d / 11;
    tokens += static_cast<double>(pair.chosen.tokens.size() + pair.rejected.tokens.size());
  }
  EXPECT_GT(accuracy, 0);
  EXPECT_LT(accuracy, 1);
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  for (const int64_t budget : {0, 24, 60}) {
    const Metrics metrics = UpdateByPairs(*trainer, pairs, {1, 0, budget});
    EXPECT_NEAR(metrics.at("train/loss"), loss, 1e-6);
    EXPECT_NEAR(metrics.at("train/accuracy"), accuracy, 1e-12);
    EXPECT_NEAR(metrics.at("train/margin"), margin, 1e-6);
    EXPECT_EQ(metrics.at("perf/total_num_tokens"), tokens);
    const auto report = EvaluatePreferences(*made.scalar, pairs, budget).value();
    EXPECT_NEAR(report.loss, loss, 1e-6);
    EXPECT_NEAR(report.accuracy, accuracy, 1e-12);
    EXPECT_NEAR(report.margin, margin, 1e-6);
  }
}

TEST(Preferences, GradientsAgreeWithFiniteDifferences) {
  const auto made = MakeScalar(torch::kFloat64);
  const auto pairs = RandomPairs(2, 7);
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  UpdateByPairs(*trainer, pairs, {1, 0, 30});
  ExpectFiniteDifferences(*made.scalar, ScalarGradients(*made.scalar), [&] {
    const torch::AutoGradMode enabled(true);
    return UpdateByPairs(*trainer, pairs, {1, 0, 30}).at("train/loss");
  });
}

TEST(Preferences, AZeroHeadHasNoPreference) {
  const auto actor = testing::MakeModel(testing::TinyConfig(), torch::kFloat32);
  const auto model = ScalarModel::FromCausalLM(*actor, torch::kFloat32, torch::kCPU).value();
  const auto report = EvaluatePreferences(*model, RandomPairs(3, 5)).value();
  EXPECT_NEAR(report.loss, std::log(2.0), 1e-6);
  EXPECT_EQ(report.accuracy, 0.5);
  EXPECT_EQ(report.margin, 0);
}

TEST(Preferences, LearnsFromPairs) {
  // People like responses with a 7 in them.
  std::mt19937 rng(4);
  const auto draw = [&](int count) {
    std::vector<PreferencePair> pairs;
    for (int i = 0; i < count; ++i) {
      std::vector<int32_t> rejected;
      for (int t = 0; t < 5; ++t) rejected.push_back(static_cast<int32_t>(rng() % 7));
      std::vector<int32_t> chosen = rejected;
      chosen[rng() % 5] = 7;
      pairs.push_back(MakePair({9, static_cast<int32_t>(rng() % 7)}, chosen, rejected));
    }
    return pairs;
  };
  const auto actor = testing::MakeModel(testing::TinyConfig(), torch::kFloat32);
  const auto model = ScalarModel::FromCausalLM(*actor, torch::kFloat32, torch::kCPU).value();
  OptimizerSpec spec;
  spec.lr = 0.01;
  const auto trainer = MakeScalarTrainer(*model, spec);
  for (int step = 0; step < 60; ++step) UpdateByPairs(*trainer, draw(32), {1, 16, 0});
  EXPECT_EQ(trainer->optimizer_steps(), 120);
  const auto held_out = EvaluatePreferences(*model, draw(100)).value();
  EXPECT_GT(held_out.accuracy, 0.95);
  EXPECT_LT(held_out.loss, 0.3);
}

TEST(Preferences, NamesThePairThatIsWrong) {
  const auto made = MakeScalar(torch::kFloat32);
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  std::vector<PreferencePair> pairs = {MakePair({1}, {2}, {3}), MakePair({1, 2}, {4, 5}, {4, 5})};
  const auto equal = trainer->UpdatePreferences(pairs, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(equal));
  EXPECT_THAT(std::string(equal.message()),
              AllOf(HasSubstr("pair 1"), HasSubstr("the same 4 tokens"), HasSubstr("remove")));
  EXPECT_EQ(EvaluatePreferences(*made.scalar, pairs).status(), equal);
  pairs[1] = MakePair({1, 2}, {4, 5}, {4, 11});
  EXPECT_THAT(std::string(trainer->UpdatePreferences(pairs, {}).status().message()),
              AllOf(HasSubstr("pair 1, rejected"), HasSubstr("token 11")));
  EXPECT_TRUE(absl::IsInvalidArgument(trainer->UpdatePreferences({}, {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EvaluatePreferences(*made.scalar, {}).status()));
}

}  // namespace
}  // namespace baton::engine
