// The normalizer, which changes a text before it is cut into words.
//
// Understands the `normalizer` of a Hugging Face tokenizer.json: null, BertNormalizer, ByteLevel,
// Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Strip, StripAccents, or a
// Sequence of these. A SentencePiece-style tokenizer (Llama-2, Mistral) prepends "▁" and writes "▁"
// for each space. The reference's tables of marks, controls and decompositions are older than
// Unicode 13: rare characters that came later (some 400) follow utf8proc's here.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_NORMALIZER_H_
#define BATON_WORKERS_TOKENIZER_STEPS_NORMALIZER_H_

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/rendered_text.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/steps/replacement.h"

namespace baton::tokenizer {

class Normalizer {
 public:
  /// No change.
  Normalizer() = default;
  /// `json` is the value of "normalizer", or null. UNIMPLEMENTED for a kind that is not supported,
  /// INVALID_ARGUMENT for a broken one, and for one that may grow a text without bound
  /// (GrowthLimit in json_components.h); all say where.
  [[nodiscard]] static absl::StatusOr<Normalizer> FromJson(const nlohmann::json& json);

  /// A step is Prepend.
  [[nodiscard]] bool prepends() const;

  /// The normalized `text` (valid UTF-8). The text of a Prepend is left out unless `prepends`:
  /// false for the later parts of a text that comes in parts, whose white space on the left Strip
  /// leaves too. `ranges` of `text`, which ascend, become those of the result; no characters are
  /// joined across their borders. `keeps_start`, if given, becomes false when the first character
  /// was removed. RESOURCE_EXHAUSTED when a pattern needs too much work.
  [[nodiscard]] absl::StatusOr<std::string> Normalize(absl::string_view text, bool prepends,
                                                      std::vector<TextRange>* ranges,
                                                      bool* keeps_start = nullptr) const;
  [[nodiscard]] absl::StatusOr<std::string> Normalize(absl::string_view text) const;

 private:
  /// A step that changes the text without a view of its borders.
  struct Change {
    std::function<std::string(absl::string_view)> apply;
    bool removes_characters = false;  // some characters, whatever stands around them
  };
  struct Strip {
    bool left = false;
    bool right = false;
  };
  struct Prepend {
    std::string text;
  };
  using Step = std::variant<Change, Prepend, Replacement, Strip>;
  static absl::StatusOr<Step> ParseStep(const nlohmann::json& json, const std::string& where,
                                        GrowthLimit* growth);
  static std::string Apply(const Change& change, absl::string_view text,
                           std::vector<TextRange>* ranges);
  static std::string Apply(const Strip& strip, absl::string_view text, bool at_start,
                           std::vector<TextRange>* ranges);
  static std::string Apply(const Prepend& prepend, absl::string_view text,
                           std::vector<TextRange>* ranges);

  std::vector<Step> steps_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_NORMALIZER_H_
