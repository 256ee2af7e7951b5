#include "workers/trainer/learning_steps.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::trainer {
namespace {

using ::testing::HasSubstr;
using Versions = LearningSteps::Versions;

v1::Update UpdateOf(int64_t from_step, int64_t step, uint64_t version) {
  v1::Update update;
  update.set_from_step(from_step);
  update.set_step(step);
  update.set_policy_version(version);
  return update;
}

v1::SaveCheckpoint SaveOf(int64_t step) {
  v1::SaveCheckpoint save;
  save.set_step(step);
  return save;
}

TEST(LearningStepsTest, ARepeatedUpdateGetsItsFirstResult) {
  LearningSteps steps("actor", Versions::kEachUpdate, {4, 2});
  const v1::Update update = UpdateOf(4, 5, 3);
  EXPECT_EQ(steps.ResultOf(update), nullptr);
  ASSERT_TRUE(steps.CheckStart(update).ok());
  EXPECT_EQ(steps.Finish(update, {{"loss", 0.5}}).metrics().at("loss"), 0.5);
  ASSERT_NE(steps.ResultOf(update), nullptr);
  EXPECT_EQ(steps.ResultOf(update)->metrics().at("loss"), 0.5);
  EXPECT_EQ(steps.ResultOf(UpdateOf(5, 6, 4)), nullptr);
  EXPECT_EQ(steps.state().step, 5);
  EXPECT_EQ(steps.state().policy_version, 3u);
}

TEST(LearningStepsTest, AfterALoadNoUpdateIsKnown) {
  // A role that was assigned at step 4 made no update of step 4 and has no result to repeat.
  const LearningSteps steps("actor", Versions::kEachUpdate, {4, 2});
  EXPECT_EQ(steps.ResultOf(UpdateOf(3, 4, 2)), nullptr);
  EXPECT_FALSE(steps.CheckStart(UpdateOf(3, 4, 2)).ok());
}

TEST(LearningStepsTest, AnUpdateMayStartAfterStepsWithoutUpdates) {
  const LearningSteps actor("actor", Versions::kEachUpdate, {4, 2});
  EXPECT_TRUE(actor.CheckStart(UpdateOf(7, 8, 3)).ok());
  const absl::Status missed = actor.CheckStart(UpdateOf(7, 8, 4));  // it missed version 3
  EXPECT_EQ(missed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missed.message()),
              HasSubstr("update starts from step 7, but the actor stands at 4"));
  EXPECT_FALSE(actor.CheckStart(UpdateOf(7, 8, 2)).ok());
  EXPECT_FALSE(actor.CheckStart(UpdateOf(3, 5, 3)).ok());
}

TEST(LearningStepsTest, ACriticLearnsInStepsThatLeaveThePolicyAlone) {
  const LearningSteps critic("cost_critic", Versions::kSomeUpdates, {4, 2});
  EXPECT_TRUE(critic.CheckStart(UpdateOf(7, 8, 2)).ok());
  EXPECT_TRUE(critic.CheckStart(UpdateOf(7, 8, 3)).ok());
  EXPECT_THAT(std::string(critic.CheckStart(UpdateOf(7, 8, 4)).message()),
              HasSubstr("the cost_critic stands at 4"));
}

TEST(LearningStepsTest, ALaterStepIsSavedWhileThePolicyIsTheSame) {
  const LearningSteps steps("actor", Versions::kEachUpdate, {4, 2});
  EXPECT_EQ(steps.StateToSave(SaveOf(4))->step, 4);
  EXPECT_FALSE(steps.StateToSave(SaveOf(6)).ok());  // it does not say which policy
  v1::SaveCheckpoint later = SaveOf(6);
  later.set_policy_version(2);
  EXPECT_EQ(steps.StateToSave(later)->step, 6);
  EXPECT_EQ(steps.StateToSave(later)->policy_version, 2u);
  later.set_policy_version(3);
  EXPECT_FALSE(steps.StateToSave(later).ok());
  v1::SaveCheckpoint earlier = SaveOf(3);
  earlier.set_policy_version(2);
  EXPECT_FALSE(steps.StateToSave(earlier).ok());
}

}  // namespace
}  // namespace baton::trainer
