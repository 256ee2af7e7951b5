#include "controller/core/trajectories/lost_groups.h"

#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Adds the group of one prompt index: two responses to train with and a greedy one.
void AddGroup(uint64_t prompt_index, uint64_t failed0, uint64_t failed1, uint64_t failed_baseline,
              std::map<uint64_t, TrajectoryInfo>* out) {
  for (const auto& [purpose, sample, failed] : {std::tuple{v1::PURPOSE_TRAIN, 0u, failed0},
                                                {v1::PURPOSE_TRAIN, 1u, failed1},
                                                {v1::PURPOSE_BASELINE, 0u, failed_baseline}}) {
    TrajectoryInfo info;
    info.id = TrajectoryId(purpose, prompt_index, sample, 2);
    info.purpose = purpose;
    info.prompt_index = prompt_index;
    info.failed = failed;
    info.error = failed == 0 ? "" : "error " + std::to_string(failed);
    (*out)[info.id] = info;
  }
}

TEST(LostGroupsTest, FindsGroupsWithTooFewRewards) {
  std::map<uint64_t, TrajectoryInfo> all;
  EXPECT_THAT(LostGroups(all, 2), IsEmpty());
  AddGroup(0, 0, 0, 0, &all);
  EXPECT_EQ(LastError(all), "");
  AddGroup(1, 0, 4, 0, &all);
  AddGroup(2, 1, 3, 0, &all);
  AddGroup(3, 0, 0, 7, &all);
  EXPECT_THAT(LostGroups(all, 2), ElementsAre(1, 2, 3));
  EXPECT_THAT(LostGroups(all, 1), ElementsAre(2, 3));
  EXPECT_EQ(LastError(all), "error 7");
}

TEST(LostGroupsTest, DetectsMissingScoreInputs) {
  TrajectoryInfo whole, lacking;
  lacking.failed = 6;
  EXPECT_FALSE(LacksInputs({&whole, &whole}, 7));
  EXPECT_FALSE(LacksInputs({&whole, &lacking}, 1));
  EXPECT_TRUE(LacksInputs({&whole, &lacking}, 4));
}

}  // namespace
}  // namespace baton::controller
