// Cuts a text into words that byte-pair encoding never joins across.
//
// Understands the `pre_tokenizer` of a Hugging Face tokenizer.json: ByteLevel, or a Sequence of
// Split (Regex or String) and Digits that ends in ByteLevel, as GPT-2, Llama-3 and Qwen2 have it.
// Patterns run through PCRE2 with Unicode properties; `\s` and `\S` are rewritten to Unicode's
// White_Space, as the reference implementation has it (PCRE2 adds U+180E). PCRE2's Unicode tables
// decide what a letter is, so characters newer than its version may be cut differently.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_ENGINE_PRE_TOKENIZER_H_
#define BATON_WORKERS_ENGINE_PRE_TOKENIZER_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/base/regex.h"

namespace baton::engine {

/// What happens to the text that a Split pattern matches.
enum class SplitBehavior {
  kIsolated,            ///< A word of its own.
  kRemoved,             ///< Dropped.
  kMergedWithPrevious,  ///< The end of the word before it.
  kMergedWithNext,      ///< The beginning of the word after it.
  kContiguous,          ///< As isolated, but matches that touch are one word.
};

class PreTokenizer {
 public:
  /// `json` is the value of "pre_tokenizer". UNIMPLEMENTED for a kind that is not supported,
  /// INVALID_ARGUMENT for a broken one; both say where.
  [[nodiscard]] static absl::StatusOr<PreTokenizer> FromJson(const nlohmann::json& json);

  /// Appends the words of `text` (valid UTF-8) to `words`. RESOURCE_EXHAUSTED when a pattern
  /// needs too much work.
  [[nodiscard]] absl::Status Split(absl::string_view text, std::vector<std::string>* words) const;

 private:
  struct Step {
    std::optional<Regex> pattern;  // none: no cutting
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;            // what the pattern does NOT match counts as the match
    bool add_prefix_space = false;  // before cutting, unless the word begins with a space
  };
  static absl::Status ParseInto(const nlohmann::json& json, const std::string& where, int depth,
                                PreTokenizer* out);
  static absl::Status ParseSplit(const nlohmann::json& json, const std::string& where,
                                 PreTokenizer* out);
  static absl::Status Apply(const Step& step, const std::string& word,
                            std::vector<std::string>* words);

  std::vector<Step> steps_;
  bool ends_in_byte_level_ = false;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_PRE_TOKENIZER_H_
