// The map of characters that a SentencePiece model normalizes text with: the step Precompiled of a
// tokenizer.json's normalizer, as T5, XLM-R and ALBERT have it.
//
// The map is a double-array trie (darts-clone) from texts to places in a blob of replacements, each
// ended by NUL. Source of the format: SentencePiece's normalizer (EncodePrecompiledCharsMap); of
// what is looked up: Hugging Face tokenizers' normalizers/precompiled, which takes the shortest key
// that a grapheme cluster begins with for the whole of it.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_CHARSMAP_H_
#define BATON_WORKERS_TOKENIZER_STEPS_CHARSMAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::tokenizer {

class Charsmap {
 public:
  /// `base64` is the value of "precompiled_charsmap". INVALID_ARGUMENT when it is broken.
  [[nodiscard]] static absl::StatusOr<Charsmap> Create(absl::string_view base64);

  /// `text` must be valid UTF-8.
  [[nodiscard]] std::string Normalize(absl::string_view text) const;

  /// The bytes of the longest replacement.
  size_t longest_replacement() const;

 private:
  /// The replacement of `part`; nullopt: no change.
  std::optional<absl::string_view> Find(absl::string_view part) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_CHARSMAP_H_
