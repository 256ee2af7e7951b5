// The fields of one line of a data file: keys, texts, conversations. Internal to this folder.
#ifndef BATON_SDK_COMMON_DATA_SET_LINE_FIELDS_H_
#define BATON_SDK_COMMON_DATA_SET_LINE_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/json_nesting.h"

namespace baton {

/// Keys stay in the order of the line: a chat template writes `tools` in it.
using DataJson = nlohmann::ordered_json;

/// The value of `key` in `object`, null when it is absent or null. "a.b" is key `b` of the object
/// `a`, unless `object` has a key "a.b".
const DataJson* FindKey(const DataJson& object, absl::string_view key);

/// A string; with `numbers` also a number or a boolean, written as in JSON. Untouched when absent.
absl::Status TakeText(const DataJson& object, absl::string_view key, bool numbers,
                      std::string* out);

/// A text or messages; neither when the key is absent.
struct Said {
  std::string text;
  std::vector<v1::ChatMessage> messages;
  std::vector<bool> weights;  ///< By message; false: `"weight": 0`, not trained on.

  bool absent() const { return text.empty() && messages.empty(); }
};
/// INVALID_ARGUMENT: the value is neither a text nor a list of messages, or it is empty; a weight
/// is neither 0 nor 1.
absl::StatusOr<Said> ReadSaid(const DataJson& object, absl::string_view key);

/// The same of a prompt. INVALID_ARGUMENT also for a text that is a list of messages written out.
absl::StatusOr<Said> ReadPrompt(const DataJson& object, absl::string_view key);

/// A response.
struct Response {
  std::string text;  ///< Of several turns "ROLE: CONTENT", a line each, for people.
  /// Its turns, where the text does not say all of it: one that calls tools or has reasoning, or
  /// several. Those that are not trained on say so.
  std::vector<v1::ChatMessage> messages;

  bool absent() const { return text.empty() && messages.empty(); }
};
/// `said` as a response: a text, or one turn of the assistant that says, thinks or calls something.
/// With `several`, turns up to the last one of the assistant whose weight is not 0; there is one.
/// `key` names it in errors.
absl::StatusOr<Response> ReadResponse(const Said& said, bool several, absl::string_view key);

/// Turns as one text: "ROLE: CONTENT", a line each.
std::string TurnsText(const std::vector<v1::ChatMessage>& turns);

/// The functions of `tools`, a list or a text that holds one, as JSON; "" when there is none.
absl::StatusOr<std::string> ReadTools(const DataJson& object);

/// The variables that the line gives to the chat template, as a JSON object: those of
/// `chat_template_kwargs` (an object, or a text that holds one) that are not null, and `documents`;
/// "" when there is none.
absl::StatusOr<std::string> ReadTemplateKwargs(const DataJson& object);

/// Whether `tools`, or a turn's `tool_calls`, hold null somewhere inside.
bool HasNullInTools(const DataJson& object);

/// "`a`, `b`, `c` …": what keys the line has, for an error.
std::string KeysOf(const DataJson& object);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_LINE_FIELDS_H_
