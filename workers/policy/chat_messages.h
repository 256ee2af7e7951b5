// Prompts of the API as the chat template takes them.
#ifndef BATON_WORKERS_POLICY_CHAT_MESSAGES_H_
#define BATON_WORKERS_POLICY_CHAT_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "nlohmann/json.hpp"
#include "workers/policy/policy_source.h"
#include "workers/tokenizer/chat/chat_message.h"

namespace baton::policy {

/// The fields of a message beside role and content, as tokenizer::ChatMessage::fields_json. A turn
/// that calls functions and has no content says so with null; an empty content is one.
inline std::string FieldsOf(const v1::ChatMessage& message) {
  nlohmann::ordered_json fields, others;
  if (!message.other_fields_json().empty()) {
    others = nlohmann::ordered_json::parse(message.other_fields_json(), nullptr,
                                           /*allow_exceptions=*/false);
  }
  if (!message.tool_calls_json().empty()) {
    if (!message.has_content()) fields["content"] = nullptr;
    fields["tool_calls"] = nlohmann::ordered_json::parse(message.tool_calls_json(), nullptr,
                                                         /*allow_exceptions=*/false);
  }
  if (message.has_name()) fields["name"] = message.name();
  if (message.has_tool_call_id()) fields["tool_call_id"] = message.tool_call_id();
  if (others.is_object()) fields.update(others);
  return fields.empty() ? std::string() : fields.dump();
}

inline tokenizer::ChatMessage MessageOf(const v1::ChatMessage& message) {
  tokenizer::ChatMessage out(message.role(), absl::string_view(message.content()));
  out.fields_json = FieldsOf(message);
  return out;
}

/// `messages`: a range of v1::ChatMessage.
template <class Range>
tokenizer::Chat ChatOf(const Range& messages, absl::string_view tools_json = "",
                       absl::string_view kwargs_json = "") {
  tokenizer::Chat chat;
  chat.tools_json = std::string(tools_json);
  chat.kwargs_json = std::string(kwargs_json);
  for (const auto& message : messages) chat.messages.push_back(MessageOf(message));
  return chat;
}

/// A prompt as the model sees it: `messages` (v1::ChatMessage; without them `text`) with
/// `tools_json` and the variables of `kwargs_json` through the chat template. INVALID_ARGUMENT: it
/// has tools, and no template renders it.
template <class Range>
absl::StatusOr<Prompt> RenderPromptOf(const PolicySource& source, const Range& messages,
                                      absl::string_view text, absl::string_view tools_json,
                                      absl::string_view kwargs_json) {
  auto prompt = source.RenderPrompt(ChatOf(messages, tools_json, kwargs_json), text);
  if (!prompt.ok() || prompt->templated() || tools_json.empty()) return prompt;
  return absl::InvalidArgumentError(
      "the prompt is a text with `tools`, which a chat template writes; give it as messages");
}

/// A response to `prompt` that is learned: `turns` (v1::ChatMessage; without them `text`), within
/// the limits of `data`. Of several turns each one of the assistant is learned that is not
/// `untrained`.
template <class Range>
absl::StatusOr<Demonstration> EncodeResponse(const PolicySource& source, const Prompt& prompt,
                                             absl::string_view text, const Range& turns,
                                             const v1::DataSpec& data, bool ends = true) {
  const int64_t most = data.max_response_length();
  if (turns.size() < 2) {
    const tokenizer::ChatMessage reply =
        turns.empty() ? tokenizer::ChatMessage("assistant", text) : MessageOf(*turns.begin());
    // A template that says what of a turn is learned says it of one turn too.
    if (data.loss_on() == "all_assistant" && prompt.templated() &&
        source.TemplateReads("endgeneration")) {
      return source.EncodeTurns(prompt, {reply}, {true}, data.max_prompt_length(), most);
    }
    return source.EncodeDemonstration(prompt, reply, data.max_prompt_length(), most, ends);
  }
  std::vector<bool> learned;
  for (const auto& turn : turns) {
    learned.push_back(turn.role() == "assistant" && !turn.untrained());
  }
  return source.EncodeTurns(prompt, ChatOf(turns).messages, learned, data.max_prompt_length(),
                            most);
}

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_CHAT_MESSAGES_H_
