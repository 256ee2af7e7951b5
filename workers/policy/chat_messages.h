// Messages of the API as the chat template takes them.
#ifndef BATON_WORKERS_POLICY_CHAT_MESSAGES_H_
#define BATON_WORKERS_POLICY_CHAT_MESSAGES_H_

#include <vector>

#include "workers/tokenizer/chat_template.h"

namespace baton::policy {

/// `messages`: a range of v1::ChatMessage.
template <class Range>
std::vector<engine::ChatMessage> ChatMessages(const Range& messages) {
  std::vector<engine::ChatMessage> out;
  for (const auto& message : messages) out.push_back({message.role(), message.content()});
  return out;
}

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_CHAT_MESSAGES_H_
