#include "workers/tokenizer/jinja/jinja_equality.h"

#include <algorithm>

#include "workers/tokenizer/jinja/jinja_budget.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

constexpr int kMaxComparedDepth = 200;

bool EqualRanges(const IntegerRange& a, const IntegerRange& b) {
  if (a.count != b.count) return false;
  return a.count == 0 || (a.begin == b.begin && (a.count == 1 || a.step == b.step));
}

/// Of dicts, and of their keys and pairs, which Python compares as sets.
bool EqualEntries(const Value& a, const Value& b, int depth) {
  const Entries& x = a.entries("==");
  if (x.size() != b.entries("==").size()) return false;
  return std::all_of(x.begin(), x.end(), [&](const auto& entry) {
    const Value* other = b.Find(entry.first);
    return other != nullptr && (a.is(Kind::kKeys) || Equal(entry.second, *other, depth + 1));
  });
}

}  // namespace

int OrderOfNumbers(const Value& a, const Value& b) {
  const auto exact = [](const Value& v) {
    return v.is(Kind::kFloat) ? static_cast<long double>(v.number("<"))
                              : static_cast<long double>(v.integer("<"));
  };
  const long double x = exact(a), y = exact(b);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool Equal(const Value& a, const Value& b, int depth) {
  if (depth > kMaxComparedDepth) {
    throw Error{Error::Kind::kLimit, "a value is nested more than 200 levels deep"};
  }
  // Lists that share their items are compared as often as they are reached.
  Budget::SpendWalk(2 * Budget::kWalkOfValue);
  if (a.is_number() && b.is_number()) return OrderOfNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      return a.text("==").text() == b.text("==").text();
    case Kind::kList:
    case Kind::kTuple: {
      const Items &x = a.items("=="), &y = b.items("==");
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [&](const Value& p, const Value& q) { return Equal(p, q, depth + 1); });
    }
    case Kind::kDict:
    case Kind::kKeys:
    case Kind::kPairs:
      return EqualEntries(a, b, depth);
    case Kind::kRange:
      return EqualRanges(a.range(), b.range());
    default:
      return a.Same(b);
  }
}

}  // namespace baton::tokenizer::jinja
