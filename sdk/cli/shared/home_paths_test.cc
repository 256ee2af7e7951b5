#include "sdk/cli/shared/home_paths.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

class HomePathsTest : public ::testing::Test {
 protected:
  HomePathsTest() {
    const char* home = std::getenv("HOME");
    if (home != nullptr) before_ = home;
    ::setenv("HOME", "/homes/ann", 1);
  }
  ~HomePathsTest() override { ::setenv("HOME", before_.c_str(), 1); }

  std::string before_;
};

TEST_F(HomePathsTest, OnlyTheUsersOwnHomeIsExpanded) {
  EXPECT_EQ(ExpandHome("~"), "/homes/ann");
  EXPECT_EQ(ExpandHome("~/data/train.jsonl"), "/homes/ann/data/train.jsonl");
  EXPECT_EQ(ExpandHome("~bob/data"), "~bob/data");
  EXPECT_EQ(ExpandHome("data/~/train.jsonl"), "data/~/train.jsonl");
  EXPECT_EQ(ExpandHome("job:sft"), "job:sft");
  EXPECT_EQ(ExpandHome(""), "");
  ::unsetenv("HOME");
  EXPECT_EQ(ExpandHome("~/data"), "~/data");
}

TEST_F(HomePathsTest, EveryPathOfASpecIsExpanded) {
  v1::JobSpec spec;
  ExpandHomes(&spec);
  EXPECT_EQ(spec.ByteSizeLong(), 0u) << "no section is added";
  spec.mutable_model()->set_path("~/m");
  spec.mutable_critic()->mutable_model()->set_path("~/c");
  spec.mutable_cost_critic()->mutable_model()->set_path("~/cc");
  spec.mutable_reference()->mutable_model()->set_path("~/r");
  spec.mutable_reward_model()->mutable_model()->set_path("~/rm");
  spec.mutable_cost_model()->mutable_model()->set_path("~/cm");
  spec.mutable_judge()->mutable_model()->set_path("~/j");
  spec.mutable_data()->add_train_files("~/t");
  spec.mutable_data()->add_val_files("~/v");
  spec.mutable_data()->add_pretrain_files("~/p");
  spec.mutable_reward()->set_working_dir("~/w");
  ExpandHomes(&spec);
  EXPECT_EQ(spec.DebugString().find('~'), std::string::npos) << spec.DebugString();
  EXPECT_EQ(spec.model().path(), "/homes/ann/m");
  EXPECT_EQ(spec.reward().working_dir(), "/homes/ann/w");
}

}  // namespace
}  // namespace baton::cli
