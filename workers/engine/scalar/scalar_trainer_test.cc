#include "workers/engine/scalar/scalar_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/scalar.h"

namespace baton::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ExpectFiniteDifferences;
using ::testing::HasSubstr;
using testing::MakeScalar;
using testing::MakeScalarTrainer;
using testing::Measuring;
using testing::RandomValueBatch;
using testing::SameBytes;
using testing::ScalarGradients;
using testing::ScalarWeights;

using Metrics = ScalarTrainer::Metrics;

Metrics Update(ScalarTrainer& trainer, const std::vector<TrainSequence>& batch,
               const LossSpec& loss = {}, const UpdateOptions& options = {}) {
  auto metrics = trainer.UpdateValues(batch, loss, options);
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return metrics.ok() ? *metrics : Metrics();
}

std::vector<double> ToVector(const torch::Tensor& t) {
  const torch::Tensor wide = t.to(torch::kFloat64).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

TEST(ValueLoss, CasesByHand) {
  // V, V_old, R; clip range 1/2.
  //   1, 0,  2: |1 - 2| = 1 beats nothing: clip gives 0.5, (0.5 - 2)^2 = 2.25 -> 1.125, clipped
  //   1, 0, -1: (1 + 1)^2 = 4, clipped (0.5 + 1)^2 = 2.25 -> 2
  //   0.25, 0, 1: inside the range: 0.5625 / 2
  //  -3, -1, -1: (-2)^2 = 4, clipped (-1.5 + 1)^2 = 0.25 -> 2
  const auto tensor = [](std::vector<double> v) { return torch::tensor(v, torch::kFloat64); };
  const torch::Tensor values = tensor({1, 1, 0.25, -3}), old = tensor({0, 0, 0, -1}),
                      returns = tensor({2, -1, 1, -1});
  const ValueTerms terms = ValueLoss(values, old, returns, 0.5);
  EXPECT_THAT(ToVector(terms.loss), ElementsAre(1.125, 2, 0.28125, 2));
  EXPECT_THAT(ToVector(terms.clipped), ElementsAre(1, 0, 0, 0));
  const ValueTerms free = ValueLoss(values, {}, returns, 0);
  EXPECT_THAT(ToVector(free.loss), ElementsAre(0.5, 2, 0.28125, 2));
  EXPECT_THAT(ToVector(free.clipped), ElementsAre(0, 0, 0, 0));
}

struct Slow {
  double loss = 0, clipfrac = 0, mean = 0, explained = 0;
};

/// Sequence by sequence, in double precision, from the formulas.
Slow SlowValueLoss(const std::vector<TrainSequence>& batch,
                   const std::vector<std::vector<float>>& values, const std::string& mode,
                   double cliprange) {
  Slow slow;
  double tokens = 0, sequences = 0, longest = 0, sum_r = 0, sum_e = 0;
  std::vector<double> sums, counts, returns, errors;
  for (size_t i = 0; i < batch.size(); ++i) {
    const TrainSequence& s = batch[i];
    double sum = 0, count = 0;
    longest = std::max<double>(longest, s.response_length());
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (!s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
      const double v = values[i][r], old = s.values[r], ret = s.returns[r];
      const double bounded = std::min(std::max(v, old - cliprange), old + cliprange);
      const double plain = (v - ret) * (v - ret), clipped = (bounded - ret) * (bounded - ret);
      sum += 0.5 * std::max(plain, clipped);
      slow.clipfrac += clipped > plain ? 1 : 0;
      slow.mean += v;
      count += 1;
      returns.push_back(ret);
      errors.push_back(ret - old);
      sum_r += ret;
      sum_e += ret - old;
    }
    sums.push_back(sum);
    counts.push_back(count);
    tokens += count;
    sequences += count > 0 ? 1 : 0;
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] == 0) continue;
    if (mode == "token-mean") slow.loss += sums[i] / tokens;
    if (mode == "seq-mean-token-sum") slow.loss += sums[i] / sequences;
    if (mode == "seq-mean-token-mean") slow.loss += sums[i] / counts[i] / sequences;
    if (mode == "seq-mean-token-sum-norm") slow.loss += sums[i] / longest / sequences;
  }
  slow.clipfrac /= tokens;
  slow.mean /= tokens;
  double var_r = 0, var_e = 0;
  for (const double x : returns) var_r += std::pow(x - sum_r / tokens, 2) / (tokens - 1);
  for (const double x : errors) var_e += std::pow(x - sum_e / tokens, 2) / (tokens - 1);
  slow.explained = 1 - var_e / (var_r + 1e-5);
  return slow;
}

TEST(ScalarTrainer, ValueLossAgreesWithASlowOne) {
  for (const char* mode :
       {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    for (const uint32_t seed : {1u, 2u, 3u}) {
      const auto made = MakeScalar(torch::kFloat64);
      const auto batch = RandomValueBatch(seed, 12, 11);
      const auto values = ComputeValues(*made.scalar, batch).value();
      const Slow slow = SlowValueLoss(batch, values, mode, 0.2);
      LossSpec loss;
      loss.cliprange_value = 0.2;
      loss.loss_agg_mode = mode;
      const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
      const Metrics metrics = Update(*trainer, batch, loss);
      EXPECT_NEAR(metrics.at("critic/vf_loss"), slow.loss, 1e-6) << mode;
      EXPECT_NEAR(metrics.at("critic/vf_clipfrac"), slow.clipfrac, 1e-12);
      EXPECT_NEAR(metrics.at("critic/vpred_mean"), slow.mean, 1e-6);
      EXPECT_NEAR(metrics.at("critic/vf_explained_var"), slow.explained, 1e-9);
      EXPECT_GT(slow.clipfrac, 0);
    }
  }
}

TEST(ScalarTrainer, ValueGradientsAgreeWithFiniteDifferences) {
  const auto made = MakeScalar(torch::kFloat64, ModelConfig::Family::kQwen2);
  const auto batch = RandomValueBatch(4, 8, 11);
  LossSpec loss;
  loss.cliprange_value = 0.2;
  loss.loss_agg_mode = "seq-mean-token-mean";
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  Update(*trainer, batch, loss, {1, 0, 20});
  const auto gradients = ScalarGradients(*made.scalar);
  double largest = 0;
  for (const auto& g : gradients) largest = std::max(largest, g.abs().max().item<double>());
  EXPECT_GT(largest, 1e-2);
  ExpectFiniteDifferences(*made.scalar, gradients, [&] {
    const torch::AutoGradMode enabled(true);
    return Update(*trainer, batch, loss, {1, 0, 20}).at("critic/vf_loss");
  });
}

TEST(ScalarTrainer, MicroBatchesDoNotChangeTheGradient) {
  const auto made = MakeScalar(torch::kFloat64);
  const auto batch = RandomValueBatch(5, 12, 11);
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  const Metrics whole = Update(*trainer, batch);
  const auto expected = ScalarGradients(*made.scalar);
  for (const int64_t budget : {10, 17, 40}) {
    const Metrics split = Update(*trainer, batch, {}, {1, 0, budget});
    for (const auto& [name, value] : whole) EXPECT_NEAR(split.at(name), value, 1e-12) << name;
    const auto gradients = ScalarGradients(*made.scalar);
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(torch::allclose(gradients[i], expected[i], 1e-9, 1e-12));
    }
  }
}

TEST(ScalarTrainer, AResponseOfOneTokenAndAMaskedRow) {
  const auto made = MakeScalar(torch::kFloat64);
  TrainSequence one;
  one.tokens = {3, 4, 5};
  one.prompt_length = 2;
  one.values = {0.25f};
  one.returns = {1};
  TrainSequence masked = one;
  masked.loss_mask = {0};
  masked.returns = {std::numeric_limits<float>::quiet_NaN()};  // The token is masked.
  const double v = ComputeValues(*made.scalar, {one}).value()[0][0];
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  LossSpec loss;
  loss.cliprange_value = 0;
  const Metrics metrics = Update(*trainer, {one, masked}, loss);
  EXPECT_NEAR(metrics.at("critic/vf_loss"), 0.5 * (v - 1) * (v - 1), 1e-7);
  EXPECT_NEAR(metrics.at("critic/vpred_mean"), v, 1e-7);
  // d/dw of (w.h + ... - R)^2 / 2 by the head's weights is (V - R) h; so the head's gradient is
  // (V - R) / V times the head's contribution: check it along the head itself.
  const torch::Tensor head = made.scalar->parameters().back().second;
  EXPECT_NEAR((head.grad() * head.detach()).sum().item<double>(), (v - 1) * v, 1e-6);
  const auto refused = trainer->UpdateValues({masked, masked}, loss, {});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no unmasked response token"));
}

TEST(ScalarTrainer, LearnsTheReturns) {
  const auto made = MakeScalar(torch::kFloat32);
  auto batch = RandomValueBatch(6, 10, 11);
  OptimizerSpec spec;
  spec.lr = 0.02;
  const auto trainer = MakeScalarTrainer(*made.scalar, spec);
  LossSpec loss;
  loss.cliprange_value = 0;
  const double before = Update(*trainer, batch, loss).at("critic/vf_loss");
  double after = before;
  for (int step = 0; step < 200; ++step) after = Update(*trainer, batch, loss).at("critic/vf_loss");
  EXPECT_LT(after, before / 20);
  EXPECT_EQ(trainer->optimizer_steps(), 201);
}

TEST(ScalarTrainer, ResumesBitwise) {
  const TestFolder folder;
  const auto batch = RandomValueBatch(7, 10, 11);
  OptimizerSpec spec;
  spec.lr = 0.01;
  spec.lr_schedule = "linear";
  spec.total_steps = 6;
  const auto one = MakeScalar(torch::kFloat32), two = MakeScalar(torch::kFloat32);
  const auto first = MakeScalarTrainer(*one.scalar, spec);
  Update(*first, batch, {}, {1, 4, 30});
  ASSERT_TRUE(first->SaveOptimizer(folder.path("o")).ok());
  const auto weights = ScalarWeights(*one.scalar);
  const Metrics expected = Update(*first, batch, {}, {1, 4, 30, {}, 1});
  {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < weights.size(); ++i) {
      torch::Tensor parameter = two.scalar->parameters()[i].second;
      parameter.copy_(weights[i]);
    }
  }
  const auto second = MakeScalarTrainer(*two.scalar, spec);
  ASSERT_TRUE(second->LoadOptimizer(folder.path("o")).ok());
  EXPECT_EQ(second->optimizer_steps(), 3);
  EXPECT_EQ(Update(*second, batch, {}, {1, 4, 30, {}, 1}), expected);
  EXPECT_LT(expected.at("critic/lr"), spec.lr);
  EXPECT_TRUE(SameBytes(ScalarWeights(*one.scalar), ScalarWeights(*two.scalar)));
}

TEST(ScalarTrainer, SkipsStepsThatAreNotFinite) {
  const auto made = MakeScalar(torch::kFloat32);
  OptimizerSpec spec;
  spec.lr = 0.01;
  const auto trainer = MakeScalarTrainer(*made.scalar, spec);
  auto batch = RandomValueBatch(8, 8, 11);
  batch[5].returns.assign(batch[5].returns.size(), 3e38f);  // Squared, it is infinite.
  batch[5].loss_mask.clear();
  const Metrics metrics = Update(*trainer, batch, {}, {1, 4, 0});
  EXPECT_EQ(metrics.at("critic/skipped_steps"), 1);
  EXPECT_EQ(metrics.at("critic/optimizer_steps"), 1);
  EXPECT_TRUE(std::isfinite(metrics.at("critic/vf_loss")));
  EXPECT_THAT(trainer->skip_reasons(),
              ElementsAre(AllOf(HasSubstr("mini-batch from 4"), HasSubstr("sequence 5"))));
  const auto weights = ScalarWeights(*made.scalar);
  const auto refused = trainer->UpdateValues({batch[5]}, {}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("weights unchanged"));
  EXPECT_TRUE(SameBytes(weights, ScalarWeights(*made.scalar)));
  EXPECT_EQ(trainer->optimizer_steps(), 1);
}

TEST(ScalarTrainer, NamesBadColumns) {
  const auto made = MakeScalar(torch::kFloat32);
  const auto trainer = MakeScalarTrainer(*made.scalar, Measuring());
  const auto message = [&](const std::vector<TrainSequence>& batch, const LossSpec& loss) {
    return std::string(trainer->UpdateValues(batch, loss, {}).status().message());
  };
  auto batch = RandomValueBatch(9, 6, 11);
  batch[4].values.clear();
  EXPECT_THAT(message(batch, {}), HasSubstr("sequence 4: values has 0 values"));
  LossSpec no_clip;
  no_clip.cliprange_value = 0;
  const Metrics metrics = Update(*trainer, batch, no_clip);
  EXPECT_EQ(metrics.count("critic/vf_explained_var"), 0u);  // Not known without old values.
  batch[4].returns.pop_back();
  EXPECT_THAT(message(batch, no_clip), HasSubstr("sequence 4: returns has"));
  batch = RandomValueBatch(9, 6, 11);
  batch[4].returns[0] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message(batch, {}), HasSubstr("sequence 4, response token 0: returns is inf"));
  const auto cancelled =
      trainer->UpdateValues(RandomValueBatch(9, 6, 11), {}, {1, 0, 0, [] { return true; }});
  EXPECT_TRUE(absl::IsCancelled(cancelled.status()));
}

}  // namespace
}  // namespace baton::engine
