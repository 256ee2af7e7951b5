// docs/spec.md is what the comments of job_spec.proto say, and what they say is what the
// controller does: every bound is compared with the one that it refuses a value for, every plain
// default with the one that it fills in.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "controller/spec/presets.h"
#include "controller/spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "sdk/cli/spec_reference.h"

namespace baton {
namespace {

namespace pb = google::protobuf;
using cli::SpecField;
using cli::SpecSection;
using ::testing::Pointwise;

// Specs that have, together, every section.
std::vector<v1::JobSpec> Bases() {
  std::vector<v1::JobSpec> bases;
  for (const char* preset : {"grpo", "ppo", "safe_rlhf", "fapo"}) {
    v1::JobSpec spec = controller::ExampleSpec(preset);
    spec.clear_dataflow();
    spec.clear_resources();
    if (spec.has_reward_model()) spec.mutable_reward_model()->mutable_model()->set_path("job:r");
    if (spec.has_cost_model()) spec.mutable_cost_model()->mutable_model()->set_path("job:c");
    bases.push_back(spec);
  }
  bases[0].mutable_model()->clear_path();
  bases[0].mutable_model()->mutable_init()->set_characters("ab");
  bases[0].mutable_data()->set_max_prompt_length(8);
  bases[0].mutable_data()->set_max_response_length(8);
  bases[0].mutable_data()->add_pretrain_files("texts.jsonl");
  bases[0].mutable_reward()->add_rules()->set_type("exact_match");
  return bases;
}

struct Place {
  pb::Message* message;
  const pb::FieldDescriptor* field;
};

// The field at `path` ("reward.rules[].weight"), whose message is made where it is absent.
Place Find(pb::Message* message, const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  for (size_t i = 0;; ++i) {
    const std::string name(absl::StripSuffix(parts[i], "[]"));
    const pb::FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (i + 1 == parts.size()) return {message, field};
    if (field->is_map()) return {nullptr, nullptr};
    const pb::Reflection* reflection = message->GetReflection();
    if (!field->is_repeated()) {
      message = reflection->MutableMessage(message, field);
    } else {
      message = reflection->FieldSize(*message, field) > 0
                    ? reflection->MutableRepeatedMessage(message, field, 0)
                    : reflection->AddMessage(message, field);
    }
  }
}

// The smallest or the largest number of the field's type.
void SetExtreme(const Place& place, bool large) {
  const pb::Reflection* reflection = place.message->GetReflection();
  switch (place.field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(
          place.message, place.field,
          large ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int32_t>::min());
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(
          place.message, place.field,
          large ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min());
    default:
      return reflection->SetDouble(place.message, place.field, large ? 1e300 : -1e300);
  }
}

bool IsNumber(const pb::FieldDescriptor& field) {
  return !field.is_repeated() && (field.cpp_type() == pb::FieldDescriptor::CPPTYPE_INT32 ||
                                  field.cpp_type() == pb::FieldDescriptor::CPPTYPE_INT64 ||
                                  field.cpp_type() == pb::FieldDescriptor::CPPTYPE_DOUBLE);
}

// "… is not in [1, 1024]" -> the two numbers; empty: no such refusal of the field.
std::vector<double> RefusedBounds(const v1::JobSpec& spec, const std::string& path) {
  for (const auto& violation : controller::CheckSpec(spec).violations) {
    std::string field = violation.field();
    for (const char* index : {"[0]"}) {
      const size_t at = field.find(index);
      if (at != field.npos) field.replace(at, 3, "[]");
    }
    if (absl::StrReplaceAll(field, {{"spec..", "spec."}}) != "spec." + path) continue;
    const std::string& text = violation.description();
    const size_t at = text.find("is not in [");
    if (at == text.npos) continue;
    std::vector<double> ends;
    for (absl::string_view end : absl::StrSplit(text.substr(at + 11), absl::ByAnyChar(", ]"))) {
      double value = 0;
      if (absl::SimpleAtod(end, &value)) ends.push_back(value);
    }
    return ends;
  }
  return {};
}

std::vector<double> Documented(const std::string& bounds) {
  std::vector<double> ends;
  for (absl::string_view end : absl::StrSplit(bounds, " to ")) {
    double value = 0;
    if (!absl::SimpleAtod(end, &value)) return {};
    ends.push_back(value);
  }
  return ends;
}

MATCHER(SameToSixDigits, "") {
  const double first = std::get<0>(arg), second = std::get<1>(arg);
  return std::abs(first - second) <= 1e-5 * std::max(std::abs(first), std::abs(second));
}

TEST(SpecReferenceDoc, IsWhatTheGeneratorMakes) {
  const std::string path = std::string(std::getenv("BATON_SOURCE_DIR")) + "/docs/spec.md";
  if (std::getenv("BATON_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << cli::SpecReferenceMarkdown();
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(text.str() == cli::SpecReferenceMarkdown())
      << "docs/spec.md is not what job_spec.proto says; run `./dev docs`";
}

TEST(SpecReferenceDoc, EveryFieldHasASentenceAndSaysWhatAnAbsentValueMeans) {
  for (const SpecSection& section : cli::SpecSections()) {
    EXPECT_NE(section.meaning, "") << section.message;
    for (const SpecField& field : section.fields) {
      EXPECT_NE(field.meaning, "") << section.message << "." << field.name;
      // A section's absence is told by its own fields.
      if (!field.section.empty() && field.type == "section") continue;
      EXPECT_NE(field.default_value, "") << section.message << "." << field.name;
    }
  }
}

TEST(SpecReferenceDoc, BoundsAreThoseThatTheControllerRefusesBeyond) {
  std::map<std::string, bool> known;
  for (const SpecSection& section : cli::SpecSections()) {
    for (const SpecField& field : section.fields) {
      const std::vector<double> documented = Documented(field.bounds);
      for (const v1::JobSpec& base : Bases()) {
        for (const bool large : {false, true}) {
          v1::JobSpec spec = base;
          const Place place = Find(&spec, field.path);
          if (place.field == nullptr || !IsNumber(*place.field)) continue;
          SetExtreme(place, large);
          const std::vector<double> refused = RefusedBounds(spec, field.path);
          if (refused.empty()) continue;
          known[field.path] = true;
          // A refusal prints six digits.
          EXPECT_THAT(documented, Pointwise(SameToSixDigits(), refused))
              << field.path << ": its comment in job_spec.proto says '" << field.bounds << "'";
        }
      }
    }
  }
  EXPECT_GT(known.size(), 50u);
  for (const char* path :
       {"rollout.n", "actor.lr", "model.init.hidden_size", "judge.max_new_tokens",
        "critic.cliprange_value", "trainer.save_freq", "priority"}) {
    EXPECT_TRUE(known[path]) << path;
  }
}

TEST(SpecReferenceDoc, NamesAreThoseThatTheControllerKnows) {
  int compared = 0;
  for (const SpecSection& section : cli::SpecSections()) {
    for (const SpecField& field : section.fields) {
      if (field.type != "text" || !absl::StartsWith(field.bounds, "one of ")) continue;
      for (const v1::JobSpec& base : Bases()) {
        v1::JobSpec spec = base;
        const Place place = Find(&spec, field.path);
        if (place.field == nullptr) continue;
        place.message->GetReflection()->SetString(place.message, place.field, "no-such-name");
        for (const auto& violation : controller::CheckSpec(spec).violations) {
          const size_t at = violation.description().find("is not one of: ");
          if (violation.field() != "spec." + field.path || at == std::string::npos) continue;
          ++compared;
          std::string names = absl::StrReplaceAll(field.bounds, {{"one of ", ""}, {"`", ""}});
          const std::vector<std::string> documented = absl::StrSplit(names, ", ");
          const std::vector<std::string> known =
              absl::StrSplit(violation.description().substr(at + 15), ", ");
          EXPECT_THAT(documented, ::testing::UnorderedElementsAreArray(known)) << field.path;
        }
      }
    }
  }
  EXPECT_GT(compared, 5);
}

// What the effective spec has where the user has given nothing.
TEST(SpecReferenceDoc, PlainDefaultsAreThoseThatTheControllerFillsIn) {
  int compared = 0;
  for (const SpecSection& section : cli::SpecSections()) {
    for (const SpecField& field : section.fields) {
      for (const v1::JobSpec& base : Bases()) {
        v1::JobSpec spec = base;
        const Place given = Find(&spec, field.path);
        if (given.field == nullptr || given.field->is_repeated()) continue;
        if (given.field->message_type() != nullptr) continue;
        given.message->GetReflection()->ClearField(given.message, given.field);
        v1::JobSpec effective = controller::CheckSpec(spec).effective;
        const Place place = Find(&effective, field.path);
        const pb::Reflection* reflection = place.message->GetReflection();
        if (!reflection->HasField(*place.message, place.field)) continue;
        std::string expected;
        double number = 0;
        const bool boolean = field.default_value == "true" || field.default_value == "false";
        const bool plain = boolean || absl::SimpleAtod(field.default_value, &number) ||
                           (absl::StartsWith(field.default_value, "`") &&
                            absl::EndsWith(field.default_value, "`") &&
                            !absl::StrContains(field.default_value, "."));
        if (!plain) continue;
        ++compared;
        switch (place.field->cpp_type()) {
          case pb::FieldDescriptor::CPPTYPE_BOOL:
            EXPECT_EQ(reflection->GetBool(*place.message, place.field) ? "true" : "false",
                      field.default_value)
                << field.path;
            break;
          case pb::FieldDescriptor::CPPTYPE_STRING:
            EXPECT_EQ(absl::StrCat("`", reflection->GetString(*place.message, place.field), "`"),
                      field.default_value)
                << field.path;
            break;
          case pb::FieldDescriptor::CPPTYPE_INT32:
            EXPECT_EQ(reflection->GetInt32(*place.message, place.field), number) << field.path;
            break;
          case pb::FieldDescriptor::CPPTYPE_INT64:
            EXPECT_EQ(reflection->GetInt64(*place.message, place.field), number) << field.path;
            break;
          default:
            EXPECT_EQ(reflection->GetDouble(*place.message, place.field), number) << field.path;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace baton
