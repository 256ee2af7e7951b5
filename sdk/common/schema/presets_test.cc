#include "sdk/common/schema/presets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/schema/estimator_options.h"
#include "sdk/common/schema/loss_options.h"

namespace baton {
namespace {

TEST(RecipesTest, NameEstimatorsLossesAndOptionsThatThereAre) {
  for (const Recipe& recipe : Recipes()) {
    EXPECT_EQ(FindRecipe(recipe.name), &recipe);
    EXPECT_FALSE(recipe.summary.empty()) << recipe.name;
    if (recipe.kind != PresetKind::kRl) continue;
    std::vector<OptionProblem> problems;
    ASSERT_TRUE(EstimatorOf(recipe.estimator)) << recipe.name;
    ReadEstimator(*EstimatorOf(recipe.estimator), recipe.advantage, problems);
    ASSERT_TRUE(LossOf(recipe.loss)) << recipe.name;
    ReadLoss(*LossOf(recipe.loss), recipe.policy, problems);
    EXPECT_TRUE(problems.empty()) << recipe.name << ": " << ToStatus(problems);
  }
  EXPECT_EQ(FindRecipe("a2c"), nullptr);
  EXPECT_NE(FindRecipe(kDefaultRlPreset), nullptr);
}

}  // namespace
}  // namespace baton
