// Case and classes of characters, as Python's strings have them: the whole of Unicode, by ICU.
// Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_CASE_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_CASE_H_

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer::jinja {

/// str.upper, lower, capitalize, title, swapcase and casefold. One character may become several
/// (ß: SS), which have its origin.
enum class Case { kUpper, kLower, kCapitalize, kTitle, kSwap, kFold };
RenderedText ChangeCase(const RenderedText& text, Case how);

/// str.islower, isupper, istitle: there is a letter with case, and each has the right one.
bool IsLower(absl::string_view text);
bool IsUpper(absl::string_view text);
bool IsTitle(absl::string_view text);

// Classes of one character: str.isalpha, isdecimal, isdigit, isnumeric, isalnum, isprintable.
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsAlnum(char32_t c);
bool IsPrintable(char32_t c);
/// A character that may begin a name, or go on with it (str.isidentifier).
bool BeginsName(char32_t c);
bool ContinuesName(char32_t c);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_CASE_H_
