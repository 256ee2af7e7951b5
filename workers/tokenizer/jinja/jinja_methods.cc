#include "workers/tokenizer/jinja/jinja_methods.h"

#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_equality.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

Value Get(const Value& dict, const Arguments& arguments) {
  arguments.Check("get", 2);
  const Value* value = dict.Find(arguments.Need(0, "", "get"));
  if (value != nullptr) return *value;
  return arguments.positional.size() > 1 ? arguments.positional[1] : Value::None();
}

template <Kind kind>
Value ViewOf(const Value& dict, const Arguments& arguments) {
  arguments.Check("keys, values or items", 0);
  return Value::View(dict, kind);
}

Value Copy(const Value& value, const Arguments& arguments) {
  arguments.Check("copy", 0);
  return value;
}

Value FromKeys(const Value& /*dict*/, const Arguments& arguments) {
  arguments.Check("fromkeys", 2);
  const Value value = arguments.positional.size() > 1 ? arguments.positional[1] : Value::None();
  Entries entries;
  for (const Value& key : arguments.Need(0, "", "fromkeys").Iterate("fromkeys")) {
    PutEntry(&entries, key, value);
  }
  return Value::Dict(std::move(entries));
}

Value Count(const Value& list, const Arguments& arguments) {
  arguments.Check("count", 1);
  const Value& wanted = arguments.Need(0, "", "count");
  int64_t count = 0;
  for (const Value& item : list.Iterate("count")) count += Equal(item, wanted) ? 1 : 0;
  return Value::Int(count);
}

Value Index(const Value& list, const Arguments& arguments) {
  arguments.Check("index", list.is(Kind::kRange) ? 1 : 3);
  const Value& wanted = arguments.Need(0, "", "index");
  const Items items = list.Iterate("index");
  const auto size = static_cast<int64_t>(items.size());
  const auto place = [&](size_t i, int64_t absent) {
    if (arguments.positional.size() <= i) return absent;
    const int64_t at = arguments.positional[i].integer("index");
    return at < 0 ? std::max<int64_t>(0, at + size) : std::min(at, size);
  };
  const int64_t end = place(2, size);
  for (int64_t i = place(1, 0); i < end; ++i) {
    if (Equal(items[static_cast<size_t>(i)], wanted)) return Value::Int(i);
  }
  throw Error{Error::Kind::kType, "index: there is no such item"};
}

Value ItselfAsNumber(const Value& number, const Arguments& arguments) {
  arguments.Check("conjugate", 0);
  return number.is(Kind::kFloat) ? number : Value::Int(number.integer("conjugate"));
}

uint64_t SizeOf(const Value& number) {
  const int64_t value = number.integer("bits");
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

Value BitLength(const Value& number, const Arguments& arguments) {
  arguments.Check("bit_length", 0);
  const uint64_t size = SizeOf(number);
  return Value::Int(size == 0 ? 0 : 64 - __builtin_clzll(size));
}

Value BitCount(const Value& number, const Arguments& arguments) {
  arguments.Check("bit_count", 0);
  return Value::Int(__builtin_popcountll(SizeOf(number)));
}

Value IsInteger(const Value& number, const Arguments& arguments) {
  arguments.Check("is_integer", 0);
  const double value = number.number("is_integer");
  return Value::Bool(std::isfinite(value) && value == std::floor(value));
}

using Methods = std::map<absl::string_view, Method>;
using Names = std::set<absl::string_view>;

const Methods& MethodsOf(Kind kind) {
  static const auto* const dict = new Methods{{"copy", &Copy},
                                              {"fromkeys", &FromKeys},
                                              {"get", &Get},
                                              {"items", &ViewOf<Kind::kPairs>},
                                              {"keys", &ViewOf<Kind::kKeys>},
                                              {"values", &ViewOf<Kind::kValues>}};
  static const auto* const list =
      new Methods{{"copy", &Copy}, {"count", &Count}, {"index", &Index}};
  static const auto* const sequence = new Methods{{"count", &Count}, {"index", &Index}};
  static const auto* const integer = new Methods{
      {"bit_count", &BitCount}, {"bit_length", &BitLength}, {"conjugate", &ItselfAsNumber}};
  static const auto* const number =
      new Methods{{"conjugate", &ItselfAsNumber}, {"is_integer", &IsInteger}};
  static const auto* const none = new Methods();
  switch (kind) {
    case Kind::kDict:
      return *dict;
    case Kind::kList:
      return *list;
    case Kind::kTuple:
    case Kind::kRange:
      return *sequence;
    case Kind::kBool:
    case Kind::kInt:
      return *integer;
    case Kind::kFloat:
      return *number;
    default:
      return *none;
  }
}

}  // namespace

Method FindMethod(const Value& object, absl::string_view name) {
  const Methods& methods = MethodsOf(object.kind());
  const auto it = methods.find(name);
  return it == methods.end() ? nullptr : it->second;
}

bool IsForbiddenMethod(const Value& object, absl::string_view name) {
  static const auto* const of_dict = new Names{"clear", "pop", "popitem", "setdefault", "update"};
  static const auto* const of_list =
      new Names{"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  return (object.is(Kind::kDict) && of_dict->count(name) > 0) ||
         (object.is(Kind::kList) && of_list->count(name) > 0);
}

bool IsMissingMethod(const Value& object, absl::string_view name) {
  static const auto* const of_text = new Names{"encode", "maketrans", "translate"};
  static const auto* const of_number =
      new Names{"as_integer_ratio", "from_bytes", "fromhex", "hex", "to_bytes"};
  static const auto* const of_view = new Names{"isdisjoint", "mapping"};
  return (object.is(Kind::kText) && of_text->count(name) > 0) ||
         (object.is_number() && of_number->count(name) > 0) ||
         (object.is_view() && of_view->count(name) > 0);
}

}  // namespace baton::tokenizer::jinja
