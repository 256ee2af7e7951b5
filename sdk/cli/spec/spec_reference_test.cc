#include "sdk/cli/spec/spec_reference.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

TEST(SpecReferenceTest, TellsDefaultAndBoundsAsPeopleWriteThem) {
  const auto expect = [](const char* path, const char* default_value, const char* bounds) {
    const SpecField field = FindSpecEntry(path)->field;
    EXPECT_EQ(field.default_value, default_value) << path;
    EXPECT_EQ(field.bounds, bounds) << path;
  };
  expect("actor.eps", "1e-8", "1e-20 to 1");
  expect("actor.lr_schedule", "`constant`", "one of `constant`, `cosine`, `linear`");
  expect("data.shuffle", "true", "");
  expect("trainer.total_training_steps",
         "required, unless `total_epochs` is given or `val_only` is true", "1 to 10000000");
  expect("data.train_files", "required, unless `trainer.val_only` is true", "");
  expect("rollout.val.temperature", "`rollout.temperature`", "0 to 10");
  expect("algorithm.clip_ratio_low", "the preset's, mostly 0.2", "0 to 1");
  expect("trainer.early_stop.min_delta", "0", "at least 0");
  expect("resources.role_workers", "1 each", "1 to 1024");
}

TEST(SpecReferenceTest, FindsFieldsByTheirPaths) {
  const auto n = FindSpecEntry("rollout.n");
  ASSERT_TRUE(n.ok()) << n.status();
  EXPECT_EQ(n->field.type, "whole number");
  EXPECT_EQ(n->field.default_value, "8");
  EXPECT_EQ(n->field.bounds, "1 to 1024");
  EXPECT_EQ(n->field.meaning, "Responses per prompt.");
  EXPECT_EQ(n->section, nullptr);

  EXPECT_EQ(FindSpecEntry("spec.reward.rules[0].type")->field.default_value, "required");
  EXPECT_EQ(FindSpecEntry("resources.pools[1].layouts.actor.tp")->field.default_value, "1");
  EXPECT_EQ(FindSpecEntry("critic.train.lr")->field.path, "critic.train.lr");
  EXPECT_EQ(FindSpecEntry("kind")->field.bounds, "one of `rl`, `sft`, `reward_model`");
  EXPECT_EQ(FindSpecEntry("rollout.val")->section->message, "ValSamplingSpec");
  EXPECT_EQ(FindSpecEntry("")->section->message, "JobSpec");
}

TEST(SpecReferenceTest, NamesTheNearestField) {
  EXPECT_THAT(std::string(FindSpecEntry("rollout.temprature").status().message()),
              HasSubstr("rollout has no field 'temprature'; did you mean 'rollout.temperature'?"));
  EXPECT_THAT(std::string(FindSpecEntry("rolout.n").status().message()),
              HasSubstr("a spec has no field 'rolout'; did you mean 'rollout'?"));
  EXPECT_THAT(std::string(FindSpecEntry("rollout.n.x").status().message()),
              HasSubstr("rollout.n has no fields"));
  EXPECT_THAT(std::string(FindSpecEntry("keep_best").status().message()),
              HasSubstr("a spec has no field 'keep_best'; did you mean 'trainer.keep_best'?"));
  EXPECT_THAT(std::string(FindSpecEntry("keepbest").status().message()),
              HasSubstr("did you mean 'trainer.keep_best'?"));
  EXPECT_THAT(std::string(FindSpecEntry("actor.save_freq").status().message()),
              HasSubstr("actor has no field 'save_freq'; did you mean 'trainer.save_freq'?"));
}

}  // namespace
}  // namespace baton::cli
