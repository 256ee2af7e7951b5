#include "sdk/client/other_names.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "baton/v1/job_spec.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "sdk/client/spec_yaml.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
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
