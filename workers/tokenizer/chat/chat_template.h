// Rendering of messages to the text that a chat model was trained on: by the template that comes
// with the model (model_template.h), or by one that is built in and named:
//
//   chatml  <|im_start|>ROLE\nCONTENT<|im_end|>\n … <|im_start|>assistant\n          (Qwen2)
//   llama3  <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
//           … <|start_header_id|>assistant<|end_header_id|>\n\n; contents are trimmed
//
// These two add no system message when there is none. Encode the text with add_special_tokens =
// false. The text of a message is content: marks that it spells out stay text (rendered_text.h).
#ifndef BATON_WORKERS_TOKENIZER_CHAT_CHAT_TEMPLATE_H_
#define BATON_WORKERS_TOKENIZER_CHAT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/chat/chat_message.h"
#include "workers/tokenizer/jinja/rendered_text.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {

class ModelTemplate;
struct TemplateFiles;
struct TemplateSettings;

/// A turn of the assistant as a template writes it.
struct TemplateReply {
  /// The reply with what ends it: what follows the prompt.
  RenderedText text;
  /// `text` is the whole conversation instead, for it does not begin with the prompt: the template
  /// leaves out of a reply what the prompt begins it with (an opened thought).
  bool from_start = false;
};

class ChatTemplate {
 public:
  /// INVALID_ARGUMENT for an unknown name lists the known.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> FromName(absl::string_view name);
  [[nodiscard]] static std::vector<std::string> Names();
  /// The model's own. It is tried on one turn: what ends a reply is the first special token of
  /// `tokenizer` that it writes after one. Errors are ModelTemplate::FromFiles'.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> OfModel(const TemplateFiles& files,
                                                            const Tokenizer& tokenizer,
                                                            const TemplateSettings& settings);
  [[nodiscard]] static absl::StatusOr<ChatTemplate> OfModel(const TemplateFiles& files,
                                                            const Tokenizer& tokenizer);

  /// The text of `chat`; with `add_generation_prompt` it ends where the assistant's reply begins.
  /// INVALID_ARGUMENT names a message with a bad role, one of role developer where the model's
  /// template leaves these out, or what the template refuses; tools and reasoning that a built-in
  /// template has no place for. `generated` (may be null) gets what {% generation %} blocks wrote.
  [[nodiscard]] absl::StatusOr<RenderedText> Render(
      const Chat& chat, bool add_generation_prompt = true,
      std::vector<TextRange>* generated = nullptr) const;
  /// The assistant's reply to `chat` with what ends it (nothing where end_of_turn is empty), as the
  /// template writes the whole; as it is where the template writes the turns before it otherwise
  /// than in the prompt. `prompt` is Render(chat). INVALID_ARGUMENT: the reply calls tools or has
  /// reasoning, and cannot be told from the turns before it, or the template leaves the calls out.
  [[nodiscard]] absl::StatusOr<TemplateReply> RenderReply(const Chat& chat,
                                                          const RenderedText& prompt,
                                                          const ChatMessage& reply) const;
  /// The same of a reply that is a text.
  [[nodiscard]] absl::StatusOr<TemplateReply> RenderReply(const Chat& chat,
                                                          const RenderedText& prompt,
                                                          absl::string_view reply) const;
  /// What the template begins the reply to `chat` with, after what begins each turn of the
  /// assistant: "<think>\n" of thinking models; mostly empty. `prompt` is Render(chat).
  [[nodiscard]] std::string PromptSuffix(const Chat& chat, const RenderedText& prompt) const;
  /// Whether the template has a place for a variable, or a message's key, of this name.
  [[nodiscard]] bool Reads(absl::string_view name) const;
  /// The mark that ends a reply ("<|im_end|>"), and generation too; empty where a model's own
  /// template writes no special token there.
  const std::string& end_of_turn() const { return end_of_turn_; }
  /// What a model's own template begins an earlier turn of the assistant with; empty: unknown.
  const std::string& header() const { return header_; }

  /// The ids of the marks that the template writes; of a model's own, of its end_of_turn.
  /// FAILED_PRECONDITION unless each is one token of `tokenizer` that content cannot spell.
  [[nodiscard]] absl::StatusOr<std::vector<int32_t>> MarkIds(const Tokenizer& tokenizer) const;

 private:
  enum class Kind { kModel, kChatml, kLlama3 };
  explicit ChatTemplate(Kind kind);

  /// What ends a reply (end_of_turn_), and begins one (header_), by a conversation of two texts.
  absl::Status TryTurns(const Tokenizer& tokenizer);

  Kind kind_;
  std::string end_of_turn_;
  std::string header_;
  bool drops_developer_ = false;  ///< A model's template writes nothing of a developer's turn.
  std::shared_ptr<const ModelTemplate> model_;  ///< For kModel.
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_CHAT_CHAT_TEMPLATE_H_
