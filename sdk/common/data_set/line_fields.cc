#include "sdk/common/data_set/line_fields.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/template_kwargs.h"

namespace baton {
namespace {

using Json = DataJson;

constexpr size_t kKeysNamed = 8;
constexpr size_t kKeyShown = 64;  // bytes

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON that stands in a string, as tables without nested columns have it. Discarded: it is none.
Json ParseInner(const std::string& text) {
  if (NestingOf(text) > kMaxNesting) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Whether a text is a list of messages that was written out, as JSON or as Python's str().
bool HoldsMessages(const std::string& text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (absl::StartsWith(trimmed, "[{'role': '") || absl::StartsWith(trimmed, "[{'content': '")) {
    return true;
  }
  if (!absl::StartsWith(trimmed, "[") || !absl::StrContains(trimmed, "\"role\"")) return false;
  const Json list = ParseInner(text);
  return list.is_array() && !list.empty() &&
         std::all_of(list.begin(), list.end(), [](const Json& turn) {
           return turn.is_object() && turn.contains("role") && turn.contains("content");
         });
}

// Whether null stands in a list or an object, at any depth.
bool HoldsNull(const Json& json) {
  return json.is_null() ||
         (json.is_structured() && std::any_of(json.begin(), json.end(), HoldsNull));
}

// A text, or the parts of one as OpenAI's API has them: [{"type": "text", "text": …}].
absl::StatusOr<std::string> ReadContent(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string type = part.is_object() ? part.value("type", Json()).dump() : "";
    const Json* said = part.is_object() ? FindKey(part, "text") : nullptr;
    if (type != "\"text\"" || said == nullptr || !said->is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", where, ".content[", i,
                       "]` is not {\"type\": \"text\", \"text\": string}; models read text alone"));
    }
    text += said->get<std::string>();
  }
  return text;
}

// Templates walk through a call's arguments; OpenAI's API writes them as a text.
absl::StatusOr<std::string> ReadCalls(Json calls, const std::string& where) {
  for (Json& call : calls) {
    if (!call.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", where, ".tool_calls` is not a list of objects"));
    }
    Json& function = call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", where, ".tool_calls` has a call without the function's name"));
    }
    auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    Json parsed = ParseInner(arguments->get<std::string>());
    if (parsed.is_object()) *arguments = std::move(parsed);
  }
  return Dump(calls);
}

// The fields by which a turn of role tool names the call that it answers.
absl::Status ReadAnswered(const Json& turn, const std::string& where, v1::ChatMessage* message) {
  if (FindKey(turn, "name") != nullptr) {
    BATON_RETURN_IF_ERROR(Annotate(TakeText(turn, "name", false, message->mutable_name()), where));
  }
  if (FindKey(turn, "tool_call_id") == nullptr) return absl::OkStatus();
  return Annotate(TakeText(turn, "tool_call_id", true, message->mutable_tool_call_id()), where);
}

// The keys of a turn that have no field of their own, for the chat template (reasoning_content, …).
// A key whose value is null is absent, as in transformers.
std::string ReadOtherFields(const Json& turn, const v1::ChatMessage& message, bool calls) {
  Json others;
  for (const auto& [key, value] : turn.items()) {
    const bool known = key == "role" || key == "content" || key == "weight" ||
                       (key == "tool_calls" && calls) ||
                       (message.role() == "tool" && (key == "name" || key == "tool_call_id"));
    if (!known && !value.is_null()) others[key] = value;
  }
  return others.empty() ? std::string() : Dump(others);
}

// Keeps apart what a chat template can tell apart: no content and an empty one, no list of calls
// and an empty one. Null is no content and no list (FindKey).
absl::StatusOr<v1::ChatMessage> ReadMessage(const Json& turn, const std::string& where) {
  v1::ChatMessage message;
  const Json* role = turn.is_object() ? FindKey(turn, "role") : nullptr;
  const Json* content = turn.is_object() ? FindKey(turn, "content") : nullptr;
  const Json* calls = turn.is_object() ? FindKey(turn, "tool_calls") : nullptr;
  if (role == nullptr || !role->is_string() || *role != "assistant" || !calls ||
      !calls->is_array()) {
    calls = nullptr;
  }
  const bool calls_functions = calls != nullptr && !calls->empty();
  const bool says = content != nullptr && (content->is_string() || content->is_array());
  if (role == nullptr || !role->is_string() || !(says || (content == nullptr && calls_functions))) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", where, "` is not {\"role\": string, \"content\": string}"));
  }
  message.set_role(role->get<std::string>());
  constexpr absl::string_view kRoles[] = {"system", "user", "assistant", "tool", "developer"};
  if (std::find(std::begin(kRoles), std::end(kRoles), message.role()) == std::end(kRoles)) {
    return absl::InvalidArgumentError(absl::StrCat("`", where, ".role` is '", message.role(),
                                                   "', not one of: ", absl::StrJoin(kRoles, ", ")));
  }
  if (says) {
    BATON_ASSIGN_OR_RETURN(std::string text, ReadContent(*content, where));
    message.set_content(std::move(text));
  }
  if (calls != nullptr) {
    BATON_ASSIGN_OR_RETURN(std::string json, ReadCalls(*calls, where));
    message.set_tool_calls_json(std::move(json));
  }
  if (message.role() == "tool") BATON_RETURN_IF_ERROR(ReadAnswered(turn, where, &message));
  message.set_other_fields_json(ReadOtherFields(turn, message, calls != nullptr));
  return message;
}

// Whether a turn may be trained on. OpenAI's files say `"weight": 0` of turns that must not be.
absl::StatusOr<bool> ReadWeight(const Json& turn, const std::string& where) {
  const Json* weight = FindKey(turn, "weight");
  if (weight == nullptr) return true;
  // A table makes 1.0 of 1 where other turns have no weight.
  if (weight->is_number() && weight->get<double>() == 1) return true;
  if (weight->is_number() && weight->get<double>() == 0) return false;
  return absl::InvalidArgumentError(absl::StrCat("`", where, ".weight` is ",
                                                 Dump(*weight).substr(0, kKeyShown),
                                                 ", neither 0 (the turn is not trained on) nor 1"));
}

// Whether a turn calls a tool or has reasoning, which only a chat template can write.
bool SaysMoreThanText(const v1::ChatMessage& turn) {
  if (!turn.tool_calls_json().empty() && turn.tool_calls_json() != "[]") return true;
  if (turn.other_fields_json().empty()) return false;
  const Json others = Json::parse(turn.other_fields_json());
  return std::any_of(std::begin(kReasoningFields), std::end(kReasoningFields),
                     [&](const char* field) { return others.contains(field); });
}

// Turns of which those of the assistant are trained on, unless their weight is 0.
absl::StatusOr<Response> ReadTurns(const Said& said, absl::string_view key) {
  Response out;
  size_t turns = said.messages.size();
  while (turns > 0 &&
         (said.messages[turns - 1].role() != "assistant" || !said.weights[turns - 1])) {
    --turns;
  }
  if (turns == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", key, "` has no turn of the assistant to train on"));
  }
  out.messages.assign(said.messages.begin(),
                      said.messages.begin() + static_cast<std::ptrdiff_t>(turns));
  for (size_t i = 0; i < turns; ++i) out.messages[i].set_untrained(!said.weights[i]);
  out.text = TurnsText(out.messages);
  return out;
}

absl::StatusOr<Said> ReadMessages(const Json& list, absl::string_view key) {
  Said out;
  if (list.empty()) return absl::InvalidArgumentError(absl::StrCat("`", key, "` is an empty list"));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = absl::StrCat(key, "[", i, "]");
    BATON_ASSIGN_OR_RETURN(out.messages.emplace_back(), ReadMessage(list[i], where));
    BATON_ASSIGN_OR_RETURN(const bool weight, ReadWeight(list[i], where));
    out.weights.push_back(weight);
  }
  return out;
}

}  // namespace

const Json* FindKey(const Json& object, absl::string_view key) {
  if (!object.is_object()) return nullptr;
  if (const auto found = object.find(std::string(key)); found != object.end()) {
    return found->is_null() ? nullptr : &*found;
  }
  const size_t dot = key.find('.');
  if (dot == absl::string_view::npos) return nullptr;
  const auto outer = object.find(std::string(key.substr(0, dot)));
  return outer == object.end() ? nullptr : FindKey(*outer, key.substr(dot + 1));
}

absl::Status TakeText(const Json& object, absl::string_view key, bool numbers, std::string* out) {
  const Json* value = FindKey(object, key);
  if (value == nullptr) return absl::OkStatus();
  if (value->is_string()) {
    *out = value->get<std::string>();
  } else if (numbers && (value->is_number() || value->is_boolean())) {
    *out = value->dump();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("`", key, "` is ", value->type_name(), ", not a string"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Said> ReadSaid(const Json& object, absl::string_view key) {
  Said said;
  const Json* value = FindKey(object, key);
  if (value == nullptr) return said;
  if (value->is_array()) return ReadMessages(*value, key);
  BATON_RETURN_IF_ERROR(TakeText(object, key, false, &said.text));
  if (said.text.empty()) return absl::InvalidArgumentError(absl::StrCat("`", key, "` is empty"));
  return said;
}

absl::StatusOr<Said> ReadPrompt(const DataJson& object, absl::string_view key) {
  BATON_ASSIGN_OR_RETURN(Said said, ReadSaid(object, key));
  if (!HoldsMessages(said.text)) return said;
  return absl::InvalidArgumentError(
      absl::StrCat("`", key, "` is a text that holds a list of messages; write the list itself"));
}

std::string TurnsText(const std::vector<v1::ChatMessage>& turns) {
  return absl::StrJoin(turns, "\n", [](std::string* out, const v1::ChatMessage& turn) {
    absl::StrAppend(out, turn.role(), ": ", turn.content());
  });
}

absl::StatusOr<Response> ReadResponse(const Said& said, bool several, absl::string_view key) {
  Response out;
  if (said.messages.empty()) {
    out.text = said.text;
    return out;
  }
  if (several && said.messages.size() > 1) return ReadTurns(said, key);
  const v1::ChatMessage& turn = said.messages.back();
  if (said.messages.size() > 1 || turn.role() != "assistant") {
    return absl::InvalidArgumentError(
        absl::StrCat("`", key,
                     "` is not one turn of the assistant after the prompt; a response is "
                     "one turn, so earlier turns belong to the prompt (kind sft trains on several "
                     "with data.loss_on: all_assistant)"));
  }
  if (!SaysMoreThanText(turn)) {
    if (turn.content().empty()) {
      return absl::InvalidArgumentError(absl::StrCat("`", key, "` is a turn that says nothing"));
    }
  } else {
    out.messages.push_back(turn);
  }
  out.text = turn.content();
  return out;
}

absl::StatusOr<std::string> ReadTools(const Json& object) {
  const Json* tools = FindKey(object, "tools");
  if (tools == nullptr || (tools->is_string() && tools->get<std::string>().empty())) return "";
  const Json list = tools->is_string() ? ParseInner(tools->get<std::string>()) : *tools;
  if (list.is_null() || (list.is_array() && list.empty())) return "";
  const bool good = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& tool) {
                      return tool.is_object();
                    });
  if (good) return Dump(list);
  return absl::InvalidArgumentError(
      "`tools` is not a list of functions' schemas: {\"type\": \"function\", \"function\": …}");
}

absl::StatusOr<std::string> ReadTemplateKwargs(const Json& object) {
  Json out = Json::object();
  if (const Json* given = FindKey(object, "chat_template_kwargs");
      given != nullptr && *given != "") {
    const Json kwargs = given->is_string() ? ParseInner(given->get<std::string>()) : *given;
    if (!kwargs.is_object()) {
      return absl::InvalidArgumentError(
          "`chat_template_kwargs` is not an object of variables for the chat template, such as "
          "{\"enable_thinking\": false}");
    }
    // A table has the keys of all lines, null where a line had none.
    for (const auto& [key, value] : kwargs.items()) {
      if (value.is_null()) continue;
      BATON_RETURN_IF_ERROR(Annotate(CheckTemplateKwarg(key), "`chat_template_kwargs`"));
      out[key] = value;
    }
  }
  if (const Json* documents = FindKey(object, "documents"); documents != nullptr) {
    if (out.contains("documents")) {
      return absl::InvalidArgumentError(
          "`documents` stands in the line and in its `chat_template_kwargs`; remove one");
    }
    const auto is_object = [](const Json& document) { return document.is_object(); };
    if (!documents->is_array() || !std::all_of(documents->begin(), documents->end(), is_object)) {
      return absl::InvalidArgumentError(
          "`documents` is not a list of objects, such as {\"title\": …, \"text\": …}, which the "
          "chat template writes into the prompt; give the key another name if it is something "
          "else");
    }
    if (!documents->empty()) out["documents"] = *documents;
  }
  return out.empty() ? std::string() : Dump(out);
}

bool HasNullInTools(const Json& object) {
  const Json* tools = FindKey(object, "tools");
  if (tools != nullptr && HoldsNull(*tools)) return true;
  for (const Json& turns : object) {
    if (!turns.is_array()) continue;
    for (const Json& turn : turns) {
      const Json* calls = FindKey(turn, "tool_calls");
      if (calls != nullptr && HoldsNull(*calls)) return true;
    }
  }
  return false;
}

std::string KeysOf(const Json& object) {
  std::string out;
  size_t named = 0;
  for (const auto& [key, value] : object.items()) {
    if (named == kKeysNamed) return out + ", …";
    size_t end = std::min(key.size(), kKeyShown);
    while (end < key.size() && (static_cast<unsigned char>(key[end]) & 0xc0) == 0x80) --end;
    absl::StrAppend(&out, named++ == 0 ? "" : ", ", "`", key.substr(0, end), "`");
  }
  return out;
}

}  // namespace baton
