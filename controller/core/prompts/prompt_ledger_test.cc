#include "controller/core/prompts/prompt_ledger.h"

#include <algorithm>
#include <random>
#include <set>

#include "controller/core/prompts/trajectory_uids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(PromptIndexSetTest, AgreesWithAPlainSet) {
  std::mt19937 random(1);
  PromptIndexSet set;
  std::set<uint64_t> plain;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t prompt_index = random() % 400;
    set.Add(prompt_index);
    plain.insert(prompt_index);
    ASSERT_EQ(set.size(), plain.size());
    const uint64_t from = random() % 400;
    uint64_t skip = from;
    while (plain.count(skip) > 0) ++skip;
    ASSERT_EQ(set.Skip(from), skip);
    ASSERT_EQ(set.Contains(from), plain.count(from) > 0);
  }
  google::protobuf::RepeatedPtrField<store::v1::PromptIndexRange> rows;
  set.Save(&rows);
  for (int i = 1; i < rows.size(); ++i) EXPECT_GT(rows[i].first(), rows[i - 1].last() + 1);
  PromptIndexSet again;
  again.Restore(rows);
  EXPECT_EQ(again.size(), plain.size());
  for (uint64_t prompt_index = 0; prompt_index < 400; ++prompt_index) {
    EXPECT_EQ(again.Contains(prompt_index), plain.count(prompt_index) > 0);
  }
}

TEST(PromptLedgerTest, NoPromptGroupIsSkippedAndNoneIsBegunTwice) {
  PromptLedger prompts;
  for (const uint64_t prompt_index : {0, 1, 2, 3}) {
    ASSERT_EQ(prompts.Next(), prompt_index);
    prompts.Open(prompt_index, 10 * prompt_index + 1);
  }
  prompts.Spend(2);
  EXPECT_EQ(prompts.Next(), 4u);
  prompts.Reopen(1);  // it was too old
  EXPECT_EQ(prompts.Next(), 1u) << "drawn anew, before any that was never drawn";
  prompts.Open(1, 50);
  EXPECT_EQ(prompts.Next(), 4u);
  EXPECT_THAT(prompts.open(), ElementsAre(Pair(0, 1), Pair(1, 50), Pair(3, 31)));
  EXPECT_TRUE(prompts.Has(1, 51, 2));
  EXPECT_FALSE(prompts.Has(1, 52, 2)) << "the next prompt's";
  EXPECT_FALSE(prompts.Has(1, 11, 2)) << "of the first time";
  EXPECT_FALSE(prompts.Has(2, 21, 2)) << "spent";
  EXPECT_TRUE(prompts.HasTrajectoryUid(32, 2));
  EXPECT_FALSE(prompts.HasTrajectoryUid(49, 2));
}

TEST(PromptLedgerTest, ForgetsGivenUpSamplesTogetherWithTheirGroup) {
  PromptLedger prompts;
  for (uint64_t prompt_index = 0; prompt_index < 6; ++prompt_index) {
    prompts.Open(prompt_index, 4 * prompt_index + 1);
  }
  prompts.GiveUp(2, 3);
  prompts.GiveUp(2, 1);
  prompts.GiveUp(4, 0);
  prompts.GiveUp(5, 0);
  store::v1::JobRow row;
  prompts.Save(/*per_prompt=*/4, {}, &row);
  ASSERT_EQ(row.open_prompts_size(), 5) << "0 and 1, and the others alone";
  PromptLedger again;
  again.Restore(row);
  EXPECT_EQ(again.open(), prompts.open());
  for (PromptLedger* ledger : {&prompts, &again}) {
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

TEST(PromptLedgerTest, WindowListsTheGroupsThatMayBeginNext) {
  PromptLedger prompts;
  EXPECT_THAT(prompts.Window(4), ElementsAre(0, 1, 2, 3));
  prompts.Open(2, 1);
  prompts.Open(0, 5);
  prompts.Spend(0);
  EXPECT_THAT(prompts.Window(4), ElementsAre(1, 3));
  prompts.Open(1, 9);
  EXPECT_THAT(prompts.Window(1), ElementsAre(3));
  prompts.Open(3, 13);
  EXPECT_THAT(prompts.Window(4), ElementsAre(4, 5, 6, 7));
  prompts.Reopen(2);
  EXPECT_THAT(prompts.Window(4), ElementsAre(2)) << "before any of a later window";
}

TEST(PromptLedgerTest, RollBackRedrawsWhatTheCheckpointHasNotSpent) {
  PromptLedger prompts;
  for (uint64_t prompt_index = 0; prompt_index < 5; ++prompt_index) {
    prompts.Open(prompt_index, prompt_index + 1);
  }
  prompts.Spend(0);
  prompts.Spend(3);
  prompts.Cut();
  prompts.Spend(1);  // while the checkpoint is completed
  prompts.Saved();
  prompts.Spend(2);
  store::v1::JobRow row;
  prompts.Save(/*per_prompt=*/1, {}, &row);
  ASSERT_EQ(row.open_prompts_size(), 1) << "4 is all that is open";
  for (PromptLedger* one : {&prompts, new PromptLedger}) {
    if (one != &prompts) one->Restore(row);
    one->RollBack();
    EXPECT_EQ(one->spent(), 2u) << "0 and 3";
    EXPECT_EQ(one->Next(), 1u);
    one->Open(1, 9);
    EXPECT_EQ(one->Next(), 2u);
    one->Open(2, 10);
    EXPECT_EQ(one->Next(), 5u) << "4 is open";
    if (one != &prompts) delete one;
  }
}

TEST(PromptLedgerTest, ClosedGroupsAreDrawnAgain) {
  PromptLedger prompts;
  prompts.Open(0, 1);
  prompts.Open(1, 2);
  prompts.Spend(0);
  prompts.CloseAll();
  EXPECT_EQ(prompts.Next(), 1u);
}

TEST(TrajectoryUidsTest, NeverGivesAUidTwice) {
  EffectSink out;
  TrajectoryUids trajectory_uids;
  EXPECT_EQ(trajectory_uids.Take(3, out), 1u) << "0 names nothing";
  store::v1::JobRow row;
  trajectory_uids.Save(&row);
  TrajectoryUids restarted;
  restarted.Restore(row);
  EXPECT_EQ(restarted.Take(2, out), 4u);
  EXPECT_EQ(restarted.Take(1, out), 6u);
  EXPECT_EQ(out.Take().size(), 3u) << "each time the job's row is put";
}

TEST(PromptLedgerTest, UpcomingListsGroupsNeitherOpenNorSpent) {
  PromptLedger ledger;
  EXPECT_THAT(ledger.Upcoming(3), ElementsAre(0, 1, 2));
  for (const uint64_t prompt_index : {0, 1, 3}) ledger.Open(prompt_index, 10 * prompt_index);
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
