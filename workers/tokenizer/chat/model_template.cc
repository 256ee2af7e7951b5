#include "workers/tokenizer/chat/model_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/json_fields.h"
#include "workers/tokenizer/tokens/named_tokens.h"

namespace baton::tokenizer {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kJinjaFile[] = "chat_template.jinja";
constexpr char kConfigFile[] = "tokenizer_config.json";
constexpr char kDefault[] = "default";
constexpr char kToolUse[] = "tool_use";

/// JSON whose objects keep their order, which templates write out.
absl::StatusOr<OrderedJson> ParseOrdered(absl::string_view text, absl::string_view where) {
  OrderedJson json = OrderedJson::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(where, ": no JSON"));
  return json;
}

/// bos_token, eos_token and their kin: texts, or objects with one as `content`.
void AddSpecialTokens(const Json& file, jinja::Variables* variables) {
  for (const auto& [key, value] : file.items()) {
    if (!absl::EndsWith(key, "_token")) continue;
    const Json* text = value.is_object() ? FindField(value, "content") : &value;
    if (text == nullptr || !text->is_string()) continue;
    variables->emplace(key, jinja::Value::Own(text->get_ref<const std::string&>()));
  }
}

/// A message as the template sees it: as in transformers, a key of the message itself whose value
/// is null is absent, since templates take an absent key and few take null. Deeper keys (the
/// arguments of a call) stay. Throws jinja::Error on integers that are too large.
absl::StatusOr<jinja::Value> ToValue(const ChatMessage& message, size_t index) {
  const auto own = [](absl::string_view name) {
    RenderedText key;
    key.AddTemplate(name);
    return key;
  };
  jinja::Entries entries;
  entries.emplace_back(own("role"), jinja::Value::Text(RenderedText(message.role)));
  entries.emplace_back(own("content"), jinja::Value::Text(message.content));
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
        entries.emplace_back(RenderedText(key), jinja::Value::FromJson(value));
      }
    }
  }
  const auto is_null = [](const auto& entry) { return entry.second.is(jinja::Value::Kind::kNone); };
  entries.erase(std::remove_if(entries.begin(), entries.end(), is_null), entries.end());
  return jinja::Value::Dict(std::move(entries));
}

absl::StatusOr<jinja::Variables> MakeVariables(const Chat& chat, bool add_generation_prompt) {
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
    return variables;
  } catch (const jinja::Error& error) {
    return absl::InvalidArgumentError(error.message);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ModelTemplate>> ModelTemplate::FromFiles(
    const TemplateFiles& files) {
  auto made = std::unique_ptr<ModelTemplate>(new ModelTemplate());
  BATON_ASSIGN_OR_RETURN(
      const Json config,
      EffectiveTokenizerConfig(files.tokenizer_config_json, files.special_tokens_map_json));
  AddSpecialTokens(config, &made->special_tokens_);
  const std::string where = absl::StrCat(kConfigFile, ".chat_template");
  const Json* field = FindField(config, "chat_template");
  if (!files.chat_template_jinja.empty()) {
    BATON_RETURN_IF_ERROR(made->Add(kDefault, files.chat_template_jinja, kJinjaFile));
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
        absl::StrCat(where, ": none of its templates is called '", kDefault, "'"));
  }
  return made;
}

absl::Status ModelTemplate::Add(const std::string& name, absl::string_view source,
                                std::string where) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return Annotate(parsed.status(), where);
  templates_.emplace(name, Named{std::move(where), *std::move(parsed)});
  return absl::OkStatus();
}

absl::StatusOr<RenderedText> ModelTemplate::Render(const Chat& chat,
                                                   bool add_generation_prompt) const {
  BATON_ASSIGN_OR_RETURN(jinja::Variables variables, MakeVariables(chat, add_generation_prompt));
  variables.insert(special_tokens_.begin(), special_tokens_.end());
  const bool with_tools = !chat.tools_json.empty() && templates_.count(kToolUse) > 0;
  const Named& named = templates_.at(with_tools ? kToolUse : kDefault);
  auto rendered = named.parsed.Render(variables);
  if (!rendered.ok()) return Annotate(rendered.status(), named.where);
  return rendered;
}

}  // namespace baton::tokenizer
