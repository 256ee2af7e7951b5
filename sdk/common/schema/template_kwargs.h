// What may be given to a chat template beside its messages and tools.
#ifndef BATON_SDK_COMMON_SCHEMA_TEMPLATE_KWARGS_H_
#define BATON_SDK_COMMON_SCHEMA_TEMPLATE_KWARGS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

/// The fields of a turn that hold its reasoning, as transformers 5.24 reads them
/// (chat_template_utils.py, _REASONING_FIELDS): the first that is there counts.
inline constexpr const char* kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

/// INVALID_ARGUMENT if `key` may not be one of chat_template_kwargs: it is an argument of
/// apply_chat_template itself, or empty.
inline absl::Status CheckTemplateKwarg(absl::string_view key) {
  for (const absl::string_view taken :
       {"messages", "conversation", "tools", "add_generation_prompt", "continue_final_message",
        "chat_template", "tokenize"}) {
    if (key != taken) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`", key, "` is no variable that a template may be given; remove it"));
  }
  if (key.empty()) return absl::InvalidArgumentError("a key is empty; remove it");
  return absl::OkStatus();
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_TEMPLATE_KWARGS_H_
