#include "controller/spec/dataflow/role_needs.h"

#include "controller/spec/dataflow/check_dataflow.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/contracts/worker_features.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RoleNeeds NeedsOfValid(const v1::JobSpec& spec,
                       const std::vector<std::string>& model_features = {}) {
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty()) << checked.violations[0].DebugString();
  return RoleNeedsOf(checked.effective, checked.dataflow,
                     {model_features.begin(), model_features.end()});
}

v1::JobSpec SpecWithARule() {
  v1::JobSpec spec = ExampleSpec("grpo");
  spec.clear_dataflow();
  return spec;
}

v1::Hello SupportOf(const std::string& role, const std::vector<std::string>& methods,
                    const std::vector<std::string>& features = {}) {
  v1::Hello hello;
  for (const std::string& name : methods) {
    hello.add_methods()->set_role(role);
    hello.mutable_methods()->rbegin()->set_method(name);
  }
  for (const std::string& feature : features) hello.add_features(feature);
  return hello;
}

TEST(RoleNeedsTest, NamesWhatTheJobCallsInEachRole) {
  RoleNeeds needs = NeedsOfValid(SpecWithARule());
  EXPECT_THAT(needs.at("actor").methods, ElementsAre("publish", "save_checkpoint", "update"));
  EXPECT_THAT(needs.at("rollout").methods, ElementsAre("generate", "load_weights"));
  EXPECT_THAT(needs.at("reward").methods, ElementsAre("compute_reward"));
  EXPECT_EQ(needs.size(), 3u);

  v1::JobSpec ppo = SpecWithARule();
  ppo.mutable_algorithm()->set_preset("ppo");
  ppo.mutable_algorithm()->set_recompute_log_prob(true);
  needs = NeedsOfValid(ppo);
  EXPECT_THAT(needs.at("critic").methods,
              ElementsAre("compute_values", "save_checkpoint", "update"));
  EXPECT_THAT(needs.at("critic").scores, ElementsAre("compute_values"));
  EXPECT_THAT(needs.at("actor").scores, ElementsAre("compute_log_prob"));
  EXPECT_THAT(needs.at("reference").methods, ElementsAre("compute_log_prob"));
}

TEST(RoleNeedsTest, AnActorOfAnEvaluationOnlyPublishes) {
  v1::JobSpec spec = SpecWithARule();
  spec.mutable_data()->add_val_files("val.jsonl");
  spec.mutable_trainer()->set_val_only(true);
  spec.mutable_actor()->set_weight_decay(0.1);
  const RoleNeeds needs = NeedsOfValid(spec);
  EXPECT_THAT(needs.at("actor").methods, ElementsAre("publish"));
  EXPECT_EQ(needs.at("actor").features.count(kUndecayedNormsFeature), 0u);
}

TEST(RoleNeedsTest, SftNeedsATrainerAlone) {
  v1::JobSpec spec = ExampleSpec("sft");
  const RoleNeeds needs = NeedsOfValid(spec);
  ASSERT_EQ(needs.size(), 1u);
  EXPECT_THAT(needs.at("actor").methods, ElementsAre("save_checkpoint", "update"));
}

TEST(RoleNeedsTest, AHybridActorGathersAndItsRolloutLoadsNothing) {
  v1::JobSpec spec = SpecWithARule();
  AddPool(&spec, {"actor", "rollout"});
  const RoleNeeds needs = NeedsOfValid(spec);
  EXPECT_THAT(needs.at("actor").methods, ElementsAre("save_checkpoint", "to_generation", "update"));
  EXPECT_THAT(needs.at("rollout").methods, ElementsAre("generate"));
}

TEST(RoleNeedsTest, NamesRewardRulesCommandsAndMethodsAsNeeds) {
  v1::JobSpec spec = SpecWithARule();
  EXPECT_THAT(NeedsOfValid(spec).at("reward").features, ElementsAre("reward_rules"));
  spec.mutable_reward()->set_command("python3 reward.py");
  EXPECT_THAT(NeedsOfValid(spec).at("reward").features,
              ElementsAre("reward_command", "reward_rules"));
  spec.mutable_reward()->clear_rules();
  EXPECT_THAT(NeedsOfValid(spec).at("reward").features, ElementsAre("reward_command"));
  spec.mutable_reward()->Clear();
  spec.mutable_reward()->set_method("compute_brevity");
  const RoleNeed need = NeedsOfValid(spec).at("reward");
  EXPECT_THAT(need.methods, ElementsAre("compute_brevity"));
  EXPECT_THAT(need.features, IsEmpty());
}

// A worker of a user's own may not know the templates of models, or the evaluation of kind sft.
TEST(RoleNeedsTest, TemplatesOfModelsAndEvaluationsOfSftAreFeatures) {
  v1::JobSpec spec = SpecWithARule();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_actor()->set_weight_decay(0);
  RoleNeeds needs = NeedsOfValid(spec);
  for (const char* role : {"actor", "rollout", "critic", "reference"}) {
    EXPECT_THAT(needs.at(role).features, ElementsAre("chat_templates")) << role;
  }
  EXPECT_THAT(needs.at("reward").features, ElementsAre("reward_rules"));
  for (const char* known : {"none", "chatml", "llama3"}) {  // to every worker
    spec.mutable_model()->set_chat_template(known);
    EXPECT_THAT(NeedsOfValid(spec).at("rollout").features, IsEmpty()) << known;
  }
  spec.mutable_reference()->mutable_model()->set_path("job:other");
  spec.mutable_reference()->mutable_model()->set_chat_template("model");
  EXPECT_THAT(NeedsOfValid(spec).at("reference").features, ElementsAre("chat_templates"));

  v1::JobSpec sft = ExampleSpec("sft");
  sft.mutable_actor()->set_weight_decay(0);
  EXPECT_THAT(NeedsOfValid(sft).at("actor").features, ElementsAre("chat_templates"));
  sft.mutable_data()->add_val_files("held_out.jsonl");
  EXPECT_THAT(NeedsOfValid(sft).at("actor").features,
              ElementsAre("chat_templates", "sft_evaluation"));
  sft.mutable_model()->set_chat_template("none");
  EXPECT_THAT(NeedsOfValid(sft).at("actor").features, ElementsAre("sft_evaluation"));
}

TEST(RoleNeedsTest, SettingsOfTemplatesAreAFeature) {
  const auto features = [](const v1::JobSpec& spec, const char* role) {
    return NeedsOfValid(spec).at(role).features;
  };
  v1::JobSpec spec = SpecWithARule();
  spec.mutable_actor()->set_weight_decay(0);
  v1::JobSpec dated = spec, given = spec, judged = spec;
  dated.mutable_model()->set_chat_template_date("2026-02-03");
  (*given.mutable_model()->mutable_chat_template_kwargs()->mutable_fields())["a"].set_bool_value(
      true);
  judged.mutable_reward()->set_with_prompt_suffix(true);
  for (const v1::JobSpec& job : {dated, given, judged}) {
    EXPECT_THAT(features(job, "rollout"), ElementsAre("chat_settings", "chat_templates"));
    EXPECT_THAT(features(job, "reward"), ElementsAre("reward_rules"));
  }
  EXPECT_THAT(features(spec, "rollout"), ElementsAre("chat_templates"));
  v1::JobSpec sft = ExampleSpec("sft");
  sft.mutable_actor()->set_weight_decay(0);
  sft.mutable_data()->set_loss_on("all_assistant");
  EXPECT_THAT(features(sft, "actor"), ElementsAre("chat_settings", "chat_templates"));
}

// With any template, because not every worker loads the model.
TEST(RoleNeedsTest, RolesThatLoadTheModelNeedItsFeatures) {
  v1::JobSpec spec = SpecWithARule();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_model()->set_chat_template("none");
  spec.mutable_actor()->set_weight_decay(0);
  const RoleNeeds needs = NeedsOfValid(spec, {"model_qwen3"});
  for (const char* role : {"actor", "rollout", "critic", "reference"}) {
    EXPECT_THAT(needs.at(role).features, ElementsAre("model_qwen3")) << role;
  }
  EXPECT_THAT(needs.at("reward").features, ElementsAre("reward_rules"));
}

// A worker of a user's own may decay norms and biases.
TEST(RoleNeedsTest, ADecayOfMatricesAloneIsAFeature) {
  v1::JobSpec spec = SpecWithARule();
  spec.mutable_model()->set_chat_template("none");
  spec.mutable_algorithm()->set_preset("ppo");
  for (const char* role : {"actor", "critic"}) {
    EXPECT_THAT(NeedsOfValid(spec).at(role).features, ElementsAre("undecayed_norms")) << role;
  }
  EXPECT_THAT(NeedsOfValid(spec).at("reference").features, IsEmpty());
  spec.mutable_critic()->mutable_train()->set_decay_norms_and_biases(true);
  EXPECT_THAT(NeedsOfValid(spec).at("critic").features, IsEmpty());
  spec.mutable_actor()->set_decay_norms_and_biases(true);
  EXPECT_THAT(NeedsOfValid(spec).at("actor").features, IsEmpty());
  spec.mutable_actor()->clear_decay_norms_and_biases();
  spec.mutable_actor()->set_weight_decay(0);
  EXPECT_THAT(NeedsOfValid(spec).at("actor").features, IsEmpty());

  const v1::JobSpec ppo = CheckSpec(ExampleSpec("ppo")).effective;
  const v1::Dataflow dataflow = CheckSpec(ExampleSpec("ppo")).dataflow;
  const MissingSupport missing = {"", "undecayed_norms"};
  EXPECT_EQ(FieldOfOffer(ppo, dataflow, "actor", missing), "spec.actor.decay_norms_and_biases");
  EXPECT_EQ(FieldOfOffer(ppo, dataflow, "critic", missing),
            "spec.critic.train.decay_norms_and_biases");
}

TEST(RoleNeedsTest, MissingIsTheFirstThingThatIsNotOffered) {
  const RoleNeed need = {{"compute_reward"}, {"compute_reward"}, {"reward_rules"}};
  const v1::Hello brevity = SupportOf("reward", {"compute_brevity"});
  const v1::Hello foreign = SupportOf("reward", {"assign_role", "compute_reward"});
  const v1::Hello own = SupportOf("reward", {"compute_reward"}, {"reward_rules"});
  EXPECT_EQ(MissingFrom(brevity, "reward", need).method, "compute_reward");
  EXPECT_EQ(MissingFrom(foreign, "reward", need).feature, "reward_rules");
  EXPECT_TRUE(MissingFrom(own, "reward", need).none());
  EXPECT_EQ(MissingFrom(own, "judge", need).method, "compute_reward");
}

TEST(RoleNeedsTest, OfferTextsAreSentences) {
  EXPECT_EQ(SupportText({"compute_brevity", ""}), "offers method compute_brevity");
  EXPECT_EQ(MissingSupportText({"compute_brevity", ""}, 2), "do not offer method compute_brevity");
  EXPECT_EQ(MissingSupportText({"", "reward_command"}, 1),
            "does not run the command of spec.reward");
  EXPECT_EQ(SupportText({"", "reward_rules"}), "computes the rules of spec.reward");
  EXPECT_EQ(SupportText({"", "tree_verify"}), "promises feature tree_verify");
  EXPECT_EQ(MissingSupportText({"", "chat_templates"}, 2), "do not read chat templates of models");
  EXPECT_EQ(MissingSupportText({"", "sft_evaluation"}, 1), "does not evaluate jobs of kind sft");
  EXPECT_EQ(MissingSupportText({"", "model_qwen3"}, 1), "does not load models of type qwen3");
  EXPECT_EQ(SupportText({"", "byte_fallback_tokenizers"}), "reads tokenizers with byte_fallback");
  EXPECT_THAT(MissingSupportRemedy("rollout", {"", "model_qwen3"}),
              HasSubstr("`baton-worker --roles rollout` of the same release"));
  EXPECT_EQ(MissingSupportText({"", "undecayed_norms"}, 1),
            "does not leave norms and biases undecayed");
  EXPECT_EQ(MissingSupportRemedy("actor", {"", "sft_evaluation"}),
            "start `baton-worker --roles actor` of the same release as the controller; a worker of "
            "your own promises feature sft_evaluation (docs/worker-protocol.md)");
}

}  // namespace
}  // namespace baton::controller
