// Messages to the text a chat model was trained on. Templates are built in and named; the Jinja
// template in tokenizer_config.json is not read.
//
//   none    the contents one after the other, nothing added
//   chatml  <|im_start|>ROLE\nCONTENT<|im_end|>\n … <|im_start|>assistant\n          (Qwen2)
//   llama3  <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
//           … <|start_header_id|>assistant<|end_header_id|>\n\n; contents are trimmed
//
// No system message is added when there is none. Encode the text with add_special_tokens = false.
// What a message says is content: marks that it spells out stay text (rendered_text.h).
#ifndef BATON_WORKERS_ENGINE_CHAT_TEMPLATE_H_
#define BATON_WORKERS_ENGINE_CHAT_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "workers/tokenizer/rendered_text.h"
#include "workers/tokenizer/tokenizer.h"

namespace baton::engine {

struct ChatMessage {
  ChatMessage(std::string role, absl::string_view content)
      : role(std::move(role)), content(content) {}
  /// Of a content that is a template's own in parts: a judge's question.
  ChatMessage(std::string role, RenderedText content)
      : role(std::move(role)), content(std::move(content)) {}

  std::string role;  ///< Letters, digits, '_' and '-'; e.g. system, user, assistant, tool.
  RenderedText content;
};

class ChatTemplate {
 public:
  /// The empty name is `none`. INVALID_ARGUMENT for an unknown one lists the known.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> FromName(absl::string_view name);
  [[nodiscard]] static std::vector<std::string> Names();

  /// The text of `messages`; with `add_generation_prompt` it ends where the assistant's reply
  /// begins. INVALID_ARGUMENT names a message with a bad role.
  [[nodiscard]] absl::StatusOr<RenderedText> Render(absl::Span<const ChatMessage> messages,
                                                    bool add_generation_prompt = true) const;
  /// What a reply ends with ("<|im_end|>"), which ends generation too; empty for `none`.
  const std::string& end_of_turn() const { return end_of_turn_; }

  /// The ids of the marks that the template writes. FAILED_PRECONDITION unless each is one token of
  /// `tokenizer` that content cannot spell.
  [[nodiscard]] absl::StatusOr<std::vector<int32_t>> MarkIds(const Tokenizer& tokenizer) const;

 private:
  enum class Kind { kNone, kChatml, kLlama3 };
  explicit ChatTemplate(Kind kind);

  Kind kind_;
  std::string end_of_turn_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_CHAT_TEMPLATE_H_
