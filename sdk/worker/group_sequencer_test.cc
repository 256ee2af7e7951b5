#include "sdk/worker/group_sequencer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

std::shared_ptr<TaskContext> Command(uint64_t group_epoch, uint64_t sequence,
                                     const std::string& token, const std::string& job = "j") {
  v1::Task task;
  task.set_job(job);
  task.set_task_token(token);
  task.mutable_order()->set_pool("p");
  task.mutable_order()->set_group_epoch(group_epoch);
  task.mutable_order()->set_sequence(sequence);
  return std::make_shared<TaskContext>(task, std::weak_ptr<TaskSink>());
}

TEST(GroupSequencer, HoldsWhatComesEarlyAndNeverSkips) {
  GroupSequencer sequencer;
  const auto one = Command(1, 1, "a"), two = Command(1, 2, "b"), three = Command(1, 3, "c");
  EXPECT_EQ(sequencer.Offer(one).run, one);
  EXPECT_EQ(sequencer.Offer(three).run, nullptr);
  EXPECT_EQ(sequencer.Done(one->task()).run, nullptr);  // 2 is missing.
  EXPECT_EQ(sequencer.last_sequence("j", "p"), 1u);
  EXPECT_EQ(sequencer.Offer(two).run, two);
  EXPECT_EQ(sequencer.Done(two->task()).run, three);
}

TEST(GroupSequencer, OneCommandAtATime) {
  GroupSequencer sequencer;
  const auto one = Command(1, 1, "a"), two = Command(1, 2, "b");
  EXPECT_EQ(sequencer.Offer(one).run, one);
  EXPECT_EQ(sequencer.Offer(two).run, nullptr);
  EXPECT_EQ(sequencer.Done(one->task()).run, two);
}

TEST(GroupSequencer, TheLastCommandMayComeAgain) {
  GroupSequencer sequencer;
  const auto one = Command(1, 1, "a"), two = Command(1, 2, "b"), again = Command(1, 2, "b2");
  sequencer.Offer(one);
  sequencer.Done(one->task());
  sequencer.Offer(two);
  sequencer.Done(two->task());
  EXPECT_EQ(sequencer.Offer(again).run, again);
  sequencer.Done(again->task());
  const auto old = sequencer.Offer(Command(1, 1, "a2"));
  EXPECT_EQ(old.run, nullptr);
  ASSERT_EQ(old.refused.size(), 1u);
  EXPECT_EQ(ErrorReason(old.refused[0].second), "SEQUENCE_PASSED");
}

TEST(GroupSequencer, ACancelledHeldCommandEndsAtOnceAndMayComeAgain) {
  GroupSequencer sequencer;
  const auto one = Command(1, 1, "a"), two = Command(1, 2, "b"), again = Command(1, 2, "b2");
  sequencer.Offer(one);
  sequencer.Offer(two);
  EXPECT_TRUE(sequencer.Withdraw(*one).refused.empty()) << "it runs, and ends by itself";
  const auto withdrawn = sequencer.Withdraw(*two);
  ASSERT_EQ(withdrawn.refused.size(), 1u);
  EXPECT_EQ(withdrawn.refused[0].first, two);
  EXPECT_TRUE(absl::IsCancelled(withdrawn.refused[0].second));
  EXPECT_TRUE(sequencer.Withdraw(*two).refused.empty());
  EXPECT_EQ(sequencer.Done(one->task()).run, nullptr);
  EXPECT_EQ(sequencer.Offer(again).run, again);
}

TEST(GroupSequencer, ANewGenerationReplacesTheOld) {
  GroupSequencer sequencer;
  const auto one = Command(1, 1, "a"), held = Command(1, 2, "b"), fresh = Command(2, 1, "c");
  sequencer.Offer(one);
  sequencer.Offer(held);
  const auto decision = sequencer.Offer(fresh);
  EXPECT_EQ(decision.run, fresh);
  ASSERT_EQ(decision.refused.size(), 1u);
  EXPECT_EQ(decision.refused[0].first, held);
  EXPECT_EQ(sequencer.Done(one->task()).run, nullptr);  // The old one changes nothing.
  const auto stale = sequencer.Offer(Command(1, 3, "d"));
  ASSERT_EQ(stale.refused.size(), 1u);
  EXPECT_EQ(ErrorReason(stale.refused[0].second), "STALE_GROUP_EPOCH");
}

TEST(GroupSequencer, KeepsPoolsOfDifferentJobsApart) {
  GroupSequencer sequencer;
  const auto one = Command(1, 1, "a"), other = Command(1, 7, "b", "k");
  sequencer.Offer(one);
  EXPECT_EQ(sequencer.Offer(other).run, other);
}

TEST(GroupSequencer, ForgettingRefusesWhatWasHeld) {
  GroupSequencer sequencer;
  sequencer.Offer(Command(1, 1, "a"));
  const auto held = Command(1, 2, "b");
  sequencer.Offer(held);
  const auto decision = sequencer.Forget("j", "p");
  ASSERT_EQ(decision.refused.size(), 1u);
  EXPECT_EQ(decision.refused[0].first, held);
  EXPECT_EQ(sequencer.last_sequence("j", "p"), 0u);
}

TEST(GroupSequencer, AForgottenCommandDoesNotEndTheOneThatCameAgain) {
  GroupSequencer sequencer;
  const auto forgotten = Command(1, 1, "a"), again = Command(1, 1, "a"), two = Command(1, 2, "b");
  EXPECT_EQ(sequencer.Offer(forgotten).run, forgotten);
  sequencer.ForgetAll();
  EXPECT_EQ(sequencer.Offer(again).run, again);
  EXPECT_EQ(sequencer.Offer(two).run, nullptr);
  EXPECT_EQ(sequencer.Done(forgotten->task()).run, nullptr);
  EXPECT_EQ(sequencer.Done(again->task()).run, two);
}

}  // namespace
}  // namespace baton
