#include "workers/tokenizer/jinja/jinja_case.h"

#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr uint64_t kWalkOfMapping = 64;  // of a character beyond ASCII, in bytes
constexpr char32_t kCapitalSigma = 0x3A3;

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }
bool HasLowerCase(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_LOWERCASE) != 0; }
bool HasUpperCase(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_UPPERCASE) != 0; }
bool HasTitleCase(char32_t c) { return u_charType(Icu(c)) == U_TITLECASE_LETTER; }
bool IsCased(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_CASED) != 0; }
bool IsCaseIgnorable(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_CASE_IGNORABLE) != 0; }

/// ICU's mappings of one character.
class Mappings {
 public:
  std::string Map(absl::string_view character, Case how) {
    char out[64];
    UErrorCode error = U_ZERO_ERROR;
    const auto size = static_cast<int32_t>(character.size());
    const auto capacity = static_cast<int32_t>(sizeof(out));
    const auto mapped = [&](int32_t length) {
      return U_FAILURE(error) ? std::string(character) : std::string(out, length);
    };
    switch (how) {
      case Case::kUpper:
        return mapped(
            ucasemap_utf8ToUpper(map_.get(), out, capacity, character.data(), size, &error));
      case Case::kTitle:
        return mapped(
            ucasemap_utf8ToTitle(map_.get(), out, capacity, character.data(), size, &error));
      case Case::kFold:
        return mapped(
            ucasemap_utf8FoldCase(map_.get(), out, capacity, character.data(), size, &error));
      default:
        return mapped(
            ucasemap_utf8ToLower(map_.get(), out, capacity, character.data(), size, &error));
    }
  }

 private:
  static UCaseMap* Open() {
    UErrorCode error = U_ZERO_ERROR;
    return ucasemap_open("", U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT, &error);
  }
  const std::unique_ptr<UCaseMap, void (*)(UCaseMap*)> map_{Open(), &ucasemap_close};
};

std::string Mapped(absl::string_view character, Case how) {
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    const bool up = how == Case::kUpper || how == Case::kTitle;
    return std::string(1, up ? absl::ascii_toupper(byte) : absl::ascii_tolower(byte));
  }
  Budget::SpendWalk(kWalkOfMapping);
  thread_local Mappings mappings;  // its functions are not those of a constant
  return mappings.Map(character, how);
}

/// A text's characters one after the other, with what stands around the one at hand.
class CaseChanger {
 public:
  CaseChanger(const RenderedText& text, Case how) : text_(text.text()), how_(how) {}

  /// The character at [begin, end) with its case changed.
  std::string Next(size_t begin, size_t end) {
    const absl::string_view character = text_.substr(begin, end - begin);
    const char32_t c = CodePoint(begin);
    if (how_ == Case::kSwap && !HasUpperCase(c) && !HasLowerCase(c)) return std::string(character);
    const Case how = CaseOf(c, begin);
    after_cased_ = how_ == Case::kTitle && IsCased(c);
    if (how == Case::kLower && c == kCapitalSigma) return IsFinal(begin, end) ? "ς" : "σ";
    return Mapped(character, how);
  }

 private:
  char32_t CodePoint(size_t at) const {
    const Utf8Char read = ReadUtf8(text_.substr(at));
    return read.kind == Utf8Char::Kind::kValid ? read.code_point : 0xFFFD;
  }
  Case CaseOf(char32_t c, size_t begin) const {
    switch (how_) {
      case Case::kCapitalize:
        return begin == 0 ? Case::kTitle : Case::kLower;
      case Case::kTitle:
        return after_cased_ ? Case::kLower : Case::kTitle;
      case Case::kSwap:
        return HasUpperCase(c) ? Case::kLower : Case::kUpper;
      default:
        return how_;
    }
  }
  /// A sigma at the end of a word: a letter with case stands before it and none after it.
  bool IsFinal(size_t begin, size_t end) const {
    bool before = false;
    for (size_t at = begin; at > 0;) {
      --at;
      Budget::SpendWalk(8);
      if ((static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) continue;
      const char32_t c = CodePoint(at);
      if (IsCaseIgnorable(c)) continue;
      before = IsCased(c);
      break;
    }
    if (!before) return false;
    while (end < text_.size()) {
      Budget::SpendWalk(8);
      const char32_t c = CodePoint(end);
      if (!IsCaseIgnorable(c)) return !IsCased(c);
      end += std::max<size_t>(1, ReadUtf8(text_.substr(end)).length);
    }
    return true;
  }

  const absl::string_view text_;
  const Case how_;
  bool after_cased_ = false;
};

}  // namespace

RenderedText ChangeCase(const RenderedText& text, Case how) {
  RenderedText out;
  CaseChanger changer(text, how);
  std::string run;  // characters of one origin
  bool run_is_own = false;
  const auto flush = [&] {
    run_is_own ? out.AddTemplate(run) : out.AddContent(run);
    run.clear();
  };
  const auto ranges = text.template_ranges();
  size_t at_range = 0;
  for (const TextRange& range : Characters(text.text())) {
    while (at_range < ranges.size() && ranges[at_range].end <= range.begin) ++at_range;
    const bool own = at_range < ranges.size() && ranges[at_range].begin <= range.begin;
    if (own != run_is_own) flush();
    run_is_own = own;
    run += changer.Next(range.begin, range.end);
  }
  flush();
  return out;
}

namespace {

/// A letter with case is there, and none for which `wrong` holds.
template <class Right, class Wrong>
bool HasOnly(absl::string_view text, Right right, Wrong wrong) {
  bool found = false;
  for (const TextRange& range : Characters(text)) {
    const char32_t c = ReadUtf8(text.substr(range.begin)).code_point;
    if (wrong(c)) return false;
    found = found || right(c);
  }
  return found;
}

}  // namespace

bool IsLower(absl::string_view text) {
  return HasOnly(text, HasLowerCase, [](char32_t c) { return HasUpperCase(c) || HasTitleCase(c); });
}

bool IsUpper(absl::string_view text) {
  return HasOnly(text, HasUpperCase, [](char32_t c) { return HasLowerCase(c) || HasTitleCase(c); });
}

bool IsTitle(absl::string_view text) {
  bool found = false, after_cased = false;
  for (const TextRange& range : Characters(text)) {
    const char32_t c = ReadUtf8(text.substr(range.begin)).code_point;
    const bool begins = HasUpperCase(c) || HasTitleCase(c);
    const bool goes_on = HasLowerCase(c);
    if ((begins && after_cased) || (goes_on && !after_cased)) return false;
    after_cased = begins || goes_on;
    found = found || after_cased;
  }
  return found;
}

bool IsAlpha(char32_t c) { return u_isalpha(Icu(c)) != 0; }
bool IsDecimal(char32_t c) { return u_isdigit(Icu(c)) != 0; }
bool IsDigit(char32_t c) {
  const int32_t type = u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool IsNumeric(char32_t c) {
  return u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool IsAlnum(char32_t c) { return IsAlpha(c) || IsNumeric(c); }
bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  constexpr uint32_t kHidden =
      U_GC_C_MASK | U_GC_ZS_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK;  // C: control, format, unassigned …
  return (U_MASK(u_charType(Icu(c))) & kHidden) == 0;
}
bool BeginsName(char32_t c) {
  return c == '_' || u_hasBinaryProperty(Icu(c), UCHAR_XID_START) != 0;
}
bool ContinuesName(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_XID_CONTINUE) != 0; }

}  // namespace baton::tokenizer::jinja
