#include "workers/engine/loss/rollout_correction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/engine/thread_communicator.h"
#include "tests/support/engine/trainer.h"

namespace baton::engine {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// A response whose tokens have these ratios of the old policy to the behaviour; a negative one
/// belongs to a masked token.
TrainSequence WithRatios(const std::vector<double>& ratios) {
  TrainSequence s;
  s.prompt_length = 1;
  s.tokens.assign(1 + ratios.size(), 0);
  for (const double ratio : ratios) {
    s.behaviour_log_probs.push_back(-1.5F);
    s.old_log_probs.push_back(static_cast<float>(-1.5 + std::log(std::abs(ratio))));
    s.loss_mask.push_back(ratio > 0 ? 1 : 0);
  }
  return s;
}

LossSpec Loss(const std::string& rollout_is, const std::string& rollout_rs = "", double upper = 0,
              double lower = 0) {
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.rollout_is = rollout_is;
  loss.rollout_rs = rollout_rs;
  loss.rollout_rs_threshold = upper;
  loss.rollout_rs_threshold_lower = lower;
  return loss;
}

std::vector<int64_t> All(size_t size) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < size; ++i) out.push_back(static_cast<int64_t>(i));
  return out;
}

RolloutCorrection Correct(const std::vector<TrainSequence>& batch, const LossSpec& loss) {
  EXPECT_TRUE(Validate(loss).ok()) << Validate(loss);
  RankAgreement alone(nullptr, nullptr, torch::kCPU);
  auto correction = CorrectRollout(batch, All(batch.size()), loss, alone);
  EXPECT_TRUE(correction.ok()) << correction.status();
  return *std::move(correction);
}

double Metric(const RolloutCorrection& correction, const std::string& name) {
  const auto found = correction.metrics.find("rollout_corr/rollout_" + name);
  EXPECT_NE(found, correction.metrics.end()) << name;
  return found == correction.metrics.end() ? std::nan("") : found->second;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST(RolloutCorrectionTest, DoesNothingIfNoCorrectionIsOn) {
  const RolloutCorrection correction = Correct({WithRatios({3})}, Loss(""));
  EXPECT_THAT(correction.sequences, IsEmpty());
  EXPECT_THAT(correction.counts, IsEmpty());
  EXPECT_THAT(correction.metrics, IsEmpty());
}

TEST(RolloutCorrectionTest, TokenWeightsByHand) {
  const auto correction = Correct({WithRatios({3, -100, 0.4}), WithRatios({1})}, Loss("token"));
  ExpectNear(correction.sequences[0].weights, {2, 0, 0.4});
  ExpectNear(correction.sequences[1].weights, {1});
  EXPECT_THAT(correction.sequences[0].kept, IsEmpty());
  EXPECT_THAT(correction.counts, ElementsAre(2, 1));
  const double mean = 3.4 / 3, square = (4 + 0.16 + 1) / 3;
  EXPECT_NEAR(Metric(correction, "is_mean"), mean, 1e-6);
  EXPECT_NEAR(Metric(correction, "is_std"), std::sqrt(square - mean * mean), 1e-6);
  EXPECT_NEAR(Metric(correction, "is_max"), 3, 1e-6);
  EXPECT_NEAR(Metric(correction, "is_min"), 0.4, 1e-6);
  EXPECT_NEAR(Metric(correction, "is_ratio_fraction_high"), 1.0 / 3, 1e-9);
  EXPECT_NEAR(Metric(correction, "is_ratio_fraction_low"), 1.0 / 3, 1e-9);
  EXPECT_NEAR(Metric(correction, "is_truncated"), 1.0 / 3, 1e-9);
  EXPECT_NEAR(Metric(correction, "is_eff_sample_size"), mean * mean / square, 1e-6);
  EXPECT_EQ(correction.metrics.size(), 8u);
}

TEST(RolloutCorrectionTest, SequenceWeightsByHand) {
  const auto correction = Correct(
      {WithRatios({3, -100, 0.5}), WithRatios({1.5, 4, 1}), WithRatios({0.1})}, Loss("sequence"));
  ExpectNear(correction.sequences[0].weights, {1.5, 0, 1.5});
  ExpectNear(correction.sequences[1].weights, {2, 2, 2});
  ExpectNear(correction.sequences[2].weights, {0.1});
  EXPECT_NEAR(Metric(correction, "is_mean"), (3 + 6 + 0.1) / 6, 1e-6) << "over tokens";
  EXPECT_NEAR(Metric(correction, "is_max"), 6, 1e-5);
  EXPECT_NEAR(Metric(correction, "is_min"), 0.1, 1e-6);
  EXPECT_NEAR(Metric(correction, "is_ratio_fraction_high"), 1.0 / 3, 1e-9) << "of sequences";
  EXPECT_NEAR(Metric(correction, "is_ratio_fraction_low"), 1.0 / 3, 1e-9);
  EXPECT_NEAR(Metric(correction, "is_truncated"), 3.0 / 6, 1e-9);
}

// Over tokens with token, over sequences with sequence; after the threshold.
TEST(RolloutCorrectionTest, NormalisedByTheMeanOfTheBatch) {
  const std::vector<TrainSequence> batch = {WithRatios({3, 1, 1}), WithRatios({0.5})};
  LossSpec loss = Loss("token");
  loss.rollout_is_batch_normalize = true;
  const auto token = Correct(batch, loss);
  const double mean = (2 + 1 + 1 + 0.5) / 4;
  ExpectNear(token.sequences[0].weights, {2 / mean, 1 / mean, 1 / mean});
  ExpectNear(token.sequences[1].weights, {0.5 / mean});
  EXPECT_NEAR(Metric(token, "is_batch_norm_factor"), mean, 1e-6);
  EXPECT_NEAR(Metric(token, "is_mean"), mean, 1e-6) << "before it is divided";
  loss.rollout_is = "sequence";
  const auto sequence = Correct(batch, loss);
  EXPECT_NEAR(Metric(sequence, "is_batch_norm_factor"), (2 + 0.5) / 2, 1e-6);
  ExpectNear(sequence.sequences[0].weights, {1.6, 1.6, 1.6});
  ExpectNear(sequence.sequences[1].weights, {0.4});
}

TEST(RolloutCorrectionTest, RatiosAreBoundedSoThatNothingOverflows) {
  TrainSequence far = WithRatios({1, 1});
  far.old_log_probs = {-1, -1};
  far.behaviour_log_probs = {-700, -700};
  LossSpec loss = Loss("sequence");
  loss.rollout_is_threshold = 1e300;
  loss.rollout_is_batch_normalize = true;
  const auto correction = Correct({far}, loss);
  EXPECT_DOUBLE_EQ(Metric(correction, "is_max"), std::exp(20.0));
  ExpectNear(correction.sequences[0].weights, {1, 1});
  std::swap(far.old_log_probs, far.behaviour_log_probs);
  loss = Loss("token");
  loss.rollout_is_batch_normalize = true;
  const auto vanishing = Correct({far}, loss);
  EXPECT_DOUBLE_EQ(Metric(vanishing, "is_min"), std::exp(-20.0));
  EXPECT_EQ(Metric(vanishing, "is_batch_norm_factor"), 1) << "there is nothing to divide by";
}

TEST(RolloutCorrectionTest, EveryRejectionByHand) {
  // Products 6, 1, 0.25; geometric means 6^(1/2), 1, 0.5.
  const std::vector<TrainSequence> batch = {WithRatios({2, -100, 3}), WithRatios({4, 0.25}),
                                            WithRatios({0.5, 0.5})};
  const auto kept = [&](const LossSpec& loss) {
    std::vector<std::vector<uint8_t>> out;
    for (const auto& sequence : Correct(batch, loss).sequences) out.push_back(sequence.kept);
    return out;
  };
  // IcePop's band. Its bounds are kept; they are a little wider here for float32.
  EXPECT_THAT(kept(Loss("", "token", 2.001, 0.3)),
              ElementsAre(ElementsAre(1, 0, 0), ElementsAre(0, 0), ElementsAre(1, 1)));
  EXPECT_THAT(kept(Loss("", "token", 4.001, 0.501)),
              ElementsAre(ElementsAre(1, 0, 1), ElementsAre(1, 0), ElementsAre(0, 0)));
  EXPECT_THAT(kept(Loss("", "sequence", 5)),  // and at least 1/5
              ElementsAre(ElementsAre(0, 0, 0), ElementsAre(1, 1), ElementsAre(1, 1)));
  EXPECT_THAT(kept(Loss("", "sequence", 7, 0.3)),
              ElementsAre(ElementsAre(1, 0, 1), ElementsAre(1, 1), ElementsAre(0, 0)));
  EXPECT_THAT(kept(Loss("", "geometric", 2.4, 0.4)),
              ElementsAre(ElementsAre(0, 0, 0), ElementsAre(1, 1), ElementsAre(1, 1)));
  EXPECT_THAT(kept(Loss("", "geometric", 2.5, 0.6)),
              ElementsAre(ElementsAre(1, 0, 1), ElementsAre(1, 1), ElementsAre(0, 0)));
  // k3: of 2 0.307, of 3 0.901, of 4 1.614, of 1/4 0.636, of 1/2 0.193.
  EXPECT_THAT(kept(Loss("", "token_k3", 0.64)),
              ElementsAre(ElementsAre(1, 0, 0), ElementsAre(0, 1), ElementsAre(1, 1)));
  EXPECT_THAT(kept(Loss("", "seq_mean_k3", 0.61)),  // 0.604, 1.125, 0.193
              ElementsAre(ElementsAre(1, 0, 1), ElementsAre(0, 0), ElementsAre(1, 1)));
  EXPECT_THAT(kept(Loss("", "seq_max_k3", 0.61)),
              ElementsAre(ElementsAre(0, 0, 0), ElementsAre(0, 0), ElementsAre(1, 1)));
}

TEST(RolloutCorrectionTest, CountsAndFractionsByHand) {
  const auto correction = Correct({WithRatios({2, -100, 3}), WithRatios({1, 1}), WithRatios({-1})},
                                  Loss("", "token", 2.5));
  EXPECT_THAT(correction.counts, ElementsAre(1, 2, 0));
  EXPECT_THAT(correction.metrics,
              UnorderedElementsAre(Pair("rollout_corr/rollout_rs_mean", DoubleNear(7.0 / 4, 1e-6)),
                                   Pair("rollout_corr/rollout_rs_max", DoubleNear(3, 1e-6)),
                                   Pair("rollout_corr/rollout_rs_min", DoubleNear(1, 1e-6)),
                                   Pair("rollout_corr/rollout_rs_masked_fraction", 0.25),
                                   Pair("rollout_corr/rollout_rs_seq_masked_fraction", 0.5)));
}

// Over tokens, before anything is rejected.
TEST(RolloutCorrectionTest, RatiosComparedWithTheBoundsByHand) {
  const std::vector<TrainSequence> batch = {WithRatios({2, -100, 3, 1}), WithRatios({0.5})};
  const auto k3 = [](double ratio) { return ratio - 1 - std::log(ratio); };
  struct Case {
    const char* rs;
    double first, second;  // of the sequences
  } cases[] = {{"sequence", 6, 0.5},
               {"geometric", std::cbrt(6), 0.5},
               {"seq_mean_k3", (k3(2) + k3(3)) / 3, k3(0.5)},
               {"seq_max_k3", k3(3), k3(0.5)}};
  for (const auto& [rs, first, second] : cases) {
    const auto got = Correct(batch, Loss("", rs, 1.01));
    EXPECT_NEAR(Metric(got, "rs_mean"), (3 * first + second) / 4, 1e-6) << rs;
    EXPECT_NEAR(Metric(got, "rs_max"), std::max(first, second), 1e-6) << rs;
    EXPECT_NEAR(Metric(got, "rs_min"), std::min(first, second), 1e-6) << rs;
  }
  const auto token = Correct(batch, Loss("", "token", 1.01));
  EXPECT_NEAR(Metric(token, "rs_mean"), 6.5 / 4, 1e-6);
  EXPECT_NEAR(Metric(token, "rs_max"), 3, 1e-6);
  EXPECT_NEAR(Metric(token, "rs_min"), 0.5, 1e-6);
  const auto token_k3 = Correct(batch, Loss("", "token_k3", 0.01));
  EXPECT_NEAR(Metric(token_k3, "rs_mean"), (k3(2) + k3(3) + k3(0.5)) / 4, 1e-6);
  EXPECT_NEAR(Metric(token_k3, "rs_max"), k3(3), 1e-6);
  EXPECT_NEAR(Metric(token_k3, "rs_min"), 0, 1e-6);
  EXPECT_DOUBLE_EQ(Metric(Correct({WithRatios({1e-300})}, Loss("", "token", 2)), "rs_min"),
                   std::exp(-20.0));
}

TEST(RolloutCorrectionTest, OneCatastrophicTokenRejectsItsSequence) {
  LossSpec loss = Loss("");
  loss.rollout_token_veto_threshold = 1e-3;
  const auto correction = Correct({WithRatios({1, 1e-4, 1}), WithRatios({1, 2e-3}),
                                   WithRatios({-1e-9, 1}), WithRatios({1e-12})},
                                  loss);
  EXPECT_THAT(correction.sequences[0].kept, ElementsAre(0, 0, 0));
  EXPECT_THAT(correction.sequences[1].kept, ElementsAre(1, 1));
  EXPECT_THAT(correction.sequences[2].kept, ElementsAre(0, 1)) << "the token was masked";
  EXPECT_THAT(correction.counts, ElementsAre(0, 2, 1, 0));
  EXPECT_THAT(
      correction.metrics,
      UnorderedElementsAre(Pair("rollout_corr/rollout_is_veto_fraction", 0.5),
                           Pair("rollout_corr/rollout_is_catastrophic_token_fraction", 2.0 / 7)));
}

// A veto does not show in the fractions of rollout_rs, and a weight of a rejected token counts in
// the mean of weights: what verl does.
TEST(RolloutCorrectionTest, WeightsRejectionAndVetoStandBesideEachOther) {
  LossSpec loss = Loss("token", "token", 1.5, 0.5);
  loss.rollout_token_veto_threshold = 1e-3;
  const auto correction = Correct({WithRatios({1.75, 1}), WithRatios({1, 1e-4})}, loss);
  EXPECT_THAT(correction.sequences[0].kept, ElementsAre(0, 1));
  EXPECT_THAT(correction.sequences[1].kept, ElementsAre(0, 0));
  EXPECT_NEAR(Metric(correction, "is_mean"), (1.75 + 1 + 1 + 1e-4) / 4, 1e-6);
  EXPECT_EQ(Metric(correction, "rs_masked_fraction"), 0.5);
  EXPECT_EQ(Metric(correction, "is_veto_fraction"), 0.5);
}

// ---- The formulas of verl's helper, on padded rows, in plain loops ----------------------------

struct Padded {
  std::vector<std::vector<double>> d, mask;  // [B][T]
};

Padded Pad(const std::vector<TrainSequence>& batch) {
  Padded out;
  for (const TrainSequence& s : batch) {
    std::vector<double> d(16, 0), mask(16, 0);
    for (int64_t r = 0; !s.pretraining && r < s.response_length(); ++r) {
      d[r] = double{s.old_log_probs[r]} - double{s.behaviour_log_probs[r]};
      mask[r] = s.loss_mask.empty() ? 1 : s.loss_mask[r];
    }
    out.d.push_back(d);
    out.mask.push_back(mask);
  }
  return out;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t t = 0; t < a.size(); ++t) sum += a[t] * b[t];
  return sum;
}

double MaskedMean(const std::vector<std::vector<double>>& x,
                  const std::vector<std::vector<double>>& mask) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += Dot(x[i], mask[i]);
    count += Dot(mask[i], std::vector<double>(mask[i].size(), 1));
  }
  return sum / count;
}

std::vector<std::vector<double>> SlowWeights(const Padded& p, const LossSpec& loss) {
  auto w = p.d;
  double total = 0, sequences = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const double sum = Dot(p.d[i], p.mask[i]);
    double tokens = 0, own = 0;
    for (size_t t = 0; t < w[i].size(); ++t) {
      w[i][t] = std::exp(loss.rollout_is == "token" ? p.d[i][t] : sum) * p.mask[i][t];
      w[i][t] = std::min(w[i][t], loss.rollout_is_threshold);
      own += w[i][t];
      tokens += p.mask[i][t];
    }
    if (tokens > 0) total += own / tokens, sequences += 1;
  }
  if (!loss.rollout_is_batch_normalize) return w;
  const double mean = loss.rollout_is == "token" ? MaskedMean(w, p.mask) : total / sequences;
  for (auto& row : w) {
    for (double& value : row) value /= mean;
  }
  return w;
}

std::vector<std::vector<double>> SlowKept(const Padded& p, const LossSpec& loss) {
  auto kept = p.mask;
  for (size_t i = 0; i < kept.size(); ++i) {
    double n = 0, sum = 0, k3_sum = 0, k3_max = 0;
    for (size_t t = 0; t < kept[i].size(); ++t) {
      if (p.mask[i][t] == 0) continue;
      const double k3 = std::exp(p.d[i][t]) - 1 - p.d[i][t];
      n += 1, sum += p.d[i][t], k3_sum += k3, k3_max = std::max(k3_max, k3);
    }
    bool veto = false;
    for (size_t t = 0; t < kept[i].size(); ++t) {
      if (p.mask[i][t] == 0) continue;
      const double d = p.d[i][t];
      veto |= std::exp(d) < loss.rollout_token_veto_threshold;
      double x = d;
      if (loss.rollout_rs == "sequence") x = sum;
      if (loss.rollout_rs == "geometric") x = sum / n;
      double low = std::log(1 / loss.rollout_rs_threshold), high = -low;
      if (loss.rollout_rs == "token_k3") x = std::exp(d) - 1 - d;
      if (loss.rollout_rs == "seq_mean_k3") x = k3_sum / n;
      if (loss.rollout_rs == "seq_max_k3") x = k3_max;
      if (loss.rollout_rs.find("k3") != std::string::npos)
        high = loss.rollout_rs_threshold, low = 0;
      if (!loss.rollout_rs.empty() && (x < low || x > high)) kept[i][t] = 0;
    }
    if (veto) kept[i].assign(kept[i].size(), 0);
  }
  return kept;
}

TEST(RolloutCorrectionTest, RandomBatchesAgreeWithVerlsFormulas) {
  bool rejected_one = false, kept_one = false;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const auto batch = testing::MixedBatch(seed, 12, 11);
    const Padded padded = Pad(batch);
    for (const std::string is : {"", "token", "sequence"}) {
      for (const std::string rs :
           {"", "token", "sequence", "geometric", "token_k3", "seq_mean_k3", "seq_max_k3"}) {
        LossSpec loss = Loss(is, rs,
                             rs.empty()                           ? 0
                             : rs.find("k3") != std::string::npos ? 0.2
                                                                  : 1.6);
        loss.rollout_is_threshold = 1.4;
        loss.rollout_is_batch_normalize = seed % 2 == 1;
        loss.rollout_token_veto_threshold = seed % 3 == 0 ? 0.3 : 0;
        SCOPED_TRACE(absl::StrCat("seed ", seed, " is ", is, " rs ", rs));
        const RolloutCorrection got = Correct(batch, loss);
        const auto weights = SlowWeights(padded, loss), kept = SlowKept(padded, loss);
        if (RolloutCorrections(loss).empty()) continue;
        for (size_t i = 0; i < batch.size(); ++i) {
          if (batch[i].pretraining) {
            EXPECT_EQ(got.counts[i], batch[i].CountUnmasked());
            continue;
          }
          double count = 0;
          for (int64_t r = 0; r < batch[i].response_length(); ++r) {
            count += kept[i][r];
            if (padded.mask[i][r] == 0) continue;
            if (!is.empty()) EXPECT_NEAR(got.sequences[i].weights[r], weights[i][r], 1e-12);
            if (got.sequences[i].kept.empty()) continue;
            EXPECT_EQ(got.sequences[i].kept[r], kept[i][r]) << i << " " << r;
            (kept[i][r] == 0 ? rejected_one : kept_one) = true;
          }
          EXPECT_EQ(got.counts[i], count) << i;
        }
        LossSpec plain = loss;
        plain.rollout_is_batch_normalize = false;
        if (!is.empty()) {
          EXPECT_NEAR(Metric(got, "is_mean"), MaskedMean(SlowWeights(padded, plain), padded.mask),
                      1e-12);
        }
      }
    }
  }
  EXPECT_TRUE(rejected_one && kept_one);
}

// ---- Ranks ------------------------------------------------------------------------------------

// Each rank has a third of the batch, and the headers of the rest.
TEST(RolloutCorrectionTest, RanksKnowTheSameToTheLastBit) {
  const auto batch = testing::MixedBatch(5, 13, 11);
  LossSpec loss = Loss("sequence", "geometric", 1.3);
  loss.rollout_is_batch_normalize = true;
  loss.rollout_token_veto_threshold = 0.3;
  const RolloutCorrection want = Correct(batch, loss);
  for (const int ranks : {2, 3, 5}) {
    testing::RunRanks(ranks, [&](Communicator& data) {
      std::vector<int64_t> share;
      for (size_t i = 0; i < batch.size(); ++i) {
        if (static_cast<int>(i) % ranks == data.rank()) share.push_back(static_cast<int64_t>(i));
      }
      RankAgreement agreement(nullptr, &data, torch::kCPU);
      const auto mine = testing::KeepShare(batch, share);
      const auto got = CorrectRollout(mine, share, loss, agreement);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->counts, want.counts);
      EXPECT_EQ(got->metrics, want.metrics);
      for (const int64_t i : share) {
        EXPECT_EQ(got->sequences[i].weights, want.sequences[i].weights);
        EXPECT_EQ(got->sequences[i].kept, want.sequences[i].kept);
      }
    });
  }
}

TEST(RolloutCorrectionTest, RejectedTokensAreNotPredicted) {
  std::vector<TrainSequence> batch = {WithRatios({1, 9, 1}), WithRatios({9, 9}),
                                      WithRatios({1, -1, 1})};
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t t = 0; t < batch[i].tokens.size(); ++t) {
      batch[i].tokens[t] = static_cast<int32_t>(10 * i + t);
    }
  }
  const auto correction = Correct(batch, Loss("", "token", 2));
  PackedRows packed = PackRows(batch, {2, 1, 0}, ResponseRows::kUnmasked);
  const torch::Tensor tokens = packed.tokens.clone();
  DropRejected(correction.sequences, packed);
  EXPECT_THAT(packed.sequence_index, ElementsAre(2, 2, 0, 0));
  EXPECT_THAT(packed.response_index, ElementsAre(0, 2, 0, 2));
  EXPECT_TRUE(torch::equal(packed.targets, torch::tensor({21, 23, 1, 3}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(packed.prediction_rows, torch::tensor({0, 2, 5, 7}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(packed.tokens, tokens)) << "they are still read";
  PackedRows none = PackRows(batch, {1}, ResponseRows::kUnmasked);
  DropRejected(correction.sequences, none);
  EXPECT_EQ(none.targets.numel(), 0);
}

}  // namespace
}  // namespace baton::engine
