#include "controller/core/prompts/prompt_lengths.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(PromptLengthsTest, APromptWithoutResponsesIsExpectedToBeLikeTheOthers) {
  PromptLengths lengths;
  EXPECT_EQ(lengths.Expected(1), 0);
  lengths.Note(1, 10);
  lengths.Note(1, 20);
  lengths.Note(2, 90);
  EXPECT_EQ(lengths.Expected(1), 15);
  EXPECT_EQ(lengths.Expected(2), 90);
  EXPECT_EQ(lengths.Expected(3), 40);
}

TEST(PromptLengthsTest, OldResponsesCountLess) {
  PromptLengths lengths;
  for (int i = 0; i < 1000; ++i) lengths.Note(1, 100);
  for (int i = 0; i < 100; ++i) lengths.Note(1, 10);
  EXPECT_LT(lengths.Expected(1), 15);
  EXPECT_GE(lengths.Expected(1), 10);
}

TEST(PromptLengthsTest, RemembersABoundedNumberOfPrompts) {
  PromptLengths lengths(/*most=*/2);
  lengths.Note(1, 10);
  lengths.Note(2, 20);
  lengths.Note(2, 20);
  EXPECT_EQ(lengths.Expected(1), 10);
  lengths.Note(3, 30);
  EXPECT_EQ(lengths.Expected(3), 30);
  EXPECT_EQ(lengths.Expected(1), 20) << "forgotten: the mean of all";
}

}  // namespace
}  // namespace baton::controller
