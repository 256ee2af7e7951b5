#include "workers/tokenizer/chat/model_template.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/json_fields.h"
#include "sdk/common/schema/template_kwargs.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_error.h"
#include "workers/tokenizer/tokens/named_tokens.h"

namespace baton::tokenizer {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kJinjaFile[] = "chat_template.jinja";
constexpr char kFolder[] = "additional_chat_templates";
constexpr char kConfigFile[] = "tokenizer_config.json";
constexpr char kDefault[] = "default";
constexpr char kToolUse[] = "tool_use";

/// JSON whose objects keep their order, which templates write out.
absl::StatusOr<OrderedJson> ParseOrdered(absl::string_view text, absl::string_view where) {
  if (NestingOf(text) > kMaxNesting) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": values are nested more than ", kMaxNesting, " deep"));
  }
  OrderedJson json = OrderedJson::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(where, ": no JSON"));
  return json;
}

/// Lays the keys of a JSON object over `variables`.
absl::Status AddKwargs(absl::string_view json, jinja::Variables* variables) {
  if (json.empty()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const OrderedJson kwargs, ParseOrdered(json, "chat_template_kwargs"));
  if (!kwargs.is_object()) {
    return absl::InvalidArgumentError("chat_template_kwargs: expected an object");
  }
  for (const auto& [key, value] : kwargs.items()) {
    BATON_RETURN_IF_ERROR(Annotate(CheckTemplateKwarg(key), "chat_template_kwargs"));
    try {
      variables->insert_or_assign(key, jinja::Value::FromJson(value));
    } catch (const jinja::Error& error) {
      return absl::InvalidArgumentError(
          absl::StrCat("chat_template_kwargs.", key, ": ", error.message));
    }
  }
  return absl::OkStatus();
}

/// What Python's datetime.strftime hands to C's: it writes %f (microseconds, here 0) by itself, and
/// nothing for the time zone of a time that has none.
std::string CFormat(absl::string_view format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char type = format[++i];
    if (type == 'f') out += "000000";
    if (type != 'f' && type != 'z' && type != 'Z') out.append({'%', type});
  }
  return out;
}

std::string FormatTime(absl::string_view format, const std::tm& time) {
  char text[4096];
  jinja::Budget::SpendWalk(sizeof text);
  if (format.find('\0') < sizeof text) jinja::Refuse("the format of strftime_now has a byte 0");
  size_t size = 0;
  if (format.size() < sizeof text) {
    const std::string marked = CFormat(format) + ".";  // so that no text is empty
    size = std::strftime(text, sizeof text, marked.c_str(), &time);
  }
  if (size == 0) {
    throw jinja::Error{jinja::Error::Kind::kLimit, "strftime_now makes more than 4 KiB of text"};
  }
  return std::string(text, size - 1);
}

/// strftime_now for a fixed day, at midnight.
absl::StatusOr<jinja::Value> DateFunction(const std::string& date) {
  absl::CivilDay day;
  if (date.size() != 10 || !absl::ParseCivilTime(date, &day)) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat_template_date: '", date, "' is no day as YYYY-MM-DD"));
  }
  std::tm time = absl::ToTM(absl::FromCivil(day, absl::UTCTimeZone()), absl::UTCTimeZone());
  return jinja::Value::Callable([time](const jinja::Arguments& arguments) {
    arguments.Check("strftime_now", 1, {"format"});
    const jinja::Value* const format = arguments.Find(0, "format");
    if (format == nullptr) {
      throw jinja::Error{jinja::Error::Kind::kType, "strftime_now needs a format"};
    }
    return jinja::Value::Text(RenderedText(FormatTime(format->text("strftime_now").text(), time)));
  });
}

/// bos_token, eos_token and their kin: texts, or objects with one as `content`. Objects of names to
/// tokens name more of them.
void AddSpecialTokens(const Json& file, jinja::Variables* variables, bool all_keys = false) {
  for (const auto& [key, value] : file.items()) {
    const bool names = key == "extra_special_tokens" || key == "model_specific_special_tokens";
    if (names && value.is_object()) AddSpecialTokens(value, variables, /*all_keys=*/true);
    if (names || !(all_keys || absl::EndsWith(key, "_token"))) continue;
    const Json* text = value.is_object() ? FindField(value, "content") : &value;
    if (text == nullptr || !text->is_string()) continue;
    variables->emplace(key, jinja::Value::Own(text->get_ref<const std::string&>()));
  }
}

/// Lets the template read a turn's reasoning under each name, as transformers 5.24 does
/// (_alias_reasoning_fields).
void AliasReasoning(jinja::Entries* entries) {
  const auto find = [entries](absl::string_view name) {
    return std::find_if(entries->begin(), entries->end(), [name](const auto& entry) {
      return entry.first.is(jinja::Value::Kind::kText) && entry.first.text("key").text() == name;
    });
  };
  const jinja::Value* said = nullptr;
  for (const char* field : kReasoningFields) {
    const auto entry = find(field);
    if (said == nullptr && entry != entries->end()) said = &entry->second;
  }
  if (said == nullptr) return;
  const jinja::Value reasoning = *said;
  const auto thinking = find("thinking");
  const jinja::Value thought = thinking == entries->end() ? reasoning : thinking->second;
  if (thinking != entries->end()) entries->erase(thinking);
  entries->insert(entries->begin(), std::pair(jinja::Value::Text(OwnText("thinking")), thought));
  const auto content = find("reasoning_content");
  if (content == entries->end()) {
    entries->emplace_back(jinja::Value::Text(OwnText("reasoning_content")), reasoning);
  } else {
    content->second = reasoning;
  }
}

/// A message as the template sees it: as in transformers, a key of the message itself whose value
/// is null is absent, since templates take an absent key and few take null. Deeper keys (the
/// arguments of a call) stay. Throws jinja::Error on integers that are too large.
absl::StatusOr<jinja::Value> ToValue(const ChatMessage& message, size_t index) {
  jinja::Entries entries;
  entries.emplace_back(jinja::Value::Text(OwnText("role")),
                       jinja::Value::Text(RenderedText(message.role)));
  entries.emplace_back(jinja::Value::Text(OwnText("content")), jinja::Value::Text(message.content));
  if (!message.fields_json.empty()) {
    const std::string where = absl::StrCat("messages[", index, "]");
    BATON_ASSIGN_OR_RETURN(const OrderedJson fields, ParseOrdered(message.fields_json, where));
    if (!fields.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": other fields are no object"));
    }
    for (const auto& [key, value] : fields.items()) {
      if (key == "role") continue;
      if (key == "content") {
        entries[1].second = jinja::Value::FromJson(value);
      } else {
        entries.emplace_back(jinja::Value::Text(RenderedText(key)), jinja::Value::FromJson(value));
      }
    }
  }
  const auto is_null = [](const auto& entry) { return entry.second.is(jinja::Value::Kind::kNone); };
  entries.erase(std::remove_if(entries.begin(), entries.end(), is_null), entries.end());
  AliasReasoning(&entries);
  return jinja::Value::Dict(std::move(entries));
}

/// Whether `word` stands in `text` between characters that are no part of a name.
bool HasWord(absl::string_view text, absl::string_view word) {
  const auto is_part = [text](size_t at) {
    return at < text.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) return true;
  }
  return false;
}

absl::StatusOr<jinja::Variables> MakeVariables(const Chat& chat, const jinja::Variables& settings,
                                               bool add_generation_prompt) {
  try {
    jinja::Variables variables;
    jinja::Items messages;
    for (const ChatMessage& message : chat.messages) {
      BATON_ASSIGN_OR_RETURN(jinja::Value value, ToValue(message, messages.size()));
      messages.push_back(std::move(value));
    }
    variables["messages"] = jinja::Value::List(std::move(messages));
    variables["tools"] = jinja::Value::None();
    if (!chat.tools_json.empty()) {
      BATON_ASSIGN_OR_RETURN(const OrderedJson tools, ParseOrdered(chat.tools_json, "tools"));
      if (!tools.is_array()) return absl::InvalidArgumentError("tools: expected a list");
      variables["tools"] = jinja::Value::FromJson(tools);
    }
    variables["documents"] = jinja::Value::None();
    variables["add_generation_prompt"] = jinja::Value::Bool(add_generation_prompt);
    for (const auto& [name, value] : settings) variables.insert_or_assign(name, value);
    BATON_RETURN_IF_ERROR(AddKwargs(chat.kwargs_json, &variables));
    return variables;
  } catch (const jinja::Error& error) {
    return absl::InvalidArgumentError(error.message);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ModelTemplate>> ModelTemplate::FromFiles(
    const TemplateFiles& files, const TemplateSettings& settings) {
  auto made = std::unique_ptr<ModelTemplate>(new ModelTemplate());
  BATON_ASSIGN_OR_RETURN(
      const Json config,
      EffectiveTokenizerConfig(files.tokenizer_config_json, files.special_tokens_map_json));
  AddSpecialTokens(config, &made->special_tokens_);
  BATON_RETURN_IF_ERROR(AddKwargs(settings.kwargs_json, &made->settings_));
  if (!settings.date.empty()) {
    BATON_ASSIGN_OR_RETURN(made->settings_["strftime_now"], DateFunction(settings.date));
  }
  const std::string where = absl::StrCat(kConfigFile, ".chat_template");
  const Json* field = FindField(config, "chat_template");
  if (!files.chat_template_jinja.empty() || !files.additional_templates.empty()) {
    BATON_RETURN_IF_ERROR(made->AddFiles(files));
  } else if (field == nullptr) {
    return absl::NotFoundError(absl::StrCat("has no chat template: neither ", kJinjaFile,
                                            " nor `chat_template` in ", kConfigFile));
  } else if (field->is_string()) {
    BATON_RETURN_IF_ERROR(made->Add(kDefault, field->get_ref<const std::string&>(), where));
  } else if (field->is_array()) {  // [{"name": …, "template": …}, …]
    for (const Json& item : *field) {
      BATON_ASSIGN_OR_RETURN(const std::string name, StringField(item, "name", where));
      BATON_ASSIGN_OR_RETURN(const std::string source, StringField(item, "template", where));
      if (name != kDefault && name != kToolUse) continue;
      BATON_RETURN_IF_ERROR(made->Add(name, source, absl::StrCat(where, "[", name, "]")));
    }
  } else {
    return WrongType(kConfigFile, "chat_template", "a string or a list", *field);
  }
  if (made->templates_.count(kDefault) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.additional_templates.empty() ? where : std::string(kFolder),
                     ": none of its templates is called '", kDefault, "'"));
  }
  return made;
}

absl::Status ModelTemplate::AddFiles(const TemplateFiles& files) {
  for (const auto& [name, source] : files.additional_templates) {
    if (name != kDefault && name != kToolUse) continue;
    BATON_RETURN_IF_ERROR(Add(name, source, absl::StrCat(kFolder, "/", name, ".jinja")));
  }
  // A default among those goes first, as in transformers.
  if (files.chat_template_jinja.empty() || templates_.count(kDefault) > 0) return absl::OkStatus();
  return Add(kDefault, files.chat_template_jinja, kJinjaFile);
}

absl::Status ModelTemplate::Add(const std::string& name, absl::string_view source,
                                std::string where) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return Annotate(parsed.status(), where);
  templates_.emplace(name, Named{std::move(where), std::string(source), *std::move(parsed)});
  return absl::OkStatus();
}

bool ModelTemplate::Reads(absl::string_view name) const {
  return std::any_of(templates_.begin(), templates_.end(),
                     [name](const auto& entry) { return HasWord(entry.second.source, name); });
}

absl::StatusOr<RenderedText> ModelTemplate::Render(const Chat& chat, bool add_generation_prompt,
                                                   std::vector<TextRange>* generated) const {
  BATON_ASSIGN_OR_RETURN(jinja::Variables variables,
                         MakeVariables(chat, settings_, add_generation_prompt));
  variables.insert(special_tokens_.begin(), special_tokens_.end());
  const bool with_tools = !chat.tools_json.empty() && templates_.count(kToolUse) > 0;
  const Named& named = templates_.at(with_tools ? kToolUse : kDefault);
  auto rendered = named.parsed.Render(variables, generated);
  if (!rendered.ok()) return Annotate(rendered.status(), named.where);
  return rendered;
}

}  // namespace baton::tokenizer
