#include "workers/tokenizer/steps/json_components.h"

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"

namespace baton::tokenizer {
namespace {

constexpr int kMaxDepth = 8;
constexpr int kMaxTextSteps = 64;
constexpr double kMaxGrowth = 256;
constexpr size_t kMaxPrependedBytes = 1024;

absl::Status FlattenInto(const Json& json, const char* list, const std::string& where, int depth,
                         std::vector<JsonComponent>* out) {
  if (json.is_null()) return absl::OkStatus();
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an object, found ", json.type_name()));
  }
  BATON_ASSIGN_OR_RETURN(const std::string type, StringField(json, "type", where));
  if (type != "Sequence") {
    out->emplace_back(where, &json);
    return absl::OkStatus();
  }
  const Json* parts = FindField(json, list);
  if (parts == nullptr || !parts->is_array() || depth >= kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".", list, ": expected a list, nested at most ", kMaxDepth, " deep"));
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    BATON_RETURN_IF_ERROR(FlattenInto((*parts)[i], list,
                                      absl::StrCat(where, ".", list, "[", i, "]"), depth + 1, out));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<JsonComponent>> FlattenSequence(const Json& json, const char* list,
                                                           const std::string& where) {
  std::vector<JsonComponent> out;
  BATON_RETURN_IF_ERROR(FlattenInto(json, list, where, 0, &out));
  return out;
}

absl::StatusOr<MetaspaceOptions> ParseMetaspaceOptions(const Json& json, const std::string& where) {
  MetaspaceOptions out;
  BATON_ASSIGN_OR_RETURN(out.replacement, StringField(json, "replacement", where));
  if (out.replacement.empty() || ReadUtf8(out.replacement).length != out.replacement.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".replacement: expected one character, found '", out.replacement, "'"));
  }
  // Older files have add_prefix_space alone.
  BATON_ASSIGN_OR_RETURN(const bool adds, BoolField(json, "add_prefix_space", true, where));
  std::string scheme = adds ? "always" : "never";
  if (FindField(json, "prepend_scheme") != nullptr) {
    BATON_ASSIGN_OR_RETURN(scheme, StringField(json, "prepend_scheme", where));
    if (!adds && scheme != "never") {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": add_prefix_space is false, but prepend_scheme is '", scheme, "'; remove one"));
    }
  }
  if (scheme == "first") {
    out.scheme = MetaspaceOptions::Scheme::kFirst;
  } else if (scheme == "never") {
    out.scheme = MetaspaceOptions::Scheme::kNever;
  } else if (scheme != "always") {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".prepend_scheme: '", scheme, "' is not one of first, always, never"));
  }
  BATON_ASSIGN_OR_RETURN(out.split, BoolField(json, "split", true, where));
  return out;
}

absl::Status GrowthLimit::AddStep(absl::string_view where) {
  if (++steps_ <= kMaxTextSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": there may be ", kMaxTextSteps, " such steps at most"));
}

absl::Status GrowthLimit::AddChange(size_t from, size_t to, absl::string_view where) {
  BATON_RETURN_IF_ERROR(AddStep(where));
  if (to > from) growth_ *= static_cast<double>(to) / static_cast<double>(from);
  if (growth_ <= kMaxGrowth) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": with the steps before it, it may make a text more than ", kMaxGrowth,
                   " times as long"));
}

absl::Status GrowthLimit::AddPrepend(size_t bytes, absl::string_view where) {
  BATON_RETURN_IF_ERROR(AddStep(where));
  prepended_bytes_ += bytes;
  if (prepended_bytes_ <= kMaxPrependedBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": more than ", kMaxPrependedBytes, " bytes are prepended to a text"));
}

absl::Status Unsupported(absl::string_view where, absl::string_view what,
                         absl::string_view supported) {
  return absl::UnimplementedError(
      absl::StrCat(where, ": ", what, " is not supported; supported: ", supported));
}

}  // namespace baton::tokenizer
