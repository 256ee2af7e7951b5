#include "tests/settings/option_tables.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "google/protobuf/descriptor.h"
#include "sdk/cli/spec/spec_reference.h"
#include "sdk/common/messages/settings.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr char kOptimizer[] = "optimizer";
constexpr size_t kLineWidth = 90;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// {"a", "b"}
template <class Names>
std::string List(const Names& names) {
  std::vector<std::string> quoted;
  for (const auto& name : names) quoted.push_back(Quoted(name));
  return absl::StrCat("{", absl::StrJoin(quoted, ", "), "}");
}

std::string CppType(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "bool";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "double";
    case FieldDescriptor::CPPTYPE_STRING:
      return "std::string";
    default:
      return "int64_t";
  }
}

std::string CppDefault(const FieldDescriptor& field, const v1::Setting& setting) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return Quoted(setting.default_());
  return setting.has_default_() ? setting.default_() : "0";
}

std::string LimitsOf(const v1::Setting& setting) {
  if (!setting.one_of().empty()) return absl::StrCat("OneOf(", List(setting.one_of()), ")");
  if (setting.has_above()) return absl::StrCat("Above(", NumberText(setting.above()), ")");
  if (!setting.has_min()) return "Anything()";
  if (!setting.has_max()) return absl::StrCat("AtLeast(", NumberText(setting.min()), ")");
  return absl::StrCat("Between(", NumberText(setting.min()), ", ", NumberText(setting.max()), ")");
}

// `kind`: "Losses".
std::string UsersOf(const v1::Setting& setting, absl::string_view kind) {
  if (!setting.of().empty()) return absl::StrCat("Of", kind, "(", List(setting.of()), ")");
  if (setting.not_of().empty()) return "kAll";
  return absl::StrCat("NotOf", kind, "(", List(setting.not_of()), ")");
}

// As literals of a line each.
std::string Literals(absl::string_view text) {
  std::vector<std::string> lines = {""};
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (lines.back().size() + word.size() > kLineWidth) lines.emplace_back();
    absl::StrAppend(&lines.back(), word, " ");
  }
  lines.back().pop_back();
  for (std::string& line : lines) line = absl::StrCat("    ", Quoted(line));
  return absl::StrJoin(lines, "\n");
}

// `users`: what those are that may have the option, "Losses"; empty: all have it.
std::string Row(absl::string_view macro, const FieldDescriptor& field, absl::string_view users) {
  const v1::Setting setting = SettingOf(field);
  std::vector<std::string> facts = {field.name(), CppType(field), CppDefault(field, setting)};
  if (!users.empty()) facts.push_back(UsersOf(setting, users));
  facts.push_back(LimitsOf(setting));
  std::string meaning = cli::MeaningOf(field);
  if (!setting.absent().empty()) absl::StrAppend(&meaning, " Absent: ", setting.absent(), ".");
  return absl::StrCat("\n", macro, "(", absl::StrJoin(facts, ", "), ",\n", Literals(meaning),
                      ")\n");
}

std::string Head(absl::string_view what, absl::string_view columns, absl::string_view source) {
  return absl::StrCat("// The options of ", what, ": ", columns, ".\n// Made of ", source,
                      " in proto/baton/v1/job_spec.proto by `./dev docs`; edit that file.\n");
}

OptionTable LossTable() {
  const Descriptor& type = *v1::LossOptions::descriptor();
  OptionTable table{"sdk/common/schema/loss_options.def",
                    Head("losses", "name, type, default, losses, limits, meaning", type.name())};
  for (int i = 0; i < type.field_count(); ++i) {
    table.text += Row("BATON_LOSS_OPTION", *type.field(i), "Losses");
  }
  return table;
}

OptionTable EstimatorTable() {
  const Descriptor& type = *v1::EstimatorOptions::descriptor();
  OptionTable table{"sdk/common/schema/estimator_options.def",
                    Head("advantage estimators", "name, type, default, estimators, limits, meaning",
                         type.name())};
  for (int i = 0; i < type.field_count(); ++i) {
    table.text += Row("BATON_ESTIMATOR_OPTION", *type.field(i), "Estimators");
  }
  return table;
}

OptionTable OptimizerTable() {
  const Descriptor& type = *v1::ActorSpec::descriptor();
  OptionTable table{"sdk/common/schema/optimizer_options.def",
                    Head("the optimizer", "name, type, default, limits, meaning", type.name())};
  for (int i = 0; i < type.field_count(); ++i) {
    const v1::Setting setting = SettingOf(*type.field(i));
    if (std::count(setting.of().begin(), setting.of().end(), kOptimizer) == 0) continue;
    table.text += Row("BATON_OPTIMIZER_OPTION", *type.field(i), "");
  }
  return table;
}

}  // namespace

std::vector<OptionTable> OptionTables() {
  return {LossTable(), EstimatorTable(), OptimizerTable()};
}

}  // namespace baton
