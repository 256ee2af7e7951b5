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
using ::testing::Pair;

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

TEST(PassCostTest, IgnoresThePauseOfAStoppedProcess) {
  PassCost cost = Known();
  cost.Note(5, 60);  // seconds
  EXPECT_LT(cost.fixed() + 5 * cost.per_row(), 30e-3);
}

// By chance or by caches, more rows may be measured as cheaper.
TEST(PassCostTest, FittedCostsAreNeverNegative) {
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
      if (guard.BacksOff()) return i;
      guard.NotePass(tokens, plain);
    }
    return 200;
  };
  const auto length_of_rest = [&] {
    int length = 1;  // the one that was seen
    while (guard.BacksOff()) ++length;
    return length;
  };
  EXPECT_EQ(passes_until_rest(5, 4), 200) << "it pays";
  EXPECT_LT(passes_until_rest(3, 4), 180) << "it has what it gained to lose";
  EXPECT_EQ(length_of_rest(), 64);
  EXPECT_LT(passes_until_rest(3, 4), 30);
  EXPECT_EQ(length_of_rest(), 128);
  EXPECT_EQ(passes_until_rest(5, 4), 200);
  for (const double nonsense : {0.0, -1.0, std::nan(""), HUGE_VAL}) guard.NotePass(1, nonsense);
  EXPECT_FALSE(guard.BacksOff());
}

// A guard that is told of passes of 4 plain tokens. Every tenth yields `lucky`, the others none.
int PassesUntilRest(double lucky, int most) {
  GainGuard guard;
  for (int i = 0; i < most; ++i) {
    if (guard.BacksOff()) return i;
    guard.NotePass(i % 10 == 9 ? lucky : 0, 4);
  }
  return most;
}

TEST(GainGuardTest, DoesNotRestIfPassesGainOnAverage) {
  EXPECT_EQ(PassesUntilRest(60, 5000), 5000) << "nine passes of ten lose, and all together gain";
  EXPECT_LT(PassesUntilRest(4, 5000), 100) << "they lose all together";
}

TEST(GainGuardTest, ToleratesANegligibleLoss) {
  GainGuard guard;
  const auto rests_after = [&](double tokens) {
    for (int i = 0; i < 1000 && !guard.BacksOff(); ++i) guard.NotePass(tokens, 100);
    return guard.BacksOff();
  };
  EXPECT_FALSE(rests_after(99.9));
  EXPECT_TRUE(rests_after(98));
}

// Drafts that gain nothing, or little, but for chance: a trial does not last until a loss is sure,
// but long enough for a small gain to be.
TEST(GainGuardTest, ATrialEndsUnlessDraftsPay) {
  const auto passes_until_rest = [](double lucky, double unlucky) {
    GainGuard guard(64, 128);
    int passes = 0;
    for (; passes < 5000 && !guard.BacksOff(); ++passes) {
      guard.NotePass(passes % 2 == 0 ? lucky : unlucky, 10);
    }
    return passes;
  };
  EXPECT_EQ(passes_until_rest(12, 8), 128) << "no gain";
  EXPECT_EQ(passes_until_rest(12, 8.1), 512) << "it may be chance";
  EXPECT_EQ(passes_until_rest(12, 8.35), 5000) << "it was no chance in the end";
  EXPECT_EQ(passes_until_rest(12, 9.9), 5000);
}

// If trials go on to end with a gain that may be chance, rests become longer, too.
TEST(GainGuardTest, ChanceDoesNotShortenRests) {
  GainGuard guard(64, 128);
  std::vector<int> rests;
  for (int trial = 0; trial < 4; ++trial) {
    for (int pass = 0; pass < 512; ++pass) {
      ASSERT_FALSE(guard.BacksOff());
      guard.NotePass(pass % 2 == 0 ? 12 : 8.1, 10);
    }
    rests.push_back(0);
    while (guard.BacksOff()) ++rests.back();
  }
  EXPECT_THAT(rests, ElementsAre(64, 128, 256, 512));
}

TEST(FollowingOfTest, ChargesAPassOnlyForItsOwnTokens) {
  EXPECT_EQ(FollowingOf(8, 8, 3e-6), 3e-6);
  EXPECT_DOUBLE_EQ(FollowingOf(8, 8000, 3e-3), 3e-6) << "the others had waited";
  EXPECT_EQ(FollowingOf(8, 4, 3e-6), 3e-6);
  EXPECT_EQ(FollowingOf(0, 0, 1e-6), 1e-6) << "to look took time";
}

TEST(AcceptanceTest, UsesTheNodesShareUntilItIsMeasured) {
  Acceptance acceptance;
  const NodeEvidence node = {0.6f, 2, 3};
  EXPECT_NEAR(acceptance.Of(node), 0.6, 1e-6);
  for (int i = 0; i < 1000; ++i) acceptance.Note(node, i % 5 == 0);
  EXPECT_NEAR(acceptance.Of(node), 0.2, 0.01);
  EXPECT_NEAR(acceptance.Of({0.6f, 2, 40}), 0.6, 1e-6) << "a longer match is another class";
  EXPECT_NEAR(acceptance.Of({0.1f, 2, 3}), 0.1, 1e-6) << "and so is another share";
  EXPECT_NEAR(acceptance.Of({0.6f, 9, 3}), 0.6, 1e-6) << "and a share of more";
  for (int i = 0; i < 60000; ++i) acceptance.Fade();
  EXPECT_NEAR(acceptance.Of(node), 0.6, 1e-3) << "it is tried again";
}

// The unit of counts grows for a million passes, and begins anew.
TEST(AcceptanceTest, KeepsFadingOverMillionsOfPasses) {
  Acceptance acceptance;
  const NodeEvidence node = {0.9f, 2, 3};
  for (int i = 0; i < 2000000; ++i) {
    acceptance.Note(node, i % 2 == 0);
    acceptance.Fade();
  }
  EXPECT_TRUE(acceptance.Tried());
  EXPECT_NEAR(acceptance.Of(node), 0.5, 0.01);
  EXPECT_NEAR(acceptance.Best(), 0.5, 0.01);
}

TEST(AcceptanceTest, TheBestRateIsOneUntilEnoughIsMeasured) {
  Acceptance acceptance;
  const auto best = [&] {
    for (int i = 0; i < 64; ++i) acceptance.Fade();  // The best is kept for 64 passes.
    return acceptance.Best();
  };
  EXPECT_EQ(best(), 1);
  for (int i = 0; i < 1000; ++i) acceptance.Note({0.9f, 2, 3}, i % 2 == 0);
  EXPECT_NEAR(best(), 0.5, 0.01);
  for (int i = 0; i < 1000; ++i) acceptance.Note({0.9f, 2, 40}, i % 5 != 0);
  EXPECT_NEAR(best(), 0.8, 0.01);
  acceptance.Note({0.2f, 2, 1}, true);
  EXPECT_NEAR(best(), 0.8, 0.01) << "one node says little";
}

TEST(AcceptanceTest, StaysWithinZeroAndOneForAnyNode) {
  Acceptance acceptance;
  for (const float number : {-1.0f, 0.0f, 1e-30f, 1.0f, 7.0f, 1e30f, HUGE_VALF}) {
    for (const int matched : {-5, 0, 1, 64, 1 << 30}) {
      for (const NodeEvidence& node :
           {NodeEvidence{number, 1, matched}, NodeEvidence{0.5f, number, matched}}) {
        acceptance.Note(node, true);
        EXPECT_GE(acceptance.Of(node), 0);
        EXPECT_LE(acceptance.Of(node), 1);
      }
    }
  }
}

// Two roots of three that were seen; behind the first one of two, and all that followed that.
TEST(EvidenceTest, SharesAreRelativeToTheParent) {
  Draft draft;
  draft.tree = {{3, 4, 5, 6}, {-1, -1, 0, 2}};
  draft.scores = {2.0f / 3, 1.0f / 3, 1.0f / 3, 1.0f / 3};
  draft.seen = {3, 3, 2, 1};
  draft.match_length = 7;
  std::vector<NodeEvidence> evidence(9);
  EvidenceOf(draft, &evidence);
  ASSERT_EQ(evidence.size(), 4u);
  const float shares[] = {2.0f / 3, 1.0f / 3, 0.5f, 1};
  const int matched[] = {7, 7, 8, 9};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(evidence[i].share, shares[i]) << i;
    EXPECT_EQ(evidence[i].seen, draft.seen[i]) << i;
    EXPECT_EQ(evidence[i].matched, matched[i]) << i;
  }
}

// Expected tokens a second with these nodes.
double Rate(const std::vector<NodeProbabilities>& drafts, const std::vector<ChosenNode>& nodes,
            double decoding, const PassCost& cost) {
  double tokens = decoding;
  for (const ChosenNode& node : nodes) tokens += drafts[node.draft][node.node];
  return tokens / cost.Seconds(static_cast<int64_t>(decoding) + static_cast<int64_t>(nodes.size()));
}

// Against all sets of nodes.
TEST(ChooseNodesTest, NoOtherChoiceIsExpectedToBeFaster) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 300; ++trial) {
    const PassCost cost = Known(1e-3 + 20e-3 * uniform(random), 1e-4 + 2e-3 * uniform(random));
    std::vector<NodeProbabilities> drafts(1 + random() % 3);
    std::vector<ChosenNode> all;
    for (size_t i = 0; i < drafts.size(); ++i) {
      for (size_t k = random() % 4; k > 0; --k) {
        // The parent is any earlier node, or none.
        const size_t parent = random() % (drafts[i].size() + 1);
        all.push_back({i, drafts[i].size()});
        drafts[i].push_back((parent == 0 ? 1 : drafts[i][parent - 1]) * uniform(random));
      }
    }
    const auto decoding = static_cast<double>(drafts.size() + random() % 20);
    const auto chosen = ChooseNodes(drafts, static_cast<int64_t>(decoding), 100, cost);
    double best = 0;
    for (size_t set = 0; set < size_t{1} << all.size(); ++set) {
      std::vector<ChosenNode> nodes;
      for (size_t i = 0; i < all.size(); ++i) {
        if ((set >> i & 1) != 0) nodes.push_back(all[i]);
      }
      best = std::max(best, Rate(drafts, nodes, decoding, cost));
    }
    const double none = Rate(drafts, {}, decoding, cost);
    const double got = Rate(drafts, chosen, decoding, cost);
    if (best >= 1.05 * none) {
      EXPECT_NEAR(got, best, 1e-9 * best);
    } else {
      EXPECT_EQ(got, none) << "too little to be sure of";
    }
  }
}

TEST(ChooseNodesTest, TheLikeliestComeFirstAndParentsBeforeTheirChildren) {
  const std::vector<NodeProbabilities> drafts = {{0.5, 0.9, 0.9, 0.9}, {0.9, 0.95}};
  const auto chosen = ChooseNodes(drafts, 1, 100, Known());
  std::vector<std::pair<size_t, size_t>> order;
  for (const ChosenNode& node : chosen) order.emplace_back(node.draft, node.node);
  EXPECT_THAT(order, ElementsAre(Pair(1u, 1u), Pair(0u, 1u), Pair(0u, 2u), Pair(0u, 3u),
                                 Pair(1u, 0u), Pair(0u, 0u)));
}

TEST(ChooseNodesTest, GivesNodesToFewResponsesAndNoneToAFullBatch) {
  const std::vector<NodeProbabilities> one = {NodeProbabilities(40, 0.5)};
  EXPECT_EQ(ChooseNodes(one, 1, 100, Known()).size(), 40u);
  EXPECT_EQ(ChooseNodes(one, 1, 8, Known()).size(), 8u);
  EXPECT_EQ(ChooseNodes(one, 64, 100, Known()).size(), 0u)
      << "a row costs 1 ms, and 64 responses a pass of 74 ms yield 0.86 tokens a ms";
  EXPECT_EQ(ChooseNodes({}, 5, 100, Known()).size(), 0u);
}

// 65 rows were faster than 64, so far.
TEST(ChooseNodesTest, NeverAssumesThatALargerPassIsCheaper) {
  PassCost cost = Known();
  for (int i = 0; i < 100; ++i) {
    cost.Note(64, 80e-3);
    cost.Note(65, 70e-3);
  }
  ASSERT_LT(cost.Seconds(65), 0.95 * cost.Seconds(64));
  EXPECT_EQ(ChooseNodes({NodeProbabilities{0.5}}, 64, 100, cost).size(), 0u);
}

TEST(MayPayTest, PaysOnlyIfThePassLeavesRoom) {
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

TEST(ChooseNodesTest, TriesAFewNodesWithoutMeasurements) {
  const std::vector<NodeProbabilities> drafts(8, NodeProbabilities(20, 0.9));
  EXPECT_EQ(ChooseNodes(drafts, 8, 100, PassCost()).size(), 4u);
}

}  // namespace
}  // namespace baton::rollout
