#include "workers/trainer/critic_options.h"

#include "gtest/gtest.h"

namespace baton::trainer {
namespace {

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
  EXPECT_EQ(cost.critic().cliprange_value(), 0.1);
  EXPECT_EQ(SpecOfCritic(spec).actor().lr(), 1e-5);
}

}  // namespace
}  // namespace baton::trainer
