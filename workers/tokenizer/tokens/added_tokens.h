// Tokens that are found in the text before anything else: special tokens ("<|im_end|>") and
// others that were added to a trained vocabulary.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_ADDED_TOKENS_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "workers/tokenizer/jinja/rendered_text.h"
#include "workers/tokenizer/tokens/prefix_table.h"

namespace baton::tokenizer {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      ///< Control token: left out of decoded text on request.
  bool lstrip = false;       ///< Takes the white space on its left with it.
  bool rstrip = false;       ///< Takes the white space on its right with it.
  bool single_word = false;  ///< Found only where no letter or digit stands before or after it.
  /// Looked for in the normalized text between the tokens that are not `normalized`; those are
  /// looked for first, in the text as given.
  bool normalized = false;
};

/// The places where control tokens are found: inside one of `ranges`, which ascend. Control tokens
/// are the special ones and those of `ids`; other added tokens are found anywhere.
struct ControlScope {
  absl::Span<const TextRange> ranges;
  absl::Span<const int32_t> ids;
};

/// Finds added tokens, the leftmost first and of several there the longest, as Hugging Face's
/// AddedVocabulary does. Immutable after construction; any thread.
class AddedTokenFinder {
 public:
  struct Piece {
    absl::string_view text;
    int32_t id = -1;  ///< -1: text between added tokens.
  };

  AddedTokenFinder() = default;
  /// Tokens of empty content are left out.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  /// Appends the whole of `text` in order (less the white space that tokens took) to `pieces`. The
  /// text of a control token outside of `control` is plain text, and no other token is found within
  /// it. White space that a token took on its right may be a token once more, as in Hugging Face's:
  /// then pieces overlap.
  void Split(absl::string_view text, const ControlScope& control, std::vector<Piece>* pieces) const;

 private:
  const AddedToken* MatchAt(absl::string_view text) const;

  std::vector<AddedToken> tokens_;
  PrefixTable places_;  // in tokens_, by content
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_ADDED_TOKENS_H_
