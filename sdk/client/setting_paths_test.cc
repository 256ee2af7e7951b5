#include "sdk/client/setting_paths.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SettingPathsTest, ASettingIsFoundInTheFirstSectionOfItsKind) {
  EXPECT_THAT(PathsOfSetting("save_freq"), ElementsAre("trainer.save_freq"));
  EXPECT_THAT(PathsOfSetting("lr"), ElementsAre("actor.lr"));  // critic.train has it too
  EXPECT_THAT(PathsOfSetting("kind"), ElementsAre("kind"));
  EXPECT_THAT(PathsOfSetting("n"), ElementsAre("rollout.n", "rollout.val.n"));
  EXPECT_THAT(PathsOfSetting("savefreq"), IsEmpty());
}

TEST(SettingPathsTest, AMistypedNameIsFoundToo) {
  EXPECT_THAT(PathsOfNearSetting("total_trainig_steps"),
              ElementsAre("trainer.total_training_steps"));
  EXPECT_THAT(PathsOfNearSetting("xyzzy_quux"), IsEmpty());
}

TEST(SettingPathsTest, PathsAreListedAsAQuestion) {
  EXPECT_EQ(SuggestionOf({}), "");
  EXPECT_EQ(SuggestionOf({"a"}), "; did you mean 'a'?");
  EXPECT_EQ(SuggestionOf({"a", "b", "c"}), "; did you mean 'a', 'b' or 'c'?");
}

}  // namespace
}  // namespace baton
