#include "sdk/client/other_names.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "baton/v1/job_spec.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "sdk/client/spec_yaml.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::AllOf;
using ::testing::HasSubstr;

// True if `path` names a setting, or an option in a struct of options.
bool IsSetting(const std::string& path) {
  const Descriptor* type = v1::JobSpec::descriptor();
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    if (type == nullptr) return false;
    if (type->full_name() == "google.protobuf.Struct") {
      return v1::EstimatorOptions::descriptor()->FindFieldByName(part) != nullptr ||
             v1::LossOptions::descriptor()->FindFieldByName(part) != nullptr;
    }
    const FieldDescriptor* field = type->FindFieldByName(part);
    if (field == nullptr) return false;
    type = field->message_type();
  }
  return true;
}

TEST(OtherNamesTest, NamesOnlySettingsThatExist) {
  std::set<absl::string_view> names;
  for (const OtherName& other : OtherNames()) {
    EXPECT_TRUE(names.insert(other.name).second) << other.name << " is there twice";
    EXPECT_FALSE(IsSetting(std::string(other.name))) << other.name << " is a setting of ours";
    EXPECT_TRUE(other.ours.empty() ? !other.note.empty() : IsSetting(std::string(other.ours)))
        << other.name << " -> " << other.ours;
  }
}

// The problems of a spec that a user of another trainer may write.
std::string ProblemsOf(const std::string& yaml) {
  return FormatProblems("f", ParseSpecYaml(yaml, {}).problems);
}

TEST(OtherNamesTest, ANameOfAnotherTrainerIsRefusedWithOurs) {
  EXPECT_EQ(ProblemsOf("trainer: {max_actor_ckpt_to_keep: 3}"),
            "f:1:11: trainer.max_actor_ckpt_to_keep: unknown key; here it is "
            "trainer.max_checkpoints: 0 keeps all\n");
  EXPECT_EQ(ProblemsOf("num_generations: 8"),
            "f:1:1: num_generations: unknown key; here it is rollout.n\n");
  EXPECT_EQ(ProblemsOf("trainer: {logger: [console]}"),
            "f:1:11: trainer.logger: unknown key; remove it: `baton watch`, `baton show` and "
            "/metrics have all metrics\n");
  const ParsedSpec parsed = ParseSpecYaml("actor: {learning_rate: 1e-6}", {});
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].meant, "actor.lr");
}

TEST(OtherNamesTest, NamesOfLinesAndTemplatesAreKnown) {
  EXPECT_EQ(ProblemsOf("data: {reward_fn_key: data_source}"),
            "f:1:8: data.reward_fn_key: unknown key; here it is data.source_key\n");
  EXPECT_EQ(ProblemsOf("data: {apply_chat_template_kwargs: {enable_thinking: false}}"),
            "f:1:8: data.apply_chat_template_kwargs: unknown key; here it is "
            "model.chat_template_kwargs\n");
  EXPECT_EQ(ProblemsOf("temperature: 0.6"),
            "f:1:1: temperature: unknown key; here it is rollout.temperature\n");
}

TEST(OtherNamesTest, ASectionOfAnotherTrainerIsRefusedKeyByKey) {
  EXPECT_EQ(ProblemsOf("actor_rollout_ref:\n"
                       "  model: {path: m, use_liger: false}\n"
                       "  rollout:\n"
                       "    val_kwargs: {temperature: 0}\n"
                       "actor:\n"
                       "  optim: {lr: 1e-6}\n"),
            "f:2:11: actor_rollout_ref.model.path: unknown key; here it is model.path\n"
            "f:2:3: actor_rollout_ref.model: unknown key; 1 of the keys in it has no setting here: "
            "remove the section\n"
            "f:4:18: actor_rollout_ref.rollout.val_kwargs.temperature: unknown key; here it is "
            "rollout.val.temperature\n"
            "f:6:11: actor.optim.lr: unknown key; here it is actor.lr\n");
}

// verl's filter_groups is a section, ours is true or false.
TEST(OtherNamesTest, ASectionInPlaceOfAValueIsRefusedWithOursKeyByKey) {
  EXPECT_EQ(ProblemsOf("algorithm:\n"
                       "  filter_groups:\n"
                       "    enable: true\n"
                       "    metric: acc\n"
                       "    max_num_gen_batches: 10\n"),
            "f:3:5: algorithm.filter_groups: needs true or false, not a map\n"
            "f:3:5: algorithm.filter_groups.enable: unknown key; here it is "
            "algorithm.dynamic_sampling: with algorithm.filter_groups: true\n"
            "f:4:5: algorithm.filter_groups.metric: unknown key; here it is "
            "algorithm.advantage.filter_metric: reward, or the `out` of a score node\n"
            "f:5:5: algorithm.filter_groups.max_num_gen_batches: unknown key; here it is "
            "algorithm.max_num_gen_batches: it has a limit, at most 1000\n");
  EXPECT_THAT(ProblemsOf("algorithm: {filter_groups: {enable: true}}"),
              HasSubstr("here it is algorithm.dynamic_sampling"));
}

TEST(OtherNamesTest, AValueInPlaceOfASectionIsRefusedWithOurs) {
  EXPECT_EQ(ProblemsOf("model: Qwen/Qwen3-0.6B"),
            "f:1:8: model: needs keys, not a value; a model's folder is model.path\n");
  EXPECT_EQ(ProblemsOf("reward_model: rm"),
            "f:1:15: reward_model: needs keys, not a value; its model's folder is "
            "reward_model.model.path\n");
  EXPECT_EQ(ProblemsOf("critic: {model: m}"),
            "f:1:17: critic.model: needs keys, not a value; a model's folder is "
            "critic.model.path\n");
  EXPECT_EQ(ProblemsOf("algorithm: grpo"),
            "f:1:12: algorithm: needs keys, not a value; the name of an algorithm is "
            "algorithm.preset\n");
  EXPECT_THAT(ProblemsOf("algorithm: {advantage: gae, loss: dapo}"),
              AllOf(HasSubstr("1:24: algorithm.advantage: needs keys, not a value; "),
                    HasSubstr("algorithm.adv_estimator"), HasSubstr("algorithm.loss_agg_mode")));
  EXPECT_THAT(ProblemsOf("reward: [accuracy]"), HasSubstr("not a list; rules are reward.rules"));
  // TRL takes a text of JSON.
  EXPECT_EQ(ProblemsOf(R"(model: {chat_template_kwargs: '{"enable_thinking": false}'})"),
            "f:1:31: model.chat_template_kwargs: needs keys, not a value; write its keys without "
            "quotes around them all: chat_template_kwargs: {enable_thinking: false}\n");
}

TEST(OtherNamesTest, WhatIsSaidOfAValueNamesSettingsThatExist) {
  const Descriptor* spec = v1::JobSpec::descriptor();
  for (int i = 0; i < spec->field_count(); ++i) {
    const FieldDescriptor* field = spec->field(i);
    if (field->message_type() == nullptr || field->is_map() || field->is_repeated()) continue;
    for (const std::string& word :
         std::vector<std::string>(absl::StrSplit(InsteadOfValue(field->name()), ' '))) {
      if (absl::StrContains(word, '.')) {
        EXPECT_TRUE(IsSetting(std::string(absl::StripSuffix(word, ",")))) << word;
      }
    }
  }
}

// verl's defaults have such keys.
TEST(OtherNamesTest, AKeyWithoutAValueIsToldToGo) {
  EXPECT_EQ(ProblemsOf("trainer: {total_training_steps: null}"),
            "f:1:33: trainer.total_training_steps: needs an integer, not nothing; remove the key, "
            "and it has its default\n");
}

TEST(OtherNamesTest, AListOfOneSectionIsTold) {
  EXPECT_EQ(ProblemsOf("reward: {rules: {type: exact_match}}"),
            "f:1:17: reward.rules: needs a list, not a map; write `- ` before its first key\n");
}

TEST(OtherNamesTest, MinusOneIsTakenAsAllWhereItMeansThat) {
  const ParsedSpec parsed =
      ParseSpecYaml("rollout: {top_k: -1, val: {top_k: -1}}\ndata: {val_max_samples: -1}", {});
  EXPECT_EQ(FormatProblems("f", parsed.problems), "");
  EXPECT_TRUE(parsed.spec.rollout().has_top_k());
  EXPECT_EQ(parsed.spec.rollout().top_k(), 0);
  EXPECT_EQ(parsed.spec.rollout().val().top_k(), 0);
  EXPECT_EQ(parsed.spec.data().val_max_samples(), 0);
}

TEST(OtherNamesTest, MinusOneIsRefusedWithOursWhereItMeansSomethingElse) {
  EXPECT_EQ(ProblemsOf("trainer: {save_freq: -1}"),
            "f:1:22: trainer.save_freq: is -1; 0 saves only at the end; a job always saves "
            "there\n");
  EXPECT_THAT(ProblemsOf("trainer: {test_freq: -1}"), HasSubstr("val_after_train: false"));
  EXPECT_EQ(ProblemsOf("actor: {lr_warmup_steps: 0}"), "");
}

}  // namespace
}  // namespace baton
