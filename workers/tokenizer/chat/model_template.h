// The chat template that comes with a model, as transformers' apply_chat_template reads it.
#ifndef BATON_WORKERS_TOKENIZER_CHAT_MODEL_TEMPLATE_H_
#define BATON_WORKERS_TOKENIZER_CHAT_MODEL_TEMPLATE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "workers/tokenizer/chat/chat_message.h"
#include "workers/tokenizer/jinja/rendered_text.h"
#include "workers/tokenizer/templates/jinja_template.h"

namespace baton::tokenizer {

/// A model's files, as texts; each may be empty (absent).
struct TemplateFiles {
  std::string chat_template_jinja;      ///< Goes before the key `chat_template` of the next.
  std::string tokenizer_config_json;    ///< Names the special tokens too (bos_token, …).
  std::string special_tokens_map_json;  ///< Names those that the one above does not.
  /// additional_chat_templates/NAME.jinja by NAME: where there is one, or chat_template_jinja, the
  /// key `chat_template` is not read.
  std::map<std::string, std::string> additional_templates = {};
};

/// What a job gives to every rendering.
struct TemplateSettings {
  std::string kwargs_json = {};  ///< A JSON object of variables; empty: none.
  /// The day that strftime_now gives, "YYYY-MM-DD"; empty: the template has no such function.
  std::string date = {};
};

/// Immutable; any thread.
class ModelTemplate {
 public:
  /// NOT_FOUND when the files have no template. INVALID_ARGUMENT and UNIMPLEMENTED name the file,
  /// and the construct with its line (jinja_template.h), or what is wrong with `settings`.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<const ModelTemplate>> FromFiles(
      const TemplateFiles& files, const TemplateSettings& settings = {});

  /// The text of `chat`; with `add_generation_prompt` it ends where the assistant's reply begins.
  /// If the model has several templates, `tool_use` renders a chat with tools, and
  /// `default` any other. Errors name the file and the line; INVALID_ARGUMENT where the template
  /// refuses the chat.
  /// `generated` (may be null) gets what {% generation %} blocks wrote (jinja_template.h).
  [[nodiscard]] absl::StatusOr<RenderedText> Render(
      const Chat& chat, bool add_generation_prompt,
      std::vector<TextRange>* generated = nullptr) const;

  /// Whether `name` stands anywhere in the template: a variable or a key of a message that is
  /// nowhere in it has no effect.
  [[nodiscard]] bool Reads(absl::string_view name) const;

 private:
  ModelTemplate() = default;
  absl::Status AddFiles(const TemplateFiles& files);
  absl::Status Add(const std::string& name, absl::string_view source, std::string where);

  struct Named {
    std::string where;
    std::string source;
    jinja::Template parsed;
  };
  std::map<std::string, Named> templates_;
  jinja::Variables special_tokens_;
  jinja::Variables settings_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_CHAT_MODEL_TEMPLATE_H_
