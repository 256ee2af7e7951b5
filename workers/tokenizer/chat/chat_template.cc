#include "workers/tokenizer/chat/chat_template.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/json_fields.h"
#include "sdk/common/schema/template_kwargs.h"
#include "workers/tokenizer/chat/model_template.h"

namespace baton::tokenizer {
namespace {

bool IsRole(absl::string_view role) {
  return !role.empty() && std::all_of(role.begin(), role.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

std::string Llama3Header(absl::string_view role) {
  return absl::StrCat("<|start_header_id|>", role, "<|end_header_id|>\n\n");
}

absl::Status CheckRoles(const Chat& chat) {
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    if (IsRole(chat.messages[i].role)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("messages[", i, "].role: '", chat.messages[i].role,
                     "' is not a role; use for example system, user or assistant"));
  }
  return absl::OkStatus();
}

/// A template that leaves a turn out would do so without a word.
absl::Status RefuseDevelopers(const Chat& chat) {
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    if (chat.messages[i].role != "developer") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("messages[", i,
                     "].role: the chat template leaves out turns of role developer; write system"));
  }
  return absl::OkStatus();
}

/// The special tokens that end a turn. The tokenizer itself keeps content from spelling them.
std::vector<int32_t> ModelMarkIds(const std::string& end_of_turn, const Tokenizer& tokenizer) {
  std::vector<int32_t> marks;
  const auto ids = tokenizer.Encode(end_of_turn);
  if (!ids.ok()) return marks;
  std::copy_if(ids->begin(), ids->end(), std::back_inserter(marks),
               [&](int32_t id) { return tokenizer.IsSpecial(id); });
  return marks;
}

/// Whether the template wrote all of [begin, end).
bool IsTemplates(const RenderedText& text, size_t begin, size_t end) {
  const auto ranges = text.template_ranges();
  return std::any_of(ranges.begin(), ranges.end(), [&](const TextRange& range) {
    return range.begin <= begin && end <= range.end;
  });
}

/// For a `whole` that does not begin with the prompt of `chat`: whether it only differs in earlier
/// turns (Mistral puts the system's text into the last message), and has the prompt's opening of a
/// reply. Then the reply is put after the prompt unchanged, as the model will see it.
bool BeginsReplyAlike(const ModelTemplate& model, const Chat& chat, const RenderedText& prompt,
                      const RenderedText& whole) {
  const auto turns = model.Render(chat, /*add_generation_prompt=*/false);
  if (!turns.ok() || !absl::StartsWith(prompt.text(), turns->text())) return false;
  const std::string opening = prompt.text().substr(turns->text().size());
  return !absl::StartsWith(whole.text(), turns->text()) && absl::StrContains(whole.text(), opening);
}

/// What a turn has beside its text; FindField finds no key whose value is null.
Json FieldsOf(const ChatMessage& message) {
  if (message.fields_json.empty()) return Json::object();
  return Json::parse(message.fields_json, nullptr, /*allow_exceptions=*/false);
}

/// Whether the turn calls functions; an empty list calls none.
bool CallsFunctions(const Json& fields) {
  const Json* calls = FindField(fields, "tool_calls");
  return calls != nullptr && !calls->empty();
}

bool HasReasoning(const Json& fields) {
  return std::any_of(std::begin(kReasoningFields), std::end(kReasoningFields),
                     [&](const char* field) {
                       const Json* said = FindField(fields, field);
                       return said != nullptr && *said != "";
                     });
}

/// INVALID_ARGUMENT if a built-in template has no place for what the message has.
absl::Status CheckPlain(const ChatMessage& message) {
  const Json fields = FieldsOf(message);
  if (!CallsFunctions(fields) && !HasReasoning(fields)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(CallsFunctions(fields) ? "tool_calls" : "reasoning_content",
                   ": the built-in chat templates have no place for ",
                   CallsFunctions(fields) ? "calls of tools" : "reasoning",
                   "; use the model's own (chat_template: auto)"));
}

/// The functions that a turn calls are in what the template writes of it.
absl::Status CheckCallsWritten(const ChatMessage& reply, absl::string_view written) {
  const Json fields = FieldsOf(reply);
  if (!CallsFunctions(fields)) return absl::OkStatus();
  for (const Json& call : *FindField(fields, "tool_calls")) {
    const Json* function = FindField(call, "function");
    const Json* name = FindField(function != nullptr ? *function : call, "name");
    if (name == nullptr || !name->is_string()) continue;
    if (absl::StrContains(written, name->get_ref<const std::string&>())) continue;
    return absl::InvalidArgumentError(
        "the response calls a tool, and the chat template writes no calls of tools; use one that "
        "does, or leave the line out");
  }
  return absl::OkStatus();
}

absl::Status CannotTellApart() {
  return absl::InvalidArgumentError(
      "the response calls a tool or has reasoning, and the chat template writes the turns before "
      "it "
      "otherwise than in the prompt, so that the response cannot be found in the whole; write it "
      "as "
      "a text, or leave the line out");
}

/// A reply that no template writes itself.
constexpr char kProbe[] = "a-reply-to-try-the-template-on";

}  // namespace

ChatTemplate::ChatTemplate(Kind kind)
    : kind_(kind),
      end_of_turn_(kind == Kind::kChatml   ? "<|im_end|>"
                   : kind == Kind::kLlama3 ? "<|eot_id|>"
                                           : "") {}

std::vector<std::string> ChatTemplate::Names() { return {"chatml", "llama3"}; }

absl::StatusOr<ChatTemplate> ChatTemplate::FromName(absl::string_view name) {
  if (name == "chatml") return ChatTemplate(Kind::kChatml);
  if (name == "llama3") return ChatTemplate(Kind::kLlama3);
  return absl::InvalidArgumentError(absl::StrCat(
      "chat template '", name, "' is not known; known: ", absl::StrJoin(Names(), ", ")));
}

absl::StatusOr<ChatTemplate> ChatTemplate::OfModel(const TemplateFiles& files,
                                                   const Tokenizer& tokenizer) {
  return OfModel(files, tokenizer, {});
}

absl::StatusOr<ChatTemplate> ChatTemplate::OfModel(const TemplateFiles& files,
                                                   const Tokenizer& tokenizer,
                                                   const TemplateSettings& settings) {
  ChatTemplate made(Kind::kModel);
  BATON_ASSIGN_OR_RETURN(made.model_, ModelTemplate::FromFiles(files, settings));
  BATON_RETURN_IF_ERROR(made.TryTurns(tokenizer));
  const Chat developer = {{{"developer", kProbe}, {"user", "Hello."}}};
  const auto text = made.model_->Render(developer, /*add_generation_prompt=*/true);
  made.drops_developer_ = text.ok() && !absl::StrContains(text->text(), kProbe);
  return made;
}

absl::Status ChatTemplate::TryTurns(const Tokenizer& tokenizer) {
  const ChatMessage user("user", "Hello."), said("assistant", kProbe);
  const auto text = model_->Render({{user, said}}, /*add_generation_prompt=*/false);
  // The template wants other messages: the data's may suit it.
  if (!text.ok()) return absl::OkStatus();
  const auto asked = model_->Render({{user}}, /*add_generation_prompt=*/false);
  const auto again = model_->Render({{user, said, user}}, /*add_generation_prompt=*/false);
  if (asked.ok() && again.ok() && absl::StartsWith(again->text(), asked->text())) {
    const size_t begin = asked->text().size(), end = again->text().find(kProbe, begin);
    if (end != std::string::npos) header_ = again->text().substr(begin, end - begin);
  }
  const size_t at = text->text().rfind(kProbe);
  if (at == std::string::npos) return absl::OkStatus();
  const std::string tail = text->text().substr(at + sizeof(kProbe) - 1);
  BATON_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(tail));
  for (const int32_t id : ids) {
    if (!tokenizer.IsSpecial(id)) continue;
    // A normalizer may have made the mark of another text: then there is none to look for.
    const absl::string_view mark = tokenizer.AddedText(id);
    const size_t place = tail.find(mark.data(), 0, mark.size());
    if (place != std::string::npos) end_of_turn_ = tail.substr(0, place + mark.size());
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<RenderedText> ChatTemplate::Render(const Chat& chat, bool add_generation_prompt,
                                                  std::vector<TextRange>* generated) const {
  BATON_RETURN_IF_ERROR(CheckRoles(chat));
  if (drops_developer_) BATON_RETURN_IF_ERROR(RefuseDevelopers(chat));
  if (kind_ == Kind::kModel) return model_->Render(chat, add_generation_prompt, generated);
  if (!chat.tools_json.empty()) {
    return absl::InvalidArgumentError(
        "tools: the built-in chat templates have no place for tools; use the model's own "
        "(chat_template: auto)");
  }
  RenderedText out;
  if (kind_ == Kind::kLlama3) out.AddTemplate("<|begin_of_text|>");
  for (const ChatMessage& message : chat.messages) {
    BATON_RETURN_IF_ERROR(CheckPlain(message));
    if (kind_ == Kind::kChatml) {
      out.AddTemplate(absl::StrCat("<|im_start|>", message.role, "\n"));
      out.Add(message.content);
      out.AddTemplate("<|im_end|>\n");
    } else {
      out.AddTemplate(Llama3Header(message.role));
      out.Add(message.content.Trimmed());
      out.AddTemplate("<|eot_id|>");
    }
  }
  if (add_generation_prompt && kind_ == Kind::kChatml) out.AddTemplate("<|im_start|>assistant\n");
  if (add_generation_prompt && kind_ == Kind::kLlama3) out.AddTemplate(Llama3Header("assistant"));
  return out;
}

absl::StatusOr<TemplateReply> ChatTemplate::RenderReply(const Chat& chat,
                                                        const RenderedText& prompt,
                                                        absl::string_view reply) const {
  return RenderReply(chat, prompt, ChatMessage("assistant", reply));
}

absl::StatusOr<TemplateReply> ChatTemplate::RenderReply(const Chat& chat,
                                                        const RenderedText& prompt,
                                                        const ChatMessage& reply) const {
  TemplateReply out = {reply.content};
  out.text.AddTemplate(end_of_turn_);
  if (kind_ != Kind::kModel) BATON_RETURN_IF_ERROR(CheckPlain(reply));
  if (kind_ != Kind::kModel) return out;
  const Json fields = FieldsOf(reply);
  const bool text_alone = !CallsFunctions(fields) && !HasReasoning(fields);
  Chat whole = chat;
  whole.messages.push_back(reply);
  BATON_ASSIGN_OR_RETURN(const RenderedText text, model_->Render(whole, false));
  size_t begin = prompt.text().size();  // of the reply
  out.from_start = !absl::StartsWith(text.text(), prompt.text());
  if (out.from_start) {
    out.from_start = !BeginsReplyAlike(*model_, chat, prompt, text);
    if (!out.from_start && !text_alone) return CannotTellApart();
    if (!out.from_start) return out;
    const auto differ = std::mismatch(prompt.text().begin(), prompt.text().end(),
                                      text.text().begin(), text.text().end());
    begin = static_cast<size_t>(differ.first - prompt.text().begin());
  }
  size_t end = text.text().size();
  if (!end_of_turn_.empty()) {
    const size_t mark = text.text().rfind(end_of_turn_);
    const bool ends = mark != std::string::npos && mark >= begin &&
                      IsTemplates(text, mark, mark + end_of_turn_.size());
    if (!ends && !out.from_start && text_alone) return out;
    if (ends) end = mark + end_of_turn_.size();
  }
  BATON_RETURN_IF_ERROR(CheckCallsWritten(reply, absl::string_view(text.text()).substr(begin)));
  out.text = text.Slice(out.from_start ? 0 : begin, end);
  // If the template writes no end, the reply has one all the same.
  if (!absl::EndsWith(out.text.text(), end_of_turn_)) out.text.AddTemplate(end_of_turn_);
  return out;
}

std::string ChatTemplate::PromptSuffix(const Chat& chat, const RenderedText& prompt) const {
  if (kind_ != Kind::kModel) return "";
  const auto turns = model_->Render(chat, /*add_generation_prompt=*/false);
  if (!turns.ok() || !absl::StartsWith(prompt.text(), turns->text())) return "";
  const std::string opening = prompt.text().substr(turns->text().size());
  const auto differ = std::mismatch(opening.begin(), opening.end(), header_.begin(), header_.end());
  return std::string(differ.first, opening.end());
}

bool ChatTemplate::Reads(absl::string_view name) const {
  return kind_ == Kind::kModel && model_->Reads(name);
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::MarkIds(const Tokenizer& tokenizer) const {
  std::vector<std::string> marks;
  if (kind_ == Kind::kModel) return ModelMarkIds(end_of_turn_, tokenizer);
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

}  // namespace baton::tokenizer
