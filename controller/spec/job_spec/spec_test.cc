#include "controller/spec/job_spec/spec.h"

#include <set>
#include <utility>

#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/presets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/settings.h"

namespace baton::controller {
namespace {

v1::JobSpec Good() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_trainer()->set_total_training_steps(10);
  return spec;
}

std::set<std::string> Fields(const CheckedSpec& checked) {
  std::set<std::string> fields;
  for (const auto& violation : checked.violations) fields.insert(violation.field());
  return fields;
}

TEST(SpecTest, AGoodSpecGetsItsDefaultsAndItsGraph) {
  const CheckedSpec checked = CheckSpec(Good());
  EXPECT_THAT(Fields(checked), ::testing::IsEmpty());
  EXPECT_EQ(checked.effective.algorithm().preset(), "grpo");
  EXPECT_EQ(checked.effective.rollout().n(), 8);
  EXPECT_DOUBLE_EQ(checked.effective.algorithm().clip_ratio_high(), 0.28);
  EXPECT_EQ(checked.effective.model().init().intermediate_size(), 512);
  ASSERT_EQ(checked.dataflow.score_size(), 1);
  EXPECT_EQ(checked.dataflow.score(0).method(), "compute_reward");
  EXPECT_EQ(checked.dataflow.update(0).loss(), "ppo_clip");
  EXPECT_DOUBLE_EQ(
      checked.dataflow.update(0).options().fields().at("clip_ratio_low").number_value(), 0.2);
}

TEST(SpecTest, TakesTheKlNamesThatUsersKnow) {
  for (const char* type : {"k1", "k2", "k3", "kl", "abs", "mse", "low_var_kl", "k1+", "k3+"}) {
    v1::JobSpec spec = Good();
    spec.mutable_algorithm()->set_use_kl_loss(true);
    spec.mutable_algorithm()->set_kl_loss_type(type);
    EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty()) << type;
    EXPECT_EQ(
        CheckSpec(spec).dataflow.update(0).options().fields().at("kl_loss_type").string_value(),
        type);
  }
  v1::JobSpec spec = Good();
  spec.mutable_algorithm()->set_kl_loss_type("full");
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::UnorderedElementsAre("spec.algorithm.kl_loss_type"));
  auto& advantage = *spec.mutable_algorithm()->mutable_advantage()->mutable_fields();
  spec.mutable_algorithm()->clear_kl_loss_type();
  advantage["use_kl_in_reward"].set_bool_value(true);
  for (const char* type : {"kl", "abs", "mse", "low_var_kl"}) {
    advantage["kl_penalty"].set_string_value(type);
    EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty()) << type;
  }
  advantage["kl_penalty"].set_string_value("k1+");  // a reward has no gradient
  EXPECT_EQ(Fields(CheckSpec(spec)).size(), 1u);
}

// The actor's schedule begins when it begins to learn.
TEST(SpecTest, ADecayNeedsStepsAfterTheCriticsWarmUp) {
  v1::JobSpec spec = Good();
  spec.mutable_algorithm()->set_preset("vapo");
  spec.mutable_algorithm()->set_critic_warmup(6);
  spec.mutable_actor()->set_lr_schedule("linear");
  spec.mutable_actor()->set_lr_warmup_steps(3);
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
  spec.mutable_actor()->set_lr_warmup_steps(4);  // of 10 steps none is left to fall in
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::UnorderedElementsAre("spec.actor.lr_warmup_steps"));
}

TEST(SpecTest, AGivenZeroIsNotADefault) {
  v1::JobSpec spec = Good();
  spec.mutable_actor()->set_weight_decay(0);
  spec.mutable_data()->set_seed(0);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_EQ(checked.effective.actor().weight_decay(), 0);
  EXPECT_EQ(checked.effective.data().seed(), 0);
}

// The default of intermediate_size is computed from hidden_size, even if that is too large.
TEST(SpecTest, ReportsAnOversizedWidthOnce) {
  v1::JobSpec spec = Good();
  spec.mutable_model()->mutable_init()->set_hidden_size(0x7ffffff8);
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::UnorderedElementsAre("spec.model.init.hidden_size"));
  spec.mutable_model()->mutable_init()->set_hidden_size(1000);
  EXPECT_EQ(CheckSpec(spec).effective.model().init().intermediate_size(), 4000);
}

TEST(SpecTest, TextsToImitateGoWithALossThatLooksAtThem) {
  v1::JobSpec spec = Good();
  (*spec.mutable_algorithm()->mutable_loss()->mutable_fields())["ptx_coef"].set_number_value(0.5);
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.data.pretrain_files"));
  spec.mutable_data()->add_pretrain_files("texts.jsonl");
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(Fields(checked), ::testing::IsEmpty());
  EXPECT_EQ(checked.effective.data().pretrain_batch_size(), 32);
  spec.mutable_algorithm()->clear_loss();
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.data.pretrain_files"));
  spec.mutable_data()->clear_pretrain_files();
  spec.mutable_data()->set_pretrain_batch_size(4);
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.data.pretrain_batch_size"));
}

TEST(SpecTest, EveryRankHasAShareOfEachMiniBatch) {
  v1::JobSpec spec = Good();
  spec.mutable_actor()->mutable_parallel()->set_tp(2);
  spec.mutable_actor()->mutable_parallel()->set_dp(256);  // 32 prompts, 8 responses each
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
  spec.mutable_actor()->set_ppo_mini_batch_size(255);
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.actor.parallel.dp"));
  spec.mutable_actor()->mutable_parallel()->set_dp(2000);
  spec.mutable_data()->set_train_batch_size(0x7fffffff);
  EXPECT_EQ(Fields(CheckSpec(spec)).count("spec.actor.parallel.dp"), 1u);
}

// A critic's group is its own: it does not take the actor's shape on.
TEST(SpecTest, ACriticTakesTheActorsSettingsButNotItsRanks) {
  v1::JobSpec spec = Good();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_actor()->set_lr(3e-4);
  spec.mutable_actor()->mutable_parallel()->set_tp(2);
  spec.mutable_critic();
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(Fields(checked), ::testing::IsEmpty());
  EXPECT_EQ(checked.effective.critic().train().lr(), 3e-4);
  EXPECT_EQ(checked.effective.critic().train().parallel().tp(), 1);
  spec.mutable_critic()->mutable_train()->mutable_parallel()->set_tp(2);
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
}

TEST(SpecTest, RolesThatScoreHaveAShape) {
  v1::JobSpec spec = Good();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_reward_model()->mutable_model()->set_path("/reward");
  const auto shape_of = [&](const std::string& role) {
    const CheckedSpec checked = CheckSpec(spec);
    EXPECT_THAT(Fields(checked), ::testing::IsEmpty());
    EXPECT_EQ(checked.effective.resources().role_workers_size(), 0);
    const GroupShape shape = ShapeOf(checked.effective, role);
    EXPECT_EQ(WorkersOf(checked.effective, checked.dataflow).at(role), shape.tp * shape.dp);
    return std::make_pair(shape.tp, shape.dp);
  };
  EXPECT_EQ(shape_of("reference"), std::make_pair(1, 1));
  (*spec.mutable_resources()->mutable_role_workers())["reference"] = 3;
  EXPECT_EQ(shape_of("reference"), std::make_pair(1, 3));
  spec.mutable_reference()->mutable_parallel()->set_tp(3);
  EXPECT_EQ(shape_of("reference"), std::make_pair(3, 1));
  spec.mutable_reward_model()->mutable_parallel()->set_tp(2);
  spec.mutable_reward_model()->mutable_parallel()->set_dp(4);
  EXPECT_EQ(shape_of("reward_model"), std::make_pair(2, 4));

  spec.mutable_reference()->mutable_parallel()->set_tp(2);
  spec.mutable_reward_model()->mutable_parallel()->set_dp(1025);
  const CheckedSpec wrong = CheckSpec(spec);
  EXPECT_THAT(Fields(wrong),
              ::testing::UnorderedElementsAre("spec.resources.role_workers.reference",
                                              "spec.reward_model.parallel.dp"));
  EXPECT_EQ(wrong.violations.back().description(),
            "is 3, but spec.reference.parallel makes 2 workers; give one of the two");
}

TEST(SpecTest, ChatTemplatesAreGivenWhatTheyMayBeGiven) {
  v1::JobSpec spec = Good();
  auto& kwargs = *spec.mutable_model()->mutable_chat_template_kwargs()->mutable_fields();
  kwargs["enable_thinking"].set_bool_value(false);
  spec.mutable_model()->set_chat_template_date("2026-02-03");
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
  kwargs["messages"].set_string_value("x");
  for (const char* date : {"", "today", "2026-02-30", "2026-2-3"}) {
    spec.mutable_model()->set_chat_template_date(date);
    EXPECT_THAT(Fields(CheckSpec(spec)),
                ::testing::UnorderedElementsAre("spec.model.chat_template_kwargs",
                                                "spec.model.chat_template_date"))
        << date;
  }
}

TEST(SpecTest, TurnsAreTrainedOnWhereThereAreSome) {
  v1::JobSpec spec = Good();
  EXPECT_EQ(CheckSpec(spec).effective.data().loss_on(), "last");
  spec.mutable_data()->set_loss_on("all_assistant");
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::UnorderedElementsAre("spec.data.loss_on"));
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.clear_reward();
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
  spec.mutable_data()->set_loss_on("all");
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::UnorderedElementsAre("spec.data.loss_on"));
}

TEST(SpecTest, EveryViolationIsListedAtOnce) {
  v1::JobSpec spec = Good();
  spec.mutable_rollout()->set_n(0);
  spec.mutable_rollout()->set_top_p(1.5);
  spec.mutable_actor()->set_lr(-1);
  spec.mutable_actor()->set_lr_schedule("sinus");
  spec.mutable_algorithm()->set_preset("grop");
  spec.mutable_model()->mutable_init()->set_num_attention_heads(3);
  spec.mutable_trainer()->clear_total_training_steps();
  spec.mutable_reward()->mutable_rules(0)->set_type("regex");
  spec.mutable_trainer()->set_test_freq(5);
  const auto fields = Fields(CheckSpec(spec));
  EXPECT_THAT(fields,
              ::testing::IsSupersetOf({"spec.rollout.n", "spec.rollout.top_p", "spec.actor.lr",
                                       "spec.actor.lr_schedule", "spec.algorithm.preset",
                                       "spec.model.init.num_attention_heads",
                                       "spec.trainer.total_training_steps",
                                       "spec.reward.rules[0].pattern", "spec.trainer.test_freq"}));
}

// Filling in what is still absent changes nothing.
TEST(SpecTest, AnEffectiveSpecLacksNoDefault) {
  for (const Preset& preset : Presets()) {
    v1::JobSpec spec = ExampleSpec(preset.name);
    if (spec.kind() == v1::JOB_KIND_RL) {
      spec.mutable_data()->add_train_mix();
      spec.mutable_data()->add_val_files("val.jsonl");
      spec.mutable_trainer()->mutable_early_stop()->set_metric("val/accuracy");
      spec.mutable_trainer()->set_test_freq(1);
      spec.mutable_algorithm()->set_mode("async");
    }
    const CheckedSpec checked = CheckSpec(spec);
    EXPECT_THAT(Fields(checked), ::testing::IsEmpty()) << preset.name;
    EXPECT_EQ(WithDefaults(checked.effective).DebugString(), checked.effective.DebugString())
        << preset.name;
  }
}

TEST(SpecTest, ChecksAFieldInEverySection) {
  v1::JobSpec spec = Good();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_rollout()->mutable_val()->set_n(0);
  spec.mutable_rollout()->mutable_speculation()->set_cache_bytes(1);
  spec.mutable_critic()->mutable_train()->set_lr(-1);
  spec.mutable_critic()->mutable_model()->set_dtype("float16");
  spec.mutable_reference()->set_max_token_len(0);
  spec.mutable_trainer()->set_threads(0);
  spec.set_priority(1001);
  EXPECT_THAT(
      Fields(CheckSpec(spec)),
      ::testing::ElementsAre("spec.critic.model.dtype", "spec.critic.train.lr", "spec.priority",
                             "spec.reference.max_token_len", "spec.rollout.speculation.cache_bytes",
                             "spec.rollout.val.n", "spec.trainer.threads"));
}

// The preset brings the role judge, with or without a section for it.
TEST(SpecTest, RefusesAJudgeWithoutTemplateAndVerdict) {
  v1::JobSpec spec = Good();
  spec.mutable_algorithm()->set_preset("fapo");
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::ElementsAre("spec.judge.template", "spec.judge.verdict"));
}

TEST(SpecTest, RefusesAnEmptyMethodName) {
  v1::JobSpec spec = Good();
  spec.mutable_reward()->set_method("");
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.reward.method"));
}

TEST(SpecTest, AMessageSaysWhatIsAllowed) {
  v1::JobSpec spec = Good();
  spec.mutable_rollout()->set_n(0);
  const CheckedSpec checked = CheckSpec(spec);
  ASSERT_EQ(checked.violations.size(), 1u);
  EXPECT_EQ(checked.violations[0].description(), "0 is not in [1, 1024]");
}

TEST(SpecTest, ExperienceIsKeptWhileItIsNeededUnlessAllIsAskedFor) {
  v1::JobSpec spec = Good();
  EXPECT_EQ(CheckSpec(spec).effective.trainer().keep_experience(), "needed");
  EXPECT_FALSE(KeepsAllExperience(CheckSpec(spec).effective));
  spec.mutable_trainer()->set_keep_experience("all");
  EXPECT_TRUE(KeepsAllExperience(CheckSpec(spec).effective));
  spec.mutable_trainer()->set_keep_experience("some");
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.trainer.keep_experience"));
}

TEST(SpecTest, SettingsThatTheTrainerWouldRefuseAreRefusedHere) {
  v1::JobSpec spec = Good();
  spec.mutable_actor()->set_lr_schedule("cosine");
  spec.mutable_actor()->set_lr_warmup_steps(10);
  spec.mutable_algorithm()->set_clip_ratio_c(0.5);
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::ElementsAre("spec.actor.lr_warmup_steps", "spec.algorithm.clip_ratio_c"));
  spec.mutable_actor()->set_lr_warmup_steps(9);
  spec.mutable_algorithm()->set_clip_ratio_c(3);
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
  spec.mutable_actor()->set_lr_warmup_steps(10);
  spec.mutable_actor()->set_lr_schedule("constant");
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::IsEmpty());
}

TEST(SpecTest, RefusesNan) {
  v1::JobSpec spec = Good();
  spec.mutable_actor()->set_lr(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.actor.lr"));
}

TEST(SpecTest, SupervisedFineTuningHasNoRewards) {
  v1::JobSpec spec = Good();
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.mutable_reward()->mutable_rules(0)->set_type("x");  // no longer matters
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.reward"));
  spec.clear_reward();
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(Fields(checked), ::testing::IsEmpty());
  EXPECT_EQ(checked.effective.resources().rollout_workers(), 0);
  EXPECT_EQ(checked.dataflow.update(0).loss(), "sft");
}

TEST(SpecTest, OnlyWhatIsSampledCanBeComputedAgain) {
  v1::JobSpec spec = Good();
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.clear_reward();
  spec.clear_rollout();
  spec.mutable_data()->clear_val_files();
  spec.mutable_algorithm()->Clear();
  spec.mutable_algorithm()->set_recompute_log_prob(true);
  spec.mutable_algorithm()->set_cost_critic(true);
  spec.mutable_cost_critic();
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::UnorderedElementsAre("spec.algorithm.recompute_log_prob",
                                              "spec.algorithm.cost_critic", "spec.cost_critic"));
}

TEST(SpecTest, TheEffectiveSpecIsItsOwnEffectiveSpec) {
  const CheckedSpec once = CheckSpec(Good());
  const CheckedSpec twice = CheckSpec(once.effective);
  EXPECT_EQ(once.effective.SerializeAsString(), twice.effective.SerializeAsString());
}

TEST(SpecTest, AnEmptySpecIsRefusedWithoutACrash) {
  EXPECT_THAT(Fields(CheckSpec(v1::JobSpec())),
              ::testing::UnorderedElementsAre("spec.kind", "spec.model", "spec.data.train_files",
                                              "spec.trainer.total_training_steps"));
}

// A missing kind does not hide other mistakes.
TEST(SpecTest, ChecksASpecWithoutAKindAsTheKindItSuggests) {
  v1::JobSpec spec = Good();
  spec.clear_kind();
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.kind"));
  spec.mutable_rollout()->set_n(0);  // of kind rl alone
  spec.mutable_actor()->set_lr(-1);
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::UnorderedElementsAre("spec.kind", "spec.rollout.n", "spec.actor.lr"));
}

TEST(SpecTest, ReportsOnlyMistakesOfAnyKindIfTheKindIsUnclear) {
  v1::JobSpec spec = Good();
  spec.clear_kind();
  spec.clear_reward();  // kind rl would miss it
  spec.clear_rollout();
  spec.clear_algorithm();
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::ElementsAre("spec.kind"));
  spec.mutable_model()->clear_path();
  spec.mutable_model()->clear_init();
  spec.mutable_trainer()->set_save_freq(-1);
  EXPECT_THAT(Fields(CheckSpec(spec)),
              ::testing::UnorderedElementsAre("spec.kind", "spec.model", "spec.trainer.save_freq"));
  spec.mutable_algorithm()->set_preset("reward_model");
  spec.mutable_trainer()->set_val_before_train(true);  // which that kind cannot
  EXPECT_THAT(Fields(CheckSpec(spec)), ::testing::Contains("spec.trainer.val_before_train"));
}

}  // namespace
}  // namespace baton::controller
