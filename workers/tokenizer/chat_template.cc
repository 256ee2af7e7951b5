#include "workers/tokenizer/chat_template.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::engine {
namespace {

bool IsRole(absl::string_view role) {
  return !role.empty() && std::all_of(role.begin(), role.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

std::string Llama3Header(absl::string_view role) {
  return absl::StrCat("<|start_header_id|>", role, "<|end_header_id|>\n\n");
}

}  // namespace

ChatTemplate::ChatTemplate(Kind kind)
    : kind_(kind),
      end_of_turn_(kind == Kind::kChatml   ? "<|im_end|>"
                   : kind == Kind::kLlama3 ? "<|eot_id|>"
                                           : "") {}

std::vector<std::string> ChatTemplate::Names() { return {"none", "chatml", "llama3"}; }

absl::StatusOr<ChatTemplate> ChatTemplate::FromName(absl::string_view name) {
  if (name.empty() || name == "none") return ChatTemplate(Kind::kNone);
  if (name == "chatml") return ChatTemplate(Kind::kChatml);
  if (name == "llama3") return ChatTemplate(Kind::kLlama3);
  return absl::InvalidArgumentError(absl::StrCat(
      "chat template '", name, "' is not known; known: ", absl::StrJoin(Names(), ", ")));
}

absl::StatusOr<RenderedText> ChatTemplate::Render(absl::Span<const ChatMessage> messages,
                                                  bool add_generation_prompt) const {
  RenderedText out;
  if (kind_ == Kind::kLlama3) out.AddTemplate("<|begin_of_text|>");
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (!IsRole(message.role)) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages[", i, "].role: '", message.role,
                       "' is not a role; use for example system, user or assistant"));
    }
    switch (kind_) {
      case Kind::kNone:
        out.Add(message.content);
        break;
      case Kind::kChatml:
        out.AddTemplate(absl::StrCat("<|im_start|>", message.role, "\n"));
        out.Add(message.content);
        out.AddTemplate("<|im_end|>\n");
        break;
      case Kind::kLlama3:
        out.AddTemplate(Llama3Header(message.role));
        out.Add(message.content.Trimmed());
        out.AddTemplate("<|eot_id|>");
        break;
    }
  }
  if (add_generation_prompt && kind_ == Kind::kChatml) out.AddTemplate("<|im_start|>assistant\n");
  if (add_generation_prompt && kind_ == Kind::kLlama3) out.AddTemplate(Llama3Header("assistant"));
  return out;
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::MarkIds(const Tokenizer& tokenizer) const {
  std::vector<std::string> marks;
  if (kind_ == Kind::kChatml) marks = {"<|im_start|>", "<|im_end|>"};
  if (kind_ == Kind::kLlama3) {
    marks = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  }
  std::vector<int32_t> mark_ids;
  for (const std::string& mark : marks) {
    const auto ids = tokenizer.Encode(mark);
    if (!ids.ok() || ids->size() != 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("the tokenizer has no token '", mark,
                       "', which the chat template needs; choose the template that the model was "
                       "trained with, or none"));
    }
    EncodeOptions as_content;
    as_content.control_ids = *ids;
    const auto spelled = tokenizer.Encode(RenderedText(mark), as_content);
    if (spelled.ok() && *spelled == *ids) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the tokenizer makes the token '", mark,
          "' of plain text, so that any prompt or response could end a turn of the chat template; "
          "make it an added token of tokenizer.json"));
    }
    mark_ids.push_back(ids->front());
  }
  return mark_ids;
}

}  // namespace baton::engine
