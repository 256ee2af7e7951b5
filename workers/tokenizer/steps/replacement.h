// The step Replace, of a normalizer or a decoder: each match of a pattern becomes a text.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_REPLACEMENT_H_
#define BATON_WORKERS_TOKENIZER_STEPS_REPLACEMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/rendered_text.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/steps/text_pattern.h"

namespace baton::tokenizer {

class Replacement {
 public:
  /// Reads `step`.pattern and .content; counts how much the step may make a text grow.
  [[nodiscard]] static absl::StatusOr<Replacement> FromJson(const Json& step,
                                                            const std::string& where,
                                                            GrowthLimit* growth);

  /// `text` (valid UTF-8) with its matches replaced. `ranges` of `text`, which ascend, become those
  /// of the result; one that begins or ends inside a match loses that match's part.
  /// `keeps_start` becomes false where the first character is no longer there: of several replaced
  /// characters, the replacement stands for the last, as in the reference. Errors:
  /// TextPattern::Find's.
  [[nodiscard]] absl::StatusOr<std::string> Apply(absl::string_view text,
                                                  std::vector<TextRange>* ranges,
                                                  bool* keeps_start) const;
  [[nodiscard]] absl::StatusOr<std::string> Apply(absl::string_view text) const;

  /// The text that is replaced; empty for a regular expression.
  const std::string& text() const { return pattern_.text(); }

 private:
  Replacement(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  TextPattern pattern_;
  std::string content_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_REPLACEMENT_H_
