#include "workers/tokenizer/jinja/jinja_text_methods.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_case.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

Value ListOf(Texts parts, Kind kind = Kind::kList) {
  Items items;
  for (RenderedText& part : parts) items.push_back(Value::Text(std::move(part)));
  return Value::List(std::move(items), kind);
}

template <Side side>
Value StripMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("strip", 1);
  const Value* characters = arguments.Find(0, "");
  if (!IsGiven(characters)) return Value::Text(Strip(text, side));
  return Value::Text(Strip(text, side, characters->text("strip").text()));
}

template <bool from_right>
Value SplitMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("split", 2, {"sep", "maxsplit"});
  const Value* separator = arguments.Find(0, "sep");
  const Value* limit_value = arguments.Find(1, "maxsplit");
  const int64_t limit = limit_value == nullptr ? -1 : limit_value->integer("split");
  if (!IsGiven(separator)) {
    return ListOf(from_right ? SplitWordsFromRight(text, limit) : SplitWords(text, limit));
  }
  const std::string& at = separator->text("split").text();
  if (at.empty()) Refuse("split at an empty string");
  return ListOf(Split(text, at, limit, from_right));
}

Value SplitLinesMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("splitlines", 1, {"keepends"});
  const Value* keep = arguments.Find(0, "keepends");
  return ListOf(SplitLines(text, keep != nullptr && keep->Truth()));
}

template <bool from_right>
Value PartitionMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("partition", 1);
  const RenderedText& separator = arguments.Need(0, "", "partition").text("partition");
  const std::string& part = separator.text();
  if (part.empty()) Refuse("partition at an empty string");
  const size_t at = from_right ? LastPart(text.text(), part) : FindPart(text.text(), part, 0);
  Texts parts(3);
  if (at == std::string::npos) {
    parts[from_right ? 2 : 0] = text;
  } else {
    parts[0] = text.Slice(0, at);
    parts[1] = separator;
    parts[2] = text.Slice(at + part.size(), text.text().size());
  }
  return ListOf(std::move(parts), Kind::kTuple);
}

/// What find, count, startswith and their kin look at: the characters [start, end) that the
/// arguments after the first name.
struct Window {
  RenderedText text;
  int64_t begin = 0;
  bool is_there = true;  ///< False where it begins after the end.
};

Window WindowOf(const RenderedText& text, const Arguments& arguments) {
  const Value* start = arguments.Find(1, "");
  const Value* stop = arguments.Find(2, "");
  if (!IsGiven(start) && !IsGiven(stop)) return {text};
  const int64_t size = CountCharacters(text.text());
  const auto place = [&](const Value* value, int64_t absent) {
    if (!IsGiven(value)) return absent;
    const int64_t at = value->integer("a place in a string");
    return at < 0 ? std::max<int64_t>(0, at + size) : at;
  };
  const int64_t begin = place(start, 0), end = std::min(place(stop, size), size);
  if (begin > size || begin > end) return {RenderedText(), begin, false};
  return {SliceCharacters(text, begin, end), begin, true};
}

/// startswith and endswith: of one string, or any of a tuple's.
template <bool at_start>
Value Affix(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("startswith or endswith", 3);
  const Value& wanted = arguments.Need(0, "", "startswith or endswith");
  const Window window = WindowOf(text, arguments);
  const Items any = wanted.is(Kind::kTuple) ? wanted.items("startswith") : Items{wanted};
  bool holds = false;
  for (const Value& one : any) {
    const std::string& part = one.text("startswith or endswith").text();
    holds = window.is_there && (at_start ? absl::StartsWith(window.text.text(), part)
                                         : absl::EndsWith(window.text.text(), part));
    if (holds) break;
  }
  return Value::Bool(holds);
}

template <bool prefix>
Value RemoveAffix(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("removeprefix or removesuffix", 1);
  const std::string& part = arguments.Need(0, "", "removeprefix").text("removeprefix").text();
  const size_t size = text.text().size();
  if (prefix && absl::StartsWith(text.text(), part)) {
    return Value::Text(text.Slice(part.size(), size));
  }
  if (!prefix && absl::EndsWith(text.text(), part)) {
    return Value::Text(text.Slice(0, size - part.size()));
  }
  return Value::Text(text);
}

Value ReplaceMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("replace", 3, {"old", "new", "count"});
  const RenderedText& from = arguments.Need(0, "old", "replace").text("replace");
  const RenderedText& to = arguments.Need(1, "new", "replace").text("replace");
  const Value* count = arguments.Find(2, "count");
  return Value::Text(
      Replace(text, from.text(), to, count == nullptr ? -1 : count->integer("replace")));
}

/// find, rfind, and index, rindex, which throw when it is nowhere. In characters.
template <bool from_right, bool needed>
Value FindMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("find", 3);
  const std::string& part = arguments.Need(0, "", "find").text("find").text();
  const Window window = WindowOf(text, arguments);
  const std::string& bytes = window.text.text();
  const size_t at = !window.is_there ? std::string::npos
                    : from_right     ? LastPart(bytes, part)
                                     : FindPart(bytes, part, 0);
  if (at == std::string::npos && needed) Refuse("index: there is no such part");
  if (at == std::string::npos) return Value::Int(-1);
  return Value::Int(window.begin + CountCharacters(absl::string_view(bytes).substr(0, at)));
}

Value CountMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("count", 3);
  const std::string& part = arguments.Need(0, "", "count").text("count").text();
  const Window window = WindowOf(text, arguments);
  if (!window.is_there) return Value::Int(0);
  if (part.empty()) return Value::Int(CountCharacters(window.text.text()) + 1);
  return Value::Int(static_cast<int64_t>(Split(window.text, part, -1).size()) - 1);
}

Value JoinMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("join", 1);
  RenderedText out;
  bool first = true;
  for (const Value& item : arguments.Need(0, "", "join").Iterate("join")) {
    if (!first) out.Add(text);
    first = false;
    out.Add(item.text("join"));
  }
  return Value::Text(std::move(out));
}

template <Case how>
Value CaseMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("the method", 0);
  return Value::Text(ChangeCase(text, how));
}

template <bool (*holds)(absl::string_view)>
Value WholeText(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("the method", 0);
  return Value::Bool(holds(text.text()));
}

/// `of_empty`: the answer for an empty text.
template <bool (*holds)(char32_t), bool of_empty = false>
Value EveryCharacter(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("the method", 0);
  const absl::string_view bytes = text.text();
  if (bytes.empty()) return Value::Bool(of_empty);
  Budget::SpendWalk(bytes.size());
  for (const TextRange& range : Characters(bytes)) {
    if (!holds(ReadUtf8(bytes.substr(range.begin)).code_point)) return Value::Bool(false);
  }
  return Value::Bool(true);
}

bool IsAscii(char32_t c) { return c < 0x80; }

bool IsName(absl::string_view text) {
  bool first = true;
  for (const TextRange& range : Characters(text)) {
    const char32_t c = ReadUtf8(text.substr(range.begin)).code_point;
    if (first ? !BeginsName(c) : !ContinuesName(c)) return false;
    first = false;
  }
  return !first;
}

/// So many of `fill`.
RenderedText Times(const RenderedText& fill, int64_t count) {
  RenderedText out;
  for (int64_t i = 0; i < count; ++i) out.Add(fill);
  return out;
}

/// How many characters a text lacks to be so wide.
int64_t MissingOf(const RenderedText& text, int64_t width) {
  return std::max<int64_t>(0, std::max<int64_t>(0, width) - CountCharacters(text.text()));
}

/// ljust, rjust and center.
template <char align>
Value AlignMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("the method", 2);
  const int64_t width = arguments.Need(0, "", "the method").integer("a width");
  RenderedText fill;
  fill.AddTemplate(" ");
  if (const Value* given = arguments.Find(1, ""); given != nullptr) fill = given->text("a fill");
  if (CountCharacters(fill.text()) != 1) Refuse("a fill has one character");
  const int64_t missing = MissingOf(text, width);
  // As CPython's center: an odd one too many goes left where the width is odd.
  const int64_t left = align == '<'   ? 0
                       : align == '>' ? missing
                                      : missing / 2 + (missing & width & 1);
  RenderedText out = Times(fill, left);
  out.Add(text);
  out.Add(Times(fill, missing - left));
  return Value::Text(std::move(out));
}

Value FillWithZeros(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("zfill", 1);
  const int64_t width = arguments.Need(0, "", "zfill").integer("zfill");
  const int64_t missing = MissingOf(text, width);
  const bool has_sign = absl::StartsWith(text.text(), "-") || absl::StartsWith(text.text(), "+");
  RenderedText zero;
  zero.AddTemplate("0");
  RenderedText out = text.Slice(0, has_sign ? 1 : 0);
  out.Add(Times(zero, missing));
  out.Add(text.Slice(has_sign ? 1 : 0, text.text().size()));
  return Value::Text(std::move(out));
}

Value ExpandTabs(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("expandtabs", 1, {"tabsize"});
  const Value* given = arguments.Find(0, "tabsize");
  const int64_t size = given == nullptr ? 8 : given->integer("expandtabs");
  RenderedText out, space;
  space.AddTemplate(" ");
  int64_t column = 0;
  for (const TextRange& range : Characters(text.text())) {
    const char c = text.text()[range.begin];
    if (c == '\t') {
      const int64_t count = size > 0 ? size - column % size : 0;
      out.Add(Times(space, count));
      column += count;
      continue;
    }
    out.Add(text.Slice(range.begin, range.end));
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return Value::Text(std::move(out));
}

}  // namespace

const std::map<absl::string_view, TextMethod>& TextMethods() {
  static const auto* const methods = new std::map<absl::string_view, TextMethod>{
      {"capitalize", &CaseMethod<Case::kCapitalize>},
      {"casefold", &CaseMethod<Case::kFold>},
      {"center", &AlignMethod<'^'>},
      {"count", &CountMethod},
      {"endswith", &Affix<false>},
      {"expandtabs", &ExpandTabs},
      {"find", &FindMethod<false, false>},
      {"index", &FindMethod<false, true>},
      {"isalnum", &EveryCharacter<&IsAlnum>},
      {"isalpha", &EveryCharacter<&IsAlpha>},
      {"isascii", &EveryCharacter<&IsAscii, true>},
      {"isdecimal", &EveryCharacter<&IsDecimal>},
      {"isdigit", &EveryCharacter<&IsDigit>},
      {"isidentifier", &WholeText<&IsName>},
      {"islower", &WholeText<&IsLower>},
      {"isnumeric", &EveryCharacter<&IsNumeric>},
      {"isprintable", &EveryCharacter<&IsPrintable, true>},
      {"isspace", &EveryCharacter<&IsSpace>},
      {"istitle", &WholeText<&IsTitle>},
      {"isupper", &WholeText<&IsUpper>},
      {"join", &JoinMethod},
      {"ljust", &AlignMethod<'<'>},
      {"lower", &CaseMethod<Case::kLower>},
      {"lstrip", &StripMethod<Side::kLeft>},
      {"partition", &PartitionMethod<false>},
      {"removeprefix", &RemoveAffix<true>},
      {"removesuffix", &RemoveAffix<false>},
      {"replace", &ReplaceMethod},
      {"rfind", &FindMethod<true, false>},
      {"rindex", &FindMethod<true, true>},
      {"rjust", &AlignMethod<'>'>},
      {"rpartition", &PartitionMethod<true>},
      {"rsplit", &SplitMethod<true>},
      {"rstrip", &StripMethod<Side::kRight>},
      {"split", &SplitMethod<false>},
      {"splitlines", &SplitLinesMethod},
      {"startswith", &Affix<true>},
      {"strip", &StripMethod<Side::kBoth>},
      {"swapcase", &CaseMethod<Case::kSwap>},
      {"title", &CaseMethod<Case::kTitle>},
      {"upper", &CaseMethod<Case::kUpper>},
      {"zfill", &FillWithZeros},
  };
  return *methods;
}

}  // namespace baton::tokenizer::jinja
