#include "sdk/common/messages/settings.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"

namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const v1::Setting& OwnSetting(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::setting);
}

// A message of ours. Others, such as a Struct, hold no settings.
bool IsSection(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         absl::StartsWith(field.message_type()->full_name(), "baton.");
}

void SetDefault(const FieldDescriptor& field, const std::string& text, Message* message) {
  const auto* reflection = message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, &field, text == "true");
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      if (absl::SimpleAtoi(text, &value)) reflection->SetInt32(message, &field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      if (absl::SimpleAtoi(text, &value)) reflection->SetInt64(message, &field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (absl::SimpleAtod(text, &value)) reflection->SetDouble(message, &field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(message, &field, text);
    default:
      return;  // SettingsTest has no such default
  }
}

// The settings of the fields with Setting.as_in, completed by the named message's fields.
std::map<const FieldDescriptor*, v1::Setting> MergedSettings() {
  std::map<const FieldDescriptor*, v1::Setting> merged;
  const auto& file = *v1::JobSpec::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    const auto& type = *file.message_type(i);
    for (int k = 0; k < type.field_count(); ++k) {
      const FieldDescriptor& field = *type.field(k);
      const v1::Setting& own = OwnSetting(field);
      if (own.as_in().empty()) continue;
      const auto* other =
          file.pool()->FindMessageTypeByName(absl::StrCat(file.package(), ".", own.as_in()));
      const FieldDescriptor* same =
          other == nullptr ? nullptr : other->FindFieldByName(field.name());
      if (same == nullptr) continue;
      v1::Setting& all = merged[&field];
      all = OwnSetting(*same);
      all.MergeFrom(own);
    }
  }
  return merged;
}

std::string NameProblem(const std::string& name, const v1::Setting& setting) {
  const auto& names = setting.one_of();
  if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) return "";
  return absl::StrCat("'", name, "' is not one of: ", absl::StrJoin(names, ", "));
}

// The problem of the value of a field that is no message; "": none.
std::string ValueProblem(const Message& message, const FieldDescriptor& field,
                         const v1::Setting& setting) {
  const auto* reflection = message.GetReflection();
  const Bounds bounds = BoundsOf(setting);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return NumberProblem(reflection->GetInt32(message, &field), bounds);
    case FieldDescriptor::CPPTYPE_INT64:
      return NumberProblem(static_cast<double>(reflection->GetInt64(message, &field)), bounds);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberProblem(reflection->GetDouble(message, &field), bounds);
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string copy;
      return NameProblem(reflection->GetStringReference(message, &field, &copy), setting);
    }
    default:
      return "";
  }
}

std::string Missing(const v1::Setting& setting) {
  if (!setting.hint().empty()) return absl::StrCat("is missing; ", setting.hint());
  return absl::StrCat("is missing; one of: ", absl::StrJoin(setting.one_of(), ", "));
}

// The path of a field. Its text is made only for a problem: a spec may have many elements.
struct SettingPath {
  const SettingPath* parent = nullptr;
  absl::string_view name;  // a field, or the key of a map's entry
  int index = -1;          // of a list's element instead

  std::string Text() const {
    const std::string before = parent == nullptr ? "" : parent->Text();
    if (index >= 0) return absl::StrCat(before, "[", index, "]");
    return before.empty() ? std::string(name) : absl::StrCat(before, ".", name);
  }
};

class SettingCheck {
 public:
  explicit SettingCheck(Violations* out) : out_(*out) {}

  void Visit(const Message& message, const SettingPath& path) {
    const auto& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const SettingPath at = {&path, field.name()};
      const v1::Setting& setting = SettingOf(field);
      if (setting.required() && !IsGiven(message, field)) {
        out_.Add(at.Text(), Missing(setting));
      } else if (field.is_map()) {
        VisitMap(message, field, setting, at);
      } else if (field.is_repeated()) {
        VisitList(message, field, at);
      } else if (message.GetReflection()->HasField(message, &field)) {
        VisitOne(message, field, setting, at);
      }
    }
  }

 private:
  // An empty text or list is as good as none.
  static bool IsGiven(const Message& message, const FieldDescriptor& field) {
    const auto* reflection = message.GetReflection();
    if (field.is_repeated()) return reflection->FieldSize(message, &field) > 0;
    if (!reflection->HasField(message, &field)) return false;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return true;
    std::string copy;
    return !reflection->GetStringReference(message, &field, &copy).empty();
  }

  void VisitOne(const Message& message, const FieldDescriptor& field, const v1::Setting& setting,
                const SettingPath& path) {
    if (IsSection(field)) {
      return Visit(message.GetReflection()->GetMessage(message, &field), path);
    }
    const std::string problem = ValueProblem(message, field, setting);
    if (!problem.empty()) out_.Add(path.Text(), problem);
  }

  void VisitList(const Message& message, const FieldDescriptor& field, const SettingPath& path) {
    if (!IsSection(field)) return;
    const auto* reflection = message.GetReflection();
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      Visit(reflection->GetRepeatedMessage(message, &field, i), SettingPath{&path, "", i});
    }
  }

  // By key: the order of a map's entries is not the same in every process.
  void VisitMap(const Message& message, const FieldDescriptor& field, const v1::Setting& setting,
                const SettingPath& path) {
    const auto* reflection = message.GetReflection();
    const FieldDescriptor& key = *field.message_type()->map_key();
    const FieldDescriptor& value = *field.message_type()->map_value();
    std::map<std::string, const Message*> entries;
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      const Message& entry = reflection->GetRepeatedMessage(message, &field, i);
      entries[entry.GetReflection()->GetString(entry, &key)] = &entry;
    }
    for (const auto& [name, entry] : entries) {
      VisitOne(*entry, value, setting, SettingPath{&path, name});
    }
  }

  Violations& out_;
};

}  // namespace

const v1::Setting& SettingOf(const FieldDescriptor& field) {
  const v1::Setting& own = OwnSetting(field);
  if (own.as_in().empty()) return own;
  static const auto* const kMerged = new auto(MergedSettings());  // once: a spec has many fields
  const auto merged = kMerged->find(&field);
  return merged == kMerged->end() ? own : merged->second;
}

Bounds BoundsOf(const v1::Setting& setting) {
  Bounds bounds;
  if (setting.has_min()) bounds.low = setting.min();
  if (setting.has_above()) bounds.low = setting.above();
  bounds.above_low = setting.has_above();
  if (setting.has_max()) bounds.high = setting.max();
  return bounds;
}

void FillDefaults(Message* message) {
  const auto& type = *message->GetDescriptor();
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_map()) continue;
    if (field.is_repeated()) {
      for (int k = 0; IsSection(field) && k < reflection->FieldSize(*message, &field); ++k) {
        FillDefaults(reflection->MutableRepeatedMessage(message, &field, k));
      }
    } else if (!reflection->HasField(*message, &field)) {
      const v1::Setting& setting = SettingOf(field);
      if (setting.has_default_()) SetDefault(field, setting.default_(), message);
    } else if (IsSection(field)) {
      FillDefaults(reflection->MutableMessage(message, &field));
    }
  }
}

void CheckSettings(const Message& section, const std::string& path, Violations* out) {
  SettingCheck(out).Visit(section, SettingPath{nullptr, path});
}

}  // namespace baton
