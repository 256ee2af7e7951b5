#include "controller/spec/job_spec/presets.h"

#include <algorithm>
#include <set>
#include <string>

#include "controller/spec/dataflow/check_dataflow.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::JobSpec SpecOf(const std::string& preset) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->set_path("/model");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_trainer()->set_total_training_steps(10);
  spec.mutable_algorithm()->set_preset(preset);
  if (preset == "safe_rlhf") spec.mutable_cost_model()->mutable_model()->set_path("/cost");
  if (preset == "fapo") {
    spec.mutable_judge()->set_template_("Is {response} right for {answer}?");
    spec.mutable_judge()->set_verdict("(yes|no)");
  }
  return spec;
}

std::set<std::string> RolesOf(const std::string& preset) {
  const CheckedSpec checked = CheckSpec(SpecOf(preset));
  std::set<std::string> roles;
  for (const auto& [role, count] : WorkersOf(checked.effective, checked.dataflow)) {
    roles.insert(role);
  }
  return roles;
}

TEST(PresetsTest, EveryAlgorithmHasItsName) {
  EXPECT_THAT(PresetsOf(v1::JOB_KIND_RL),
              UnorderedElementsAre("ppo", "grpo", "dr_grpo", "dapo", "rloo", "reinforce_plus_plus",
                                   "reinforce_plus_plus_baseline", "remax", "gspo", "cispo",
                                   "safe_rlhf", "vapo", "fapo"));
  EXPECT_THAT(PresetsOf(v1::JOB_KIND_SFT), ElementsAre("sft"));
  EXPECT_THAT(PresetsOf(v1::JOB_KIND_REWARD_MODEL), ElementsAre("reward_model"));
  EXPECT_EQ(DefaultPreset(v1::JOB_KIND_RL), "grpo");
  for (const Preset& preset : Presets()) EXPECT_FALSE(preset.summary.empty()) << preset.name;
}

TEST(PresetsTest, EveryPresetIsAValidSpecAndStaysTheSameWhenFilled) {
  for (const std::string& preset : PresetsOf(v1::JOB_KIND_RL)) {
    const CheckedSpec checked = CheckSpec(SpecOf(preset));
    for (const auto& v : checked.violations) {
      ADD_FAILURE() << preset << ": " << v.field() << ": " << v.description();
    }
    // The filled-in spec, checked again, gives the same.
    const CheckedSpec again = CheckSpec(checked.effective);
    EXPECT_THAT(again.violations, IsEmpty()) << preset;
    EXPECT_TRUE(
        google::protobuf::util::MessageDifferencer::Equals(again.dataflow, checked.dataflow))
        << preset;
    // So does a spec with only the graph.
    v1::JobSpec own = checked.effective;
    *own.mutable_dataflow() = checked.dataflow;
    EXPECT_THAT(CheckSpec(own).violations, IsEmpty()) << preset;
  }
}

TEST(PresetsTest, EachPresetBringsTheRolesItNeeds) {
  const std::set<std::string> plain = {"actor", "rollout", "reward"};
  for (const char* preset :
       {"grpo", "dr_grpo", "dapo", "reinforce_plus_plus_baseline", "remax", "gspo", "cispo"}) {
    EXPECT_EQ(RolesOf(preset), plain) << preset;
  }
  EXPECT_THAT(RolesOf("ppo"),
              UnorderedElementsAre("actor", "rollout", "reward", "critic", "reference"));
  EXPECT_THAT(RolesOf("rloo"), UnorderedElementsAre("actor", "rollout", "reward", "reference"));
  EXPECT_THAT(RolesOf("vapo"), UnorderedElementsAre("actor", "rollout", "reward", "critic"));
  EXPECT_THAT(RolesOf("safe_rlhf"),
              UnorderedElementsAre("actor", "rollout", "reward", "critic", "reference", "cost"));
}

TEST(PresetsTest, ACriticOfCostsReplacesTheEstimatorOfCosts) {
  v1::JobSpec spec = SpecOf("safe_rlhf");
  const auto estimator = [](const CheckedSpec& checked) {
    return checked.dataflow.advantage().options().fields().at("cost_estimator").string_value();
  };
  EXPECT_EQ(estimator(CheckSpec(spec)), "reinforce_plus_plus");
  spec.mutable_algorithm()->set_cost_critic(true);
  spec.mutable_cost_critic()->mutable_train()->set_lr(3e-5);
  spec.mutable_cost_critic()->mutable_train()->mutable_parallel()->set_dp(2);
  spec.mutable_cost_critic()->set_cliprange_value(0.25);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  EXPECT_EQ(estimator(checked), "gae");
  const v1::Dataflow& graph = checked.dataflow;
  const v1::ScoreNode& values = graph.score(graph.score_size() - 1);
  EXPECT_EQ(values.role() + "." + values.method() + " " + values.out(),
            "cost_critic.compute_values cost_values");
  ASSERT_EQ(graph.update_size(), 3);
  EXPECT_EQ(graph.update(2).role() + " " + graph.update(2).loss(), "cost_critic value");
  EXPECT_EQ(graph.update(2).options().fields().at("cliprange_value").number_value(), 0.25);
  EXPECT_EQ(graph.update(1).options().fields().at("cliprange_value").number_value(), 0.5);
  EXPECT_EQ(WorkersOf(checked.effective, graph).at("cost_critic"), 2);
  EXPECT_EQ(WorkersOf(checked.effective, graph).at("critic"), 1);
  EXPECT_EQ(checked.effective.cost_critic().train().lr(), 3e-5);
  EXPECT_EQ(checked.effective.cost_critic().train().beta1(), 0.9);
  EXPECT_EQ(checked.effective.cost_critic().model().path(), "/model") << "as the other critic";
  // The filled-in spec, checked again, gives the same.
  const CheckedSpec again = CheckSpec(checked.effective);
  EXPECT_THAT(again.violations, IsEmpty());
  EXPECT_EQ(again.dataflow.DebugString(), graph.DebugString());
}

TEST(PresetsTest, EveryPresetCanRecomputeLogProbs) {
  for (const std::string& preset : PresetsOf(v1::JOB_KIND_RL)) {
    v1::JobSpec spec = SpecOf(preset);
    const int before = CheckSpec(spec).dataflow.score_size();
    spec.mutable_algorithm()->set_recompute_log_prob(true);
    (*spec.mutable_algorithm()->mutable_loss()->mutable_fields())["rollout_is"].set_string_value(
        "token");  // which needs both
    const CheckedSpec checked = CheckSpec(spec);
    EXPECT_THAT(checked.violations, IsEmpty()) << preset;
    ASSERT_EQ(checked.dataflow.score_size(), before + 1) << preset;
    const auto node = std::find_if(checked.dataflow.score().begin(), checked.dataflow.score().end(),
                                   [](const auto& n) { return n.out() == "old_log_prob"; });
    ASSERT_NE(node, checked.dataflow.score().end()) << preset;
    EXPECT_EQ(node->role() + "." + node->method(), "actor.compute_log_prob");
    EXPECT_THAT(ForeignRoles(checked.dataflow), IsEmpty()) << preset;
    EXPECT_EQ(WorkersOf(checked.effective, checked.dataflow).at("actor"), 1) << preset;
  }
}

TEST(PresetsTest, TheScaleOfALossDoesNotDependOnTheBatch) {
  const auto scale = [](const CheckedSpec& checked, int update) {
    const auto& options = checked.dataflow.update(update).options().fields();
    const auto found = options.find("loss_scale_factor");
    return found == options.end() ? -1 : found->second.number_value();
  };
  v1::JobSpec spec = SpecOf("dr_grpo");
  EXPECT_EQ(scale(CheckSpec(spec), 0), 1024);  // the default of data.max_response_length
  spec.mutable_data()->set_max_response_length(300);
  EXPECT_EQ(scale(CheckSpec(spec), 0), 300);
  (*spec.mutable_algorithm()->mutable_loss()->mutable_fields())["loss_scale_factor"]
      .set_number_value(7);
  EXPECT_EQ(scale(CheckSpec(spec), 0), 7);

  EXPECT_EQ(scale(CheckSpec(SpecOf("grpo")), 0), -1);
  v1::JobSpec ppo = SpecOf("ppo");
  ppo.mutable_algorithm()->set_loss_agg_mode("seq-mean-token-sum-norm");
  EXPECT_EQ(scale(CheckSpec(ppo), 0), 1024);
  EXPECT_EQ(scale(CheckSpec(ppo), 1), 1024) << "the critic's";

  v1::JobSpec own = SpecOf("grpo");
  *own.mutable_dataflow() = CheckSpec(own).dataflow;
  v1::UpdateNode* actor = own.mutable_dataflow()->mutable_update(0);
  (*actor->mutable_options()->mutable_fields())["loss_agg_mode"].set_string_value(
      "seq-mean-token-sum-norm");
  EXPECT_EQ(scale(CheckSpec(own), 0), 1024);
}

TEST(PresetsTest, AUsersValueStandsAboveThePresets) {
  v1::JobSpec spec = SpecOf("vapo");
  spec.mutable_algorithm()->set_critic_warmup(3);
  spec.mutable_algorithm()->set_clip_ratio_high(0.5);
  (*spec.mutable_algorithm()->mutable_advantage()->mutable_fields())["adaptive_lam_alpha"]
      .set_number_value(0.1);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  EXPECT_EQ(checked.effective.algorithm().critic_warmup(), 3);
  const auto& advantage = checked.dataflow.advantage().options().fields();
  EXPECT_EQ(advantage.at("adaptive_lam_alpha").number_value(), 0.1);
  EXPECT_EQ(advantage.at("critic_lam").number_value(), 1);
  const auto& actor = checked.dataflow.update(0).options().fields();
  EXPECT_EQ(actor.at("clip_ratio_high").number_value(), 0.5);
  EXPECT_EQ(actor.at("positive_nll_coef").number_value(), 0.1);
}

TEST(PresetsTest, ALearnedRewardStandsAloneOrBesideOthers) {
  v1::JobSpec spec = SpecOf("rloo");
  spec.mutable_reward_model()->mutable_model()->set_path("/rm");
  spec.mutable_reward_model()->set_weight(0.25);
  const CheckedSpec both = CheckSpec(spec);
  EXPECT_THAT(both.violations, IsEmpty());
  EXPECT_EQ(both.dataflow.advantage().rewards().at("rule_reward"), 1);
  EXPECT_EQ(both.dataflow.advantage().rewards().at("model_reward"), 0.25);
  spec.clear_reward();
  const CheckedSpec alone = CheckSpec(spec);
  EXPECT_THAT(alone.violations, IsEmpty());
  ASSERT_GE(alone.dataflow.score_size(), 1);
  EXPECT_EQ(alone.dataflow.score(0).role(), "reward_model");
  EXPECT_EQ(alone.dataflow.score(0).out(), "reward");
}

double NumberOf(const v1::UpdateNode& node, const std::string& option) {
  const auto& options = node.options().fields();
  return options.count(option) > 0 ? options.at(option).number_value() : -1;
}

// Workers do not read the rest of the spec, so the graph that they get must be complete.
TEST(PresetsTest, AGraphOfTheUsersOwnIsCompletedFromTheSpec) {
  v1::JobSpec spec = SpecOf("ppo");
  spec.mutable_rollout()->set_temperature(0.7);
  spec.mutable_critic()->set_cliprange_value(0.3);
  spec.mutable_algorithm()->set_entropy_coeff(0.01);
  *spec.mutable_dataflow() = CheckSpec(spec).dataflow;
  for (v1::UpdateNode& node : *spec.mutable_dataflow()->mutable_update()) node.clear_options();
  auto& own = *spec.mutable_dataflow()->mutable_update(0)->mutable_options()->mutable_fields();
  own["clip_ratio_low"].set_number_value(0.1);
  const CheckedSpec checked = CheckSpec(spec);
  ASSERT_THAT(checked.violations, IsEmpty());
  const v1::UpdateNode& actor = checked.dataflow.update(0);
  EXPECT_EQ(NumberOf(actor, "clip_ratio_low"), 0.1) << "the node's own stands above the spec's";
  EXPECT_EQ(NumberOf(actor, "clip_ratio_high"), 0.2);
  EXPECT_EQ(NumberOf(actor, "entropy_coeff"), 0.01);
  EXPECT_EQ(NumberOf(actor, "temperature"), 0.7);
  const v1::UpdateNode& critic = checked.dataflow.update(1);
  ASSERT_EQ(critic.role(), "critic");
  EXPECT_EQ(NumberOf(critic, "cliprange_value"), 0.3);
  EXPECT_EQ(critic.options().fields().at("loss_agg_mode").string_value(), "token-mean");
  EXPECT_EQ(critic.options().fields().count("entropy_coeff"), 0u) << "no option of loss value";
}

}  // namespace
}  // namespace baton::controller
