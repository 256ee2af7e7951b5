// Unicode text as the steps of a tokenizer need it: normal forms (UAX #15), lower case and the
// classes of characters, by utf8proc. Characters that versions of Unicode later than utf8proc's
// own added are left alone and belong to no class. Pure; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_UNICODE_TEXT_H_
#define BATON_WORKERS_TOKENIZER_STEPS_UNICODE_TEXT_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// Decomposed (D) or composed (C), by canonical equivalence or, with K, by compatibility.
enum class NormalForm { kC, kD, kKc, kKd };

/// `text` must be valid UTF-8; other bytes come back as they are. The time is n log n.
[[nodiscard]] std::string NormalizeUnicode(absl::string_view text, NormalForm form);

/// Each character's lower case, whatever stands around it: a capital sigma becomes σ at the end of
/// a word too. `text` must be valid UTF-8.
[[nodiscard]] std::string LowerCase(absl::string_view text);
/// Whether `c` is several characters without regard to case, as "ß" is "ss" (CaseFolding.txt,
/// status F).
[[nodiscard]] bool FoldsToSeveral(char32_t c);

/// `text` with each character replaced by what `change` appends for it. `text` must be valid UTF-8.
[[nodiscard]] std::string ChangeEachCharacter(
    absl::string_view text, absl::FunctionRef<void(char32_t, std::string*)> change);

/// The property White_Space.
[[nodiscard]] bool IsWhiteSpace(char32_t c);
/// Of general category M (Mn, Mc, Me).
[[nodiscard]] bool IsMark(char32_t c);
/// Of general category Mn.
[[nodiscard]] bool IsNonspacingMark(char32_t c);
/// Of general category Cc, Cf or Co.
[[nodiscard]] bool IsControl(char32_t c);

/// The byte length of the grapheme cluster (UAX #29, extended) that `text` begins with.
[[nodiscard]] size_t GraphemeLength(absl::string_view text);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_UNICODE_TEXT_H_
