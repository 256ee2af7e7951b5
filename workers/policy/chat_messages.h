// Prompts of the API as the chat template takes them.
#ifndef BATON_WORKERS_POLICY_CHAT_MESSAGES_H_
#define BATON_WORKERS_POLICY_CHAT_MESSAGES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"
#include "nlohmann/json.hpp"
#include "workers/policy/policy_source.h"
#include "workers/tokenizer/chat/chat_message.h"

namespace baton::policy {

/// The fields of a message beside role and content, as tokenizer::ChatMessage::fields_json. A turn
/// that calls functions and has no content says so with null; an empty content is one.
inline std::string FieldsOf(const v1::ChatMessage& message) {
  nlohmann::ordered_json fields;
  if (!message.tool_calls_json().empty()) {
    if (!message.has_content()) fields["content"] = nullptr;
    fields["tool_calls"] = nlohmann::ordered_json::parse(message.tool_calls_json(), nullptr,
                                                         /*allow_exceptions=*/false);
  }
  if (message.has_name()) fields["name"] = message.name();
  if (message.has_tool_call_id()) fields["tool_call_id"] = message.tool_call_id();
  return fields.empty() ? std::string() : fields.dump();
}

/// `messages`: a range of v1::ChatMessage.
template <class Range>
tokenizer::Chat ChatOf(const Range& messages, absl::string_view tools_json = "") {
  tokenizer::Chat chat;
  chat.tools_json = std::string(tools_json);
  for (const auto& message : messages) {
    chat.messages.emplace_back(message.role(), absl::string_view(message.content()));
    chat.messages.back().fields_json = FieldsOf(message);
  }
  return chat;
}

/// A prompt as the model sees it: `messages` (v1::ChatMessage; without them `text`) with
/// `tools_json` through the chat template. INVALID_ARGUMENT: it has tools, and no template renders
/// it.
template <class Range>
absl::StatusOr<Prompt> RenderPromptOf(const PolicySource& source, const Range& messages,
                                      absl::string_view text, absl::string_view tools_json) {
  auto prompt = source.RenderPrompt(ChatOf(messages, tools_json), text);
  if (!prompt.ok() || prompt->templated() || tools_json.empty()) return prompt;
  return absl::InvalidArgumentError(
      "the prompt is a text with `tools`, which a chat template writes; give it as messages");
}

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_CHAT_MESSAGES_H_
