// The pre-tokenizer, which cuts a text into words. Byte-pair encoding joins nothing across words.
//
// Understands the `pre_tokenizer` of a Hugging Face tokenizer.json: null (one word),
// BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation,
// Split (text_pattern.h), Whitespace, WhitespaceSplit, or a Sequence of these, where no Metaspace
// follows ByteLevel. What else follows ByteLevel cuts the words in the byte alphabet
// (byte_level.h), as Falcon has it. Unicode's classes are those of PCRE2's tables, so characters
// newer than its version may be cut differently; the reference's table of punctuation is older (106
// characters of Unicode 9 and later are none there).
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_PRE_TOKENIZER_H_
#define BATON_WORKERS_TOKENIZER_STEPS_PRE_TOKENIZER_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/steps/text_pattern.h"

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

  /// A step is ByteLevel: the model sees words in the byte alphabet (byte_level.h). Split gives
  /// them as the bytes that they stand for.
  bool byte_level() const { return byte_level_; }
  /// A step prepends to the text's first word alone, behind one that cuts. FromJson refuses it
  /// behind a step that prepends too: the reference counts each word that begins with the text's
  /// first character, or before it, as the first.
  bool prepends_behind_cuts() const { return prepends_behind_cuts_; }

 private:
  enum class Prefixed { kNone, kFirst, kEach };  // which words: none, the text's first, each
  struct Step {
    std::optional<TextPattern> pattern;  // none: no cutting
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;  // what the pattern does NOT match counts as the match
    std::string space;    // replaces each space, before the rest; empty: spaces stay
    std::string prefix;   // before cutting, for `prefixed` words that do not begin with it
    Prefixed prefixed = Prefixed::kNone;
  };
  static absl::Status ParseStep(const nlohmann::json& json, const std::string& where,
                                PreTokenizer* out);
  static absl::Status ParseNamed(const std::string& type, const nlohmann::json& json,
                                 const std::string& where, PreTokenizer* out);
  static absl::Status ParseByteLevel(const nlohmann::json& json, const std::string& where,
                                     PreTokenizer* out);
  static absl::Status ParseDelimiter(const nlohmann::json& json, const std::string& where,
                                     PreTokenizer* out);
  static absl::Status ParseSplit(const nlohmann::json& json, const std::string& where,
                                 PreTokenizer* out);
  static absl::Status ParseMetaspace(const nlohmann::json& json, const std::string& where,
                                     PreTokenizer* out);
  /// Appends a step that cuts by `pattern`, in PCRE2's syntax.
  absl::Status AddPattern(absl::string_view pattern, SplitBehavior behavior);
  /// True when the words begin where `word` does, false when it begins with text that was removed.
  static absl::StatusOr<bool> Apply(const Step& step, const std::string& word, TextPlace place,
                                    std::vector<std::string>* words);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool prepends_behind_cuts_ = false;
  size_t byte_level_steps_ = 0;  // the steps up to ByteLevel
  bool cuts_alphabet_ = false;   // there are steps after it
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_PRE_TOKENIZER_H_
