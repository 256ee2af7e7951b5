#include "controller/runtime/job_files/checkpoint_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

std::vector<v1::Checkpoint> ThreeOfThem() {
  std::vector<v1::Checkpoint> out(3);
  out[0].set_step(40);
  out[1].set_step(60);
  out[1].set_best(true);
  out[2].set_step(80);
  return out;
}

TEST(CheckpointChoiceTest, ParsesCheckpointNames) {
  EXPECT_TRUE(NamesCheckpoint("job:add"));
  EXPECT_FALSE(NamesCheckpoint("/models/job:add"));
  EXPECT_EQ(ParseCheckpointName("job:add").job, "add");
  EXPECT_EQ(ParseCheckpointName("job:add").which, "");
  EXPECT_EQ(ParseCheckpointName("job:projects/p/jobs/add@best").job, "projects/p/jobs/add");
  EXPECT_EQ(ParseCheckpointName("job:add@best").which, "best");
  EXPECT_EQ(ParseCheckpointName("job:add@120").which, "120");
}

TEST(CheckpointChoiceTest, ChoosesTheNewestTheBestOrOneByStep) {
  EXPECT_EQ(ChooseCheckpoint("add", "", ThreeOfThem())->step(), 80);
  EXPECT_EQ(ChooseCheckpoint("add", "best", ThreeOfThem())->step(), 60);
  EXPECT_EQ(ChooseCheckpoint("add", "40", ThreeOfThem())->step(), 40);
}

TEST(CheckpointChoiceTest, ListsTheKeptCheckpointsIfOneIsMissing) {
  const absl::Status gone = ChooseCheckpoint("add", "50", ThreeOfThem()).status();
  EXPECT_EQ(ErrorReason(gone), "CHECKPOINT_NOT_FOUND");
  EXPECT_THAT(std::string(gone.message()),
              HasSubstr("keeps no checkpoint of step 50; it keeps those of step 40, 60, 80"));
  auto plain = ThreeOfThem();
  plain[1].clear_best();
  EXPECT_THAT(std::string(ChooseCheckpoint("add", "best", plain).status().message()),
              HasSubstr("trainer.keep_best"));
  EXPECT_THAT(std::string(ChooseCheckpoint("add", "", {}).status().message()),
              HasSubstr("has no complete checkpoint yet"));
  for (const char* wrong : {"bset", "@", "-1", "4x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ChooseCheckpoint("add", wrong, ThreeOfThem()).status()))
        << wrong;
  }
}

}  // namespace
}  // namespace baton::controller
