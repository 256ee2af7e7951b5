#include "controller/core/weights/refresh.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using testing::DoubleNear;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(RefreshTest, EstimatesTheRemainingLengthFromLongerResponses) {
  Refresh refresh(/*longest=*/100);
  for (const uint32_t length : {10u, 20u, 40u}) refresh.NoteLength(length);
  EXPECT_DOUBLE_EQ(refresh.Left(0), (10 + 20 + 40) / 3.0);
  EXPECT_DOUBLE_EQ(refresh.Left(10), (10 + 30) / 2.0);
  EXPECT_DOUBLE_EQ(refresh.Left(39), 1);
  // No response was that long: as many tokens again, within the limit.
  EXPECT_DOUBLE_EQ(refresh.Left(45), 45);
  EXPECT_DOUBLE_EQ(refresh.Left(80), 20);
  EXPECT_DOUBLE_EQ(refresh.Left(100), 0);
}

TEST(RefreshTest, OldLengthsAreForgotten) {
  Refresh refresh(1000);
  for (int i = 0; i < 300; ++i) refresh.NoteLength(10);
  for (int i = 0; i < 256; ++i) refresh.NoteLength(30);
  EXPECT_DOUBLE_EQ(refresh.Left(0), 30);
}

// The expectation of a geometric length, summed term by term.
double SlowAccepted(double differ, int tokens) {
  double expected = 0, all = 1;
  for (int i = 0; i < tokens; ++i) {
    all *= 1 - differ;
    expected += all;
  }
  return expected;
}

TEST(RefreshTest, EstimatesAcceptedTokensFromJudgedDrafts) {
  Refresh refresh(1000);
  // The guess: one token of 200.
  EXPECT_THAT(refresh.Accepted(50, 1), DoubleNear(SlowAccepted(1 / 200.0, 50), 1e-9));
  // Two updates between the weights: each may change a token.
  EXPECT_THAT(refresh.Accepted(50, 2),
              DoubleNear(SlowAccepted(1 - (1 - 1 / 200.0) * (1 - 1 / 200.0), 50), 1e-9));
  // Every tenth token differs, for long enough.
  for (int i = 0; i < 20'000; ++i) refresh.NoteJudged(100, 9, 1);
  EXPECT_THAT(refresh.Accepted(30, 1), DoubleNear(SlowAccepted(0.1, 30), 0.01));
  // Everything is accepted.
  for (int i = 0; i < 20'000; ++i) refresh.NoteJudged(100, 100, 1);
  EXPECT_THAT(refresh.Accepted(30, 1), DoubleNear(30, 0.01));
}

TEST(RefreshTest, SpreadsDifferencesOverSeveralUpdates) {
  Refresh one(1000), four(1000);
  for (int i = 0; i < 20'000; ++i) {
    one.NoteJudged(100, 9, 1);
    four.NoteJudged(100, 9, 4);
  }
  EXPECT_LT(one.Accepted(30, 1), four.Accepted(30, 1));
  EXPECT_NEAR(one.Accepted(30, 1), four.Accepted(30, 4), 1);
}

TEST(RefreshTest, PaysForALongTailOfResponses) {
  Refresh refresh(1000);
  for (int i = 0; i < 30; ++i) refresh.NoteLength(20);
  refresh.NoteLength(500);
  // One long response, and seven places that wait for it: 8 x 450 - 450 places.
  EXPECT_TRUE(refresh.Pays({{50}, 8, 1}));
  // A single place waits for nothing but its own response.
  EXPECT_FALSE(refresh.Pays({{50}, 1, 1}));
  // All places are full, and all responses are equally far: nothing waits.
  EXPECT_FALSE(refresh.Pays({{50, 50, 50, 50}, 4, 1}));
}

TEST(RefreshTest, DoesNotPayIfIdlePlacesCostNothing) {
  Refresh refresh(1000);
  for (int i = 0; i < 30; ++i) refresh.NoteLength(20);
  refresh.NoteLength(500);
  EXPECT_TRUE(refresh.Pays({{50}, 8, 1, /*fixed_rows=*/100}));
  EXPECT_TRUE(refresh.Pays({{50}, 8, 1, /*fixed_rows=*/1}));
  EXPECT_FALSE(refresh.Pays({{50}, 8, 1, /*fixed_rows=*/0.1}));
  EXPECT_FALSE(refresh.Pays({{50}, 8, 1, /*fixed_rows=*/0}));
}

TEST(RefreshTest, DoesNotPayIfFewTokensAreAccepted) {
  Refresh refresh(1000);
  for (int i = 0; i < 100; ++i) refresh.NoteLength(120);
  // Two of eight are at 100 tokens: eight places wait until they have 20 more.
  const OutdatedReplica replica = {{100, 100}, 8, 1};
  EXPECT_TRUE(refresh.Pays(replica));
  for (int i = 0; i < 200; ++i) refresh.NoteJudged(100, 0, 1);
  EXPECT_FALSE(refresh.Pays(replica));
}

TEST(RefreshTest, MetricsAreOfOneStep) {
  Refresh refresh(1000);
  refresh.NoteRecalled(3);
  refresh.NoteJudged(10, 5, 1);
  refresh.NoteJudged(30, 30, 1);
  refresh.NoteJudged(10, 12, 1);  // a worker that counts more than it was given
  std::map<std::string, double> metrics;
  refresh.AddMetrics(metrics);
  EXPECT_THAT(metrics,
              UnorderedElementsAre(Pair("refresh/responses", 3), Pair("refresh/draft_tokens", 50),
                                   Pair("refresh/accepted_tokens", 45),
                                   Pair("refresh/accepted_share", 0.9)));
  refresh.EndStep();
  metrics.clear();
  refresh.AddMetrics(metrics);
  EXPECT_THAT(metrics,
              UnorderedElementsAre(Pair("refresh/responses", 0), Pair("refresh/draft_tokens", 0),
                                   Pair("refresh/accepted_tokens", 0)));
}

}  // namespace
}  // namespace baton::controller
