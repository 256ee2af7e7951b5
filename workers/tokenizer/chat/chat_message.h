// The messages that a chat template renders.
#ifndef BATON_WORKERS_TOKENIZER_CHAT_CHAT_MESSAGE_H_
#define BATON_WORKERS_TOKENIZER_CHAT_CHAT_MESSAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer {

struct ChatMessage {
  ChatMessage(std::string role, absl::string_view content)
      : role(std::move(role)), content(content) {}
  /// A message whose content is a template's own in parts: a judge's question.
  ChatMessage(std::string role, RenderedText content)
      : role(std::move(role)), content(std::move(content)) {}

  std::string role;  ///< Letters, digits, '_' and '-'; e.g. system, user, assistant, tool.
  RenderedText content;
  /// A JSON object with what else the message has (`tool_calls`, `tool_call_id`, `name`, …), in its
  /// order, and its `content` where that is no text (a list of parts; null: the message has none);
  /// empty: nothing. Only a model's own template reads it, without the keys whose value is null,
  /// and with reasoning under each name that templates know (reasoning_content, thinking).
  std::string fields_json = {};
};

struct Chat {
  std::vector<ChatMessage> messages;
  /// A JSON list of the functions that the assistant may call; empty: none. Only a model's own
  /// template reads it.
  std::string tools_json = {};
  /// A JSON object of more variables (enable_thinking, documents, …); empty: none. Only a model's
  /// own template reads them.
  std::string kwargs_json = {};
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_CHAT_CHAT_MESSAGE_H_
