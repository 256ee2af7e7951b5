#include "workers/tokenizer/chat/learned_turns.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/status_macros.h"

namespace baton::tokenizer {
namespace {

absl::Status Rewrites(size_t turn) {
  return absl::InvalidArgumentError(absl::StrCat(
      "data.loss_on: all_assistant: the chat template writes turn ", turn,
      " of the conversation otherwise once other turns follow, and has no {% generation %}, so its "
      "turns cannot be found in the whole; use data.loss_on: last, or a template with "
      "{% generation %}"));
}

/// The first `size` messages of `chat`.
Chat FirstOf(const Chat& chat, size_t size) {
  Chat first;
  first.messages.assign(chat.messages.begin(),
                        chat.messages.begin() + static_cast<std::ptrdiff_t>(size));
  first.tools_json = chat.tools_json;
  first.kwargs_json = chat.kwargs_json;
  return first;
}

/// The end of the template's own part of `text` that has the byte `at`, or `at` if that is content.
size_t EndOfTemplate(const RenderedText& text, size_t at) {
  for (const TextRange& range : text.template_ranges()) {
    if (range.begin <= at && at < range.end) return range.end;
  }
  return at;
}

/// Where turn `turn` begins in `whole`. If the template does not repeat there all that it begins a
/// reply with (an opened thought), where both part.
absl::StatusOr<size_t> BeginOf(const ChatTemplate& chat_template, const Chat& chat, size_t turn,
                               const RenderedText& whole) {
  const Chat before = FirstOf(chat, turn);
  BATON_ASSIGN_OR_RETURN(const RenderedText prompt, chat_template.Render(before, true));
  if (absl::StartsWith(whole.text(), prompt.text())) return prompt.text().size();
  BATON_ASSIGN_OR_RETURN(const RenderedText turns, chat_template.Render(before, false));
  const size_t said = turns.text().size();
  if (!absl::StartsWith(whole.text(), turns.text()) ||
      !absl::StartsWith(prompt.text(), turns.text())) {
    return Rewrites(turn);
  }
  const auto differ = std::mismatch(prompt.text().begin(), prompt.text().end(),
                                    whole.text().begin(), whole.text().end());
  const auto common = static_cast<size_t>(differ.first - prompt.text().begin());
  // What is said may begin as the opened thought does: "<b>" beside "<think>".
  const std::string& header = chat_template.header();
  const bool headed =
      !header.empty() && absl::StartsWith(absl::string_view(whole.text()).substr(said), header);
  return headed ? std::min(common, said + header.size()) : common;
}

/// Where turn `turn` ends in `whole`, with what ends a turn.
absl::StatusOr<size_t> EndOf(const ChatTemplate& chat_template, const Chat& chat, size_t turn,
                             size_t begin, const RenderedText& whole) {
  std::string text = whole.text();
  if (turn + 1 < chat.messages.size()) {
    BATON_ASSIGN_OR_RETURN(const RenderedText upto,
                           chat_template.Render(FirstOf(chat, turn + 1), false));
    if (!absl::StartsWith(whole.text(), upto.text())) return Rewrites(turn);
    text = upto.text();
  }
  const std::string& mark = chat_template.end_of_turn();
  const size_t place = mark.empty() ? std::string::npos : text.rfind(mark);
  const bool ends = place != std::string::npos && place >= begin &&
                    EndOfTemplate(whole, place) >= place + mark.size();
  return ends ? place + mark.size() : text.size();
}

/// Those of the blocks that belong to a turn that is learned.
absl::StatusOr<std::vector<TextRange>> BlocksOf(const std::vector<TextRange>& blocks,
                                                const Chat& chat,
                                                const std::vector<bool>& learned) {
  std::vector<bool> of_assistant;
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    if (chat.messages[i].role == "assistant") of_assistant.push_back(learned[i]);
  }
  std::vector<TextRange> out;
  const bool all = std::count(of_assistant.begin(), of_assistant.end(), false) == 0;
  if (!all && blocks.size() != of_assistant.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the chat template writes ", blocks.size(), " {% generation %} blocks for ",
        of_assistant.size(),
        " turns of the assistant, so those of weight 0 cannot be told from the others"));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].begin < blocks[i].end && (all || of_assistant[i])) out.push_back(blocks[i]);
  }
  return out;
}

}  // namespace

absl::StatusOr<LearnedTurns> FindLearnedTurns(const ChatTemplate& chat_template, const Chat& chat,
                                              const std::vector<bool>& learned) {
  LearnedTurns out;
  std::vector<TextRange> blocks;
  BATON_ASSIGN_OR_RETURN(out.text,
                         chat_template.Render(chat, /*add_generation_prompt=*/false, &blocks));
  out.by_blocks = !blocks.empty();
  if (out.by_blocks) {
    BATON_ASSIGN_OR_RETURN(out.ranges, BlocksOf(blocks, chat, learned));
  }
  for (size_t i = 0; !out.by_blocks && i < chat.messages.size(); ++i) {
    if (!learned[i] || chat.messages[i].role != "assistant") continue;
    BATON_ASSIGN_OR_RETURN(const size_t begin, BeginOf(chat_template, chat, i, out.text));
    BATON_ASSIGN_OR_RETURN(const size_t end, EndOf(chat_template, chat, i, begin, out.text));
    if (begin >= end || (!out.ranges.empty() && begin < out.ranges.back().end)) return Rewrites(i);
    out.ranges.push_back({begin, end});
  }
  if (out.ranges.empty()) {
    return absl::InvalidArgumentError(
        "the chat template writes nothing of the turns of the assistant that are trained on");
  }
  return out;
}

}  // namespace baton::tokenizer
