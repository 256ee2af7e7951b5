#include "workers/tokenizer/jinja/jinja_builtins.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sdk/common/base/cut_text.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_syntax.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

bool FlagOf(const Arguments& arguments, size_t index, absl::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value != nullptr && value->Truth();
}
int64_t IntOf(const Arguments& arguments, size_t index, absl::string_view name, int64_t fallback) {
  const Value* value = arguments.Find(index, name);
  return value == nullptr || value->is(Kind::kNone) ? fallback : value->integer(name);
}
std::string TextOf(const Arguments& arguments, size_t index, absl::string_view name,
                   absl::string_view callee) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr) {
    throw Error{Error::Kind::kType, absl::StrCat(callee, " needs the argument '", name, "'")};
  }
  return value->text(callee).text();
}

/// `item.a.0.b` for the attribute "a.0.b".
Value Attribute(const Value& item, const Value& path) {
  if (path.is(Kind::kInt)) return Subscript(item, path);
  Value value = item;
  for (const absl::string_view part : absl::StrSplit(path.text("attribute").text(), '.')) {
    int64_t index = 0;
    value = Subscript(value, absl::SimpleAtoi(part, &index) ? Value::Int(index) : Value::Own(part));
  }
  return value;
}

/// The key that sorting compares: texts without case, unless told otherwise.
Value SortKey(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::kText)) return value;
  return Value::Text(ChangeCase(value.text("sort"), Case::kLower));
}

// --- Filters -------------------------------------------------------------------------------------

Value ToJson(const Value& input, const Arguments& arguments) {
  arguments.Check("tojson", 4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = FlagOf(arguments, 0, "ensure_ascii");
  style.indent = static_cast<int>(std::clamp<int64_t>(IntOf(arguments, 1, "indent", -1), -1, 100));
  if (style.indent >= 0) style.item_separator = ",";
  const Value* separators = arguments.Find(2, "separators");
  if (separators != nullptr && !separators->is(Kind::kNone)) {
    const Items& items = separators->items("tojson(separators)");
    if (items.size() != 2) {
      throw Error{Error::Kind::kType, "tojson(separators) needs two strings"};
    }
    style.item_separator = items[0].text("tojson(separators)").text();
    style.key_separator = items[1].text("tojson(separators)").text();
  }
  style.sort_keys = FlagOf(arguments, 3, "sort_keys");
  return Value::Text(ToJsonText(input, style));
}

Value Default(const Value& input, const Arguments& arguments) {
  arguments.Check("default", 2, {"default_value", "boolean"});
  const bool replaced =
      input.is(Kind::kUndefined) || (FlagOf(arguments, 1, "boolean") && !input.Truth());
  if (!replaced) return input;
  const Value* fallback = arguments.Find(0, "default_value");
  return fallback == nullptr ? Value::Own("") : *fallback;
}

Value Trim(const Value& input, const Arguments& arguments) {
  arguments.Check("trim", 1, {"chars"});
  const Value* characters = arguments.Find(0, "chars");
  if (characters == nullptr || characters->is(Kind::kNone)) {
    return Value::Text(Strip(input.ToText(), Side::kBoth));
  }
  return Value::Text(Strip(input.ToText(), Side::kBoth, characters->text("trim").text()));
}

Value Join(const Value& input, const Arguments& arguments) {
  arguments.Check("join", 2, {"d", "attribute"});
  const Value* separator = arguments.Find(0, "d");
  const Value* attribute = arguments.Find(1, "attribute");
  RenderedText out;
  bool first = true;
  for (const Value& item : input.Iterate("join")) {
    if (!first && separator != nullptr) out.Add(separator->ToText());
    first = false;
    out.Add((attribute == nullptr ? item : Attribute(item, *attribute)).ToText());
  }
  return Value::Text(std::move(out));
}

Value Map(const Value& input, const Arguments& arguments) {
  Items out;
  const Value* attribute = arguments.Find(SIZE_MAX, "attribute");
  const Value* fallback = arguments.Find(SIZE_MAX, "default");
  if (attribute == nullptr && arguments.positional.empty()) {
    throw Error{Error::Kind::kType, "map needs a filter's name or attribute=…"};
  }
  for (const Value& item : input.Iterate("map")) {
    Budget::Spend(1);
    if (attribute != nullptr) {
      const Value value = Attribute(item, *attribute);
      out.push_back(value.is(Kind::kUndefined) && fallback != nullptr ? *fallback : value);
      continue;
    }
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
    out.push_back(ApplyFilter(arguments.positional[0].text("map").text(), item, rest));
  }
  return Value::List(std::move(out));
}

/// select, reject, selectattr, rejectattr.
Value Choose(absl::string_view name, const Value& input, const Arguments& arguments) {
  const bool by_attribute = absl::EndsWith(name, "attr");
  const bool keeps = absl::StartsWith(name, "select");
  const size_t test_at = by_attribute ? 1 : 0;
  if (arguments.positional.size() < test_at) {
    throw Error{Error::Kind::kType, absl::StrCat(name, " needs an attribute's name")};
  }
  Arguments rest;
  if (arguments.positional.size() > test_at) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                           arguments.positional.end());
  }
  Items out;
  for (const Value& item : input.Iterate(name)) {
    Budget::Spend(1);
    const Value value = by_attribute ? Attribute(item, arguments.positional[0]) : item;
    const bool holds = arguments.positional.size() > test_at
                           ? ApplyTest(arguments.positional[test_at].text(name).text(), value, rest)
                           : value.Truth();
    if (holds == keeps) out.push_back(item);
  }
  return Value::List(std::move(out));
}

Value Sort(const Value& input, const Arguments& arguments) {
  arguments.Check("sort", 3, {"reverse", "case_sensitive", "attribute"});
  const bool exact = FlagOf(arguments, 1, "case_sensitive");
  const Value* attribute = arguments.Find(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : input.Iterate("sort")) {
    keyed.emplace_back(SortKey(attribute == nullptr ? item : Attribute(item, *attribute), exact),
                       item);
  }
  const bool reverse = FlagOf(arguments, 0, "reverse");
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? Less(b.first, a.first) : Less(a.first, b.first);
  });
  Items out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value::List(std::move(out));
}

Value Unique(const Value& input, const Arguments& arguments) {
  arguments.Check("unique", 2, {"case_sensitive", "attribute"});
  const bool exact = FlagOf(arguments, 0, "case_sensitive");
  const Value* attribute = arguments.Find(1, "attribute");
  Items keys, out;
  for (const Value& item : input.Iterate("unique")) {
    const Value key = SortKey(attribute == nullptr ? item : Attribute(item, *attribute), exact);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return Equal(k, key); })) {
      continue;
    }
    keys.push_back(key);
    out.push_back(item);
  }
  return Value::List(std::move(out));
}

/// The entries of a dict as pairs.
Items Pairs(const Value& dict, absl::string_view what) {
  Items pairs;
  for (const auto& [key, value] : dict.entries(what)) {
    pairs.push_back(Value::List({Value::Text(key), value}, Kind::kTuple));
  }
  return pairs;
}

Value DictSort(const Value& input, const Arguments& arguments) {
  arguments.Check("dictsort", 3, {"case_sensitive", "by", "reverse"});
  const Value* by = arguments.Find(1, "by");
  Arguments sort;
  sort.named = {{"case_sensitive", Value::Bool(FlagOf(arguments, 0, "case_sensitive"))},
                {"reverse", Value::Bool(FlagOf(arguments, 2, "reverse"))},
                {"attribute", Value::Int(by != nullptr && by->ToText().text() == "value" ? 1 : 0)}};
  return Sort(Value::List(Pairs(input, "dictsort")), sort);
}

Value ToInt(const Value& input, const Arguments& arguments) {
  arguments.Check("int", 1, {"default"});
  const Value fallback = Value::Int(IntOf(arguments, 0, "default", 0));
  if (input.is(Kind::kFloat)) {
    const double number = std::trunc(input.number("int"));
    return std::abs(number) < 9e18 ? Value::Int(static_cast<int64_t>(number)) : fallback;
  }
  if (input.is_number()) return Value::Int(input.integer("int"));
  if (!input.is(Kind::kText)) return fallback;
  Budget::SpendWalk(input.text("int").text().size());
  int64_t whole = 0;
  double number = 0;
  if (absl::SimpleAtoi(input.text("int").text(), &whole)) return Value::Int(whole);
  if (absl::SimpleAtod(input.text("int").text(), &number) && std::abs(number) < 9e18) {
    return Value::Int(static_cast<int64_t>(number));
  }
  return fallback;
}

Value ToFloat(const Value& input, const Arguments& arguments) {
  arguments.Check("float", 1, {"default"});
  if (input.is_number()) return Value::Float(input.number("float"));
  if (input.is(Kind::kText)) Budget::SpendWalk(input.text("float").text().size());
  double number = 0;
  if (input.is(Kind::kText) && absl::SimpleAtod(input.text("float").text(), &number)) {
    return Value::Float(number);
  }
  const Value* fallback = arguments.Find(0, "default");
  return fallback == nullptr ? Value::Float(0) : *fallback;
}

Value Round(const Value& input, const Arguments& arguments) {
  arguments.Check("round", 2, {"precision", "method"});
  const int64_t precision = std::clamp<int64_t>(IntOf(arguments, 0, "precision", 0), -300, 300);
  const Value* method = arguments.Find(1, "method");
  const std::string how = method == nullptr ? "common" : method->ToText().text();
  if (how == "common" && precision >= 0 && !input.is(Kind::kFloat)) {
    return Value::Int(input.integer("round"));  // as Python's round
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.number("round") * scale;
  const double rounded = how == "ceil"    ? std::ceil(scaled)
                         : how == "floor" ? std::floor(scaled)
                                          : std::nearbyint(scaled);
  return Value::Float(rounded / scale);
}

Value Indent(const Value& input, const Arguments& arguments) {
  arguments.Check("indent", 3, {"width", "first", "blank"});
  const Value* width = arguments.Find(0, "width");
  RenderedText space;
  if (width != nullptr && width->is(Kind::kText)) {
    space = width->text("indent");
  } else {
    const int64_t count = std::clamp<int64_t>(IntOf(arguments, 0, "width", 4), 0, 1000);
    space.AddTemplate(std::string(static_cast<size_t>(count), ' '));
  }
  const bool blank = FlagOf(arguments, 2, "blank");
  RenderedText out;
  bool first = true;
  for (const RenderedText& line : Split(input.ToText(), "\n", -1)) {
    if (!first) out.AddTemplate("\n");
    if (first ? FlagOf(arguments, 1, "first") : blank || !line.text().empty()) out.Add(space);
    out.Add(line);
    first = false;
  }
  return Value::Text(std::move(out));
}

/// min and max.
Value Extreme(absl::string_view name, const Value& input, const Arguments& arguments) {
  arguments.Check(name, 2, {"case_sensitive", "attribute"});
  Arguments sort;
  sort.named = {{"reverse", Value::Bool(name == "max")}};
  for (const auto& named : arguments.named) sort.named.push_back(named);
  const Value sorted = Sort(input, sort);
  const Items& items = sorted.items(name);
  return items.empty() ? Value::Undefined(name) : items.front();
}

Value Sum(const Value& input, const Arguments& arguments) {
  arguments.Check("sum", 2, {"attribute", "start"});
  const Value* attribute = arguments.Find(0, "attribute");
  const Value* start = arguments.Find(1, "start");
  double sum = start == nullptr ? 0 : start->number("sum");
  bool whole = start == nullptr || !start->is(Kind::kFloat);
  for (const Value& item : input.Iterate("sum")) {
    const Value value = attribute == nullptr ? item : Attribute(item, *attribute);
    whole = whole && !value.is(Kind::kFloat);
    sum += value.number("sum");
  }
  return whole ? Value::Int(static_cast<int64_t>(sum)) : Value::Float(sum);
}

Value Ends(absl::string_view name, const Value& input) {
  if (input.is_list() || input.is(Kind::kText)) {
    if (!input.Truth()) return Value::Undefined(absl::StrCat("the ", name, " item of nothing"));
    return input.At(name == "first" ? 0 : -1);
  }
  const Items items = input.Iterate(name);
  if (items.empty()) return Value::Undefined(absl::StrCat("the ", name, " item of nothing"));
  return name == "first" ? items.front() : items.back();
}

Value Reverse(const Value& input) {
  Items items = input.Iterate("reverse");
  std::reverse(items.begin(), items.end());
  if (!input.is(Kind::kText)) return Value::List(std::move(items));
  RenderedText out;
  for (const Value& item : items) out.Add(item.text("reverse"));
  return Value::Text(std::move(out));
}

Value ReplaceIn(const Value& input, const Arguments& arguments) {
  arguments.Check("replace", 3, {"old", "new", "count"});
  const std::string old = TextOf(arguments, 0, "old", "replace");
  const Value* to = arguments.Find(1, "new");
  if (to == nullptr) throw Error{Error::Kind::kType, "replace needs two strings"};
  return Value::Text(
      Replace(input.ToText(), old, to->text("replace"), IntOf(arguments, 2, "count", -1)));
}

using Filter = Value (*)(const Value&, const Arguments&);

template <Case how>
Value ChangeCaseOf(const Value& input, const Arguments&) {
  return Value::Text(ChangeCase(input.ToText(), how));
}

const std::map<absl::string_view, Filter>& Filters() {
  static const auto* const filters = new std::map<absl::string_view, Filter>{
      {"abs",
       [](const Value& v, const Arguments&) {
         return v.is(Kind::kFloat) ? Value::Float(std::abs(v.number("abs")))
                                   : Value::Int(std::abs(v.integer("abs")));
       }},
      {"attr",
       [](const Value& v, const Arguments& a) {
         return Subscript(v, Value::Own(TextOf(a, 0, "name", "attr")));
       }},
      {"capitalize", &ChangeCaseOf<Case::kCapitalize>},
      {"count", [](const Value& v, const Arguments&) { return Value::Int(v.Length()); }},
      {"d", &Default},
      {"default", &Default},
      {"dictsort", &DictSort},
      {"first", [](const Value& v, const Arguments&) { return Ends("first", v); }},
      {"float", &ToFloat},
      {"indent", &Indent},
      {"int", &ToInt},
      {"items",
       [](const Value& v, const Arguments&) {
         return Value::List(v.is(Kind::kUndefined) ? Items() : Pairs(v, "items"));
       }},
      {"join", &Join},
      {"last", [](const Value& v, const Arguments&) { return Ends("last", v); }},
      {"length", [](const Value& v, const Arguments&) { return Value::Int(v.Length()); }},
      {"list", [](const Value& v, const Arguments&) { return Value::List(v.Iterate("list")); }},
      {"lower", &ChangeCaseOf<Case::kLower>},
      {"map", &Map},
      {"max", [](const Value& v, const Arguments& a) { return Extreme("max", v, a); }},
      {"min", [](const Value& v, const Arguments& a) { return Extreme("min", v, a); }},
      {"reject", [](const Value& v, const Arguments& a) { return Choose("reject", v, a); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return Choose("rejectattr", v, a); }},
      {"replace", &ReplaceIn},
      {"reverse", [](const Value& v, const Arguments&) { return Reverse(v); }},
      {"round", &Round},
      {"safe", [](const Value& v, const Arguments&) { return Value::Text(v.ToText()); }},
      {"select", [](const Value& v, const Arguments& a) { return Choose("select", v, a); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return Choose("selectattr", v, a); }},
      {"sort", &Sort},
      {"string", [](const Value& v, const Arguments&) { return Value::Text(v.ToText()); }},
      {"sum", &Sum},
      {"title", &ChangeCaseOf<Case::kTitle>},
      {"tojson", &ToJson},
      {"trim", &Trim},
      {"unique", &Unique},
      {"upper", &ChangeCaseOf<Case::kUpper>},
  };
  return *filters;
}

// --- Tests ---------------------------------------------------------------------------------------

using Test = bool (*)(const Value&, const Arguments&);

const Value& Operand(const Arguments& arguments) {
  if (arguments.positional.size() != 1) {
    throw Error{Error::Kind::kType, "the test needs one value to compare with"};
  }
  return arguments.positional[0];
}
bool IsIterable(const Value& v) {
  return v.is_list() || v.is_mapping() || v.is(Kind::kText) || v.is(Kind::kUndefined);
}

template <bool upper>
bool HasCase(const Value& v, const Arguments&) {
  const RenderedText text = v.ToText();
  return ChangeCase(text, upper ? Case::kUpper : Case::kLower).text() == text.text() &&
         ChangeCase(text, upper ? Case::kLower : Case::kUpper).text() != text.text();
}

const std::map<absl::string_view, Test>& Tests() {
  static constexpr Test kEqual = [](const Value& v, const Arguments& a) {
    return Equal(v, Operand(a));
  };
  static constexpr Test kUnequal = [](const Value& v, const Arguments& a) {
    return !Equal(v, Operand(a));
  };
  static constexpr Test kLess = [](const Value& v, const Arguments& a) {
    return Less(v, Operand(a));
  };
  static constexpr Test kGreater = [](const Value& v, const Arguments& a) {
    return Less(Operand(a), v);
  };
  static constexpr Test kAtMost = [](const Value& v, const Arguments& a) {
    return !Less(Operand(a), v);
  };
  static constexpr Test kAtLeast = [](const Value& v, const Arguments& a) {
    return !Less(v, Operand(a));
  };
  static const auto* const tests = new std::map<absl::string_view, Test>{
      {"boolean", [](const Value& v, const Arguments&) { return v.is(Kind::kBool); }},
      {"callable", [](const Value& v, const Arguments&) { return v.is(Kind::kFunction); }},
      {"defined", [](const Value& v, const Arguments&) { return !v.is(Kind::kUndefined); }},
      {"divisibleby",
       [](const Value& v, const Arguments& a) {
         const int64_t by = Operand(a).integer("divisibleby");
         if (by == 0) throw Error{Error::Kind::kType, "divisibleby 0"};
         return by == -1 || v.integer("divisibleby") % by == 0;
       }},
      {"eq", kEqual},
      {"equalto", kEqual},
      {"even", [](const Value& v, const Arguments&) { return v.integer("even") % 2 == 0; }},
      {"false", [](const Value& v, const Arguments&) { return v.is(Kind::kBool) && !v.Truth(); }},
      {"float", [](const Value& v, const Arguments&) { return v.is(Kind::kFloat); }},
      {"ge", kAtLeast},
      {"greaterthan", kGreater},
      {"gt", kGreater},
      {"in", [](const Value& v, const Arguments& a) { return Contains(Operand(a), v); }},
      {"integer", [](const Value& v, const Arguments&) { return v.is(Kind::kInt); }},
      {"iterable", [](const Value& v, const Arguments&) { return IsIterable(v); }},
      {"le", kAtMost},
      {"lessthan", kLess},
      {"lower", &HasCase<false>},
      {"lt", kLess},
      {"mapping", [](const Value& v, const Arguments&) { return v.is_mapping(); }},
      {"ne", kUnequal},
      {"none", [](const Value& v, const Arguments&) { return v.is(Kind::kNone); }},
      {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
      {"odd", [](const Value& v, const Arguments&) { return v.integer("odd") % 2 != 0; }},
      {"sequence", [](const Value& v, const Arguments&) { return IsIterable(v); }},
      {"string", [](const Value& v, const Arguments&) { return v.is(Kind::kText); }},
      {"true", [](const Value& v, const Arguments&) { return v.is(Kind::kBool) && v.Truth(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.is(Kind::kUndefined); }},
      {"upper", &HasCase<true>},
  };
  return *tests;
}

// --- Global functions ----------------------------------------------------------------------------

Value Range(const Arguments& arguments) {
  arguments.Check("range", 3);
  if (arguments.positional.empty()) throw Error{Error::Kind::kType, "range needs a number"};
  const bool one = arguments.positional.size() == 1;
  const int64_t begin = one ? 0 : arguments.positional[0].integer("range");
  const int64_t end = arguments.positional[one ? 0 : 1].integer("range");
  const int64_t step =
      arguments.positional.size() == 3 ? arguments.positional[2].integer("range") : 1;
  if (step == 0) throw Error{Error::Kind::kType, "range has a step of 0"};
  const double count =
      (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  if (count > 100000) throw Error{Error::Kind::kLimit, "range has more than 100000 items"};
  Items items;
  for (int64_t i = begin; static_cast<double>(items.size()) < count; i += step) {
    items.push_back(Value::Int(i));
  }
  return Value::List(std::move(items));
}

Value MakeDict(const Arguments& arguments, Kind kind) {
  Entries entries;
  for (const Value& value : arguments.positional) entries = value.entries("dict");
  for (const auto& [name, value] : arguments.named) {
    RenderedText key;
    key.AddTemplate(name);
    entries.emplace_back(std::move(key), value);
  }
  return Value::Dict(std::move(entries), kind);
}

Value Raise(const Arguments& arguments) {
  throw Error{Error::Kind::kRefused,
              arguments.positional.empty() ? "" : CutText(arguments.positional[0].ToText().text())};
}

/// The value of a missing item `key`.
Value MissingItem(const Value& key) {
  if (key.is(Kind::kText)) return Value::Undefined(key.text("[]").text());
  return Value::Undefined(key.is_number() ? key.ToText().text() : "an item");
}

}  // namespace

bool IsFilter(absl::string_view name) { return Filters().count(name) > 0; }
bool IsTest(absl::string_view name) { return Tests().count(name) > 0; }

Value ApplyFilter(absl::string_view name, const Value& input, const Arguments& arguments) {
  const auto it = Filters().find(name);
  if (it == Filters().end()) {
    throw Error{Error::Kind::kUnsupported,
                absl::StrCat("the filter '", name, "' is not supported")};
  }
  return it->second(input, arguments);
}

bool ApplyTest(absl::string_view name, const Value& input, const Arguments& arguments) {
  const auto it = Tests().find(name == "==" ? "eq" : name == "!=" ? "ne" : name);
  if (it == Tests().end()) {
    throw Error{Error::Kind::kUnsupported,
                absl::StrCat("the test 'is ", name, "' is not supported")};
  }
  return it->second(input, arguments);
}

Value Subscript(const Value& object, const Value& key) {
  if (object.is(Kind::kUndefined)) {
    throw Error{Error::Kind::kType, absl::StrCat("'", object.undefined_name(), "' is undefined")};
  }
  if (object.is(Kind::kDict) || object.is(Kind::kNamespace)) {
    const Value* value = key.is(Kind::kText) ? object.Find(key.text("[]").text()) : nullptr;
    return value != nullptr ? *value : MissingItem(key);
  }
  if (!object.is_list() && !object.is(Kind::kText)) return MissingItem(key);
  if (!key.is(Kind::kInt)) return MissingItem(key);
  return object.At(key.integer("[]"));
}

const Value* GlobalFunction(absl::string_view name) {
  const Uncounted they_stay;
  static const auto* const functions = new std::map<absl::string_view, Value>{
      {"dict", Value::Callable([](const Arguments& a) { return MakeDict(a, Kind::kDict); })},
      {"namespace",
       Value::Callable([](const Arguments& a) { return MakeDict(a, Kind::kNamespace); })},
      {"raise_exception", Value::Callable(&Raise)},
      {"range", Value::Callable(&Range)},
  };
  const auto it = functions->find(name);
  return it == functions->end() ? nullptr : &it->second;
}

}  // namespace baton::tokenizer::jinja
