// Keys of a config.json, read one after the other; the first problem is kept and names its key.
#ifndef BATON_SDK_COMMON_SCHEMA_CONFIG_READER_H_
#define BATON_SDK_COMMON_SCHEMA_CONFIG_READER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/common/schema/json_fields.h"

namespace baton {

/// A warning: two keys of a config.json contradict each other, and the first one counts.
inline std::string Contradiction(absl::string_view key, absl::string_view value,
                                 absl::string_view other_key, absl::string_view other) {
  return absl::StrCat("config.json says ", key, ": ", value, " and ", other_key, ": ", other,
                      "; the former counts, as in transformers 5");
}

/// Reads keys of one object and remembers the first problem. `prefix` stands before each key that
/// an error names. The object must outlive the reader.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string prefix) : json_(json), prefix_(std::move(prefix)) {}

  /// Null when absent or JSON null.
  const Json* Find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }

  /// True for a null, too.
  bool Has(const char* key) const { return json_.contains(key); }

  void Int(const char* key, int64_t& out, bool required = false) {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (required) Fail(key, "is missing");
    } else if (!value->is_number_integer()) {
      Fail(key, "must be an integer");
    } else if (value->is_number_unsigned() &&
               value->get<uint64_t>() >
                   static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(key, "is too large");
    } else {
      out = value->get<int64_t>();
    }
  }
  void Number(const char* key, double& out, bool required = false) {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (required) Fail(key, "is missing");
      return;
    }
    if (!value->is_number()) return Fail(key, "must be a number");
    out = value->get<double>();
  }
  void Bool(const char* key, bool& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(key, "must be true or false");
    out = value->get<bool>();
  }
  void String(const char* key, std::string& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(key, "must be a string");
    out = value->get<std::string>();
  }
  void OptionalInt(const char* key, std::optional<int64_t>& out) {
    if (Find(key) == nullptr) return;
    int64_t value = 0;
    Int(key, value);
    out = value;
  }
  void IntOrList(const char* key, std::vector<int64_t>& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    for (const Json& item : value->is_array() ? *value : Json::array({*value})) {
      if (!item.is_number_integer()) return Fail(key, "must be an integer or a list of integers");
      if (item.is_number_unsigned() && item.get<uint64_t>() > INT64_MAX) {
        return Fail(key, "is too large");
      }
      out.push_back(item.get<int64_t>());
    }
  }

  void Strings(const char* key, std::vector<std::string>& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(key, "must be a list of strings");
    for (const Json& item : *value) {
      if (!item.is_string()) return Fail(key, "must be a list of strings");
      out.push_back(item.get<std::string>());
    }
  }
  void Numbers(const char* key, std::vector<double>& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(key, "must be a list of numbers");
    for (const Json& item : *value) {
      if (!item.is_number()) return Fail(key, "must be a list of numbers");
      out.push_back(item.get<double>());
    }
  }

  void Fail(absl::string_view key, absl::string_view problem) {
    Note(absl::InvalidArgumentError(absl::StrCat(prefix_, key, ": ", problem)));
  }
  void Note(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  std::string prefix_;
  absl::Status status_;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_CONFIG_READER_H_
