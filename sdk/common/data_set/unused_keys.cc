#include "sdk/common/data_set/unused_keys.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {
namespace {

using Json = DataJson;
using Keys = std::vector<std::string>;

std::string KeyOrUsual(const std::string& key, const char* usual) {
  return key.empty() ? usual : key;
}

// Where prompt and response of a line stand (TakePrompt, TakeResponse and TakePair of data_set.cc).
Keys TextKeys(const Json& line, const DataSetOptions& options) {
  const std::string prompt = KeyOrUsual(options.prompt_key, "prompt");
  Keys keys = {prompt, "tools", "chat_template_kwargs", "documents"};
  const bool pair = FindKey(line, "chosen") != nullptr || FindKey(line, "rejected") != nullptr;
  const Json* label = FindKey(line, "label");
  const bool labelled = label != nullptr && label->is_boolean();
  if (options.needs_pair && (pair || !labelled)) {
    keys.insert(keys.end(), {"chosen", "rejected"});
    return keys;
  }
  const bool trains = options.needs_response || options.needs_pair;
  const std::string response = KeyOrUsual(
      options.response_key, FindKey(line, "response") == nullptr ? "completion" : "response");
  const bool answered = FindKey(line, response) != nullptr;
  if (trains) keys.push_back(response);
  if (trains && labelled) keys.emplace_back("label");
  const bool prompted = FindKey(line, prompt) != nullptr;
  if (options.prompt_key.empty() && (!prompted || (trains && !answered))) {
    keys.emplace_back("messages");
  }
  return keys;
}

Keys KeysUsed(const Json& line, const DataSetOptions& options) {
  Keys keys = TextKeys(line, options);
  keys.push_back(KeyOrUsual(options.source_key, "source"));
  if (options.needs_response || options.needs_pair) return keys;
  keys.push_back(KeyOrUsual(options.answer_key, "answer"));
  keys.push_back(KeyOrUsual(options.extra_key, "extra"));
  return keys;
}

void AddUnused(const Json& object, const std::string& path, const Keys& used, Keys* out) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = absl::StrCat(path, name);
    const bool is_used = std::find(used.begin(), used.end(), key) != used.end();
    if (is_used || value.is_null()) continue;
    const bool holds_used =
        value.is_object() && std::any_of(used.begin(), used.end(), [&key](const std::string& one) {
          return absl::StartsWith(one, key + ".");
        });
    if (holds_used) {
      AddUnused(value, key + ".", used, out);
    } else {
      out->push_back(key);
    }
  }
}

// Names that data sets give to the right answer, the likeliest first.
constexpr absl::string_view kAnswerNames[] = {
    "answer",          "final_answer",     "ground_truth", "groundtruth", "gold",
    "gold_label",      "reference_answer", "solution",     "solutions",   "expected",
    "expected_answer", "target",           "label",        "reference",   "output"};

}  // namespace

Keys UnusedKeys(const Json& line, const DataSetOptions& options) {
  Keys out;
  AddUnused(line, "", KeysUsed(line, options), &out);
  return out;
}

std::string LikelyAnswerKey(const Json& line) {
  for (const absl::string_view likely : kAnswerNames) {
    for (const auto& [name, value] : line.items()) {
      if (absl::AsciiStrToLower(name) == likely && value.is_primitive() && !value.is_null()) {
        return name;
      }
      if (!value.is_object()) continue;
      for (const auto& [inner, said] : value.items()) {
        if (absl::AsciiStrToLower(inner) == likely && said.is_primitive() && !said.is_null()) {
          return absl::StrCat(name, ".", inner);
        }
      }
    }
  }
  return "";
}

}  // namespace baton
