#include "workers/tokenizer/jinja/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_equality.h"
#include "workers/tokenizer/jinja/jinja_format.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

[[noreturn]] void TypeError(const std::string& message) {
  throw Error{Error::Kind::kType, message};
}

Value Number(bool overflow, int64_t result) {
  if (overflow) throw Error{Error::Kind::kLimit, "an integer is too large"};
  return Value::Int(result);
}

/// Python's floor division and its remainder.
Value Divide(int64_t a, int64_t b, bool remainder) {
  if (b == 0) TypeError("division by zero");
  if (b == -1) return remainder ? Value::Int(0) : Number(a == INT64_MIN, a == INT64_MIN ? 0 : -a);
  const int64_t rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);
  if (remainder) return Value::Int(adjust ? rest + b : rest);
  return Value::Int(a / b - (adjust ? 1 : 0));
}

Value Power(int64_t base, int64_t exponent) {
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  int64_t result = 1;
  for (int64_t i = 0; i < exponent && result != 0 && base != 1; ++i) {
    int64_t next = 0;
    if (__builtin_mul_overflow(result, base, &next)) return Number(true, 0);
    result = next;
  }
  return Value::Int(result);
}

Value FloatPower(double a, double b) {
  if (a == 0 && b < 0) TypeError("0 cannot be raised to a power below 0");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    throw Error{Error::Kind::kUnsupported, "a power that is a complex number is not supported"};
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) TypeError("a float is too large");
  return Value::Float(result);
}

/// Python's float floor division and its remainder.
Value FloatDivide(double a, double b, bool remainder) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (remainder) return Value::Float(rest);
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
  const double whole = std::floor(quotient);
  return Value::Float(quotient - whole > 0.5 ? whole + 1 : whole);
}

Value FloatArithmetic(absl::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") return FloatPower(a, b);
  if (b == 0) TypeError("division by zero");
  if (op == "/") return Value::Float(a / b);
  return FloatDivide(a, b, op == "%");
}

Value IntegerArithmetic(absl::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "**") {
    return Power(a, b);
  } else if (op == "/") {
    if (b == 0) TypeError("division by zero");
    return Value::Float(static_cast<double>(static_cast<long double>(a) / b));
  } else {
    return Divide(a, b, op == "%");
  }
  return Number(overflow, result);
}

Value Repeat(const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (value.is_list()) {
    const Items& items = value.items("*");
    if (items.empty()) count = 0;
    // At most one more than a list may have, so that the product fits.
    count = std::min<int64_t>(count, Budget::kMaxItems + 1);
    Budget::SpendItems(items.size() * static_cast<size_t>(count));
    Items out;
    out.reserve(items.size() * static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) out.insert(out.end(), items.begin(), items.end());
    return Value::List(std::move(out), value.kind());
  }
  // The text once, twice, four times as long, as the bits of `count` say.
  RenderedText part = value.text("*"), out;
  if (part.text().empty()) count = 0;
  for (; count > 0; count /= 2) {
    if (count % 2 == 1) out.Add(part);
    if (count > 1) part.Add(RenderedText(part));
  }
  return Value::Text(std::move(out));
}

Value Concatenated(const Value& a, const Value& b) {
  if (a.is(Kind::kText)) {
    const RenderedText& more = b.text("+");
    RenderedText out = a.text("+");
    out.Add(more);
    return Value::Text(std::move(out));
  }
  if (a.kind() != b.kind()) TypeError(absl::StrCat("+ of ", a.TypeName(), " and ", b.TypeName()));
  Items items = a.items("+");
  const Items& more = b.items("+");
  items.insert(items.end(), more.begin(), more.end());
  return Value::List(std::move(items), a.kind());
}

/// `a op b` for an op that orders.
bool Ordered(absl::string_view op, const Value& a, const Value& b) {
  Budget::SpendWalk(4 * Budget::kWalkOfValue);
  const auto holds = [&](int order) {
    if (order == 2) return false;
    if (op == "<") return order < 0;
    if (op == ">") return order > 0;
    return op == "<=" ? order <= 0 : order >= 0;
  };
  if (a.is(Kind::kText) && b.is(Kind::kText)) {
    return holds(std::clamp(a.text(op).text().compare(b.text(op).text()), -1, 1));
  }
  if (a.is_number() && b.is_number()) return holds(OrderOfNumbers(a, b));
  if (a.is_list() && a.kind() == b.kind()) {
    const Items &x = a.items(op), &y = b.items(op);
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equal(x[i], y[i])) return Ordered(op, x[i], y[i]);
    }
    return holds(x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  TypeError(absl::StrCat("cannot order ", a.TypeName(), " and ", b.TypeName()));
}

}  // namespace

Value Arithmetic(absl::string_view op, const Value& a, const Value& b) {
  if (op == "%" && a.is(Kind::kText)) {
    return Value::Text(FormatByPercent(a.text("%"), b));
  }
  if (op == "+" && (a.is(Kind::kText) || a.is_list())) return Concatenated(a, b);
  if (op == "*" && (a.is(Kind::kText) || a.is_list())) return Repeat(a, b.integer("*"));
  if (op == "*" && (b.is(Kind::kText) || b.is_list())) return Repeat(b, a.integer("*"));
  const double x = a.number(op), y = b.number(op);
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat) || (op == "**" && y < 0)) {
    return FloatArithmetic(op, x, y);
  }
  return IntegerArithmetic(op, a.integer(op), b.integer(op));
}

Value Signed(absl::string_view op, const Value& a) {
  if (a.is(Kind::kFloat)) return Value::Float(op == "-" ? -a.number(op) : a.number(op));
  const int64_t number = a.integer(op);
  return op == "+" ? Value::Int(number) : IntegerArithmetic("-", 0, number);
}

bool Compare(absl::string_view op, const Value& a, const Value& b) {
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  if (op == "in") return Contains(b, a);
  if (op == "not in") return !Contains(b, a);
  return Ordered(op, a, b);
}

bool Less(const Value& a, const Value& b) { return Ordered("<", a, b); }

bool Contains(const Value& haystack, const Value& needle) {
  if (haystack.is(Kind::kText)) {
    const std::string& part = needle.text("in").text();
    return FindPart(haystack.text("in").text(), part, 0) != std::string::npos;
  }
  if (haystack.is_mapping() || haystack.is(Kind::kKeys)) return haystack.Find(needle) != nullptr;
  if (haystack.is(Kind::kRange) && needle.is_number()) {
    const IntegerRange& range = haystack.range();
    if (range.count == 0) return false;
    const Value offset = Arithmetic("-", needle, Value::Int(range.begin));
    const Value at = Arithmetic("/", offset, Value::Int(range.step));
    const double index = at.number("in");
    return index >= 0 && index < static_cast<double>(range.count) && index == std::floor(index);
  }
  const NextItem next = haystack.Walk("in");
  while (const std::optional<Value> item = next()) {
    if (Equal(*item, needle)) return true;
  }
  return false;
}

Value SliceOf(const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (!object.is_sequence()) {
    TypeError(absl::StrCat("a slice needs a list or a string and got ", object.TypeName()));
  }
  const int64_t size = object.Length("a slice");
  const auto part = [](const Value& value) -> std::optional<int64_t> {
    if (value.is(Kind::kNone)) return std::nullopt;
    return value.integer("a slice");
  };
  const auto begin_given = part(begin), end_given = part(end), step_given = part(step);
  const int64_t stride = std::clamp(step_given.value_or(1), -size - 1, size + 1);
  if (step_given == 0) TypeError("a slice has a step of 0");
  const auto place = [&](std::optional<int64_t> at, int64_t absent) {
    if (!at.has_value()) return absent;
    const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
    return std::clamp(*at < 0 ? *at + size : *at, low, high);
  };
  const int64_t from = place(begin_given, stride > 0 ? 0 : size - 1);
  const int64_t to = place(end_given, stride > 0 ? size : -1);
  if (object.is(Kind::kRange)) {
    const IntegerRange& range = object.range();
    int64_t first = 0, last = 0, apart = 0;
    if (__builtin_mul_overflow(from, range.step, &first) ||
        __builtin_add_overflow(range.begin, first, &first) ||
        __builtin_mul_overflow(to, range.step, &last) ||
        __builtin_add_overflow(range.begin, last, &last) ||
        __builtin_mul_overflow(range.step, stride, &apart)) {
      TypeError("a slice of a range has numbers beyond 64 bits");
    }
    return Value::Range(first, last, apart);
  }
  if (object.is(Kind::kText) && stride == 1) {
    return Value::Text(SliceCharacters(object.text("a slice"), from, to));
  }
  const Items items = object.Iterate("a slice");
  Items out;
  for (int64_t i = from; stride > 0 ? i < to : i > to; i += stride) {
    out.push_back(items[static_cast<size_t>(i)]);
  }
  if (!object.is(Kind::kText)) return Value::List(std::move(out), object.kind());
  RenderedText text;
  for (const Value& character : out) text.Add(character.text("a slice"));
  return Value::Text(std::move(text));
}

}  // namespace baton::tokenizer::jinja
