#include "sdk/common/messages/settings.h"

#include <cmath>
#include <functional>
#include <future>
#include <set>

#include "absl/strings/str_cat.h"
#include "baton/v1/job_spec.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Problems(const v1::JobSpec& spec) {
  Violations out;
  CheckSettings(spec, "", &out);
  std::vector<std::string> texts;
  for (const auto& violation : out.list()) {
    texts.push_back(absl::StrCat(violation.field(), ": ", violation.description()));
  }
  return texts;
}

// A spec without what is missing in an empty one.
v1::JobSpec Good() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->set_path("/model");
  return spec;
}

// Every message of a spec, and the two that are of options.
void Collect(const Descriptor* type, std::set<const Descriptor*>* types) {
  if (type->file()->package() != "baton.v1" || !types->insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    if (type->field(i)->message_type() != nullptr) Collect(type->field(i)->message_type(), types);
  }
}

void ForEachSetting(const std::function<void(const FieldDescriptor&, const v1::Setting&)>& look) {
  std::set<const Descriptor*> types;
  for (const Descriptor* type : {v1::JobSpec::descriptor(), v1::LossOptions::descriptor(),
                                 v1::EstimatorOptions::descriptor()}) {
    Collect(type, &types);
  }
  for (const Descriptor* type : types) {
    for (int i = 0; i < type->field_count(); ++i) look(*type->field(i), SettingOf(*type->field(i)));
  }
}

TEST(SettingsTest, ADefaultIsOfItsFieldsTypeAndWithinItsBounds) {
  int defaults = 0;
  ForEachSetting([&](const FieldDescriptor& field, const v1::Setting& setting) {
    if (!setting.has_default_()) return;
    ++defaults;
    const std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(field.containing_type())
            ->New());
    EXPECT_TRUE(field.has_presence()) << field.full_name() << ": an absent field is its zero";
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      EXPECT_TRUE(setting.default_() == "true" || setting.default_() == "false")
          << field.full_name();
    }
    FillDefaults(message.get());
    EXPECT_TRUE(message->GetReflection()->HasField(*message, &field)) << field.full_name();
    Violations out;
    CheckSettings(*message, "", &out);
    EXPECT_FALSE(out.Mentions(field.name()) && !setting.required()) << field.full_name();
  });
  EXPECT_GT(defaults, 100);
}

TEST(SettingsTest, SettingAnnotationsAreConsistent) {
  ForEachSetting([](const FieldDescriptor& field, const v1::Setting& setting) {
    const bool map = field.is_map();
    const auto type = map ? field.message_type()->map_value()->cpp_type() : field.cpp_type();
    const bool number = type == FieldDescriptor::CPPTYPE_INT32 ||
                        type == FieldDescriptor::CPPTYPE_INT64 ||
                        type == FieldDescriptor::CPPTYPE_DOUBLE;
    const Bounds bounds = BoundsOf(setting);
    EXPECT_TRUE(number || BoundsText(bounds).empty()) << field.full_name();
    EXPECT_LT(bounds.low, bounds.high) << field.full_name();
    EXPECT_FALSE(setting.has_min() && setting.has_above()) << field.full_name();
    if (!setting.one_of().empty()) {
      EXPECT_EQ(type, FieldDescriptor::CPPTYPE_STRING) << field.full_name();
    }
    if (setting.required() && field.enum_type() == nullptr) {
      EXPECT_FALSE(setting.hint().empty() && setting.one_of().empty()) << field.full_name();
    }
    if (!setting.as_in().empty()) {
      EXPECT_NE(setting.default_(), "") << field.full_name() << ": there is no such option";
    }
  });
}

TEST(SettingsTest, FillsInWhatIsAbsentInTheSectionsThereAre) {
  v1::JobSpec spec;
  spec.mutable_rollout()->set_top_k(0);
  spec.mutable_actor()->set_weight_decay(0);
  spec.mutable_data()->add_train_mix()->set_weight(2);
  spec.mutable_data()->set_shuffle(false);
  FillDefaults(&spec);
  EXPECT_EQ(spec.rollout().n(), 8);
  EXPECT_EQ(spec.rollout().kv_cache_bytes(), int64_t{1} << 30);
  EXPECT_EQ(spec.actor().lr(), 1e-6);
  EXPECT_EQ(spec.actor().lr_schedule(), "constant");
  EXPECT_EQ(spec.actor().weight_decay(), 0) << "a given zero is no default";
  EXPECT_FALSE(spec.data().shuffle());
  EXPECT_EQ(spec.data().train_mix(0).weight(), 2);
  EXPECT_EQ(spec.data().train_mix(0).from_step(), 1);
  EXPECT_FALSE(spec.rollout().has_val()) << "a section that is absent stays so";
  EXPECT_FALSE(spec.data().has_gen_batch_size()) << "that is train_batch_size, not a default";
  EXPECT_EQ(WithDefaults(v1::RewardSpec()).max_error_rate(), 0.1);
}

TEST(SettingsTest, TakesWhatAnotherMessageSaysOfAField) {
  const v1::Setting low = SettingOf<v1::AlgorithmSpec>(v1::AlgorithmSpec::kClipRatioLowFieldNumber);
  EXPECT_EQ(low.default_(), "0.2");
  EXPECT_EQ(BoundsText(BoundsOf(low)), "0 to 1");
  EXPECT_EQ(low.absent(), "the preset's, mostly 0.2");
  // A spec's field is held to bounds that the formula does not need.
  const v1::Setting high =
      SettingOf<v1::AlgorithmSpec>(v1::AlgorithmSpec::kClipRatioHighFieldNumber);
  EXPECT_EQ(BoundsText(BoundsOf(high)), "0 to 100");
  EXPECT_EQ(
      BoundsText(BoundsOf(SettingOf<v1::LossOptions>(v1::LossOptions::kClipRatioHighFieldNumber))),
      "at least 0");
}

TEST(SettingsTest, AFieldHasOneSettingForAllThreads) {
  const auto all = [] {
    std::vector<const v1::Setting*> settings;
    const Descriptor* type = v1::AlgorithmSpec::descriptor();
    for (int i = 0; i < type->field_count(); ++i) settings.push_back(&SettingOf(*type->field(i)));
    return settings;
  };
  auto one = std::async(std::launch::async, all), other = std::async(std::launch::async, all);
  EXPECT_EQ(one.get(), other.get());
}

TEST(SettingsTest, NamesEachFieldThatIsOutOfBounds) {
  v1::JobSpec spec = Good();
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_rollout()->set_n(1024);
  spec.mutable_rollout()->mutable_val()->set_n(0);
  spec.mutable_rollout()->set_kv_cache_bytes((int64_t{1} << 50) + 1);
  spec.mutable_actor()->set_beta2(1);
  spec.mutable_actor()->set_lr(std::nan(""));
  spec.mutable_reward()->set_error_reward(std::numeric_limits<double>::infinity());
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_data()->add_train_mix()->set_weight(1);
  spec.mutable_data()->add_train_mix()->set_weight(0);
  spec.set_priority(-1001);
  EXPECT_THAT(Problems(spec),
              ElementsAre("spec.data.train_mix[1].weight: 0 is not in [0.001, 1000]",
                          "spec.rollout.kv_cache_bytes: 1125899906842625 is not in [65536, "
                          "1125899906842624]",
                          "spec.rollout.val.n: 0 is not in [1, 1024]",
                          "spec.reward.error_reward: inf is not a finite number",
                          "spec.actor.lr: nan is not a finite number",
                          "spec.actor.beta2: 1 is not in [0, 0.9999999]",
                          "spec.priority: -1001 is not in [-1000, 1000]"));
}

TEST(SettingsTest, NamesEachEntryOfAMapInOrder) {
  v1::JobSpec spec = Good();
  auto& workers = *spec.mutable_resources()->mutable_role_workers();
  workers["reference"] = 0;
  workers["judge"] = 1025;
  workers["cost"] = 1024;
  (*spec.mutable_labels())["any"] = "text";
  EXPECT_THAT(Problems(spec),
              ElementsAre("spec.resources.role_workers.judge: 1025 is not in [1, 1024]",
                          "spec.resources.role_workers.reference: 0 is not in [1, 1024]"));
}

TEST(SettingsTest, SaysWhichNamesThereAre) {
  v1::JobSpec spec = Good();
  spec.mutable_actor()->set_lr_schedule("sinus");
  spec.mutable_algorithm()->set_kl_loss_type("full");
  EXPECT_THAT(Problems(spec),
              ElementsAre("spec.algorithm.kl_loss_type: 'full' is not one of: k1, k2, k3, abs, kl, "
                          "mse, low_var_kl, k1+, k3+, kl+, low_var_kl+",
                          "spec.actor.lr_schedule: 'sinus' is not one of: constant, cosine, "
                          "linear"));
}

TEST(SettingsTest, SaysWhatIsMissingInTheSectionsThereAre) {
  v1::JobSpec spec = Good();
  spec.clear_model();
  spec.mutable_reward()->add_rules();
  spec.mutable_dataflow()->add_score()->set_node("a");
  EXPECT_THAT(
      Problems(spec),
      ElementsAre("spec.model: is missing; give `path` (a Hugging Face directory, or job:NAME) or "
                  "`init`",
                  "spec.reward.rules[0].type: is missing; one of: exact_match, numeric, regex",
                  "spec.dataflow.score[0].role: is missing; name the role that serves the node",
                  "spec.dataflow.score[0].method: is missing; name the method of the role",
                  "spec.dataflow.score[0].out: is missing; name the number or column that the node "
                  "makes",
                  "spec.dataflow.advantage: is missing; name an estimator",
                  "spec.dataflow.update: is missing; add a node of role actor"));
}

}  // namespace
}  // namespace baton
