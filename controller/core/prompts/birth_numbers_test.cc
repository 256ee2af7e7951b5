#include "controller/core/prompts/birth_numbers.h"

#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

const absl::Time kStepBegins = absl::FromUnixSeconds(1000);

BirthNumbers Restarted(const BirthNumbers& numbers) {
  store::v1::JobRow row;
  numbers.Save(&row);
  BirthNumbers again;
  again.Restore(row);
  return again;
}

TEST(BirthNumbersTest, EachWorkFollowsTheOneBefore) {
  EffectSink out = SinkAt(kStepBegins);
  BirthNumbers numbers;
  numbers.Begin(/*evaluates=*/true, out);
  numbers.Take(3, out);
  EXPECT_EQ(numbers.At(0), 1u);
  numbers.Begin(/*evaluates=*/false, out);
  numbers.Take(4, out);
  EXPECT_EQ(numbers.At(0), 4u);
  numbers.Take(6, out);  // one more round of the same step
  EXPECT_EQ(numbers.At(5), 9u);
  out.StepDone();
  numbers.Begin(/*evaluates=*/false, out);
  EXPECT_EQ(numbers.At(0), 10u);
}

// The row is put before a task with the number leaves, and is not put for nothing.
TEST(BirthNumbersTest, WhatIsTakenIsStored) {
  EffectSink out = SinkAt(kStepBegins);
  BirthNumbers numbers;
  numbers.Begin(/*evaluates=*/false, out);
  numbers.Take(4, out);
  EXPECT_EQ(TakeAll<PutJob>(out).size(), 1u);
  numbers.Take(4, out);
  EXPECT_EQ(TakeAll<PutJob>(out).size(), 0u);
}

TEST(BirthNumbersTest, ARestartGivesTheSameWorkTheSameNumbers) {
  EffectSink out = SinkAt(kStepBegins);
  BirthNumbers numbers;
  numbers.Begin(/*evaluates=*/false, out);
  numbers.Take(8, out);
  BirthNumbers again = Restarted(numbers);
  EXPECT_TRUE(again.Has(8, out)) << "before the work is begun again";
  EXPECT_FALSE(again.Has(9, out));
  EXPECT_FALSE(again.Has(0, out));
  again.Begin(/*evaluates=*/false, out);
  again.Take(8, out);
  EXPECT_EQ(again.At(7), numbers.At(7));
  again.Begin(/*evaluates=*/true, out);
  EXPECT_EQ(again.At(0), 9u) << "other work";
}

TEST(BirthNumbersTest, ADrawThatIsBegunAnewIsNamedAnew) {
  EffectSink out = SinkAt(kStepBegins);
  BirthNumbers numbers;
  numbers.Begin(/*evaluates=*/false, out);
  numbers.Take(8, out);
  out.RollBack(0);
  EXPECT_FALSE(numbers.Has(1, out));
  // The controller dies with it, before the step is begun again.
  BirthNumbers again = Restarted(numbers);
  again.Begin(/*evaluates=*/false, out);
  again.Take(8, out);
  EXPECT_EQ(again.At(0), 9u);
  EXPECT_FALSE(again.Has(8, out));
  EXPECT_TRUE(again.Has(9, out));
}

// Work that one controller begins twice has other trajectories the second time: their attempts
// begin anew, so a result of the first ones must not be taken for theirs.
TEST(BirthNumbersTest, OneControllerNamesNoWorkTwice) {
  EffectSink out = SinkAt(kStepBegins);
  BirthNumbers numbers;
  numbers.Begin(/*evaluates=*/false, out);
  numbers.Take(8, out);
  numbers.Begin(/*evaluates=*/false, out);
  numbers.Take(8, out);
  EXPECT_EQ(numbers.At(0), 9u);
  BirthNumbers again = Restarted(numbers);
  again.Begin(/*evaluates=*/false, out);
  again.Take(8, out);
  EXPECT_EQ(again.At(0), 9u) << "restored";
  again.Begin(/*evaluates=*/false, out);
  EXPECT_EQ(again.At(0), 17u) << "restored once";
}

TEST(BirthNumbersTest, AFirstRowHasGivenNone) {
  EffectSink out = SinkAt(kStepBegins);
  BirthNumbers numbers;
  numbers.Restore(store::v1::JobRow());
  EXPECT_FALSE(numbers.Has(0, out));
  numbers.Begin(/*evaluates=*/false, out);
  EXPECT_EQ(numbers.At(0), 1u);
}

}  // namespace
}  // namespace baton::controller
