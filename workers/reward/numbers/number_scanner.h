// The numbers of a text, one after the other, as far as they can be told from their own characters.
// Internal to this folder.
#ifndef BATON_WORKERS_REWARD_NUMBERS_NUMBER_SCANNER_H_
#define BATON_WORKERS_REWARD_NUMBERS_NUMBER_SCANNER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "workers/reward/numbers/exact_number.h"
#include "workers/reward/numbers/read_number.h"

namespace baton::reward {

/// A number without its sign: "1,234.50", "1/2", "3 1/2", "\frac{1}{2}", "1.2*10^3", "50%",
/// "10-12".
struct NumberSpan {
  size_t begin = 0, end = 0;  ///< Bytes of the text.
  NumberReading reading;
};

/// Reads a text of PlainMarks from its beginning.
class NumberScanner {
 public:
  NumberScanner(absl::string_view text, const NumberStyle& style) : text_(text), style_(style) {}

  /// The next number; nothing at the end.
  std::optional<NumberSpan> Next();

 private:
  struct Decimal {
    ExactNumber value;
    bool whole = false;  // digits alone
    std::string digits;
  };

  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool DigitAt(size_t i) const;
  size_t SkipSpaces(size_t i) const;
  bool Begins(size_t i) const;
  void Take(NumberSpan* span);
  // Each reads at at_ and moves it. False: `span` has become ambiguous.
  std::optional<Decimal> TakeDecimal(NumberSpan* span);
  std::optional<std::string> TakeDigits(NumberSpan* span);
  bool TakeExponent(NumberSpan* span, Decimal* decimal);
  std::optional<ExactNumber> TakeFraction(NumberSpan* span);
  std::optional<ExactNumber> TakeFractionPart();
  std::optional<ExactNumber> TakeQuantity(NumberSpan* span);
  std::optional<ExactNumber> TakeMixed(const Decimal& whole, NumberSpan* span);
  void TakePercent(NumberSpan* span, ExactNumber* value);
  bool TakeRange(NumberSpan* span);
  std::nullopt_t Ambiguous(NumberSpan* span, absl::string_view why);

  const absl::string_view text_;
  const NumberStyle style_;
  size_t at_ = 0;
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_NUMBERS_NUMBER_SCANNER_H_
