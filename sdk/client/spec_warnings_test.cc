#include "sdk/client/spec_warnings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/client/spec_writer.h"
#include "sdk/client/spec_yaml.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->set_train_batch_size(6);
  spec.mutable_rollout()->set_n(8);
  return spec;
}

TEST(SpecWarningsTest, WarnsOfAMiniBatchThatDoesNotDivideTheStep) {
  v1::JobSpec spec = Spec();
  for (const int whole : {0, 1, 16, 48}) {
    spec.mutable_actor()->set_ppo_mini_batch_size(whole);
    EXPECT_THAT(SpecWarnings(spec, {}), IsEmpty()) << whole;
  }
  spec.mutable_actor()->set_ppo_mini_batch_size(32);
  EXPECT_THAT(SpecWarnings(spec, {}),
              ElementsAre(AllOf(HasSubstr("actor.ppo_mini_batch_size: 32 sequences"),
                                HasSubstr("the 48 of a step"), HasSubstr("learns from 16"),
                                HasSubstr("verl counts prompts, so what is 32 there is 256"))));
  spec.mutable_actor()->set_ppo_mini_batch_size(256);
  EXPECT_THAT(SpecWarnings(spec, {}), ElementsAre(HasSubstr("each step makes one update")));
  spec.mutable_actor()->clear_ppo_mini_batch_size();
  spec.mutable_critic()->mutable_train()->set_ppo_mini_batch_size(5);
  EXPECT_THAT(SpecWarnings(spec, {}), ElementsAre(HasSubstr("critic.train.ppo_mini_batch_size")));

  v1::JobSpec sft = Spec();  // no responses are sampled
  sft.set_kind(v1::JOB_KIND_SFT);
  sft.mutable_actor()->set_ppo_mini_batch_size(4);
  EXPECT_THAT(SpecWarnings(sft, {}), ElementsAre(HasSubstr("do not divide the 6 of a step")));
}

TEST(SpecWarningsTest, WarnsOfAKlTermWithoutAGradient) {
  v1::JobSpec spec = Spec();
  v1::Dataflow graph;
  v1::UpdateNode* actor = graph.add_update();
  actor->set_role("actor");
  auto& options = *actor->mutable_options()->mutable_fields();
  options["use_kl_loss"].set_bool_value(true);
  for (const char* type : {"k1", "kl"}) {
    options["kl_loss_type"].set_string_value(type);
    EXPECT_THAT(SpecWarnings(spec, graph),
                ElementsAre(AllOf(HasSubstr("algorithm.kl_loss_type: "),
                                  HasSubstr("zero in expectation"), HasSubstr("k1+"))));
  }
  for (const char* type : {"k2", "k3", "k1+", "k3+", "mse", "low_var_kl", "abs"}) {
    options["kl_loss_type"].set_string_value(type);
    EXPECT_THAT(SpecWarnings(spec, graph), IsEmpty()) << type;
  }
  options["kl_loss_type"].set_string_value("k1");
  options["use_kl_loss"].set_bool_value(false);
  EXPECT_THAT(SpecWarnings(spec, graph), IsEmpty());
  // A graph of the user's own may leave it to spec.algorithm.
  options.clear();
  spec.mutable_algorithm()->set_use_kl_loss(true);
  spec.mutable_algorithm()->set_kl_loss_type("k1");
  *spec.mutable_dataflow() = graph;
  EXPECT_THAT(SpecWarnings(spec, graph),
              ElementsAre(HasSubstr("dataflow.update[0].options.kl_loss_type")));
}

TEST(SpecWarningsTest, UnitsAreCommentsOfTheSameSpec) {
  v1::JobSpec spec = Spec();
  spec.mutable_actor()->set_ppo_mini_batch_size(32);
  const std::string yaml = SpecToYaml(spec), with_units = WithUnits(yaml);
  EXPECT_THAT(with_units, HasSubstr("ppo_mini_batch_size: 32  # sequences (verl counts prompts)"));
  EXPECT_EQ(SpecToYaml(ParseSpecYaml(with_units, {}).spec), yaml);
  EXPECT_EQ(WithUnits("a: 1\nb: 2\n"), "a: 1\nb: 2\n");
}

}  // namespace
}  // namespace baton
