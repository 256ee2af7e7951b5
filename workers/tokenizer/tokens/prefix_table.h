// Texts with a value each, to find those that a longer text begins with. Immutable after
// construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_PREFIX_TABLE_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_PREFIX_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace baton::tokenizer {

class PrefixTable {
 public:
  using Entries = std::vector<std::pair<std::string, int32_t>>;

  PrefixTable() = default;
  /// Empty texts are left out; of several entries of one text the first stays.
  explicit PrefixTable(Entries entries);

  /// Calls `visit` with the length in bytes and the value of each text that `text` begins with,
  /// the shortest first. O(m log n) for n entries and the m bytes that `text` shares with one.
  void VisitPrefixes(absl::string_view text,
                     absl::FunctionRef<void(size_t length, int32_t value)> visit) const;
  /// The value and the length of the longest of them; nullopt: none.
  [[nodiscard]] std::optional<std::pair<int32_t, size_t>> FindLongest(absl::string_view text) const;
  /// The value of `text`.
  [[nodiscard]] std::optional<int32_t> Find(absl::string_view text) const;

  bool empty() const { return entries_.empty(); }

 private:
  Entries entries_;                                     // by text
  std::array<std::pair<size_t, size_t>, 256> first_{};  // those that begin with a byte
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_PREFIX_TABLE_H_
