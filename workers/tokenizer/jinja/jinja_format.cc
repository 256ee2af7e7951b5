#include "workers/tokenizer/jinja/jinja_format.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_case.h"
#include "workers/tokenizer/jinja/jinja_number.h"
#include "workers/tokenizer/jinja/jinja_number_format.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

bool IsDecimalDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

/// Python's ascii().
RenderedText Ascii(const Value& value) { return EscapedToAscii(value.ToRepr()); }

/// A text cut to `precision` characters and put into `width`.
RenderedText Padded(RenderedText text, const std::string& fill, char align, int64_t width,
                    int64_t precision) {
  if (precision >= 0) text = SliceCharacters(text, 0, precision);
  const int64_t missing = std::max<int64_t>(0, width - CountCharacters(text.text()));
  const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  RenderedText out;
  for (int64_t i = 0; i < left; ++i) out.AddTemplate(fill);
  out.Add(text);
  for (int64_t i = left; i < missing; ++i) out.AddTemplate(fill);
  return out;
}

/// A number of decimal digits in `text` from `*at` on; nothing without one. Throws above `most`.
std::optional<int64_t> TakeNumber(absl::string_view text, size_t* at, int64_t most) {
  const size_t begin = *at;
  while (*at < text.size() && IsDecimalDigit(text[*at])) ++*at;
  if (*at == begin) return std::nullopt;
  int64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(begin, *at - begin), &number) || number > most) {
    throw Error{Error::Kind::kLimit, "the width or the precision of a format is too large"};
  }
  return number;
}

// --- % -------------------------------------------------------------------------------------------

/// One conversion: %[(name)][flags][width][.precision]type.
struct Conversion {
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

class PercentFormatter {
 public:
  PercentFormatter(const RenderedText& pattern, const Value& values)
      : pattern_(pattern), bytes_(pattern.text()), values_(values), current_(&values) {}

  RenderedText Run() {
    while (at_ < bytes_.size()) {
      const size_t percent = FindPart(bytes_, "%", at_);
      const size_t end = percent == std::string::npos ? bytes_.size() : percent;
      out_.Add(pattern_.Slice(at_, end));
      at_ = end;
      if (at_ < bytes_.size()) One();
    }
    const bool is_mapping = values_.is(Kind::kDict) || values_.is(Kind::kList) ||
                            values_.is(Kind::kRange) || values_.is(Kind::kUndefined);
    if (!is_mapping && current_ == &values_ && used_ < Count()) {
      Refuse("not all values of % stand in its pattern");
    }
    return std::move(out_);
  }

 private:
  char Now() const {
    Budget::SpendWalk(1);
    if (at_ >= bytes_.size()) Refuse("a % of the pattern has no type");
    return bytes_[at_];
  }
  size_t Count() const { return current_->is(Kind::kTuple) ? current_->items("%").size() : 1; }
  const Value& Take() {
    if (used_ >= Count()) Refuse("the pattern of % has more places than values");
    const size_t at = used_++;
    return current_->is(Kind::kTuple) ? current_->items("%")[at] : *current_;
  }

  void One() {
    const size_t begin = at_++;
    if (Now() == '(') Name();
    Conversion conversion;
    Flags(&conversion);
    conversion.width = Size(kMaxFormatWidth, &conversion.left).value_or(0);
    if (Now() == '.') {
      ++at_;
      bool negative = false;
      conversion.precision = Size(kMaxFormatPrecision, &negative).value_or(0);
      if (negative) conversion.precision = 0;
    }
    if (Now() == 'h' || Now() == 'l' || Now() == 'L') ++at_;
    conversion.type = Now();
    ++at_;
    if (conversion.type == '%' && at_ == begin + 2)
      return out_.Add(pattern_.Slice(begin, begin + 1));
    Convert(conversion, Take());
  }

  void Name() {
    if (!values_.is(Kind::kDict)) Refuse("%(name)s needs a dict");
    const size_t begin = ++at_;
    for (int depth = 1; depth > 0; ++at_) depth += Now() == '(' ? 1 : Now() == ')' ? -1 : 0;
    const absl::string_view name = absl::string_view(bytes_).substr(begin, at_ - 1 - begin);
    const Value* value = values_.Find(name);
    if (value == nullptr) Refuse(absl::StrCat("% has no value '", name, "'"));
    current_ = value;
    used_ = 0;
  }

  void Flags(Conversion* conversion) {
    for (;; ++at_) {
      switch (Now()) {
        case '-':
          conversion->left = true;
          continue;
        case '+':
          conversion->plus = true;
          continue;
        case ' ':
          conversion->space = true;
          continue;
        case '0':
          conversion->zero = true;
          continue;
        case '#':
          conversion->alternate = true;
          continue;
        default:
          return;
      }
    }
  }

  /// A width or a precision: digits, or the next value for `*`.
  std::optional<int64_t> Size(int64_t most, bool* negative) {
    if (Now() != '*') return TakeNumber(bytes_, &at_, most);
    ++at_;
    const Value& value = Take();
    const int64_t size = value.integer("the * of %");
    if (size > most || size < -most) {
      throw Error{Error::Kind::kLimit, "the width or the precision of a format is too large"};
    }
    if (size < 0) *negative = true;
    return std::abs(size);
  }

  void Convert(const Conversion& conversion, const Value& value) {
    switch (conversion.type) {
      case 's':
        return AddPadded(value.ToText(), conversion);
      case 'r':
        return AddPadded(value.ToRepr(), conversion);
      case 'a':
        return AddPadded(Ascii(value), conversion);
      case 'c':
        return AddPadded(Character(value), conversion, /*cut=*/false);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return AddInteger(conversion, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        const double number = value.number("% of a float");
        const bool negative = std::signbit(number) && !std::isnan(number);
        return AddNumber(
            conversion, negative, "",
            FloatDigits(number, conversion.type, conversion.precision, conversion.alternate));
      }
      default:
        Refuse("% has an unknown type");
    }
  }

  void AddPadded(const RenderedText& text, const Conversion& conversion, bool cut = true) {
    out_.Add(Padded(text, " ", conversion.left ? '<' : '>', conversion.width,
                    cut ? conversion.precision : -1));
  }

  static RenderedText Character(const Value& value) {
    if (value.is(Kind::kText)) {
      const RenderedText& text = value.text("%c");
      if (CountCharacters(text.text()) != 1) Refuse("%c needs one character");
      return text;
    }
    const int64_t code = value.integer("%c");
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      Refuse("%c needs a character's number");
    }
    std::string character;
    AppendUtf8(static_cast<char32_t>(code), &character);
    return OwnText(character);
  }

  void AddInteger(const Conversion& conversion, const Value& value) {
    const bool decimal = absl::string_view("diu").find(conversion.type) != absl::string_view::npos;
    int64_t number = 0;
    if (decimal && value.is(Kind::kFloat)) {
      const double whole = value.number("%d");
      if (std::isnan(whole)) Refuse("NaN is no integer");
      number = Truncated(whole);
    } else {
      number = value.integer("% of an integer");
    }
    std::string digits = IntegerDigits(number, decimal ? 'd' : conversion.type);
    const auto least = static_cast<size_t>(std::max<int64_t>(conversion.precision, 0));
    if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
    const std::string prefix =
        conversion.alternate && !decimal ? absl::StrCat("0", std::string(1, conversion.type)) : "";
    AddNumber(conversion, number < 0, prefix, digits);
  }

  void AddNumber(const Conversion& conversion, bool negative, const std::string& prefix,
                 const std::string& digits) {
    const std::string lead = absl::StrCat(negative           ? "-"
                                          : conversion.plus  ? "+"
                                          : conversion.space ? " "
                                                             : "",
                                          prefix);
    const auto size = static_cast<int64_t>(lead.size() + digits.size());
    const auto missing = static_cast<size_t>(std::max<int64_t>(0, conversion.width - size));
    if (conversion.left) {
      out_.AddTemplate(absl::StrCat(lead, digits, std::string(missing, ' ')));
    } else if (conversion.zero) {
      out_.AddTemplate(absl::StrCat(lead, std::string(missing, '0'), digits));
    } else {
      out_.AddTemplate(absl::StrCat(std::string(missing, ' '), lead, digits));
    }
  }

  const RenderedText& pattern_;
  const std::string& bytes_;
  const Value& values_;
  const Value* current_;  ///< What the next places take from.
  size_t used_ = 0;       ///< Items of `current_` that are taken.
  size_t at_ = 0;
  RenderedText out_;
};

// --- format() ------------------------------------------------------------------------------------

FormatSpec ReadSpec(absl::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const auto is_align = [&](size_t place) {
    return place < text.size() &&
           absl::string_view("<>=^").find(text[place]) != absl::string_view::npos;
  };
  const auto take = [&](absl::string_view any) {
    return at < text.size() && any.find(text[at]) != absl::string_view::npos ? text[at++] : '\0';
  };
  const size_t first = text.empty() ? 0 : std::max<size_t>(1, ReadUtf8(text).length);
  if (is_align(first)) {
    spec.fill = std::string(text.substr(0, first));
    at = first;
  }
  spec.align = take("<>=^");
  spec.sign = take("+- ");
  spec.no_negative_zero = take("z") != '\0';
  spec.alternate = take("#") != '\0';
  spec.zero = spec.fill.empty() && take("0") != '\0';
  spec.width = TakeNumber(text, &at, kMaxFormatWidth).value_or(-1);
  spec.grouping = take(",_");
  if (take(",_") != '\0') Refuse("a format has two groupings");
  if (take(".") != '\0') {
    const std::optional<int64_t> precision = TakeNumber(text, &at, kMaxFormatPrecision);
    if (!precision.has_value()) Refuse("a format has no digits after its point");
    spec.precision = *precision;
  }
  if (at + 1 < text.size()) Refuse("a format goes on after its type");
  if (at < text.size()) spec.type = text[at];
  return spec;
}

RenderedText FormatText(const RenderedText& text, const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's') Refuse("a string has only the format s");
  if (spec.sign != '\0' || spec.alternate || spec.align == '=' || spec.grouping != '\0' ||
      spec.no_negative_zero) {
    Refuse("a string's format has a sign, z, #, = or a grouping");
  }
  const std::string fill = !spec.fill.empty() ? spec.fill : spec.zero ? "0" : " ";
  return Padded(text, fill, spec.align == '\0' ? '<' : spec.align, spec.width, spec.precision);
}

/// Python's format(value, spec).
RenderedText Formatted(const Value& value, const RenderedText& spec) {
  if (spec.text().empty()) return value.ToText();
  if (value.is(Kind::kText)) return FormatText(value.text("format"), ReadSpec(spec.text()));
  if (value.is_number()) return OwnText(FormatNumber(value, ReadSpec(spec.text())));
  Refuse(absl::StrCat(value.TypeName(), " has no formats"));
}

// --- str.format ----------------------------------------------------------------------------------

class BraceFormatter {
 public:
  BraceFormatter(const Arguments& arguments, LookUpPart look_up)
      : arguments_(arguments), look_up_(look_up) {}

  RenderedText Run(const RenderedText& pattern, int depth) {
    if (depth < 0) Refuse("the places of a format are nested too deep");
    const std::string& bytes = pattern.text();
    RenderedText out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      Budget::SpendWalk(brace - at);
      out.Add(pattern.Slice(at, brace));
      if (brace == bytes.size()) break;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {  // {{ or }}
        out.Add(pattern.Slice(brace, brace + 1));
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') Refuse("a format has a single }");
      const size_t end = EndOfPlace(bytes, brace + 1);
      out.Add(Place(pattern.Slice(brace + 1, end), depth));
      at = end + 1;
    }
    return out;
  }

 private:
  /// Of the } that ends the place which begins at `at`; brackets hide what stands in them.
  static size_t EndOfPlace(const std::string& bytes, size_t at) {
    int depth = 1;
    bool in_name = true;
    for (; at < bytes.size(); ++at) {
      Budget::SpendWalk(1);
      const char c = bytes[at];
      if (c == '[' && in_name) {
        at = std::min(bytes.find(']', at), bytes.size() - 1);
        continue;
      }
      if (c == '{') in_name = false;
      if (c == ':' || c == '!') in_name = false;
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) return at;
    }
    Refuse("a { of a format has no }");
  }

  /// NAME[!CONVERSION][:SPEC]
  RenderedText Place(const RenderedText& place, int depth) {
    const std::string& bytes = place.text();
    size_t end = 0;  // of the name
    for (bool in_brackets = false; end < bytes.size(); ++end) {
      if (bytes[end] == '[') in_brackets = true;
      if (bytes[end] == ']') in_brackets = false;
      if (!in_brackets && (bytes[end] == ':' || bytes[end] == '!')) break;
      if (!in_brackets && bytes[end] == '{') Refuse("a format has { in the name of a place");
    }
    size_t spec_at = end;
    char conversion = '\0';
    if (end < bytes.size() && bytes[end] == '!') {
      if (end + 1 == bytes.size()) Refuse("a format has nothing after !");
      conversion = bytes[end + 1];
      spec_at = end + 2;
      if (spec_at < bytes.size() && bytes[spec_at] != ':') Refuse("a format has no : after !");
    }
    const Value value = Converted(Named(bytes.substr(0, end)), conversion);
    const size_t spec_begin = std::min(spec_at + 1, bytes.size());
    return Formatted(value, Run(place.Slice(spec_begin, bytes.size()), depth - 1));
  }

  static Value Converted(const Value& value, char conversion) {
    switch (conversion) {
      case '\0':
        return value;
      case 's':
        return Value::Text(value.ToText());
      case 'r':
        return Value::Text(value.ToRepr());
      case 'a':
        return Value::Text(Ascii(value));
      default:
        Refuse("a format has an unknown conversion after !");
    }
  }

  /// The argument of `name`, which may be empty, with its .attributes and [items].
  Value Named(std::string name) {
    const bool is_number = !name.empty() && std::all_of(name.begin(), name.end(), IsDecimalDigit);
    if (name.empty()) {
      if (!next_.has_value()) Refuse("a format has places with and without a number");
      name = absl::StrCat((*next_)++);
    } else if (is_number) {
      if (next_.value_or(0) != 0) Refuse("a format has places with and without a number");
      next_.reset();
    }
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = Argument(name.substr(0, at));
    while (at < name.size()) {
      Budget::Spend(1);
      const bool attribute = name[at] == '.';
      const size_t begin = at + 1;
      const size_t end = attribute ? std::min(name.find_first_of(".[", begin), name.size())
                                   : name.find(']', begin);
      if (end == std::string::npos || end == begin) Refuse("a format has an empty name");
      const std::string part = name.substr(begin, end - begin);
      int64_t index = 0;
      const bool is_index = !attribute && std::all_of(part.begin(), part.end(), IsDecimalDigit) &&
                            absl::SimpleAtoi(part, &index);
      value = look_up_(value, is_index ? Value::Int(index) : Value::Own(part), attribute);
      at = attribute ? end : end + 1;
      if (at < name.size() && name[at] != '.' && name[at] != '[') {
        Refuse("a format has no . or [ after ]");
      }
    }
    return value;
  }

  Value Argument(const std::string& name) {
    if (!name.empty() && std::all_of(name.begin(), name.end(), IsDecimalDigit)) {
      int64_t index = 0;
      const bool read = absl::SimpleAtoi(name, &index);
      if (!read || static_cast<size_t>(index) >= arguments_.positional.size()) {
        Refuse(absl::StrCat("a format has no argument ", name));
      }
      return arguments_.positional[static_cast<size_t>(index)];
    }
    const Value* value = arguments_.Find(SIZE_MAX, name);
    if (value == nullptr) Refuse(absl::StrCat("a format has no argument '", name, "'"));
    return *value;
  }

  const Arguments& arguments_;
  const LookUpPart look_up_;
  std::optional<int64_t> next_ = 0;  ///< Of the places without a number; absent: some have one.
};

}  // namespace

RenderedText FormatByPercent(const RenderedText& pattern, const Value& values) {
  return PercentFormatter(pattern, values).Run();
}

RenderedText FormatByBraces(const RenderedText& pattern, const Arguments& arguments,
                            LookUpPart look_up) {
  return BraceFormatter(arguments, look_up).Run(pattern, 2);
}

}  // namespace baton::tokenizer::jinja
