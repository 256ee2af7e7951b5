// The Unigram model: the most probable of all ways to cut a word into tokens, each of which has a
// score, the logarithm of its probability. A character that no token covers alone costs the lowest
// score less 10 as an unk; a run of unks is one, or the tokens of its bytes ("<0x0A>").
// Source: Kudo 2018; ties and unks as in Hugging Face tokenizers' models/unigram (its optimized
// Viterbi search). O(n m) for n bytes and a longest token of m. Immutable after construction; any
// thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_UNIGRAM_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_UNIGRAM_H_

#include <array>
#include <string>
#include <unordered_set>
#include <utility>

#include "workers/tokenizer/tokens/prefix_table.h"
#include "workers/tokenizer/tokens/token_model.h"

namespace baton::tokenizer {

struct UnigramOptions {
  std::optional<int32_t> unk_id;  ///< None: a character that no token covers is an error.
  bool byte_fallback = false;     ///< Where the vocabulary has the tokens of all bytes of a run.
  /// Special tokens: plain text never becomes them. Those of one character still cover it.
  std::unordered_set<int32_t> never_found;
};

class Unigram : public TokenModel {
 public:
  /// Token text and score, by id. Of several tokens of one text the last is found.
  using Pieces = std::vector<std::pair<std::string, double>>;

  Unigram(const Pieces& pieces, UnigramOptions options);
  [[nodiscard]] std::optional<size_t> Encode(absl::string_view word,
                                             std::vector<int32_t>* ids) const override;

 private:
  struct Node;  // the best way to a place in the word

  /// Offers the tokens that `rest` begins with to `nodes`, which begin at the same place. Returns
  /// whether one covers its first character, of `character_length` bytes, alone.
  bool OfferTokens(absl::string_view rest, size_t at, size_t character_length,
                   std::vector<Node>* nodes) const;
  /// Appends the tokens of a part of the word that is no token by its path: a run of unks.
  void AppendUnknown(absl::string_view text, std::vector<int32_t>* ids) const;

  PrefixTable tokens_;                // ids by text
  std::vector<double> scores_;        // by id
  std::array<int32_t, 256> byte_id_;  // -1: no token
  double unk_score_ = 0;
  UnigramOptions options_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_UNIGRAM_H_
