#include "sdk/cli/spec_reference.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

TEST(SpecReference, TakesDefaultAndBoundsOutOfAComment) {
  const SpecField field = ParseFieldComment(
      "Longest response, in tokens (e.g. 64 for sums). It is cut there. Default 1024; 1 to 2048.");
  EXPECT_EQ(field.meaning, "Longest response, in tokens (e.g. 64 for sums). It is cut there.");
  EXPECT_EQ(field.default_value, "1024");
  EXPECT_EQ(field.bounds, "1 to 2048");
}

TEST(SpecReference, TakesNamesAndWhatIsRequiredOutOfAComment) {
  const SpecField field = ParseFieldComment("How. Required. One of `a`, `b`.");
  EXPECT_EQ(field.meaning, "How.");
  EXPECT_EQ(field.default_value, "required");
  EXPECT_EQ(field.bounds, "one of `a`, `b`");
  EXPECT_EQ(ParseFieldComment("Steps. Required; 1 to 1e7.").bounds, "1 to 1e7");
}

TEST(SpecReference, ADefaultMayHaveSeveralClauses) {
  const SpecField field =
      ParseFieldComment("Size. Default: of a, 1e-6; of the others, none; -1 to 1.");
  EXPECT_EQ(field.default_value, "of a, 1e-6; of the others, none");
  EXPECT_EQ(field.bounds, "-1 to 1");
}

TEST(SpecReference, FindsFieldsByTheirPaths) {
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

TEST(SpecReference, NamesTheNearestField) {
  EXPECT_THAT(std::string(FindSpecEntry("rollout.temprature").status().message()),
              HasSubstr("rollout has no field 'temprature'; did you mean 'rollout.temperature'?"));
  EXPECT_THAT(std::string(FindSpecEntry("rolout.n").status().message()),
              HasSubstr("a spec has no field 'rolout'; did you mean 'rollout'?"));
  EXPECT_THAT(std::string(FindSpecEntry("rollout.n.x").status().message()),
              HasSubstr("rollout.n has no fields"));
}

}  // namespace
}  // namespace baton::cli
