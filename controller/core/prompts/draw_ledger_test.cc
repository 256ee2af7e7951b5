#include "controller/core/prompts/draw_ledger.h"

#include <algorithm>
#include <random>
#include <set>

#include "controller/core/prompts/birth_numbers.h"
#include "controller/core/steps/admission_pace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(DrawSetTest, AgreesWithAPlainSet) {
  std::mt19937 random(1);
  DrawSet set;
  std::set<uint64_t> plain;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t draw = random() % 400;
    set.Add(draw);
    plain.insert(draw);
    ASSERT_EQ(set.size(), plain.size());
    const uint64_t from = random() % 400;
    uint64_t skip = from;
    while (plain.count(skip) > 0) ++skip;
    ASSERT_EQ(set.Skip(from), skip);
    ASSERT_EQ(set.Contains(from), plain.count(from) > 0);
  }
  google::protobuf::RepeatedPtrField<store::v1::DrawRange> rows;
  set.Save(&rows);
  for (int i = 1; i < rows.size(); ++i) EXPECT_GT(rows[i].first(), rows[i - 1].last() + 1);
  DrawSet again;
  again.Restore(rows);
  EXPECT_EQ(again.size(), plain.size());
  for (uint64_t draw = 0; draw < 400; ++draw) {
    EXPECT_EQ(again.Contains(draw), plain.count(draw) > 0);
  }
}

TEST(DrawLedgerTest, NoDrawIsSkippedAndNoneIsBegunTwice) {
  DrawLedger draws;
  for (const uint64_t draw : {0, 1, 2, 3}) {
    ASSERT_EQ(draws.Next(), draw);
    draws.Open(draw, 10 * draw + 1);
  }
  draws.Spend(2);
  EXPECT_EQ(draws.Next(), 4u);
  draws.Reopen(1);  // it was too old
  EXPECT_EQ(draws.Next(), 1u) << "drawn anew, before any that was never drawn";
  draws.Open(1, 50);
  EXPECT_EQ(draws.Next(), 4u);
  EXPECT_THAT(draws.open(), ElementsAre(Pair(0, 1), Pair(1, 50), Pair(3, 31)));
  EXPECT_TRUE(draws.Has(1, 51, 2));
  EXPECT_FALSE(draws.Has(1, 52, 2)) << "the next draw's";
  EXPECT_FALSE(draws.Has(1, 11, 2)) << "of the first time";
  EXPECT_FALSE(draws.Has(2, 21, 2)) << "spent";
  EXPECT_TRUE(draws.HasBirth(32, 2));
  EXPECT_FALSE(draws.HasBirth(49, 2));
}

TEST(DrawLedgerTest, ForgetsGivenUpSamplesTogetherWithTheirGroup) {
  DrawLedger draws;
  for (uint64_t draw = 0; draw < 6; ++draw) draws.Open(draw, 4 * draw + 1);
  draws.GiveUp(2, 3);
  draws.GiveUp(2, 1);
  draws.GiveUp(4, 0);
  draws.GiveUp(5, 0);
  store::v1::JobRow row;
  draws.Save(/*per_draw=*/4, {}, &row);
  ASSERT_EQ(row.open_draws_size(), 5) << "0 and 1, and the others alone";
  DrawLedger again;
  again.Restore(row);
  EXPECT_EQ(again.open(), draws.open());
  for (DrawLedger* ledger : {&draws, &again}) {
    EXPECT_THAT(ledger->given_up(2), ElementsAre(1, 3));
    EXPECT_THAT(ledger->given_up(3), ElementsAre());
    ledger->Reopen(2);
    ledger->Spend(4);
    ledger->Open(2, 100);
    EXPECT_THAT(ledger->given_up(2), ElementsAre()) << "drawn anew";
    ledger->RollBack();
    EXPECT_THAT(ledger->given_up(4), ElementsAre());
    EXPECT_THAT(ledger->given_up(5), ElementsAre(0)) << "what is open stays";
    ledger->CloseAll();
    EXPECT_THAT(ledger->given_up(5), ElementsAre());
  }
}

TEST(DrawLedgerTest, WindowListsTheGroupsThatMayBeginNext) {
  DrawLedger draws;
  EXPECT_THAT(draws.Window(4), ElementsAre(0, 1, 2, 3));
  draws.Open(2, 1);
  draws.Open(0, 5);
  draws.Spend(0);
  EXPECT_THAT(draws.Window(4), ElementsAre(1, 3));
  draws.Open(1, 9);
  EXPECT_THAT(draws.Window(1), ElementsAre(3));
  draws.Open(3, 13);
  EXPECT_THAT(draws.Window(4), ElementsAre(4, 5, 6, 7));
  draws.Reopen(2);
  EXPECT_THAT(draws.Window(4), ElementsAre(2)) << "before any of a later window";
}

TEST(DrawLedgerTest, RollBackRedrawsWhatTheCheckpointHasNotSpent) {
  DrawLedger draws;
  for (uint64_t draw = 0; draw < 5; ++draw) draws.Open(draw, draw + 1);
  draws.Spend(0);
  draws.Spend(3);
  draws.Cut();
  draws.Spend(1);  // while the checkpoint is completed
  draws.Saved();
  draws.Spend(2);
  store::v1::JobRow row;
  draws.Save(/*per_draw=*/1, {}, &row);
  ASSERT_EQ(row.open_draws_size(), 1) << "4 is all that is open";
  for (DrawLedger* one : {&draws, new DrawLedger}) {
    if (one != &draws) one->Restore(row);
    one->RollBack();
    EXPECT_EQ(one->spent(), 2u) << "0 and 3";
    EXPECT_EQ(one->Next(), 1u);
    one->Open(1, 9);
    EXPECT_EQ(one->Next(), 2u);
    one->Open(2, 10);
    EXPECT_EQ(one->Next(), 5u) << "4 is open";
    if (one != &draws) delete one;
  }
}

TEST(DrawLedgerTest, ClosedGroupsAreDrawnAgain) {
  DrawLedger draws;
  draws.Open(0, 1);
  draws.Open(1, 2);
  draws.Spend(0);
  draws.CloseAll();
  EXPECT_EQ(draws.Next(), 1u);
}

// A group that begins with weights that are `behind` updates old, and has `ahead` groups before it,
// is consumed by update ahead / batch + 1 from now.
TEST(BirthNumbersTest, NeverGivesANumberTwice) {
  EffectSink out;
  BirthNumbers births;
  EXPECT_EQ(births.Take(3, out), 1u) << "0 names nothing";
  store::v1::JobRow row;
  births.Save(&row);
  BirthNumbers restarted;
  restarted.Restore(row);
  EXPECT_EQ(restarted.Take(2, out), 4u);
  EXPECT_EQ(restarted.Take(1, out), 6u);
  EXPECT_EQ(out.Take().size(), 3u) << "each time the job's row is put";
}

TEST(AdmissionBoundTest, AGroupBeginsIfItIsConsumedWithinTheBound) {
  EXPECT_TRUE(MayBegin({0, 4, 3, 0}));
  EXPECT_FALSE(MayBegin({0, 4, 4, 0})) << "the next batch is of newer weights";
  EXPECT_FALSE(MayBegin({0, 4, 0, 1})) << "so is this one";
  EXPECT_TRUE(MayBegin({2, 4, 11, 0}));
  EXPECT_FALSE(MayBegin({2, 4, 12, 0}));
  EXPECT_TRUE(MayBegin({2, 4, 7, 1}));
  EXPECT_FALSE(MayBegin({2, 4, 8, 1}));
  EXPECT_FALSE(MayBegin({32, 4, 0, std::nullopt})) << "weights of unknown origin";
}

TEST(DrawLedgerTest, UpcomingListsGroupsNeitherOpenNorSpent) {
  DrawLedger ledger;
  EXPECT_THAT(ledger.Upcoming(3), ElementsAre(0, 1, 2));
  for (const uint64_t draw : {0, 1, 3}) ledger.Open(draw, 10 * draw);
  const uint64_t before = ledger.changes();
  ledger.Spend(1);
  ledger.Spend(5);
  EXPECT_GT(ledger.changes(), before);
  EXPECT_THAT(ledger.Upcoming(4), ElementsAre(2, 4, 6, 7));
  EXPECT_THAT(ledger.Upcoming(0), ElementsAre());
  const uint64_t opened = ledger.changes();
  ledger.Reopen(0);
  EXPECT_GT(ledger.changes(), opened);
  EXPECT_THAT(ledger.Upcoming(3), ElementsAre(0, 2, 4));
}

}  // namespace
}  // namespace baton::controller
