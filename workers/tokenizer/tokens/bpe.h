// Byte-pair encoding of one word into token ids.
//
// A word begins as one token per symbol: a byte (byte-level), or a character (SentencePiece-style),
// where a character without a token may become the tokens of its bytes ("<0x0A>"). Then the
// adjacent pair with the lowest merge rank (the leftmost one of several) is joined, until no pair
// has a merge: O(n log n) for n symbols. Source: Sennrich et al. 2016; ties, `ignore_merges`,
// `byte_fallback` and unknown symbols as in Hugging Face tokenizers' models/bpe. Immutable after
// construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_BPE_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_BPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/tokens/token_model.h"

namespace baton::tokenizer {

struct BpeOptions {
  /// Symbols are bytes and the vocabulary is in the byte alphabet (byte_level.h); else they are
  /// characters as they are.
  bool byte_level = true;
  /// Not with byte_level. A character without a token becomes the tokens of its bytes, where the
  /// vocabulary has all of them.
  bool byte_fallback = false;
  bool ignore_merges = false;     ///< A word that is itself a token becomes that token at once.
  std::optional<int32_t> unk_id;  ///< For symbols without a token; none: such a symbol is an error.
  /// Not with byte_level. Symbols but a word's first have this before them in the vocabulary; a
  /// merge joins them without it.
  std::string continuing_prefix;
  /// Not with byte_level. A word's last symbol has this behind it in the vocabulary.
  std::string word_suffix;
  bool fuse_unk = false;  ///< A run of such symbols becomes one unk, not one each.
  /// Ids that no two symbols are joined to and no word becomes at once: special tokens, which plain
  /// text must not spell. One of a single symbol still is that symbol's token: it has no other.
  std::unordered_set<int32_t> never_joined;
};

class Bpe : public TokenModel {
 public:
  using Merge = std::pair<std::string, std::string>;

  /// `vocab` maps token text to ids; the merges are in rank order. INVALID_ARGUMENT when a merge
  /// names a token that is not in `vocab`.
  [[nodiscard]] static absl::StatusOr<Bpe> Create(const Vocab& vocab,
                                                  const std::vector<Merge>& merges,
                                                  const BpeOptions& options);

  [[nodiscard]] std::optional<size_t> Encode(absl::string_view word,
                                             std::vector<int32_t>* ids) const override;
  /// As Encode; `pairs_tried` grows by the pairs that were looked at.
  [[nodiscard]] std::optional<size_t> EncodeCounting(absl::string_view word,
                                                     std::vector<int32_t>* ids,
                                                     int64_t* pairs_tried) const;

 private:
  struct RankedMerge {
    int32_t rank;
    int32_t id;
  };
  struct Symbol;

  explicit Bpe(const BpeOptions& options) : options_(options) { byte_id_.fill(-1); }
  const RankedMerge* FindMerge(int32_t left, int32_t right) const;
  /// The tokens of the word's symbols, unks fused if wished; or the index of an uncovered byte.
  std::optional<size_t> SplitSymbols(absl::string_view word, std::vector<int32_t>* ids) const;
  /// The token of the symbol at `at` and its length in bytes; -1: no token.
  std::pair<int32_t, size_t> ReadSymbol(absl::string_view word, size_t at) const;
  void JoinPairs(std::vector<Symbol>* symbols, int64_t* pairs_tried) const;

  // Constant after Create.
  BpeOptions options_;
  std::array<int32_t, 256> byte_id_;  // -1: no token; of byte_level, or of byte_fallback
  std::unordered_map<char32_t, int32_t> character_id_;  // not with byte_level
  Vocab affixed_id_;  // only with continuing_prefix or word_suffix: the symbols
  std::unordered_map<uint64_t, RankedMerge> merges_;     // (left id, right id)
  std::unordered_map<std::string, int32_t> word_to_id_;  // only with ignore_merges
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_BPE_H_
