#include "workers/policy/sequences.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/columns.h"
#include "tests/support/workers/policy.h"
#include "workers/policy/trajectory_columns.h"

namespace baton::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Trajectory Sampled() {
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-9");
  *trajectory.add_columns() = MakeColumn("prompt_tokens", false, std::vector<int32_t>{3, 12});
  *trajectory.add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{5, 6, 1});
  *trajectory.add_columns() = MakeColumn("rollout_log_prob", true, std::vector<float>{-1, -2, -3});
  *trajectory.add_columns() = MakeColumn("advantages", false, std::vector<float>{0.5});
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
  *trajectory.add_columns() = MakeColumn("old_log_prob", true, std::vector<float>{-4, -5, -6});
  EXPECT_THAT(FromColumns(trajectory).value().old_log_probs, ElementsAre(-4, -5, -6));
}

// The ratio divides by the full softmax; the behaviour is what was sampled from.
TEST(TrainBatch, TruncatedSamplingIsTheBehaviourAndNotTheOldPolicy) {
  v1::Trajectory trajectory = Sampled();
  *trajectory.add_columns() =
      MakeColumn("sampling_log_prob", true, std::vector<float>{-0.5, -1.5, -2.5});
  auto sequence = FromColumns(trajectory).value();
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-0.5, -1.5, -2.5));
  EXPECT_THAT(sequence.old_log_probs, ElementsAre(-1, -2, -3));
  *trajectory.add_columns() = MakeColumn("old_log_prob", true, std::vector<float>{-4, -5, -6});
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

TEST(TrainBatch, AHeaderHasTheLengthsMaskAndSignOfItsTrajectory) {
  v1::Trajectory whole = Sampled(), header;
  const auto add = [&](v1::Segment::Kind kind, uint32_t begin, uint32_t end) {
    v1::Segment* segment = whole.add_segments();
    segment->set_kind(kind);
    segment->set_begin(begin);
    segment->set_end(end);
  };
  add(v1::Segment::KIND_PROMPT, 0, 2);
  add(v1::Segment::KIND_MODEL, 2, 3);
  add(v1::Segment::KIND_ENVIRONMENT, 3, 4);
  add(v1::Segment::KIND_MODEL, 4, 5);
  (*whole.mutable_scores())["reward"] = 1;
  header = whole;
  header.clear_columns();
  const auto expected = FromColumns(whole).value();
  const auto batch = MakeTrainBatch({whole, header}, v1::DataSpec(),
                                    *PolicySource::Open(TinySpec().model(), "").value())
                         .value();
  EXPECT_FALSE(batch[0].remote());
  EXPECT_TRUE(batch[1].remote());
  EXPECT_THAT(batch[1].tokens, IsEmpty());
  for (const auto& sequence : batch) {
    EXPECT_EQ(sequence.length(), 5);
    EXPECT_EQ(sequence.prompt_length, expected.prompt_length);
    EXPECT_EQ(sequence.loss_mask, expected.loss_mask);
    EXPECT_TRUE(sequence.positive);
    EXPECT_FALSE(sequence.pretraining);
  }
  EXPECT_EQ(batch[0].row, 0);
  EXPECT_EQ(batch[1].row, 1);
}

TEST(TrainBatch, TokenizesDemonstrations) {
  const auto spec = TinySpec();
  const auto source = PolicySource::Open(spec.model(), "").value();
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
  const auto spec = TinySpec();
  const auto source = PolicySource::Open(spec.model(), "").value();
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-3");
  trajectory.set_prompt_text("a letter");
  const auto batch = MakeTrainBatch({trajectory}, spec.data(), *source);
  EXPECT_THAT(std::string(batch.status().message()), HasSubstr("t-3"));
}

}  // namespace
}  // namespace baton::policy
