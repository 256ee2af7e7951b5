// The number that a text says, and why it says none. docs/numeric.md has the same as a table.
#ifndef BATON_WORKERS_REWARD_NUMBERS_READ_NUMBER_H_
#define BATON_WORKERS_REWARD_NUMBERS_READ_NUMBER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "workers/reward/numbers/exact_number.h"

namespace baton::reward {

struct NumberReading {
  enum class Kind {
    kNone,       ///< The text has no number.
    kNumber,     ///< `value`.
    kRange,      ///< From `value` to `upper`.
    kAmbiguous,  ///< It may be one number or another; see `why`.
  };
  Kind kind = Kind::kNone;
  ExactNumber value;
  ExactNumber upper;
  bool percent = false;  ///< It has a percent sign, or the word.
  std::string why;       ///< Of kAmbiguous: "'1,5' may be a decimal comma, …".
};

struct NumberStyle {
  bool percent_is_hundredths = false;  ///< "50%" is 0.5; else it is 50.
};

/// The number that `text`, valid UTF-8, ends up with: what its last \boxed{…} holds, which must be
/// one number; without a box the last number of the text.
NumberReading ReadLastNumber(absl::string_view text, const NumberStyle& style);

/// The number that `text` is as a whole: an answer. Units may follow it, a currency sign may stand
/// on either side.
NumberReading ReadWholeNumber(absl::string_view text, const NumberStyle& style);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_NUMBERS_READ_NUMBER_H_
