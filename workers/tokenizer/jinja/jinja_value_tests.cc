#include "workers/tokenizer/jinja/jinja_value_tests.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_case.h"
#include "workers/tokenizer/jinja/jinja_equality.h"
#include "workers/tokenizer/jinja/jinja_operators.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;
using Test = bool (*)(const Value& value, const Arguments& arguments);

struct TestEntry {
  size_t operands = 0;
  Test test = nullptr;
};

constexpr char kEqual[] = "==", kUnequal[] = "!=", kLess[] = "<", kAtMost[] = "<=";
constexpr char kGreater[] = ">", kAtLeast[] = ">=";

template <const char* op>
bool Comparison(const Value& v, const Arguments& a) {
  return Compare(op, v, a.positional[0]);
}

template <Kind kind>
bool IsKind(const Value& v, const Arguments&) {
  return v.is(kind);
}

template <bool truth>
bool IsBool(const Value& v, const Arguments&) {
  return v.is(Kind::kBool) && v.Truth() == truth;
}

/// Odd: 1; even: 0.
template <int rest>
bool HasRest(const Value& v, const Arguments&) {
  return Equal(Arithmetic("%", v, Value::Int(2)), Value::Int(rest));
}

bool IsDivisible(const Value& v, const Arguments& a) {
  return Equal(Arithmetic("%", v, a.positional[0]), Value::Int(0));
}

template <bool (*holds)(absl::string_view)>
bool TextHas(const Value& v, const Arguments&) {
  return holds(v.ToText().text());
}

const std::map<absl::string_view, TestEntry>& Tests() {
  static const auto* const tests = new std::map<absl::string_view, TestEntry>{
      {"!=", {1, &Comparison<kUnequal>}},
      {"<", {1, &Comparison<kLess>}},
      {"<=", {1, &Comparison<kAtMost>}},
      {"==", {1, &Comparison<kEqual>}},
      {">", {1, &Comparison<kGreater>}},
      {">=", {1, &Comparison<kAtLeast>}},
      {"boolean", {0, &IsKind<Kind::kBool>}},
      {"callable", {0, [](const Value& v, const Arguments&) { return v.is_callable(); }}},
      {"defined", {0, [](const Value& v, const Arguments&) { return !v.is(Kind::kUndefined); }}},
      {"divisibleby", {1, &IsDivisible}},
      {"eq", {1, &Comparison<kEqual>}},
      {"equalto", {1, &Comparison<kEqual>}},
      {"escaped", {0, [](const Value&, const Arguments&) { return false; }}},
      {"even", {0, &HasRest<0>}},
      {"false", {0, &IsBool<false>}},
      {"float", {0, &IsKind<Kind::kFloat>}},
      {"ge", {1, &Comparison<kAtLeast>}},
      {"greaterthan", {1, &Comparison<kGreater>}},
      {"gt", {1, &Comparison<kGreater>}},
      {"in", {1, [](const Value& v, const Arguments& a) { return Contains(a.positional[0], v); }}},
      {"integer", {0, &IsKind<Kind::kInt>}},
      {"iterable", {0, [](const Value& v, const Arguments&) { return v.is_iterable(); }}},
      {"le", {1, &Comparison<kAtMost>}},
      {"lessthan", {1, &Comparison<kLess>}},
      {"lower", {0, &TextHas<&IsLower>}},
      {"lt", {1, &Comparison<kLess>}},
      {"mapping", {0, &IsKind<Kind::kDict>}},
      {"ne", {1, &Comparison<kUnequal>}},
      {"none", {0, &IsKind<Kind::kNone>}},
      {"number", {0, [](const Value& v, const Arguments&) { return v.is_number(); }}},
      {"odd", {0, &HasRest<1>}},
      {"sameas", {1, [](const Value& v, const Arguments& a) { return v.Same(a.positional[0]); }}},
      {"sequence",
       {0,
        [](const Value& v, const Arguments&) {
          return v.is_sequence() || v.is_mapping() || v.is(Kind::kUndefined);
        }}},
      {"string", {0, &IsKind<Kind::kText>}},
      {"true", {0, &IsBool<true>}},
      {"undefined", {0, &IsKind<Kind::kUndefined>}},
      {"upper", {0, &TextHas<&IsUpper>}},
  };
  return *tests;
}

}  // namespace

bool IsTest(absl::string_view name) {
  return Tests().count(name) > 0 || name == "filter" || name == "test";
}

bool ApplyTest(absl::string_view name, const Value& input, const Arguments& arguments) {
  const auto it = Tests().find(name);
  if (it == Tests().end()) {
    throw Error{Error::Kind::kUnsupported,
                absl::StrCat("the test 'is ", name, "' is not supported")};
  }
  if (arguments.positional.size() != it->second.operands || !arguments.named.empty()) {
    throw Error{Error::Kind::kType,
                absl::StrCat("the test '", name, "' takes ", it->second.operands, " values")};
  }
  return it->second.test(input, arguments);
}

}  // namespace baton::tokenizer::jinja
