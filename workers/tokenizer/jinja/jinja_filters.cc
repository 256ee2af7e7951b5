#include "workers/tokenizer/jinja/jinja_filters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_attributes.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_case.h"
#include "workers/tokenizer/jinja/jinja_format.h"
#include "workers/tokenizer/jinja/jinja_json.h"
#include "workers/tokenizer/jinja/jinja_number.h"
#include "workers/tokenizer/jinja/jinja_operators.h"
#include "workers/tokenizer/jinja/jinja_sequence_filters.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

int64_t IntOf(const Arguments& arguments, size_t index, absl::string_view name, int64_t fallback) {
  const Value* value = arguments.Find(index, name);
  return value == nullptr ? fallback : value->integer(name);
}

/// `unit` so many times; below 1: nothing.
RenderedText Repeated(const RenderedText& unit, int64_t count) {
  return Arithmetic("*", Value::Text(unit), Value::Int(count)).text("*");
}

// --- Texts ---------------------------------------------------------------------------------------

Value ToJson(const Value& input, const Arguments& arguments) {
  arguments.Check("tojson", 4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = FlagOf(arguments, 0, "ensure_ascii");
  const Value* indent = arguments.Find(1, "indent");
  if (IsGiven(indent)) {
    style.indent = indent->is(Kind::kText)
                       ? indent->text("tojson")
                       : Repeated(OwnText(" "), indent->integer("tojson(indent)"));
  }
  style.item_separator = OwnText(style.indent.has_value() ? "," : ", ");
  style.key_separator = OwnText(": ");
  const Value* separators = arguments.Find(2, "separators");
  if (IsGiven(separators)) {
    const Items items = separators->Iterate("tojson(separators)");
    if (items.size() != 2) Refuse("tojson(separators) needs two strings");
    style.item_separator = items[0].text("tojson(separators)");
    style.key_separator = items[1].text("tojson(separators)");
  }
  style.sort_keys = FlagOf(arguments, 3, "sort_keys");
  return Value::Text(ToJsonText(input, style));
}

template <Case how>
Value ChangeCaseOf(const Value& input, const Arguments& arguments) {
  arguments.Check("the filter", 0);
  return Value::Text(ChangeCase(input.ToText(), how));
}

/// Each word begins with a capital; a word begins after white space, a hyphen or ( { [ <.
Value Title(const Value& input, const Arguments& arguments) {
  arguments.Check("title", 0);
  const RenderedText text = input.ToText();
  const std::string& bytes = text.text();
  RenderedText out;
  size_t begin = 0;  // of the word or what stands between two
  bool in_word = true;
  const auto flush = [&](size_t end) {
    if (end == begin) return;
    const size_t first =
        begin + std::max<size_t>(1, ReadUtf8(absl::string_view(bytes).substr(begin)).length);
    out.Add(ChangeCase(text.Slice(begin, first), Case::kUpper));
    out.Add(ChangeCase(text.Slice(first, end), Case::kLower));
    begin = end;
  };
  for (const TextRange& range : Characters(bytes)) {
    const char32_t c = ReadUtf8(absl::string_view(bytes).substr(range.begin)).code_point;
    const bool between = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (between == in_word) flush(range.begin);
    in_word = !between;
  }
  flush(bytes.size());
  return Value::Text(std::move(out));
}

Value Trim(const Value& input, const Arguments& arguments) {
  arguments.Check("trim", 1, {"chars"});
  const Value* characters = arguments.Find(0, "chars");
  if (!IsGiven(characters)) return Value::Text(Strip(input.ToText(), Side::kBoth));
  return Value::Text(Strip(input.ToText(), Side::kBoth, characters->text("trim").text()));
}

Value ReplaceIn(const Value& input, const Arguments& arguments) {
  arguments.Check("replace", 3, {"old", "new", "count"});
  const RenderedText old = arguments.Need(0, "old", "replace").ToText();
  const RenderedText to = arguments.Need(1, "new", "replace").ToText();
  const Value* count = arguments.Find(2, "count");
  return Value::Text(
      Replace(input.ToText(), old.text(), to, IsGiven(count) ? count->integer("replace") : -1));
}

Value Indent(const Value& input, const Arguments& arguments) {
  arguments.Check("indent", 3, {"width", "first", "blank"});
  const Value* width = arguments.Find(0, "width");
  const RenderedText space = width != nullptr && width->is(Kind::kText)
                                 ? width->text("indent")
                                 : Repeated(OwnText(" "), IntOf(arguments, 0, "width", 4));
  const bool blank = FlagOf(arguments, 2, "blank");
  RenderedText text = input.text("indent");
  text.AddTemplate("\n");  // so that an empty last line counts
  RenderedText out;
  bool first = true;
  for (const RenderedText& line : SplitLines(text)) {
    if (!first) out.AddTemplate("\n");
    if (first ? FlagOf(arguments, 1, "first") : blank || !line.text().empty()) out.Add(space);
    out.Add(line);
    first = false;
  }
  return Value::Text(std::move(out));
}

Value Center(const Value& input, const Arguments& arguments) {
  arguments.Check("center", 1, {"width"});
  Arguments width;
  width.positional = {Value::Int(IntOf(arguments, 0, "width", 80))};
  return *CallMethod(Value::Text(input.ToText()), "center", width);
}

Value FormatFilter(const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    Refuse("format takes values by their places or by their names");
  }
  if (arguments.named.empty()) {
    return Value::Text(
        FormatByPercent(input.ToText(), Value::List(arguments.positional, Kind::kTuple)));
  }
  Entries entries;
  for (const auto& [name, value] : arguments.named) entries.emplace_back(Value::Own(name), value);
  return Value::Text(FormatByPercent(input.ToText(), Value::Dict(std::move(entries))));
}

Value Truncate(const Value& input, const Arguments& arguments) {
  arguments.Check("truncate", 4, {"length", "killwords", "end", "leeway"});
  const int64_t length = IntOf(arguments, 0, "length", 255);
  const Value* given_end = arguments.Find(2, "end");
  const RenderedText end = given_end == nullptr ? OwnText("...") : given_end->text("truncate");
  const Value* given_leeway = arguments.Find(3, "leeway");
  const int64_t leeway = IsGiven(given_leeway) ? given_leeway->integer("truncate") : 5;
  const int64_t end_length = CountCharacters(end.text());
  if (length < end_length || leeway < 0) Refuse("truncate's length is shorter than its end");
  const int64_t kept = length - end_length;
  if (input.Length("truncate") - length <= leeway) return input;
  const RenderedText& text = input.text("truncate");
  RenderedText out = SliceCharacters(text, 0, kept);
  if (!FlagOf(arguments, 1, "killwords")) out = Split(out, " ", 1, /*from_right=*/true).front();
  out.Add(end);
  return Value::Text(std::move(out));
}

Value WordCount(const Value& input, const Arguments& arguments) {
  arguments.Check("wordcount", 0);
  const RenderedText text = input.ToText();
  int64_t count = 0;
  bool in_word = false;
  for (const TextRange& range : Characters(text.text())) {
    const char32_t c = ReadUtf8(absl::string_view(text.text()).substr(range.begin)).code_point;
    const bool part = c == '_' || IsAlnum(c);
    count += part && !in_word ? 1 : 0;
    in_word = part;
  }
  return Value::Int(count);
}

/// Percent encoding; `in_query`: of a part of a query, where a space is +.
RenderedText UrlQuoted(const RenderedText& text, bool in_query) {
  RenderedText out;
  for (size_t i = 0; i < text.text().size(); ++i) {
    const auto byte = static_cast<unsigned char>(text.text()[i]);
    const bool plain = absl::ascii_isalnum(byte) ||
                       absl::string_view("_.-~").find(text.text()[i]) != absl::string_view::npos;
    if (plain || (byte == '/' && !in_query)) {
      out.Add(text.Slice(i, i + 1));
    } else {
      out.AddContent(byte == ' ' && in_query ? "+" : absl::StrFormat("%%%02X", byte));
    }
  }
  return out;
}

Value UrlEncode(const Value& input, const Arguments& arguments) {
  arguments.Check("urlencode", 0);
  if (input.is(Kind::kText) || !input.is_iterable()) {
    return Value::Text(UrlQuoted(input.ToText(), false));
  }
  const Value pairs = input.is(Kind::kDict) ? Value::View(input, Kind::kPairs) : input;
  RenderedText out;
  bool first = true;
  for (const Value& pair : pairs.Iterate("urlencode")) {
    const Items parts = pair.Iterate("urlencode");
    if (parts.size() != 2) Refuse("urlencode needs pairs");
    if (!first) out.AddTemplate("&");
    first = false;
    out.Add(UrlQuoted(parts[0].ToText(), true));
    out.AddTemplate("=");
    out.Add(UrlQuoted(parts[1].ToText(), true));
  }
  return Value::Text(std::move(out));
}

// --- Numbers -------------------------------------------------------------------------------------

Value ToInt(const Value& input, const Arguments& arguments) {
  arguments.Check("int", 2, {"default", "base"});
  const Value* given = arguments.Find(0, "default");
  const Value fallback = given == nullptr ? Value::Int(0) : *given;
  if (input.is(Kind::kUndefined)) input.integer("int");
  if (input.is(Kind::kInt) || input.is(Kind::kBool)) return Value::Int(input.integer("int"));
  if (input.is(Kind::kFloat)) {
    const double number = input.number("int");
    return std::isnan(number) ? fallback : Value::Int(Truncated(number));
  }
  if (!input.is(Kind::kText)) return fallback;
  const std::string& text = input.text("int").text();
  Budget::SpendWalk(text.size());
  const Value* base = arguments.Find(1, "base");
  if (base == nullptr || base->is(Kind::kInt) || base->is(Kind::kBool)) {
    const auto whole = ReadInteger(text, base == nullptr ? 10 : base->integer("int"));
    if (whole.has_value()) return Value::Int(*whole);
  }
  const std::optional<double> number = ReadFloat(text);
  if (!number.has_value() || !std::isfinite(*number)) return fallback;
  return Value::Int(Truncated(*number));
}

Value ToFloat(const Value& input, const Arguments& arguments) {
  arguments.Check("float", 1, {"default"});
  if (input.is(Kind::kUndefined) || input.is_number()) return Value::Float(input.number("float"));
  if (input.is(Kind::kText)) {
    Budget::SpendWalk(input.text("float").text().size());
    const std::optional<double> number = ReadFloat(input.text("float").text());
    if (number.has_value()) return Value::Float(*number);
  }
  const Value* fallback = arguments.Find(0, "default");
  return fallback == nullptr ? Value::Float(0) : *fallback;
}

Value Abs(const Value& input, const Arguments& arguments) {
  arguments.Check("abs", 0);
  if (input.is(Kind::kFloat)) return Value::Float(std::abs(input.number("abs")));
  return input.integer("abs") < 0 ? Signed("-", input) : Signed("+", input);
}

Value Round(const Value& input, const Arguments& arguments) {
  arguments.Check("round", 2, {"precision", "method"});
  const Value* precision = arguments.Find(0, "precision");
  const Value* method = arguments.Find(1, "method");
  const std::string how = method == nullptr ? "common" : method->ToText().text();
  if (how == "common") {
    const bool whole = precision != nullptr && precision->is(Kind::kNone);
    const int64_t digits = whole ? 0 : IntOf(arguments, 0, "precision", 0);
    if (!input.is(Kind::kFloat)) return Value::Int(RoundInteger(input.integer("round"), digits));
    const double rounded = RoundFloat(input.number("round"), digits);
    if (!whole) return Value::Float(rounded);
    if (std::isnan(rounded)) Refuse("NaN is no integer");
    return Value::Int(Truncated(rounded));
  }
  if (how != "ceil" && how != "floor") Refuse("round's method is common, ceil or floor");
  const Value digits = precision == nullptr ? Value::Int(0) : *precision;
  const Value scale = Arithmetic("**", Value::Int(10), digits);
  const Value scaled = Arithmetic("*", input, scale);
  Value rounded = scaled;
  if (scaled.is(Kind::kFloat)) {
    const double number = scaled.number("round");
    if (std::isnan(number)) Refuse("NaN is no integer");
    rounded = Value::Int(Truncated(how == "ceil" ? std::ceil(number) : std::floor(number)));
  }
  return Arithmetic("/", rounded, scale);
}

Value FileSize(const Value& input, const Arguments& arguments) {
  arguments.Check("filesizeformat", 1, {"binary"});
  const bool binary = FlagOf(arguments, 0, "binary");
  const std::optional<double> read =
      input.is(Kind::kText) ? ReadFloat(input.text("").text()) : input.number("filesizeformat");
  if (!read.has_value()) Refuse("filesizeformat needs a number");
  const double base = binary ? 1024 : 1000;
  if (*read == 1) return Value::Own("1 Byte");
  if (*read < base) return Value::Own(absl::StrCat(Truncated(*read), " Bytes"));
  double unit = base;
  absl::string_view prefix;
  for (const char& letter : absl::string_view("KMGTPEZY")) {
    prefix = absl::string_view(&letter, 1);
    unit *= base;
    if (*read < unit) break;
  }
  const std::string name =
      binary ? absl::StrCat(prefix, "iB") : absl::StrCat(prefix == "K" ? "k" : prefix, "B");
  return Value::Own(absl::StrFormat("%.1f %s", base * *read / unit, name));
}

// --- All -----------------------------------------------------------------------------------------

Value Default(const Value& input, const Arguments& arguments) {
  arguments.Check("default", 2, {"default_value", "boolean"});
  const bool replaced =
      input.is(Kind::kUndefined) || (FlagOf(arguments, 1, "boolean") && !input.Truth());
  if (!replaced) return input;
  const Value* fallback = arguments.Find(0, "default_value");
  return fallback == nullptr ? Value::Own("") : *fallback;
}

Value Attr(const Value& input, const Arguments& arguments) {
  arguments.Check("attr", 1, {"name"});
  return OwnAttributeOf(input, arguments.Need(0, "name", "attr").text("attr").text());
}

Value ToString(const Value& input, const Arguments& arguments) {
  arguments.Check("string", 0);
  return Value::Text(input.ToText());
}

Value Map(const Value& input, const Arguments& arguments) {
  return MapItems(input, arguments, &ApplyFilter);
}

const std::map<absl::string_view, Filter>& Filters() {
  static const auto* const filters = [] {
    auto* made = new std::map<absl::string_view, Filter>{
        {"abs", &Abs},
        {"attr", &Attr},
        {"capitalize", &ChangeCaseOf<Case::kCapitalize>},
        {"center", &Center},
        {"d", &Default},
        {"default", &Default},
        {"filesizeformat", &FileSize},
        {"float", &ToFloat},
        {"format", &FormatFilter},
        {"indent", &Indent},
        {"int", &ToInt},
        {"lower", &ChangeCaseOf<Case::kLower>},
        {"map", &Map},
        {"replace", &ReplaceIn},
        {"round", &Round},
        {"safe", &ToString},
        {"string", &ToString},
        {"title", &Title},
        {"tojson", &ToJson},
        {"trim", &Trim},
        {"truncate", &Truncate},
        {"upper", &ChangeCaseOf<Case::kUpper>},
        {"urlencode", &UrlEncode},
        {"wordcount", &WordCount},
    };
    made->insert(SequenceFilters().begin(), SequenceFilters().end());
    return made;
  }();
  return *filters;
}

}  // namespace

bool IsFilter(absl::string_view name) {
  static const auto* const not_supported =
      new std::set<absl::string_view>{"e",      "escape",    "forceescape", "pprint", "random",
                                      "urlize", "striptags", "wordwrap",    "xmlattr"};
  return Filters().count(name) > 0 || not_supported->count(name) > 0;
}

Value ApplyFilter(absl::string_view name, const Value& input, const Arguments& arguments) {
  const auto it = Filters().find(name);
  if (it == Filters().end()) {
    throw Error{Error::Kind::kUnsupported,
                absl::StrCat("the filter '", name, "' is not supported")};
  }
  return it->second(input, arguments);
}

}  // namespace baton::tokenizer::jinja
