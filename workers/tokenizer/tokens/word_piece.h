// The models that look words up: WordPiece (BERT and its kin) and WordLevel.
//
// WordPiece takes the longest token that the word begins with, then the longest of those that
// continue a word ("##ing") for the rest, and so on; a word that cannot be covered is one unk.
// Source: Schuster and Nakajima 2012, Wu et al. 2016 (section 4.1); limits as in Hugging Face
// tokenizers' models/wordpiece. Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_WORD_PIECE_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_WORD_PIECE_H_

#include <string>
#include <unordered_set>
#include <utility>

#include "workers/tokenizer/tokens/prefix_table.h"
#include "workers/tokenizer/tokens/token_model.h"

namespace baton::tokenizer {

struct WordPieceOptions {
  std::string continuing_prefix = "##";
  int64_t max_characters = 100;   ///< A longer word is one unk.
  std::optional<int32_t> unk_id;  ///< None: a word that cannot be covered is an error.
};

class WordPiece : public TokenModel {
 public:
  /// Tokens of `never_found` are special: plain text never becomes them.
  WordPiece(const Vocab& vocab, WordPieceOptions options,
            const std::unordered_set<int32_t>& never_found);
  [[nodiscard]] std::optional<size_t> Encode(absl::string_view word,
                                             std::vector<int32_t>* ids) const override;

 private:
  PrefixTable begins_;     // tokens that a word begins with
  PrefixTable continues_;  // tokens that continue a word, without the prefix
  WordPieceOptions options_;
};

class WordLevel : public TokenModel {
 public:
  /// A word outside `vocab` is one `unk_id`; none: an error.
  WordLevel(Vocab vocab, std::optional<int32_t> unk_id,
            const std::unordered_set<int32_t>& never_found);
  [[nodiscard]] std::optional<size_t> Encode(absl::string_view word,
                                             std::vector<int32_t>* ids) const override;

 private:
  Vocab vocab_;
  std::optional<int32_t> unk_id_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_WORD_PIECE_H_
