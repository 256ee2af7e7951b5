// Where the turns of the assistant stand in the text of a conversation: what a model learns of it.
#ifndef BATON_WORKERS_TOKENIZER_CHAT_LEARNED_TURNS_H_
#define BATON_WORKERS_TOKENIZER_CHAT_LEARNED_TURNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "workers/tokenizer/chat/chat_message.h"
#include "workers/tokenizer/chat/chat_template.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer {

/// A conversation as the template writes it.
struct LearnedTurns {
  RenderedText text;
  std::vector<TextRange> ranges;  ///< What is learned of `text`: ascending, apart, not empty.
  bool by_blocks = false;         ///< `ranges` are {% generation %} blocks.
};

/// `learned`: of each message, whether it is learned; only those of the assistant are.
///
/// If the template has {% generation %} blocks, they are the ranges, as the mask of transformers'
/// return_assistant_tokens_mask. Else a turn begins where the rendering of the turns before it,
/// with a generation prompt, ends, and ends with the rendering up to it: with what ends a turn.
///
/// INVALID_ARGUMENT: what ChatTemplate::Render refuses; a template without such blocks that writes
/// earlier turns otherwise once others follow; blocks that cannot be told apart by turn.
[[nodiscard]] absl::StatusOr<LearnedTurns> FindLearnedTurns(const ChatTemplate& chat_template,
                                                            const Chat& chat,
                                                            const std::vector<bool>& learned);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_CHAT_LEARNED_TURNS_H_
