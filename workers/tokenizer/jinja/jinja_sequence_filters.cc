#include "workers/tokenizer/jinja/jinja_sequence_filters.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "workers/tokenizer/jinja/jinja_attributes.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_case.h"
#include "workers/tokenizer/jinja/jinja_equality.h"
#include "workers/tokenizer/jinja/jinja_operators.h"
#include "workers/tokenizer/jinja/jinja_text.h"
#include "workers/tokenizer/jinja/jinja_value_tests.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

/// `item.a.0.b` for the attribute "a.0.b"; the item itself without an attribute.
class ItemPath {
 public:
  ItemPath() = default;
  /// `attribute` may be null or none. `fallback`, where it is not null, stands for what is missing.
  ItemPath(const Value* attribute, bool ignores_case, const Value* fallback = nullptr)
      : ignores_case_(ignores_case) {
    if (IsGiven(fallback)) fallback_ = *fallback;
    if (!IsGiven(attribute)) return;
    if (!attribute->is(Kind::kText)) {
      parts_.push_back(*attribute);
      return;
    }
    for (const absl::string_view part : absl::StrSplit(attribute->text("attribute").text(), '.')) {
      int64_t index = 0;
      const bool is_index =
          !part.empty() && std::all_of(part.begin(), part.end(),
                                       [](unsigned char c) { return absl::ascii_isdigit(c); });
      parts_.push_back(is_index && absl::SimpleAtoi(part, &index) ? Value::Int(index)
                                                                  : Value::Own(part));
    }
  }

  Value Of(const Value& item) const {
    Value value = item;
    for (const Value& part : parts_) {
      Budget::Spend(1);
      value = Subscript(value, part);
      if (value.is(Kind::kUndefined) && !fallback_.is(Kind::kUndefined)) value = fallback_;
    }
    if (!ignores_case_ || !value.is(Kind::kText)) return value;
    return Value::Text(ChangeCase(value.text("a key"), Case::kLower));
  }

 private:
  Items parts_;
  bool ignores_case_ = false;
  Value fallback_;
};

/// An iterator over what `step` makes of each item of `input`; where it makes nothing, the item is
/// left out. `check` may refuse before the first item.
template <class Check, class Step>
Value Lazily(const Value& input, absl::string_view what, std::initializer_list<const Value*> holds,
             Check check, Step step) {
  return Value::Iterator(
      [input, what = std::string(what), check = std::move(check), step = std::move(step),
       next = NextItem()]() mutable -> std::optional<Value> {
        if (next == nullptr) {
          check();
          next = input.Walk(what);
        }
        while (std::optional<Value> item = next()) {
          Budget::Spend(1);
          if (std::optional<Value> made = step(*item)) return made;
        }
        return std::nullopt;
      },
      holds);
}

void Accept() {}

/// Arguments without the first `count`.
Arguments Rest(const Arguments& arguments, size_t count) {
  Arguments rest;
  if (arguments.positional.size() > count) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
  }
  rest.named = arguments.named;
  return rest;
}

/// All that `arguments` hold, as one value for Value::Iterator.
Value Packed(const Arguments& arguments) {
  Items all = arguments.positional;
  for (const auto& [name, value] : arguments.named) all.push_back(value);
  return Value::List(std::move(all));
}

/// select, reject, selectattr, rejectattr.
Value Choose(absl::string_view name, const Value& input, const Arguments& arguments) {
  const bool by_attribute = absl::EndsWith(name, "attr");
  const bool keeps = absl::StartsWith(name, "select");
  const size_t test_at = by_attribute ? 1 : 0;
  const Value held = Packed(arguments);
  if (!input.Truth()) return Value::Iterator([] { return std::nullopt; }, {});
  auto path = std::make_shared<ItemPath>();
  const auto check = [arguments, by_attribute, path] {
    if (by_attribute) *path = ItemPath(&arguments.Need(0, "", "selectattr"), false);
  };
  return Lazily(input, name, {&input, &held}, check,
                [arguments, rest = Rest(arguments, test_at + 1), test_at, keeps,
                 path](const Value& item) -> std::optional<Value> {
                  const Value value = path->Of(item);
                  const bool holds =
                      arguments.positional.size() > test_at
                          ? ApplyTest(arguments.positional[test_at].text("a test's name").text(),
                                      value, rest)
                          : value.Truth();
                  return holds == keeps ? std::optional<Value>(item) : std::nullopt;
                });
}

template <const char* name>
Value ChooseBy(const Value& input, const Arguments& arguments) {
  return Choose(name, input, arguments);
}
constexpr char kSelect[] = "select", kReject[] = "reject";
constexpr char kSelectAttr[] = "selectattr", kRejectAttr[] = "rejectattr";

Value Join(const Value& input, const Arguments& arguments) {
  arguments.Check("join", 2, {"d", "attribute"});
  const Value* separator = arguments.Find(0, "d");
  const ItemPath path(arguments.Find(1, "attribute"), false);
  const RenderedText between = separator == nullptr ? RenderedText() : separator->ToText();
  RenderedText out;
  bool first = true;
  const NextItem next = input.Walk("join");
  while (const std::optional<Value> item = next()) {
    if (!first) out.Add(between);
    first = false;
    out.Add(path.Of(*item).ToText());
  }
  return Value::Text(std::move(out));
}

using Keyed = std::vector<std::pair<Value, Value>, Counted<std::pair<Value, Value>>>;

/// Sorts by the keys; equal ones stay in their order.
Items SortedItems(Keyed keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? Less(b.first, a.first) : Less(a.first, b.first);
  });
  Items out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value Sort(const Value& input, const Arguments& arguments) {
  arguments.Check("sort", 3, {"reverse", "case_sensitive", "attribute"});
  const bool ignores_case = !FlagOf(arguments, 1, "case_sensitive");
  const Value* attribute = arguments.Find(2, "attribute");
  std::vector<ItemPath, Counted<ItemPath>> paths;
  if (attribute != nullptr && attribute->is(Kind::kText)) {
    for (const absl::string_view part : absl::StrSplit(attribute->text("sort").text(), ',')) {
      const Value one = Value::Own(part);
      paths.emplace_back(&one, ignores_case);
    }
  } else {
    paths.emplace_back(attribute, ignores_case);
  }
  Keyed keyed;
  for (const Value& item : input.Iterate("sort")) {
    Items keys;
    for (const ItemPath& path : paths) keys.push_back(path.Of(item));
    keyed.emplace_back(Value::List(std::move(keys)), item);
  }
  return Value::List(SortedItems(std::move(keyed), FlagOf(arguments, 0, "reverse")));
}

Value DictSort(const Value& input, const Arguments& arguments) {
  arguments.Check("dictsort", 3, {"case_sensitive", "by", "reverse"});
  const bool ignores_case = !FlagOf(arguments, 0, "case_sensitive");
  const Value* by = arguments.Find(1, "by");
  const std::string what = by == nullptr ? "key" : by->ToText().text();
  if (what != "key" && what != "value") Refuse("dictsort sorts by=\"key\" or by=\"value\"");
  if (!input.is(Kind::kDict)) Refuse(absl::StrCat("dictsort of ", input.TypeName()));
  const ItemPath path(nullptr, ignores_case);
  Keyed keyed;
  for (const auto& [key, value] : input.entries("dictsort")) {
    keyed.emplace_back(path.Of(what == "key" ? key : value),
                       Value::List({key, value}, Kind::kTuple));
  }
  return Value::List(SortedItems(std::move(keyed), FlagOf(arguments, 2, "reverse")));
}

Value GroupBy(const Value& input, const Arguments& arguments) {
  arguments.Check("groupby", 3, {"attribute", "default", "case_sensitive"});
  const Value& attribute = arguments.Need(0, "attribute", "groupby");
  const Value* fallback = arguments.Find(1, "default");
  const bool ignores_case = !FlagOf(arguments, 2, "case_sensitive");
  const ItemPath path(&attribute, ignores_case, fallback);
  const ItemPath shown(&attribute, false, fallback);
  Keyed keyed;
  for (const Value& item : input.Iterate("groupby")) keyed.emplace_back(path.Of(item), item);
  Items groups, members;
  const auto close = [&] {
    if (members.empty()) return;
    const Value key = shown.Of(members.front());
    groups.push_back(Value::Group(key, Value::List(std::move(members))));
    members = Items();
  };
  Value last;
  for (const Value& item : SortedItems(std::move(keyed), false)) {
    const Value key = path.Of(item);
    if (!members.empty() && !Equal(last, key)) close();
    members.push_back(item);
    last = key;
  }
  close();
  return Value::List(std::move(groups));
}

Value Unique(const Value& input, const Arguments& arguments) {
  arguments.Check("unique", 2, {"case_sensitive", "attribute"});
  const ItemPath path(arguments.Find(1, "attribute"), !FlagOf(arguments, 0, "case_sensitive"));
  return Lazily(input, "unique", {&input}, &Accept,
                [path, seen = Items()](const Value& item) mutable -> std::optional<Value> {
                  const Value key = path.Of(item);
                  if (!key.is_hashable()) Refuse(absl::StrCat("unique of ", key.TypeName()));
                  const auto same = [&](const Value& k) { return Equal(k, key); };
                  if (std::any_of(seen.begin(), seen.end(), same)) return std::nullopt;
                  seen.push_back(key);
                  return item;
                });
}

/// min and max.
template <bool largest>
Value Extreme(const Value& input, const Arguments& arguments) {
  arguments.Check("min or max", 2, {"case_sensitive", "attribute"});
  const ItemPath path(arguments.Find(1, "attribute"), !FlagOf(arguments, 0, "case_sensitive"));
  std::optional<Value> best;
  Value best_key;
  const NextItem next = input.Walk("min or max");
  while (std::optional<Value> item = next()) {
    Value key = path.Of(*item);
    if (best.has_value() && !Compare(largest ? ">" : "<", key, best_key)) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best.value_or(Value::Undefined("the smallest or largest of nothing"));
}

Value Sum(const Value& input, const Arguments& arguments) {
  arguments.Check("sum", 2, {"attribute", "start"});
  const ItemPath path(arguments.Find(0, "attribute"), false);
  const Value* start = arguments.Find(1, "start");
  Value sum = start == nullptr ? Value::Int(0) : *start;
  if (sum.is(Kind::kText)) Refuse("sum does not add strings");
  const NextItem next = input.Walk("sum");
  while (const std::optional<Value> item = next()) sum = Arithmetic("+", sum, path.Of(*item));
  return sum;
}

Value First(const Value& input, const Arguments& arguments) {
  arguments.Check("first", 0);
  return input.Walk("first")().value_or(Value::Undefined("the first item of nothing"));
}

/// Whether Python's reversed() takes it.
bool IsReversible(const Value& value) { return value.is_iterable() && !value.is(Kind::kIterator); }

Items Reversed(const Value& value) {
  Items items = value.Iterate("reverse");
  std::reverse(items.begin(), items.end());
  return items;
}

Value Last(const Value& input, const Arguments& arguments) {
  arguments.Check("last", 0);
  if (!IsReversible(input)) Refuse(absl::StrCat("last of ", input.TypeName()));
  if (input.is_sequence() && input.Truth()) return input.At(-1);
  const Items items = Reversed(input);
  return items.empty() ? Value::Undefined("the last item of nothing") : items.front();
}

Value Reverse(const Value& input, const Arguments& arguments) {
  arguments.Check("reverse", 0);
  if (input.is(Kind::kText)) {
    RenderedText out;
    for (const Value& item : Reversed(input)) out.Add(item.text("reverse"));
    return Value::Text(std::move(out));
  }
  Value items = Value::List(Reversed(input));
  if (!IsReversible(input)) return items;
  const NextItem next = items.Walk("reverse");
  return Value::Iterator(next, {&items});
}

Value ToList(const Value& input, const Arguments& arguments) {
  arguments.Check("list", 0);
  return Value::List(input.Iterate("list"));
}

Value Length(const Value& input, const Arguments& arguments) {
  arguments.Check("length", 0);
  return Value::Int(input.Length());
}

Value DictItems(const Value& input, const Arguments& arguments) {
  arguments.Check("items", 0);
  return Value::Iterator(
      [input, next = NextItem()]() mutable -> std::optional<Value> {
        if (input.is(Kind::kUndefined)) return std::nullopt;
        if (!input.is(Kind::kDict)) Refuse("items of what is no dict");
        if (next == nullptr) next = Value::View(input, Kind::kPairs).Walk("items");
        return next();
      },
      {&input});
}

/// Lists of `size` items each, the last filled up with `fill` unless that is none.
Value Batch(const Value& input, const Arguments& arguments) {
  arguments.Check("batch", 2, {"linecount", "fill_with"});
  const Value count = arguments.Need(0, "linecount", "batch");
  const Value* given = arguments.Find(1, "fill_with");
  const Value fill = given == nullptr ? Value::None() : *given;
  return Value::Iterator(
      [input, count, fill, next = NextItem(), ahead = std::optional<Value>(),
       begun = false]() mutable -> std::optional<Value> {
        const bool resumes = begun;
        if (!begun) {
          next = input.Walk("batch");
          ahead = next();
        }
        begun = true;
        if (!ahead.has_value()) return std::nullopt;
        Items batch;
        // As in jinja2, the first batch of 0 items is empty, and the second has all.
        while (ahead.has_value()) {
          const auto size = static_cast<int64_t>(batch.size());
          if ((size > 0 || !resumes) && Equal(Value::Int(size), count)) break;
          batch.push_back(*ahead);
          ahead = next();
        }
        if (!ahead.has_value() && !fill.is(Kind::kNone)) {
          const int64_t size = count.integer("batch");
          if (static_cast<int64_t>(batch.size()) < size) {
            Budget::SpendItems(static_cast<uint64_t>(size));
            batch.resize(static_cast<size_t>(size), fill);
          }
        }
        return Value::List(std::move(batch));
      },
      {&input, &count, &fill});
}

/// `slices` lists, which are as long as one another or one item longer.
Value Slice(const Value& input, const Arguments& arguments) {
  arguments.Check("slice", 2, {"slices", "fill_with"});
  const Value slices = arguments.Need(0, "slices", "slice");
  const Value* given = arguments.Find(1, "fill_with");
  const Value fill = given == nullptr ? Value::None() : *given;
  return Value::Iterator(
      [input, slices, fill, items = Items(), at = int64_t{0},
       taken = size_t{0}]() mutable -> std::optional<Value> {
        const int64_t count = slices.integer("slice");
        if (at == 0) {
          items = input.Iterate("slice");
          if (count == 0) Refuse("slice into 0 parts");
        }
        if (at >= count) return std::nullopt;
        const auto size = static_cast<int64_t>(items.size());
        const bool longer = at++ < size % count;
        const auto length = static_cast<size_t>(size / count + (longer ? 1 : 0));
        const auto begin = items.begin() + static_cast<std::ptrdiff_t>(taken);
        Items slice(begin, begin + static_cast<std::ptrdiff_t>(length));
        taken += length;
        if (!fill.is(Kind::kNone) && !longer) slice.push_back(fill);
        return Value::List(std::move(slice));
      },
      {&input, &fill});
}

}  // namespace

Value MapItems(const Value& input, const Arguments& arguments, FilterByName apply) {
  const Value held = Packed(arguments);
  if (!input.Truth()) return Value::Iterator([] { return std::nullopt; }, {});
  const Value* attribute = arguments.Find(SIZE_MAX, "attribute");
  if (arguments.positional.empty() && attribute != nullptr) {
    const ItemPath path(attribute, false, arguments.Find(SIZE_MAX, "default"));
    return Lazily(
        input, "map", {&input, &held},
        [arguments] {
          arguments.Check("map", 0, {"attribute", "default"});
        },
        [path](const Value& item) -> std::optional<Value> { return path.Of(item); });
  }
  return Lazily(
      input, "map", {&input, &held}, [arguments] { arguments.Need(0, "", "map"); },
      [arguments, rest = Rest(arguments, 1), apply](const Value& item) -> std::optional<Value> {
        return apply(arguments.positional[0].text("map").text(), item, rest);
      });
}

const std::map<absl::string_view, Filter>& SequenceFilters() {
  static const auto* const filters = new std::map<absl::string_view, Filter>{
      {"batch", &Batch},
      {"count", &Length},
      {"dictsort", &DictSort},
      {"first", &First},
      {"groupby", &GroupBy},
      {"items", &DictItems},
      {"join", &Join},
      {"last", &Last},
      {"length", &Length},
      {"list", &ToList},
      {"max", &Extreme<true>},
      {"min", &Extreme<false>},
      {"reject", &ChooseBy<kReject>},
      {"rejectattr", &ChooseBy<kRejectAttr>},
      {"reverse", &Reverse},
      {"select", &ChooseBy<kSelect>},
      {"selectattr", &ChooseBy<kSelectAttr>},
      {"slice", &Slice},
      {"sort", &Sort},
      {"sum", &Sum},
      {"unique", &Unique},
  };
  return *filters;
}

}  // namespace baton::tokenizer::jinja
