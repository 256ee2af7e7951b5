#include "sdk/common/data_set/parse_line.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/data_set/json_problem.h"

namespace baton {
namespace {

using Json = DataJson;

constexpr size_t kMaxLine = 16u << 20;

// Keys that are written in valid JSON: each has a colon behind it.
size_t KeysWritten(absl::string_view json) {
  size_t colons = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && c == ':') {
      ++colons;
    }
  }
  return colons;
}

size_t KeysHeld(const Json& json) {
  if (!json.is_structured()) return 0;
  size_t keys = json.is_object() ? json.size() : 0;
  for (const Json& inner : json) keys += KeysHeld(inner);
  return keys;
}

// Stops at the first key that its object has already.
class DuplicateFinder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(int64_t /*value*/) override { return true; }
  bool number_unsigned(uint64_t /*value*/) override { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return true; }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(Json::binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(size_t /*size*/) override {
    open_.emplace_back();
    return true;
  }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    found_ = name;
    return false;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(size_t /*size*/) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

  const std::string& found() const { return found_; }

 private:
  std::vector<std::set<std::string>> open_;  // keys of the objects that are open
  std::string found_;
};

}  // namespace

absl::StatusOr<DataJson> ParseLine(absl::string_view line) {
  if (line.size() > kMaxLine) return absl::InvalidArgumentError("the line is longer than 16 MiB");
  if (NestingOf(line) > kMaxNesting) {
    return absl::InvalidArgumentError(
        absl::StrCat("values are nested more than ", kMaxNesting, " deep"));
  }
  Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError(JsonProblem(line));
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  if (KeysWritten(line) == KeysHeld(json)) return json;
  DuplicateFinder finder;
  Json::sax_parse(line.begin(), line.end(), &finder);
  return absl::InvalidArgumentError(
      absl::StrCat("`", CutText(finder.found()), "` stands twice in the same object; remove one"));
}

}  // namespace baton
