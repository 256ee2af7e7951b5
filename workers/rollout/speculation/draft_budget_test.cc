#include "workers/rollout/speculation/draft_budget.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "workers/rollout/speculation/acceptance.h"
#include "workers/rollout/speculation/gain_guard.h"

namespace baton::rollout {
namespace {

using ::testing::ElementsAre;

// Passes that cost 10 ms and 1 ms for each row.
PassCost Known(double fixed = 10e-3, double per_row = 1e-3) {
  PassCost cost;
  for (int64_t rows = 1; rows <= 20; ++rows) {
    cost.Note(rows, fixed + per_row * static_cast<double>(rows));
  }
  return cost;
}

TEST(PassCostTest, FindsTheLineThroughThePasses) {
  const PassCost cost = Known();
  ASSERT_TRUE(cost.known());
  EXPECT_NEAR(cost.fixed(), 10e-3, 1e-9);
  EXPECT_NEAR(cost.per_row(), 1e-3, 1e-9);
}

TEST(PassCostTest, EqualPassesSayNothingOfARow) {
  PassCost cost;
  for (int i = 0; i < 100; ++i) cost.Note(8, 18e-3);
  EXPECT_FALSE(cost.known());
  for (const double nonsense : {-1.0, 0.0, std::nan(""), HUGE_VAL}) cost.Note(16, nonsense);
  cost.Note(0, 1);
  EXPECT_FALSE(cost.known());
  cost.Note(16, 26e-3);
  for (int i = 0; i < 5; ++i) cost.Note(2, 12e-3);
  ASSERT_TRUE(cost.known());
  EXPECT_NEAR(cost.per_row(), 1e-3, 1e-6);
}

TEST(PassCostTest, FollowsAMachineThatGetsSlower) {
  PassCost cost = Known();
  for (int i = 0; i < 1000; ++i) {
    const int64_t rows = 1 + i % 20;
    cost.Note(rows, 30e-3 + 2e-3 * static_cast<double>(rows));
  }
  EXPECT_NEAR(cost.fixed(), 30e-3, 1e-3);
  EXPECT_NEAR(cost.per_row(), 2e-3, 1e-4);
}

// A full batch has as many rows in each pass, for hours.
TEST(PassCostTest, RemembersARowWhileAllPassesAreEqual) {
  PassCost cost = Known();
  for (int i = 0; i < 2000; ++i) cost.Note(40, 50e-3);
  for (int i = 0; i < 2000; ++i) cost.Note(40, 2 * 50e-3);  // The machine got slower.
  ASSERT_TRUE(cost.known());
  EXPECT_NEAR(cost.fixed(), 2 * 10e-3, 1e-3);
  EXPECT_NEAR(cost.per_row(), 2 * 1e-3, 1e-4);
}

TEST(PassCostTest, AStoppedProcessIsNoSlowMachine) {
  PassCost cost = Known();
  cost.Note(5, 60);  // seconds
  EXPECT_LT(cost.fixed() + 5 * cost.per_row(), 30e-3);
}

// By chance or by caches, more rows may be measured as cheaper.
TEST(PassCostTest, NoRowIsFreeOfSign) {
  PassCost cost;
  for (int64_t rows = 1; rows <= 20; ++rows) cost.Note(rows, 1.0 / static_cast<double>(rows));
  EXPECT_GE(cost.per_row(), 0);
  EXPECT_GE(cost.fixed(), 0);
}

// Kernels work on blocks of 8 rows: the 9th costs as much as all of the next block.
TEST(PassCostTest, KnowsSizesThatAreNotOnTheLine) {
  PassCost cost;
  const auto seconds = [](int64_t rows) { return 10e-3 * static_cast<double>((rows + 7) / 8); };
  for (int i = 0; i < 200; ++i) {
    for (const int64_t rows : {4, 8, 9, 16, 17}) cost.Note(rows, seconds(rows));
  }
  for (const int64_t rows : {4, 8, 9, 16, 17}) {
    EXPECT_NEAR(cost.Seconds(rows), seconds(rows), 0.2 * seconds(rows)) << rows;
  }
  EXPECT_GT(cost.Seconds(9), 1.4 * cost.Seconds(8));
  for (const int64_t rows : {1, 64, 65, 1000, 1 << 30}) EXPECT_GT(cost.Seconds(rows), 0) << rows;
}

TEST(GainGuardTest, RestsAfterALossAndLongerAfterTheNext) {
  GainGuard guard;
  const auto passes_until_rest = [&](double tokens, double plain) {
    for (int i = 0; i < 200; ++i) {
      if (guard.Rests()) return i;
      guard.NotePass(tokens, plain);
    }
    return 200;
  };
  const auto length_of_rest = [&] {
    int length = 1;  // the one that was seen
    while (guard.Rests()) ++length;
    return length;
  };
  EXPECT_EQ(passes_until_rest(5, 4), 200) << "it pays";
  EXPECT_LT(passes_until_rest(3, 4), 60);
  EXPECT_EQ(length_of_rest(), 64);
  EXPECT_LT(passes_until_rest(3, 4), 30);
  EXPECT_EQ(length_of_rest(), 128);
  EXPECT_EQ(passes_until_rest(5, 4), 200);
  for (const double nonsense : {0.0, -1.0, std::nan(""), HUGE_VAL}) guard.NotePass(1, nonsense);
  EXPECT_FALSE(guard.Rests());
}

TEST(AcceptanceTest, BelievesTheScoreUntilItIsTried) {
  Acceptance acceptance;
  EXPECT_NEAR(acceptance.Of(0.6f, 3), 0.6, 1e-6);
  for (int i = 0; i < 1000; ++i) acceptance.Note(0.6f, 3, i % 5 == 0);
  EXPECT_NEAR(acceptance.Of(0.6f, 3), 0.2, 0.01);
  EXPECT_NEAR(acceptance.Of(0.6f, 40), 0.6, 1e-6) << "a longer match is another class";
  EXPECT_NEAR(acceptance.Of(0.1f, 3), 0.1, 1e-6) << "and so is another score";
  for (int i = 0; i < 60000; ++i) acceptance.Fade();
  EXPECT_NEAR(acceptance.Of(0.6f, 3), 0.6, 1e-3) << "it is tried again";
}

TEST(AcceptanceTest, TheBestIsOneUntilEnoughWasTried) {
  Acceptance acceptance;
  EXPECT_EQ(acceptance.Best(), 1);
  for (int i = 0; i < 1000; ++i) acceptance.Note(0.9f, 3, i % 2 == 0);
  EXPECT_NEAR(acceptance.Best(), 0.5, 0.01);
  for (int i = 0; i < 1000; ++i) acceptance.Note(0.9f, 40, i % 5 != 0);
  EXPECT_NEAR(acceptance.Best(), 0.8, 0.01);
  acceptance.Note(0.2f, 1, true);
  EXPECT_NEAR(acceptance.Best(), 0.8, 0.01) << "one node says little";
}

TEST(AcceptanceTest, AnyScoreHasAClass) {
  Acceptance acceptance;
  for (const float score : {-1.0f, 0.0f, 1e-30f, 1.0f, 7.0f}) {
    for (const int match : {-5, 0, 1, 64, 1 << 30}) {
      acceptance.Note(score, match, true);
      EXPECT_GE(acceptance.Of(score, match), 0);
      EXPECT_LE(acceptance.Of(score, match), 1);
    }
  }
}

// Expected tokens a second with so many nodes of each draft.
double Rate(const std::vector<NodeProbabilities>& drafts, const std::vector<size_t>& budgets,
            double decoding, const PassCost& cost) {
  double tokens = decoding, rows = decoding;
  for (size_t i = 0; i < drafts.size(); ++i) {
    for (size_t node = 0; node < budgets[i]; ++node) tokens += drafts[i][node];
    rows += static_cast<double>(budgets[i]);
  }
  return tokens / cost.Seconds(static_cast<int64_t>(rows));
}

// Against all choices.
TEST(ChooseBudgetsTest, NoOtherChoiceIsExpectedToBeFaster) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 300; ++trial) {
    const PassCost cost = Known(1e-3 + 20e-3 * uniform(random), 1e-4 + 2e-3 * uniform(random));
    std::vector<NodeProbabilities> drafts(1 + random() % 3);
    for (NodeProbabilities& draft : drafts) {
      for (size_t i = random() % 5; i > 0; --i) draft.push_back(uniform(random));
      std::sort(draft.rbegin(), draft.rend());
    }
    const auto decoding = static_cast<double>(drafts.size() + random() % 20);
    const auto chosen = ChooseBudgets(drafts, static_cast<int64_t>(decoding), 100, cost);
    double best = 0;
    std::vector<size_t> any(drafts.size(), 0);
    for (bool more = true; more;) {
      best = std::max(best, Rate(drafts, any, decoding, cost));
      more = false;
      for (size_t i = 0; i < any.size() && !more; ++i) {
        more = ++any[i] <= drafts[i].size();
        if (!more) any[i] = 0;
      }
    }
    const double none = Rate(drafts, std::vector<size_t>(drafts.size(), 0), decoding, cost);
    const double got = Rate(drafts, chosen, decoding, cost);
    if (best >= 1.05 * none) {
      EXPECT_NEAR(got, best, 1e-9 * best);
    } else {
      EXPECT_EQ(got, none) << "too little to be sure of";
    }
  }
}

TEST(ChooseBudgetsTest, FewResponsesGetMuchAndAFullBatchGetsNothing) {
  const std::vector<NodeProbabilities> one = {NodeProbabilities(40, 0.5)};
  EXPECT_THAT(ChooseBudgets(one, 1, 100, Known()), ElementsAre(40u));
  EXPECT_THAT(ChooseBudgets(one, 1, 8, Known()), ElementsAre(8u));
  EXPECT_THAT(ChooseBudgets(one, 64, 100, Known()), ElementsAre(0u))
      << "a row costs 1 ms, and 64 responses a pass of 74 ms yield 0.86 tokens a ms";
  EXPECT_THAT(ChooseBudgets({}, 5, 100, Known()), ElementsAre());
}

// 65 rows were faster than 64, so far.
TEST(ChooseBudgetsTest, ALargerPassIsNotBelievedToBeCheaper) {
  PassCost cost = Known();
  for (int i = 0; i < 100; ++i) {
    cost.Note(64, 80e-3);
    cost.Note(65, 70e-3);
  }
  ASSERT_LT(cost.Seconds(65), 0.95 * cost.Seconds(64));
  EXPECT_THAT(ChooseBudgets({NodeProbabilities{0.5}}, 64, 100, cost), ElementsAre(0u));
}

TEST(MayPayTest, OnlyWhereThePassLeavesRoom) {
  const PassCost fixed_dominates = Known(10e-3, 0.1e-3), rows_dominate = Known(1e-3, 1e-3);
  EXPECT_TRUE(MayPay(1, 16, 0.8, 0, fixed_dominates));
  EXPECT_TRUE(MayPay(1, 16, 0.8, 0, rows_dominate));
  EXPECT_FALSE(MayPay(64, 16, 0.8, 0, rows_dominate));
  EXPECT_FALSE(MayPay(64, 16, 1, 0, rows_dominate)) << "80 tokens in 81 ms, not 64 in 65 ms";
  EXPECT_FALSE(MayPay(1, 16, 0.8, 1, fixed_dominates)) << "a second for the draft";
  EXPECT_FALSE(MayPay(1, 16, 0, 0, fixed_dominates)) << "no draft is ever right";
  EXPECT_FALSE(MayPay(1, 0, 1, 0, fixed_dominates)) << "there may be no draft";
  EXPECT_TRUE(MayPay(64, 16, 0.8, 0, PassCost())) << "nothing is known";
}

TEST(ChooseBudgetsTest, WhileNothingIsKnownAFewAreTried) {
  const std::vector<NodeProbabilities> drafts(8, NodeProbabilities(20, 0.9));
  const auto budgets = ChooseBudgets(drafts, 8, 100, PassCost());
  size_t sum = 0;
  for (const size_t budget : budgets) sum += budget;
  EXPECT_EQ(sum, 4u);
}

}  // namespace
}  // namespace baton::rollout
