#include "sdk/client/spec_yaml.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/struct.pb.h"
#include "sdk/client/enum_name.h"
#include "sdk/client/other_names.h"
#include "sdk/client/setting_paths.h"
#include "sdk/client/yaml_document.h"
#include "sdk/common/base/nearest.h"
#include "sdk/common/base/utf8.h"
#include "yaml-cpp/yaml.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The last --set that gives the value at `path`; "": none does.
std::string SetOf(const ParsedSpec& parsed, const std::string& path) {
  for (auto set = parsed.sets.rbegin(); set != parsed.sets.rend(); ++set) {
    if (IsAtOrBelow(path, set->first)) return set->second;
  }
  return "";
}

// The first --set that gives a part of `path`.
std::string SetBelow(const ParsedSpec& parsed, const std::string& path) {
  for (const auto& [below, set] : parsed.sets) {
    if (IsAtOrBelow(below, path)) return set;
  }
  return "";
}

const char* KindName(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsNull() || !node.IsDefined()) return "nothing";
  return "a value";
}

class Walker {
 public:
  explicit Walker(ParsedSpec* out) : out_(out) {}

  void Walk(const YAML::Node& node, const std::string& path, Message* message) {
    if (node.IsNull()) return;
    const Descriptor* type = message->GetDescriptor();
    // `speculation: off` is short for `speculation: {mode: off}`, where the mode is what comes
    // first.
    const FieldDescriptor* first = type->FindFieldByNumber(1);
    if (node.IsScalar() && !path.empty() && first != nullptr && first->name() == "mode") {
      return Element(node, path, message, first);
    }
    if (!node.IsMap()) {
      return NeedsKeys(node, path);
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        Problem(entry.first, path, "has a key that is not a name");
        continue;
      }
      const std::string key = entry.first.Scalar();
      const std::string inner = path.empty() ? key : absl::StrCat(path, ".", key);
      if (!seen.insert(key).second) {
        Problem(entry.first, inner, "is given twice");
        continue;
      }
      const FieldDescriptor* field = type->FindFieldByName(key);
      if (field == nullptr) {
        if (IsMisspelled(key, entry.second, type) ||
            !NameOthers(entry.first, entry.second, inner)) {
          UnknownKey(entry.first, path, FieldNames(type));
        }
        continue;
      }
      Place(inner, entry.first);
      Field(entry.second, inner, message, field);
    }
  }

 private:
  static std::vector<std::string> FieldNames(const Descriptor* type) {
    std::vector<std::string> names;
    for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
    return names;
  }

  // True if `key` is nearly the name of a section that has all keys of `value`.
  static bool IsMisspelled(const std::string& key, const YAML::Node& value,
                           const Descriptor* type) {
    const std::vector<std::string> names = FieldNames(type);
    const std::string* nearest = Nearest(key, names);
    if (nearest == nullptr || !value.IsMap()) return false;
    const Descriptor* section = type->FindFieldByName(*nearest)->message_type();
    return section != nullptr && std::all_of(value.begin(), value.end(), [&](const auto& entry) {
             return entry.first.IsScalar() &&
                    section->FindFieldByName(entry.first.Scalar()) != nullptr;
           });
  }

  SpecProblem& Problem(const YAML::Node& node, const std::string& path,
                       const std::string& message) {
    SpecProblem& problem = out_->problems.emplace_back();
    problem.path = path;
    problem.message = message;
    problem.set = SetOf(*out_, path);
    const YAML::Mark mark = node.Mark();
    // A parent that only a --set creates has no place in the document.
    if (problem.set.empty() && mark.is_null()) problem.set = SetBelow(*out_, path);
    if (!problem.set.empty()) return problem;
    problem.line = mark.line + 1;
    problem.column = mark.column + 1;
    return problem;
  }

  void Unreadable(const YAML::Node& node, const std::string& path, const std::string& message) {
    Problem(node, path, message).unreadable = true;
  }

  // A section, options or a map has another shape.
  void NeedsKeys(const YAML::Node& node, const std::string& path) {
    const std::string instead = InsteadOfValue(path);
    Unreadable(
        node, path,
        absl::StrCat("needs keys, not ", KindName(node), instead.empty() ? "" : "; ", instead));
  }

  // A value has another shape: the settings that other trainers have in it are ours elsewhere.
  void NeedsValue(const YAML::Node& node, const std::string& path, const std::string& type) {
    const bool absent = node.IsNull() || !node.IsDefined();
    Unreadable(node, path,
               absl::StrCat("needs ", type, ", not ", KindName(node),
                            absent ? "; remove the key, and it has its default" : ""));
    if (!node.IsMap()) return;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) continue;
      NameOthers(entry.first, entry.second, absl::StrCat(path, ".", entry.first.Scalar()));
    }
  }

  // Reports `path`, or what is below it, as settings of other trainers. False: none is one. An
  // alias may lead back to its own section, so it looks only so deep.
  bool NameOthers(const YAML::Node& key, const YAML::Node& value, const std::string& path,
                  int deepest = 8) {
    if (const OtherName* other = FindOtherName(path); other != nullptr) {
      OtherKey(key, path, *other);
      return true;
    }
    if (!value.IsMap() || deepest == 0) return false;
    bool found = false;
    int unknown = 0;
    for (const auto& entry : value) {
      const std::string inner =
          absl::StrCat(path, ".", entry.first.IsScalar() ? entry.first.Scalar() : "?");
      const bool known = NameOthers(entry.first, entry.second, inner, deepest - 1);
      found |= known;
      unknown += known ? 0 : 1;
    }
    if (found && unknown > 0) {
      Problem(key, path,
              absl::StrCat("unknown key; ", unknown, " of the keys in it ",
                           unknown == 1 ? "has" : "have", " no setting here: remove the section"));
    }
    return found;
  }

  void OtherKey(const YAML::Node& key, const std::string& path, const OtherName& other) {
    std::string message = "unknown key; ";
    if (!other.ours.empty()) absl::StrAppend(&message, "here it is ", other.ours);
    absl::StrAppend(&message, other.ours.empty() || other.note.empty() ? "" : ": ", other.note);
    Problem(key, path, message).meant = std::string(other.ours);
  }

  void UnknownKey(const YAML::Node& key, const std::string& parent,
                  const std::vector<std::string>& known) {
    const std::string prefix = parent.empty() ? "" : absl::StrCat(parent, ".");
    const std::string& name = key.Scalar();
    const std::string* nearest = Nearest(name, known);
    std::vector<std::string> elsewhere = PathsOfSetting(name);  // the name is right
    if (elsewhere.empty() && nearest == nullptr) elsewhere = PathsOfNearSetting(name);
    const std::string hint = !elsewhere.empty() ? SuggestionOf(elsewhere)
                             : nearest != nullptr
                                 ? SuggestionOf({*nearest})
                                 : absl::StrCat("; valid here: ", absl::StrJoin(known, ", "));
    SpecProblem& problem =
        Problem(key, absl::StrCat(prefix, name), absl::StrCat("unknown key", hint));
    if (elsewhere.size() == 1) problem.meant = elsewhere[0];
    if (elsewhere.empty() && nearest != nullptr) problem.meant = absl::StrCat(prefix, *nearest);
  }

  // Remembers the line of `path`, unless a --set gives it.
  void Place(const std::string& path, const YAML::Node& node) {
    if (node.Mark().is_null() || !SetOf(*out_, path).empty()) return;
    out_->lines.emplace(path, node.Mark().line + 1);
  }

  void Field(const YAML::Node& node, const std::string& path, Message* message,
             const FieldDescriptor* field) {
    if (field->is_map()) return Map(node, path, message, field);
    if (field->is_repeated()) {
      if (node.IsNull()) return;
      if (!node.IsSequence()) {  // one element without its brackets
        if (node.IsScalar() && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
          return Element(node, path, message, field);
        }
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          message->GetReflection()->AddMessage(message, field);
        }
        return Unreadable(node, path,
                          absl::StrCat("needs a list, not ", KindName(node),
                                       node.IsMap() ? "; write `- ` before its first key" : ""));
      }
      for (size_t i = 0; i < node.size(); ++i) {
        const std::string inner = absl::StrCat(path, "[", i, "]");
        Place(inner, node[i]);
        Element(node[i], inner, message, field);
      }
      return;
    }
    Element(node, path, message, field);
  }

  // Sets a singular field, or adds to a repeated one.
  void Element(const YAML::Node& node, const std::string& path, Message* message,
               const FieldDescriptor* field) {
    const Reflection* reflection = message->GetReflection();
    const bool add = field->is_repeated();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message* inner =
          add ? reflection->AddMessage(message, field) : reflection->MutableMessage(message, field);
      if (inner->GetDescriptor()->full_name() == "google.protobuf.Struct") {
        return FillStruct(node, path, static_cast<google::protobuf::Struct*>(inner));
      }
      return Walk(node, path, inner);
    }
    if (!node.IsScalar()) {
      const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      if (text && !add) reflection->SetString(message, field, "?");
      return NeedsValue(node, path, TypeName(field));
    }
    const std::string& text = node.Scalar();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        if (add) {
          reflection->AddString(message, field, text);
        } else {
          reflection->SetString(message, field, text);
        }
        return;
      case FieldDescriptor::CPPTYPE_BOOL: {
        bool value = false;
        if (!YAML::convert<bool>::decode(node, value)) return Wrong(node, path, field);
        return reflection->SetBool(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value = 0;
        if (!absl::SimpleAtod(text, &value)) return Wrong(node, path, field);
        return reflection->SetDouble(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64:
        return Integer(node, path, message, field);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Enum(node, path, message, field);
      default:
        return Unreadable(node, path, "cannot be given in YAML");
    }
  }

  void Integer(const YAML::Node& node, const std::string& path, Message* message,
               const FieldDescriptor* field) {
    const std::string& text = node.Scalar();
    const bool narrow = field->cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      double number = 0;  // 1e6 is an integer, too
      if (!absl::SimpleAtod(text, &number) || std::floor(number) != number ||
          std::abs(number) > 9e15) {
        return Wrong(node, path, field);
      }
      value = static_cast<int64_t>(number);
    }
    if (const OtherValue* other = FindOtherValue(path, value); other != nullptr) {
      if (!other->ours)
        return Unreadable(node, path, absl::StrCat("is ", value, "; ", other->note));
      value = *other->ours;
    }
    if (narrow && (value > std::numeric_limits<int32_t>::max() ||
                   value < std::numeric_limits<int32_t>::min())) {
      return Unreadable(node, path, absl::StrCat(text, " does not fit into 32 bits"));
    }
    if (narrow) {
      message->GetReflection()->SetInt32(message, field, static_cast<int32_t>(value));
    } else {
      message->GetReflection()->SetInt64(message, field, value);
    }
  }

  void Enum(const YAML::Node& node, const std::string& path, Message* message,
            const FieldDescriptor* field) {
    const EnumDescriptor* type = field->enum_type();
    std::vector<std::string> names;
    for (int i = 0; i < type->value_count(); ++i) {
      const auto* value = type->value(i);
      if (value->number() == 0) continue;
      names.push_back(ShortName(type, value->name()));
      if (node.Scalar() == names.back() || node.Scalar() == value->name()) {
        return message->GetReflection()->SetEnum(message, field, value);
      }
    }
    Unreadable(node, path,
               absl::StrCat("'", node.Scalar(), "' is not one of: ", absl::StrJoin(names, ", ")));
  }

  void Map(const YAML::Node& node, const std::string& path, Message* message,
           const FieldDescriptor* field) {
    if (node.IsNull()) return;
    if (!node.IsMap()) {
      return NeedsKeys(node, path);
    }
    const Descriptor* entry_type = field->message_type();
    for (const auto& entry : node) {
      Message* made = message->GetReflection()->AddMessage(message, field);
      const std::string inner = absl::StrCat(path, ".", entry.first.Scalar());
      Element(entry.first, inner, made, entry_type->map_key());
      Element(entry.second, inner, made, entry_type->map_value());
    }
  }

  void FillStruct(const YAML::Node& node, const std::string& path, google::protobuf::Struct* out) {
    if (!node.IsMap()) return NeedsKeys(node, path);
    for (const auto& entry : node) {
      FillValue(entry.second, &(*out->mutable_fields())[entry.first.Scalar()]);
    }
  }

  void FillValue(const YAML::Node& node, google::protobuf::Value* out) {
    double number = 0;
    bool flag = false;
    if (node.IsScalar() && node.Tag() == "!") {  // in quotes
      out->set_string_value(node.Scalar());
    } else if (node.IsMap()) {
      for (const auto& entry : node) {
        FillValue(entry.second,
                  &(*out->mutable_struct_value()->mutable_fields())[entry.first.Scalar()]);
      }
    } else if (node.IsSequence()) {
      for (const auto& element : node) FillValue(element, out->mutable_list_value()->add_values());
    } else if (!node.IsScalar()) {
      out->set_null_value(google::protobuf::NULL_VALUE);
    } else if (absl::SimpleAtod(node.Scalar(), &number)) {
      out->set_number_value(number);
    } else if (YAML::convert<bool>::decode(node, flag)) {
      out->set_bool_value(flag);
    } else {
      out->set_string_value(node.Scalar());
    }
  }

  static std::string TypeName(const FieldDescriptor* field) {
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return "true or false";
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return "a number";
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64:
        return "an integer";
      default:
        return "text";
    }
  }

  void Wrong(const YAML::Node& node, const std::string& path, const FieldDescriptor* field) {
    Unreadable(node, path, absl::StrCat("'", node.Scalar(), "' is not ", TypeName(field)));
  }

  ParsedSpec* const out_;
};

// "a.b[0].c" -> {"a", "b", "[0]", "c"}.
std::optional<std::vector<std::string>> SplitPath(absl::string_view path) {
  std::vector<std::string> parts;
  std::string part;
  for (char c : path) {
    if (c == '.' || c == '[') {
      if (!part.empty()) parts.push_back(part);
      part.clear();
      if (c == '[') part = "[";
    } else {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  if (parts.empty()) return std::nullopt;
  return parts;
}

void ApplySet(const std::string& set, YAML::Node* root, ParsedSpec* out) {
  const auto fail = [&](const std::string& path, const std::string& message) {
    SpecProblem& problem = out->problems.emplace_back();
    problem.path = path;
    problem.message = message;
    problem.set = set;
    problem.unreadable = true;
  };
  const size_t equals = set.find('=');
  const auto parts = SplitPath(absl::string_view(set).substr(0, equals));
  if (equals == std::string::npos || !parts.has_value()) return fail("", "write it as path=value");
  const std::string path = set.substr(0, equals);
  try {
    YAML::Node node;
    node.reset(*root);
    std::string reached;
    for (const std::string& part : *parts) {
      if (node.IsDefined() && node.IsScalar()) {
        return fail(path,
                    absl::StrCat("the spec has a value at ", reached, ", which has no parts"));
      }
      YAML::Node next;
      size_t index = 0;
      if (part[0] == '[') {
        if (!absl::SimpleAtoi(part.substr(1, part.size() - 2), &index) || index > node.size()) {
          return fail(path, absl::StrCat("there is no element ", part));
        }
        next.reset(node[index]);
      } else {
        next.reset(node[part]);
      }
      node.reset(next);
      absl::StrAppend(&reached, reached.empty() || part[0] == '[' ? "" : ".", part);
    }
    node = YAML::Load(set.substr(equals + 1));
    out->sets.emplace_back(path, set);
  } catch (const YAML::Exception& e) {
    fail(path, absl::StrCat("the value is not valid YAML: ", YamlProblem(e)));
  }
}

}  // namespace

ParsedSpec ParseSpecYaml(absl::string_view yaml, const std::vector<std::string>& sets) {
  ParsedSpec out;
  if (const size_t valid = ValidUtf8Prefix(yaml); valid < yaml.size()) {
    const absl::string_view before = yaml.substr(0, valid);
    out.problems.push_back({"",
                            1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')), 0,
                            "a byte that is not UTF-8; save the file in that encoding"});
    return out;
  }
  for (const std::string& set : sets) {
    if (IsValidUtf8(set)) continue;
    out.problems.push_back({"", 0, 0, "--set: a byte that is not UTF-8"});
    return out;
  }
  try {
    YAML::Node root = LoadDocument(yaml, &out.problems);
    if (!root.IsDefined() || root.IsNull()) return out;
    for (const std::string& set : sets) ApplySet(set, &root, &out);
    out.read = root.IsMap();
    Walker(&out).Walk(root, "", &out.spec);
  } catch (const YAML::Exception& e) {
    out.problems.push_back(
        {"", e.mark.line + 1, e.mark.column + 1, absl::StrCat("not valid YAML: ", YamlProblem(e))});
  }
  return out;
}

bool IsAtOrBelow(const std::string& path, const std::string& parent) {
  return absl::StartsWith(path, parent) &&
         (path.size() == parent.size() || path[parent.size()] == '.' || path[parent.size()] == '[');
}

std::string FormatProblems(const std::string& file, const std::vector<SpecProblem>& problems) {
  std::string out;
  for (const SpecProblem& problem : problems) {
    if (!problem.set.empty()) {
      const bool same = problem.path == problem.set.substr(0, problem.set.find('='));
      absl::StrAppend(&out, "--set ", problem.set, ": ", same ? "" : problem.path,
                      same || problem.path.empty() ? "" : ": ", problem.message, "\n");
      continue;
    }
    absl::StrAppend(&out, file);
    if (problem.line > 0) absl::StrAppend(&out, ":", problem.line);
    if (problem.line > 0 && problem.column > 0) absl::StrAppend(&out, ":", problem.column);
    absl::StrAppend(&out, ": ", problem.path, problem.path.empty() ? "" : ": ", problem.message,
                    "\n");
  }
  return out;
}

std::vector<SpecProblem> LocateViolations(const ParsedSpec& parsed,
                                          const std::vector<v1::FieldViolation>& violations) {
  std::vector<SpecProblem> out;
  for (const v1::FieldViolation& violation : violations) {
    SpecProblem problem;
    problem.path = violation.field();
    if (absl::StartsWith(problem.path, "spec.")) problem.path.erase(0, 5);
    problem.message = violation.description();
    problem.set = SetOf(parsed, problem.path);
    if (!problem.set.empty()) {
      out.push_back(std::move(problem));
      continue;
    }
    // The key itself, or the nearest part of the spec that holds it.
    for (std::string path = problem.path; !path.empty();) {
      const auto line = parsed.lines.find(path);
      if (line != parsed.lines.end()) {
        problem.line = line->second;
        break;
      }
      const size_t cut = path.find_last_of(".[");
      path.resize(cut == std::string::npos ? 0 : cut);
    }
    out.push_back(std::move(problem));
  }
  return out;
}

}  // namespace baton
