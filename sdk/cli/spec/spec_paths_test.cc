#include "sdk/cli/spec/spec_paths.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SpecPathsTest : public ::testing::Test {
 protected:
  std::string Absolute(const std::string& path) const {
    v1::JobSpec spec;
    spec.mutable_model()->set_path(path);
    MakePathsAbsolute(folder_.path(), &spec);
    return spec.model().path();
  }
  TestFolder folder_;
};

TEST_F(SpecPathsTest, AModelIsBesideItsSpecThereOrNot) {
  EXPECT_EQ(Absolute("model"), folder_.path("model"));
  EXPECT_EQ(Absolute("./models/../model"), folder_.path("model"));
  EXPECT_EQ(Absolute("tiny.gguf"), folder_.path("tiny.gguf"));
  std::filesystem::create_directories(folder_.path("owner/name"));
  EXPECT_EQ(Absolute("owner/name"), folder_.path("owner/name"));
}

TEST_F(SpecPathsTest, OtherNamesOfModelsStay) {
  for (const char* path : {"/models/x", "job:first", "job:first@best", "Qwen/Qwen2.5-0.5B", ""}) {
    EXPECT_EQ(Absolute(path), path);
  }
}

TEST_F(SpecPathsTest, EveryModelOfASpecIsMadeAbsoluteAndNoneIsAdded) {
  v1::JobSpec spec;
  spec.mutable_critic()->mutable_model()->set_path("critic");
  spec.mutable_judge()->mutable_model()->set_path("judge");
  MakePathsAbsolute(folder_.path(), &spec);
  EXPECT_EQ(spec.critic().model().path(), folder_.path("critic"));
  EXPECT_EQ(spec.judge().model().path(), folder_.path("judge"));
  EXPECT_FALSE(spec.has_model());
  EXPECT_FALSE(spec.has_cost_critic());
  EXPECT_FALSE(spec.has_reference());
}

TEST_F(SpecPathsTest, ARelativeModelIsAProblemForAControllerElsewhere) {
  v1::JobSpec spec;
  spec.mutable_model()->set_path("/models/x");
  spec.mutable_critic()->mutable_model()->set_path("job:first");
  EXPECT_THAT(RelativeModels(spec), IsEmpty());
  spec.mutable_reward_model()->mutable_model()->set_path("models/scorer.v1");
  spec.mutable_model()->set_path("model");
  const auto problems = RelativeModels(spec);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].path, "model.path");
  EXPECT_THAT(problems[0].message, HasSubstr("'model' is relative to the spec's folder"));
  EXPECT_THAT(problems[0].message, HasSubstr("give the absolute path"));
}

}  // namespace
}  // namespace baton::cli
