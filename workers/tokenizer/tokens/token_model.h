// The model of a tokenizer: from a word, which the pre-tokenizer cut, to token ids. Immutable; any
// thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_TOKEN_MODEL_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_TOKEN_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// Token text to id.
using Vocab = std::unordered_map<std::string, int32_t>;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of `word` (raw bytes; what is not UTF-8 is taken byte by byte). Returns the
  /// index of the first byte that has no token when there is no unk either (then nothing is
  /// appended), else nullopt.
  [[nodiscard]] virtual std::optional<size_t> Encode(absl::string_view word,
                                                     std::vector<int32_t>* ids) const = 0;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_TOKEN_MODEL_H_
