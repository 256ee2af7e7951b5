// The normalizer, which changes a text before it is cut into words.
//
// Understands the `normalizer` of a Hugging Face tokenizer.json: null, NFC, Prepend, Replace (of a
// String), or a Sequence of these. A SentencePiece-style tokenizer (Llama-2, Mistral) prepends "▁"
// and writes "▁" for each space. Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_NORMALIZER_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_NORMALIZER_H_

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer {

class Normalizer {
 public:
  /// No change.
  Normalizer() = default;
  /// `json` is the value of "normalizer", or null. UNIMPLEMENTED for a kind that is not supported,
  /// INVALID_ARGUMENT for a broken one, and for one that may grow a text without bound
  /// (GrowthLimit in json_components.h); all say where.
  [[nodiscard]] static absl::StatusOr<Normalizer> FromJson(const nlohmann::json& json);

  /// The normalized `text` (valid UTF-8). The text of a Prepend is left out unless `prepends`:
  /// false for the later parts of a text that comes in parts. `ranges` of `text`, which ascend,
  /// become those of the result; no characters are joined or replaced across their borders.
  [[nodiscard]] std::string Normalize(absl::string_view text, bool prepends,
                                      std::vector<TextRange>* ranges) const;
  [[nodiscard]] std::string Normalize(absl::string_view text) const;

 private:
  enum class Kind { kNfc, kPrepend, kReplace };
  struct Step {
    Kind kind = Kind::kNfc;
    std::string pattern;  // of kReplace; never empty
    std::string content;
  };
  static std::string Change(const Step& step, absl::string_view text);

  std::vector<Step> steps_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_NORMALIZER_H_
