// Typed access to JSON that came from outside: a missing or wrongly typed field is an error that
// names the file and the path of the field, never an exception.
#ifndef BATON_SDK_COMMON_SCHEMA_JSON_FIELDS_H_
#define BATON_SDK_COMMON_SCHEMA_JSON_FIELDS_H_

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/json_nesting.h"

namespace baton {

using Json = nlohmann::json;

/// Parses a whole document; the error holds `where` and the byte of the fault. Nested deeper than
/// kMaxNesting, it is refused.
[[nodiscard]] inline absl::StatusOr<Json> ParseJsonObject(absl::string_view text,
                                                          absl::string_view where) {
  if (NestingOf(text) > kMaxNesting) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": values are nested more than ", kMaxNesting, " deep"));
  }
  try {
    Json json = Json::parse(text.begin(), text.end());
    if (!json.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": expected a JSON object, found ", json.type_name()));
    }
    return json;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": not valid JSON: ", error.what()));
  }
}

[[nodiscard]] inline absl::Status WrongType(absl::string_view where, absl::string_view key,
                                            absl::string_view expected, const Json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ".", key, ": expected ", expected, ", found ", found.type_name()));
}

/// The member `key`, or null when it is absent or JSON null.
[[nodiscard]] inline const Json* FindField(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

[[nodiscard]] inline absl::StatusOr<std::string> StringField(const Json& object, const char* key,
                                                             absl::string_view where) {
  const Json* field = FindField(object, key);
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(where, ".", key, ": missing"));
  }
  if (!field->is_string()) return WrongType(where, key, "a string", *field);
  return field->get<std::string>();
}

[[nodiscard]] inline absl::StatusOr<bool> BoolField(const Json& object, const char* key,
                                                    bool otherwise, absl::string_view where) {
  const Json* field = FindField(object, key);
  if (field == nullptr) return otherwise;
  if (!field->is_boolean()) return WrongType(where, key, "true or false", *field);
  return field->get<bool>();
}

/// An integer within [low, high].
[[nodiscard]] inline absl::StatusOr<int64_t> IntegerValue(const Json& value, int64_t low,
                                                          int64_t high, absl::string_view where) {
  if (!value.is_number_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an integer, found ", value.type_name()));
  }
  const bool too_large =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (too_large || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ", value.dump(), " is not in [", low, ", ", high, "]"));
  }
  return value.get<int64_t>();
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_JSON_FIELDS_H_
