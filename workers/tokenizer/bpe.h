// Byte-pair encoding of one word into token ids.
//
// A word begins as one token per byte; then the adjacent pair with the lowest merge rank (the
// leftmost one of several) is joined, until no pair has a merge. Source: Sennrich et al. 2016;
// ties, `ignore_merges` and unknown bytes as in Hugging Face tokenizers' models/bpe.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_ENGINE_BPE_H_
#define BATON_WORKERS_ENGINE_BPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::engine {

struct BpeOptions {
  bool ignore_merges = false;     ///< A word that is itself a token becomes that token at once.
  std::optional<int32_t> unk_id;  ///< For bytes without a token; none: such a byte is an error.
  bool fuse_unk = false;          ///< A run of such bytes becomes one unk, not one each.
};

class Bpe {
 public:
  using Vocab = std::unordered_map<std::string, int32_t>;
  using Merge = std::pair<std::string, std::string>;

  /// `vocab` maps token text (in the byte alphabet, see byte_level.h) to ids; the merges are in
  /// rank order. INVALID_ARGUMENT when a merge names a token that is not in `vocab`.
  [[nodiscard]] static absl::StatusOr<Bpe> Create(const Vocab& vocab,
                                                  const std::vector<Merge>& merges,
                                                  const BpeOptions& options);

  /// Appends the ids of `word` (raw bytes). Returns the index of the first byte that has no token
  /// when there is no unk either (then nothing is appended), else nullopt.
  [[nodiscard]] std::optional<size_t> Encode(absl::string_view word,
                                             std::vector<int32_t>* ids) const;

 private:
  struct RankedMerge {
    int32_t rank;
    int32_t id;
  };
  struct Symbol;

  Bpe() { byte_id_.fill(-1); }
  const RankedMerge* FindMerge(int32_t left, int32_t right) const;
  /// The word's bytes as tokens, unks fused if wished; or the index of an uncovered byte.
  std::optional<size_t> SplitBytes(absl::string_view word, std::vector<Symbol>* symbols) const;
  void JoinPairs(std::vector<Symbol>* symbols) const;

  // Constant after Create.
  BpeOptions options_;
  std::array<int32_t, 256> byte_id_;                     // -1: no token
  std::unordered_map<uint64_t, RankedMerge> merges_;     // (left id, right id)
  std::unordered_map<std::string, int32_t> word_to_id_;  // only with ignore_merges
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_BPE_H_
