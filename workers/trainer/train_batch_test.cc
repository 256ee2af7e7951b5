#include "workers/trainer/train_batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "workers/policy/policy_testing.h"
#include "workers/policy/trajectory_columns.h"

namespace baton::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Trajectory Sampled() {
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-9");
  *trajectory.add_columns() =
      policy::MakeColumn("prompt_tokens", false, std::vector<int32_t>{3, 12});
  *trajectory.add_columns() = policy::MakeColumn("tokens", true, std::vector<int32_t>{5, 6, 1});
  *trajectory.add_columns() =
      policy::MakeColumn("rollout_log_prob", true, std::vector<float>{-1, -2, -3});
  *trajectory.add_columns() = policy::MakeColumn("advantages", false, std::vector<float>{0.5});
  return trajectory;
}

TEST(TrainBatch, TakesColumnsAsTheyAre) {
  const auto sequence = FromColumns(Sampled()).value();
  EXPECT_THAT(sequence.tokens, ElementsAre(3, 12, 5, 6, 1));
  EXPECT_EQ(sequence.prompt_length, 2);
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-1, -2, -3));
  EXPECT_THAT(sequence.advantages, ElementsAre(0.5));
  EXPECT_THAT(sequence.ref_log_probs, IsEmpty());
  EXPECT_THAT(sequence.loss_mask, IsEmpty());
}

TEST(TrainBatch, AccuracyOrElseTheRewardSaysWhatIsPositive) {
  v1::Trajectory trajectory = Sampled();
  EXPECT_FALSE(FromColumns(trajectory).value().positive);
  (*trajectory.mutable_scores())["reward"] = 0.5;
  EXPECT_TRUE(FromColumns(trajectory).value().positive);
  (*trajectory.mutable_scores())["accuracy"] = 0;
  EXPECT_FALSE(FromColumns(trajectory).value().positive);
}

TEST(TrainBatch, RecomputedLogProbsAreTheOldOnes) {
  v1::Trajectory trajectory = Sampled();
  EXPECT_THAT(FromColumns(trajectory).value().old_log_probs, IsEmpty());
  *trajectory.add_columns() =
      policy::MakeColumn("old_log_prob", true, std::vector<float>{-4, -5, -6});
  EXPECT_THAT(FromColumns(trajectory).value().old_log_probs, ElementsAre(-4, -5, -6));
}

// The ratio divides by the full softmax; the behaviour is what was sampled from.
TEST(TrainBatch, TruncatedSamplingIsTheBehaviourAndNotTheOldPolicy) {
  v1::Trajectory trajectory = Sampled();
  *trajectory.add_columns() =
      policy::MakeColumn("sampling_log_prob", true, std::vector<float>{-0.5, -1.5, -2.5});
  auto sequence = FromColumns(trajectory).value();
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-0.5, -1.5, -2.5));
  EXPECT_THAT(sequence.old_log_probs, ElementsAre(-1, -2, -3));
  *trajectory.add_columns() =
      policy::MakeColumn("old_log_prob", true, std::vector<float>{-4, -5, -6});
  sequence = FromColumns(trajectory).value();
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-0.5, -1.5, -2.5));
  EXPECT_THAT(sequence.old_log_probs, ElementsAre(-4, -5, -6));
}

TEST(TrainBatch, MasksWhatTheEnvironmentSaid) {
  v1::Trajectory trajectory = Sampled();
  v1::Segment* segment = trajectory.add_segments();
  segment->set_kind(v1::Segment::KIND_ENVIRONMENT);
  segment->set_begin(3);
  segment->set_end(4);
  EXPECT_THAT(FromColumns(trajectory).value().loss_mask, ElementsAre(1, 0, 1));
}

TEST(TrainBatch, TokenizesDemonstrations) {
  const auto spec = policy::TinySpec();
  const auto source = policy::PolicySource::Open(spec.model(), "").value();
  v1::Trajectory trajectory;
  trajectory.set_prompt_text("1+2=");
  trajectory.set_response_text("3");
  const auto batch = MakeTrainBatch({trajectory, Sampled()}, spec.data(), *source).value();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_THAT(batch[0].tokens, ElementsAre(3, 12, 4, 13, 5, 1));  // … 3 <eos>
  EXPECT_EQ(batch[0].prompt_length, 4);
  EXPECT_THAT(batch[0].behaviour_log_probs, IsEmpty());
  EXPECT_TRUE(batch[0].pretraining);
  EXPECT_FALSE(batch[1].pretraining);
  EXPECT_THAT(batch[1].tokens, ElementsAre(3, 12, 5, 6, 1));
}

TEST(TrainBatch, NamesTheTrajectoryThatIsWrong) {
  const auto spec = policy::TinySpec();
  const auto source = policy::PolicySource::Open(spec.model(), "").value();
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-3");
  trajectory.set_prompt_text("a letter");
  const auto batch = MakeTrainBatch({trajectory}, spec.data(), *source);
  EXPECT_THAT(std::string(batch.status().message()), HasSubstr("t-3"));
}

}  // namespace
}  // namespace baton::trainer
