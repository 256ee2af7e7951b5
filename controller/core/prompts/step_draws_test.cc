#include "controller/core/prompts/step_draws.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(StepDrawsTest, WhatComesNextIsWhatNoStepHasMade) {
  StepDraws draws;
  EXPECT_EQ(draws.upcoming(), 0u);
  draws.BeginEvaluation(7);
  draws.Made();
  EXPECT_EQ(draws.upcoming(), 0u) << "an evaluation draws its own prompts";
  draws.Stop();
  draws.BeginStep(3);
  for (int i = 0; i < 3; ++i) draws.Made();
  EXPECT_EQ(draws.upcoming(), 3u);
  draws.AddRound(2);
  draws.Made();
  EXPECT_EQ(draws.upcoming(), 4u);
  draws.Stop();
  draws.Consume();
  draws.BeginEvaluation(7);
  for (int i = 0; i < 7; ++i) draws.Made();
  EXPECT_EQ(draws.upcoming(), 4u);
  draws.BeginStep(3);
  EXPECT_EQ(draws.upcoming(), 4u);
  draws.Made();
  draws.RollBack(2);
  EXPECT_EQ(draws.upcoming(), 2u);
}

}  // namespace
}  // namespace baton::controller
