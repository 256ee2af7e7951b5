#include "workers/scoring/critic_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::scoring {
namespace {

using ::testing::HasSubstr;

v1::Update ValueUpdate() {
  v1::Update update;
  update.set_loss("value");
  return update;
}

TEST(CriticOptions, TheCriticLearnsAsTheActorUnlessToldOtherwise) {
  v1::JobSpec spec;
  spec.mutable_actor()->set_lr(1e-6);
  spec.mutable_actor()->set_grad_clip(0.5);
  spec.mutable_critic()->mutable_train()->set_lr(1e-5);
  EXPECT_EQ(SpecOfCritic(spec).actor().lr(), 1e-5);
  EXPECT_EQ(SpecOfCritic(spec).actor().grad_clip(), 0.5);
}

TEST(CriticOptions, EachCriticHasASectionOfItsOwn) {
  v1::JobSpec spec;
  spec.mutable_actor()->set_lr(1e-6);
  spec.mutable_critic()->mutable_train()->set_lr(1e-5);
  spec.mutable_critic()->mutable_model()->set_path("/rewards");
  EXPECT_EQ(SpecOfCritic(spec, "cost_critic").actor().lr(), 1e-6);
  EXPECT_FALSE(SpecOfCritic(spec, "cost_critic").critic().has_model());
  spec.mutable_cost_critic()->mutable_train()->set_lr(3e-5);
  spec.mutable_cost_critic()->set_cliprange_value(0.1);
  const v1::JobSpec cost = SpecOfCritic(spec, "cost_critic");
  EXPECT_EQ(cost.actor().lr(), 3e-5);
  EXPECT_EQ(MakeValueLossSpec(cost, ValueUpdate())->cliprange_value, 0.1);
  EXPECT_EQ(SpecOfCritic(spec).actor().lr(), 1e-5);
}

TEST(CriticOptions, TheLossTakesItsNumbersFromTheSpecThenFromTheNode) {
  v1::JobSpec spec;
  EXPECT_EQ(MakeValueLossSpec(spec, ValueUpdate())->cliprange_value, 0.5);
  EXPECT_EQ(MakeValueLossSpec(spec, ValueUpdate())->loss_agg_mode, "token-mean");
  spec.mutable_critic()->set_cliprange_value(0.2);
  spec.mutable_algorithm()->set_loss_agg_mode("seq-mean-token-mean");
  EXPECT_EQ(MakeValueLossSpec(spec, ValueUpdate())->cliprange_value, 0.2);
  EXPECT_EQ(MakeValueLossSpec(spec, ValueUpdate())->loss_agg_mode, "seq-mean-token-mean");
  v1::Update update = ValueUpdate();
  auto& options = *update.mutable_options()->mutable_fields();
  options["cliprange_value"].set_number_value(0);
  options["loss_agg_mode"].set_string_value("token-mean");
  EXPECT_EQ(MakeValueLossSpec(spec, update)->cliprange_value, 0);
  EXPECT_EQ(MakeValueLossSpec(spec, update)->loss_agg_mode, "token-mean");
}

TEST(CriticOptions, NamesWhatItDoesNotKnow) {
  v1::Update update = ValueUpdate();
  auto& options = *update.mutable_options()->mutable_fields();
  const auto message = [&] {
    return std::string(MakeValueLossSpec(v1::JobSpec(), update).status().message());
  };
  options["clip"].set_number_value(1);
  EXPECT_THAT(message(), HasSubstr("update option clip"));
  options.clear();
  options["cliprange_value"].set_string_value("1");
  EXPECT_THAT(message(), HasSubstr("cliprange_value: expected a number"));
  options["cliprange_value"].set_number_value(-1);
  EXPECT_THAT(message(), HasSubstr("cliprange_value: -1"));
  options.clear();
  update.set_loss("ppo_clip");
  EXPECT_THAT(message(), HasSubstr("unknown loss \"ppo_clip\""));
}

}  // namespace
}  // namespace baton::scoring
