// The pre-tokenizer, which cuts a text into words. Byte-pair encoding joins nothing across words.
//
// Understands the `pre_tokenizer` of a Hugging Face tokenizer.json: null (one word), ByteLevel,
// Metaspace, Split (Regex or String), Digits, or a Sequence of these where nothing follows
// ByteLevel, as GPT-2, Llama-3, Qwen2, Llama-2 and Mistral have it.
// Patterns run through PCRE2 with Unicode properties; `\s` and `\S` are rewritten to Unicode's
// White_Space, as the reference implementation has it (PCRE2 adds U+180E). PCRE2's Unicode tables
// decide what a letter is, so characters newer than its version may be cut differently.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_PRE_TOKENIZER_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_PRE_TOKENIZER_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/regex.h"

namespace baton::tokenizer {

/// The handling of text that a Split pattern matches.
enum class SplitBehavior {
  kIsolated,            ///< A word of its own.
  kRemoved,             ///< Dropped.
  kMergedWithPrevious,  ///< The end of the word before it.
  kMergedWithNext,      ///< The beginning of the word after it.
  kContiguous,          ///< As isolated, but matches that touch are one word.
};

/// The place of a part of a text: a space or "▁" is prepended in some places only.
enum class TextPlace {
  kTextStart,   ///< At the start of the whole text.
  kPieceStart,  ///< After an added token.
  kInside,      ///< After other text.
};

class PreTokenizer {
 public:
  /// `json` is the value of "pre_tokenizer", or null. UNIMPLEMENTED for a kind that is not
  /// supported, INVALID_ARGUMENT for a broken one; both say where.
  [[nodiscard]] static absl::StatusOr<PreTokenizer> FromJson(const nlohmann::json& json);

  /// Appends the words of `text` (valid UTF-8), which stands at `place`, to `words`.
  /// RESOURCE_EXHAUSTED when a pattern needs too much work.
  [[nodiscard]] absl::Status Split(absl::string_view text, TextPlace place,
                                   std::vector<std::string>* words) const;

  /// The last step is ByteLevel: words are encoded byte by byte, in the byte alphabet
  /// (byte_level.h).
  bool byte_level() const { return byte_level_; }

 private:
  enum class Prefixed { kNone, kFirst, kEach };  // which words: none, the text's first, each
  struct Step {
    std::optional<Regex> pattern;  // none: no cutting
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;  // what the pattern does NOT match counts as the match
    std::string space;    // replaces each space, before the rest; empty: spaces stay
    std::string prefix;   // before cutting, for `prefixed` words that do not begin with it
    Prefixed prefixed = Prefixed::kNone;
  };
  static absl::Status ParseStep(const nlohmann::json& json, const std::string& where,
                                PreTokenizer* out);
  static absl::Status ParseSplit(const nlohmann::json& json, const std::string& where,
                                 PreTokenizer* out);
  static absl::Status ParseMetaspace(const nlohmann::json& json, const std::string& where,
                                     PreTokenizer* out);
  /// True when the words begin where `word` does, false when it begins with text that was removed.
  static absl::StatusOr<bool> Apply(const Step& step, const std::string& word, TextPlace place,
                                    std::vector<std::string>* words);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_PRE_TOKENIZER_H_
