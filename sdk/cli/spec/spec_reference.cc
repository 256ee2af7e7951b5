#include "sdk/cli/spec/spec_reference.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "baton/v1/job_spec.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "sdk/cli/spec/job_spec_descriptors.h"
#include "sdk/client/setting_paths.h"
#include "sdk/common/base/nearest.h"
#include "sdk/common/messages/settings.h"

namespace baton::cli {
namespace {

namespace pb = google::protobuf;

// The descriptors with their comments, which the generated code leaves out.
const pb::DescriptorPool& CommentPool() {
  static const auto* const kPool = [] {
    pb::FileDescriptorSet files;
    auto* pool = new pb::DescriptorPool;
    if (!files.ParseFromArray(kJobSpecDescriptors, static_cast<int>(kJobSpecDescriptorsSize))) {
      std::abort();  // the build made the bytes
    }
    for (const pb::FileDescriptorProto& file : files.file()) {
      if (pool->BuildFile(file) == nullptr) std::abort();
    }
    return pool;
  }();
  return *kPool;
}

template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  pb::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return "";
  std::vector<std::string> words =
      absl::StrSplit(location.leading_comments, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return absl::StrJoin(words, " ");
}

std::string ScalarName(const pb::FieldDescriptor& field, bool several) {
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return several ? "numbers" : "number";
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return several ? "texts" : "text";
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return "name";
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return several ? "sections" : "section";
    default:
      return several ? "whole numbers" : "whole number";
  }
}

bool IsStruct(const pb::FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "google.protobuf.Struct";
}

// The message whose fields stand below `field`; null: none.
const pb::Descriptor* Below(const pb::FieldDescriptor& field) {
  if (field.message_type() == nullptr || IsStruct(field)) return nullptr;
  if (!field.is_map()) return field.message_type();
  return field.message_type()->map_value()->message_type();
}

std::string TypeName(const pb::FieldDescriptor& field) {
  if (field.is_map()) {
    return absl::StrCat("map to ", ScalarName(*field.message_type()->map_value(), true));
  }
  if (IsStruct(field)) return "map to any values";
  if (field.is_repeated()) return absl::StrCat("list of ", ScalarName(field, true));
  return ScalarName(field, false);
}

std::string InTicks(absl::string_view text) { return absl::StrCat("`", text, "`"); }

// `JOB_KIND_RL` is `rl` in YAML.
std::vector<std::string> EnumNames(const pb::EnumDescriptor& type) {
  std::vector<std::string> names;
  const std::string zero = type.value(0)->name();
  const size_t prefix = zero.size() - std::string("UNSPECIFIED").size();
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(absl::AsciiStrToLower(type.value(i)->name().substr(prefix)));
  }
  return names;
}

std::string DefaultText(const pb::FieldDescriptor& field, const v1::Setting& setting) {
  if (setting.required()) return "required";
  if (!setting.absent().empty()) return setting.absent();
  const bool text = field.cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING;
  return text && setting.has_default_() ? InTicks(setting.default_()) : setting.default_();
}

std::string AllowedText(const pb::FieldDescriptor& field, const v1::Setting& setting) {
  std::vector<std::string> names(setting.one_of().begin(), setting.one_of().end());
  if (field.enum_type() != nullptr) names = EnumNames(*field.enum_type());
  if (names.empty()) return BoundsText(BoundsOf(setting));
  for (std::string& name : names) name = InTicks(name);
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

// The fields below a field in a path.
std::string Prefix(const std::string& path, const pb::FieldDescriptor& field) {
  return absl::StrCat(path, field.is_map() ? ".NAME" : field.is_repeated() ? "[]" : "");
}

class Walk {
 public:
  std::vector<SpecSection> Run() {
    Visit(*v1::JobSpec::descriptor(), "");
    return std::move(sections_);
  }

 private:
  void Visit(const pb::Descriptor& type, const std::string& path) {
    const auto [known, first] = index_.emplace(type.full_name(), sections_.size());
    if (!first) {
      sections_[known->second].paths.push_back(path);
    } else {
      const auto& commented = *CommentPool().FindMessageTypeByName(type.full_name());
      sections_.push_back({type.name(), {path}, CommentOf(commented), {}});
    }
    const size_t index = known->second;
    for (int i = 0; i < type.field_count(); ++i) {
      const pb::FieldDescriptor& field = *type.field(i);
      const std::string at = path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
      if (first) sections_[index].fields.push_back(Describe(field, at));
      if (const pb::Descriptor* below = Below(field)) Visit(*below, Prefix(at, field));
    }
  }

  static SpecField Describe(const pb::FieldDescriptor& field, const std::string& path) {
    SpecField out;
    out.name = field.name();
    out.path = path;
    out.type = TypeName(field);
    if (const pb::Descriptor* below = Below(field)) out.section = below->name();
    const v1::Setting setting = SettingOf(field);
    out.default_value = DefaultText(field, setting);
    out.bounds = AllowedText(field, setting);
    out.meaning = MeaningOf(field);
    return out;
  }

  std::vector<SpecSection> sections_;
  std::map<std::string, size_t> index_;
};

const SpecSection* SectionOf(absl::string_view message) {
  for (const SpecSection& section : SpecSections()) {
    if (section.message == message) return &section;
  }
  return nullptr;
}

// "spec.reward.rules[0].type" -> reward, rules, type.
std::vector<std::string> PathParts(absl::string_view path) {
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    parts.emplace_back(part.substr(0, part.find('[')));
  }
  if (!parts.empty() && parts[0] == "spec") parts.erase(parts.begin());
  return parts;
}

// `section`: where `name` was looked for, and what it has; "": the whole spec.
absl::Status NoSuchField(const std::string& name, const std::string& section,
                         const std::vector<std::string>& known) {
  const std::string what =
      absl::StrCat(section.empty() ? "a spec" : section, " has no field '", name, "'");
  if (known.empty())
    return absl::NotFoundError(absl::StrCat(what, "; ", section, " has no fields"));
  const std::string* nearest = Nearest(name, known);
  std::vector<std::string> meant = PathsOfSetting(name);
  if (meant.empty() && nearest != nullptr) {
    meant = {absl::StrCat(section, section.empty() ? "" : ".", *nearest)};
  }
  if (meant.empty()) meant = PathsOfNearSetting(name);
  const std::string hint =
      !meant.empty() ? SuggestionOf(meant) : absl::StrCat("; it has ", absl::StrJoin(known, ", "));
  return absl::NotFoundError(what + hint);
}

std::string Anchor(const std::string& message) { return absl::AsciiStrToLower(message); }

// A cell of a table.
std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(text.empty() ? "–" : text, {{"|", "\\|"}});
}

}  // namespace

std::string MeaningOf(const pb::FieldDescriptor& field) {
  const pb::FieldDescriptor* commented = CommentPool().FindFieldByName(field.full_name());
  return commented == nullptr ? "" : CommentOf(*commented);
}

const std::vector<SpecSection>& SpecSections() {
  static const auto* const kSections = new std::vector<SpecSection>(Walk().Run());
  return *kSections;
}

absl::StatusOr<SpecEntry> FindSpecEntry(absl::string_view path) {
  const std::vector<std::string> parts = PathParts(path);
  const SpecSection* section = &SpecSections().front();
  SpecEntry found{{}, section};
  found.field.meaning = section->meaning;
  std::string walked;
  bool map_key = false;
  for (const std::string& part : parts) {
    if (std::exchange(map_key, false)) continue;  // a name of the user's own
    std::vector<std::string> names;
    const SpecField* field = nullptr;
    for (const SpecField& candidate :
         section == nullptr ? std::vector<SpecField>() : section->fields) {
      names.push_back(candidate.name);
    }
    if (section != nullptr) {
      const auto at = std::find(names.begin(), names.end(), part);
      if (at != names.end()) field = &section->fields[static_cast<size_t>(at - names.begin())];
    }
    if (field == nullptr) return NoSuchField(part, walked, names);
    absl::StrAppend(&walked, walked.empty() ? "" : ".", part);
    map_key = absl::StartsWith(field->type, "map to");
    section = SectionOf(field->section);
    found = {*field, section};
  }
  found.field.path = std::string(absl::StripPrefix(path, "spec."));
  return found;
}

std::string SpecReferenceMarkdown() {
  std::string out =
      "# Every field of a job's spec\n\n"
      "`baton explain-spec rollout.n` prints one of these fields, `baton explain-spec rollout` a\n"
      "section, and `baton submit job.yaml --dry-run` what a spec becomes with every default.\n"
      "`formats/job-spec.md` tells how a spec is written. This page is made from\n"
      "`proto/baton/v1/job_spec.proto` by `./dev docs`; edit that file, not the page.\n";
  for (const SpecSection& section : SpecSections()) {
    const bool root = section.paths[0].empty();
    absl::StrAppend(&out, "\n## ", root ? "The whole spec" : section.message, "\n\n");
    if (!root) {
      absl::StrAppend(&out, "<a id=\"", Anchor(section.message), "\"></a>`",
                      absl::StrJoin(section.paths, "`, `"), "`. ");
    }
    absl::StrAppend(&out, section.meaning, "\n\n| field | type | default | bounds | |\n",
                    "|---|---|---|---|---|\n");
    for (const SpecField& field : section.fields) {
      const std::string type =
          field.section.empty() ? field.type
                                : absl::StrCat("[", field.type, "](#", Anchor(field.section), ")");
      absl::StrAppend(&out, "| `", field.name, "` | ", type, " | ", Cell(field.default_value),
                      " | ", Cell(field.bounds), " | ", Cell(field.meaning), " |\n");
    }
  }
  return out;
}

}  // namespace baton::cli
