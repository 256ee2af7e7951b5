#include "workers/tokenizer/jinja/jinja_evaluator.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_builtins.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

constexpr int kMaxWalkDepth = 1000;

Value Number(bool overflow, int64_t result) {
  if (overflow) throw Error{Error::Kind::kLimit, "an integer is too large"};
  return Value::Int(result);
}

/// Python's floor division and its remainder.
Value Divide(int64_t a, int64_t b, bool remainder) {
  if (b == 0) throw Error{Error::Kind::kType, "division by zero"};
  if (b == -1) return remainder ? Value::Int(0) : Number(a == INT64_MIN, a == INT64_MIN ? 0 : -a);
  const int64_t rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);
  if (remainder) return Value::Int(adjust ? rest + b : rest);
  return Value::Int(a / b - (adjust ? 1 : 0));
}

Value Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (int64_t i = 0; i < exponent && result != 0 && base != 1; ++i) {
    int64_t next = 0;
    if (__builtin_mul_overflow(result, base, &next)) return Number(true, 0);
    result = next;
    if (base == -1 && i == 1 && exponent > 2) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  }
  return Value::Int(result);
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

Value Joined(const RenderedText& a, const RenderedText& b) {
  RenderedText out = a;
  out.Add(b);
  return Value::Text(std::move(out));
}

Value FloatArithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") return Value::Float(std::pow(a, b));
  if (b == 0) throw Error{Error::Kind::kType, "division by zero"};
  if (op == "/") return Value::Float(a / b);
  if (op == "//") return Value::Float(std::floor(a / b));
  return Value::Float(a - b * std::floor(a / b));
}

Value Arithmetic(const std::string& op, const Value& a, const Value& b) {
  if (op == "+" && a.is(Kind::kText)) return Joined(a.text("+"), b.text("+"));
  if (op == "+" && a.is_list()) {
    if (a.kind() != b.kind()) b.text("+ with a list");
    Items items = a.items("+");
    const Items& more = b.items("+");
    items.insert(items.end(), more.begin(), more.end());
    return Value::List(std::move(items), a.kind());
  }
  if (op == "*" && (a.is(Kind::kText) || a.is_list())) return Repeat(a, b.integer("*"));
  if (op == "*" && (b.is(Kind::kText) || b.is_list())) return Repeat(b, a.integer("*"));
  if (op == "%" && a.is(Kind::kText)) {
    throw Error{Error::Kind::kUnsupported, "formatting a string by % is not supported"};
  }
  const double x = a.number(op), y = b.number(op);
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat) || op == "/" || (op == "**" && y < 0)) {
    return FloatArithmetic(op, x, y);
  }
  const int64_t i = a.integer(op), j = b.integer(op);
  int64_t result = 0;
  if (op == "+") {
    const bool overflow = __builtin_add_overflow(i, j, &result);
    return Number(overflow, result);
  }
  if (op == "-") {
    const bool overflow = __builtin_sub_overflow(i, j, &result);
    return Number(overflow, result);
  }
  if (op == "*") {
    const bool overflow = __builtin_mul_overflow(i, j, &result);
    return Number(overflow, result);
  }
  if (op == "**") return Power(i, j);
  return Divide(i, j, op == "%");
}

/// Adds `line` to an error that has none.
template <class Action>
auto AtLine(int line, const Action& action) {
  try {
    return action();
  } catch (Error& error) {
    if (error.line == 0) error.line = line;
    throw;
  }
}

Value LoopVariable(const Items& items, size_t i) {
  const auto count = static_cast<int64_t>(items.size());
  const auto at = static_cast<int64_t>(i);
  Entries entries;
  const auto add = [&](absl::string_view name, Value value) {
    RenderedText key;
    key.AddTemplate(name);
    entries.emplace_back(std::move(key), std::move(value));
  };
  add("index", Value::Int(at + 1));
  add("index0", Value::Int(at));
  add("revindex", Value::Int(count - at));
  add("revindex0", Value::Int(count - at - 1));
  add("first", Value::Bool(i == 0));
  add("last", Value::Bool(i + 1 == items.size()));
  add("length", Value::Int(count));
  add("depth", Value::Int(1));
  add("depth0", Value::Int(0));
  add("previtem", i == 0 ? Value::Undefined("loop.previtem") : items[i - 1]);
  add("nextitem", i + 1 == items.size() ? Value::Undefined("loop.nextitem") : items[i + 1]);
  add("cycle", Value::Callable([i](const Arguments& arguments) {
        if (arguments.positional.empty()) {
          throw Error{Error::Kind::kType, "loop.cycle needs values"};
        }
        return arguments.positional[i % arguments.positional.size()];
      }));
  return Value::Dict(std::move(entries));
}

}  // namespace

/// Bounds how deep the walk goes: the tree's own depth, and macros that call themselves.
class Evaluator::Depth {
 public:
  explicit Depth(Evaluator* evaluator) : evaluator_(evaluator) {
    if (++evaluator_->depth_ > kMaxWalkDepth) {
      --evaluator_->depth_;
      throw Error{Error::Kind::kLimit, "tags, expressions and macros are nested too deep"};
    }
  }
  ~Depth() { --evaluator_->depth_; }

 private:
  Evaluator* const evaluator_;
};

Evaluator::Evaluator(const Variables& variables) : root_(NewScope(nullptr)) {
  root_->variables.insert(variables.begin(), variables.end());
}

Evaluator::~Evaluator() {
  for (Value& value : namespaces_) value.ClearEntries();
}

RenderedText Evaluator::Run(const Statements& statements) {
  RenderedText out;
  whole_ = &out;
  Execute(statements, root_, &out);
  return out;
}

Evaluator::Scope* Evaluator::NewScope(Scope* parent) {
  scopes_.push_back({parent, {}});
  return &scopes_.back();
}

const Value* Evaluator::Lookup(const Scope* scope, absl::string_view name) const {
  for (; scope != nullptr; scope = scope->parent) {
    Budget::SpendWalk(16);
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return &it->second;
  }
  return GlobalFunction(name);
}

Evaluator::Flow Evaluator::Execute(const Statements& statements, Scope* scope, RenderedText* out) {
  const Depth depth(this);
  for (const auto& statement : statements) {
    const Flow flow = AtLine(statement->line, [&] {
      Budget::Spend(1);
      return ExecuteOne(*statement, scope, out);
    });
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteOne(const Statement& statement, Scope* scope, RenderedText* out) {
  switch (statement.kind) {
    case Statement::Kind::kText:
      out->AddTemplate(statement.text);
      return Flow::kNext;
    case Statement::Kind::kOutput:
      out->Add(Evaluate(*statement.expression, scope).ToText());
      return Flow::kNext;
    case Statement::Kind::kIf:
      return ExecuteIf(statement, scope, out);
    case Statement::Kind::kFor:
      ExecuteFor(statement, scope, out);
      return Flow::kNext;
    case Statement::Kind::kSet:
      Assign(statement.targets, Evaluate(*statement.expression, scope), scope);
      return Flow::kNext;
    case Statement::Kind::kSetBlock: {
      RenderedText text;
      Execute(statement.body, NewScope(scope), &text);
      Value value = Value::Text(std::move(text));
      if (statement.expression != nullptr) {
        Scope* const inner = NewScope(scope);
        inner->variables[""] = std::move(value);  // what the filters begin with
        value = Evaluate(*statement.expression, inner);
      }
      Assign(statement.targets, value, scope);
      return Flow::kNext;
    }
    case Statement::Kind::kMacro:
      scope->variables[statement.text] = MakeMacro(statement, scope);
      return Flow::kNext;
    case Statement::Kind::kBlock: {
      const size_t begin = out->text().size();
      const Flow flow = Execute(statement.body, scope, out);
      if (out == whole_) generated_.push_back({begin, out->text().size()});
      return flow;
    }
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteIf(const Statement& statement, Scope* scope, RenderedText* out) {
  for (const auto& [condition, body] : statement.branches) {
    if (Evaluate(*condition, scope).Truth()) return Execute(body, scope, out);
  }
  return Execute(statement.otherwise, scope, out);
}

void Evaluator::ExecuteFor(const Statement& statement, Scope* scope, RenderedText* out) {
  Items items;
  for (Value& item : Evaluate(*statement.expression, scope).Iterate("for")) {
    if (statement.condition != nullptr) {
      Budget::Spend(1);
      Scope* const inner = NewScope(scope);
      Assign(statement.targets, item, inner);
      if (!Evaluate(*statement.condition, inner).Truth()) continue;
    }
    items.push_back(std::move(item));
  }
  const size_t scopes = scopes_.size();
  const int64_t macros = macros_;
  for (size_t i = 0; i < items.size(); ++i) {
    Budget::Spend(1);
    Scope* const inner = NewScope(scope);
    Assign(statement.targets, items[i], inner);
    if (statement.reads_loop) inner->variables["loop"] = LoopVariable(items, i);
    const Flow flow = Execute(statement.body, inner, out);
    if (macros_ == macros) scopes_.resize(scopes);
    if (flow == Flow::kBreak) break;
  }
  if (items.empty()) Execute(statement.otherwise, NewScope(scope), out);
}

void Evaluator::Assign(const std::vector<std::string>& targets, const Value& value, Scope* scope) {
  if (targets.size() > 1) {
    const Items items = value.Iterate("an assignment to several names");
    if (items.size() != targets.size()) {
      throw Error{Error::Kind::kType, absl::StrCat("cannot assign ", items.size(), " values to ",
                                                   targets.size(), " names")};
    }
    for (size_t i = 0; i < items.size(); ++i) scope->variables[targets[i]] = items[i];
    return;
  }
  const size_t dot = targets[0].find('.');
  if (dot == std::string::npos) {
    scope->variables[targets[0]] = value;
    return;
  }
  const Value* found = Lookup(scope, targets[0].substr(0, dot));
  if (found == nullptr || !found->is(Kind::kNamespace)) {
    throw Error{Error::Kind::kType, absl::StrCat("set ", targets[0], ": '",
                                                 targets[0].substr(0, dot), "' is no namespace")};
  }
  Value object = *found;
  object.SetEntry(targets[0].substr(dot + 1), value);
}

Value Evaluator::MakeMacro(const Statement& statement, Scope* scope) {
  ++macros_;
  return Value::Callable([this, &statement, scope](const Arguments& arguments) {
    if (arguments.positional.size() > statement.parameters.size()) {
      throw Error{Error::Kind::kType, absl::StrCat("macro ", statement.text, " takes at most ",
                                                   statement.parameters.size(), " arguments")};
    }
    Scope* const inner = NewScope(scope);
    for (size_t i = 0; i < statement.parameters.size(); ++i) {
      Budget::Spend(1);
      const Parameter& parameter = statement.parameters[i];
      const Value* given = arguments.Find(i, parameter.name);
      inner->variables[parameter.name] = given != nullptr ? *given
                                         : parameter.fallback != nullptr
                                             ? Evaluate(*parameter.fallback, inner)
                                             : Value::Undefined(parameter.name);
    }
    for (const auto& [name, value] : arguments.named) {
      Budget::SpendWalk(8 * statement.parameters.size());
      const auto known = [name = &name](const Parameter& p) { return p.name == *name; };
      if (std::none_of(statement.parameters.begin(), statement.parameters.end(), known)) {
        throw Error{Error::Kind::kType,
                    absl::StrCat("macro ", statement.text, " has no parameter '", name, "'")};
      }
    }
    RenderedText out;
    Execute(statement.body, inner, &out);
    return Value::Text(std::move(out));
  });
}

Value Evaluator::Evaluate(const Expression& expression, Scope* scope) {
  const Depth depth(this);
  return AtLine(expression.line, [&] {
    Budget::Spend(1);
    return EvaluateOne(expression, scope);
  });
}

Value Evaluator::EvaluateOne(const Expression& expression, Scope* scope) {
  const auto operand = [&](size_t i) { return Evaluate(*expression.operands[i], scope); };
  switch (expression.kind) {
    case Expression::Kind::kConstant:
      return expression.value;
    case Expression::Kind::kName: {
      const Value* value = Lookup(scope, expression.text);
      return value != nullptr ? *value : Value::Undefined(expression.text);
    }
    case Expression::Kind::kList:
      return Value::List(EvaluateAll(expression.operands, scope));
    case Expression::Kind::kTuple:
      return Value::List(EvaluateAll(expression.operands, scope), Kind::kTuple);
    case Expression::Kind::kDict:
      return EvaluateDict(expression, scope);
    case Expression::Kind::kUnary:
      return EvaluateUnary(expression, scope);
    case Expression::Kind::kBinary:
      return EvaluateBinary(expression, scope);
    case Expression::Kind::kComparison:
      return EvaluateComparison(expression, scope);
    case Expression::Kind::kConditional:
      if (operand(1).Truth()) return operand(0);
      return expression.operands[2] == nullptr ? Value::Undefined("the value of an if without else")
                                               : operand(2);
    case Expression::Kind::kAttribute:
      return Attribute(operand(0), expression.text);
    case Expression::Kind::kSubscript: {
      const Value object = operand(0);
      return Subscript(object, operand(1));
    }
    case Expression::Kind::kSlice:
      return EvaluateSlice(expression, scope);
    case Expression::Kind::kCall:
      return EvaluateCall(expression, scope);
    case Expression::Kind::kFilter: {
      const Value input = expression.operands[0] == nullptr ? *Lookup(scope, "") : operand(0);
      return ApplyFilter(expression.text, input, EvaluateArguments(expression.arguments, scope));
    }
    case Expression::Kind::kTest: {
      const Value input = operand(0);
      return Value::Bool(
          ApplyTest(expression.text, input, EvaluateArguments(expression.arguments, scope)));
    }
  }
  return {};
}

Items Evaluator::EvaluateAll(const std::vector<ExpressionPtr>& expressions, Scope* scope) {
  Items items;
  for (const ExpressionPtr& expression : expressions) items.push_back(Evaluate(*expression, scope));
  return items;
}

Value Evaluator::EvaluateDict(const Expression& expression, Scope* scope) {
  Value dict = Value::Dict({}, Kind::kNamespace);
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    const Value key = Evaluate(*expression.operands[i], scope);
    if (!key.is(Kind::kText)) {
      throw Error{Error::Kind::kUnsupported, "a dict with keys that are no strings"};
    }
    dict.SetEntry(key.text("a dict").text(), Evaluate(*expression.operands[i + 1], scope));
  }
  return Value::Dict(dict.entries("a dict"));
}

Arguments Evaluator::EvaluateArguments(const CallArguments& arguments, Scope* scope) {
  Arguments out;
  out.positional = EvaluateAll(arguments.positional, scope);
  for (const auto& [name, expression] : arguments.named) {
    out.named.emplace_back(name, Evaluate(*expression, scope));
  }
  return out;
}

Value Evaluator::EvaluateUnary(const Expression& expression, Scope* scope) {
  const Value value = Evaluate(*expression.operands[0], scope);
  if (expression.text == "not") return Value::Bool(!value.Truth());
  if (value.is(Kind::kFloat)) {
    return Value::Float(expression.text == "-" ? -value.number("-") : value.number("+"));
  }
  const int64_t number = value.integer(expression.text);
  if (expression.text == "+") return Value::Int(number);
  int64_t result = 0;
  const bool overflow = __builtin_sub_overflow(int64_t{0}, number, &result);
  return Number(overflow, result);
}

Value Evaluator::EvaluateBinary(const Expression& expression, Scope* scope) {
  const std::string& op = expression.text;
  const Value left = Evaluate(*expression.operands[0], scope);
  if (op == "and" && !left.Truth()) return left;
  if (op == "or" && left.Truth()) return left;
  const Value right = Evaluate(*expression.operands[1], scope);
  if (op == "and" || op == "or") return right;
  if (op == "~") return Joined(left.ToText(), right.ToText());
  return Arithmetic(op, left, right);
}

Value Evaluator::EvaluateComparison(const Expression& expression, Scope* scope) {
  Value left = Evaluate(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.texts.size(); ++i) {
    const std::string& op = expression.texts[i];
    Value right = Evaluate(*expression.operands[i + 1], scope);
    const bool holds = op == "=="   ? Equal(left, right)
                       : op == "!=" ? !Equal(left, right)
                       : op == "<"  ? Less(left, right)
                       : op == ">"  ? Less(right, left)
                       : op == "<=" ? !Less(right, left)
                       : op == ">=" ? !Less(left, right)
                       : op == "in" ? Contains(right, left)
                                    : !Contains(right, left);
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Evaluator::EvaluateSlice(const Expression& expression, Scope* scope) {
  const Value object = Evaluate(*expression.operands[0], scope);
  if (object.is_mapping() || object.is(Kind::kUndefined)) object.items("a slice");
  const int64_t size = object.Length("a slice");
  const auto part = [&](size_t i) -> std::optional<int64_t> {
    if (expression.operands[i] == nullptr) return std::nullopt;
    const Value value = Evaluate(*expression.operands[i], scope);
    if (value.is(Kind::kNone)) return std::nullopt;
    return value.integer("a slice");
  };
  const auto begin_given = part(1), end_given = part(2), step_given = part(3);
  const int64_t step = step_given.value_or(1);
  if (step == 0) throw Error{Error::Kind::kType, "a slice has a step of 0"};
  const auto place = [&](std::optional<int64_t> at, int64_t absent) {
    if (!at.has_value()) return absent;
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    return std::clamp(*at < 0 ? *at + size : *at, low, high);
  };
  const int64_t begin = place(begin_given, step > 0 ? 0 : size - 1);
  const int64_t end = place(end_given, step > 0 ? size : -1);
  if (object.is(Kind::kText) && step == 1) {
    return Value::Text(SliceCharacters(object.text("a slice"), begin, end));
  }
  const Items items = object.Iterate("a slice");
  Items out;
  const int64_t stride = std::clamp(step, -size - 1, size + 1);
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += stride) {
    out.push_back(items[static_cast<size_t>(i)]);
  }
  if (!object.is(Kind::kText)) return Value::List(std::move(out), object.kind());
  RenderedText text;
  for (const Value& character : out) text.Add(character.text("a slice"));
  return Value::Text(std::move(text));
}

Value Evaluator::Attribute(const Value& object, const std::string& name) const {
  if (object.is(Kind::kDict) && IsDictMethod(name)) {
    return Value::Callable(
        [object, name](const Arguments& arguments) { return *CallMethod(object, name, arguments); },
        &object);
  }
  if (object.is(Kind::kDict) || object.is(Kind::kNamespace) || object.is(Kind::kUndefined)) {
    return Subscript(object, Value::Own(name));
  }
  return Value::Undefined(name);
}

Value Evaluator::EvaluateCall(const Expression& expression, Scope* scope) {
  const Expression& callee = *expression.operands[0];
  if (callee.kind != Expression::Kind::kAttribute) {
    const Value function = Evaluate(callee, scope);
    if (function.is(Kind::kUndefined) && callee.text == "strftime_now") {
      throw Error{
          Error::Kind::kUnsupported,
          "the template asks for the day, and none is given; set spec.model.chat_template_date"};
    }
    return Call(function, EvaluateArguments(expression.arguments, scope));
  }
  const Value object = Evaluate(*callee.operands[0], scope);
  const Arguments arguments = EvaluateArguments(expression.arguments, scope);
  if (auto result = CallMethod(object, callee.text, arguments); result.has_value()) return *result;
  const Value function = Attribute(object, callee.text);
  if (!function.is(Kind::kFunction)) {
    throw Error{Error::Kind::kUnsupported,
                absl::StrCat(object.TypeName(), " has no method '", callee.text, "' here")};
  }
  return Call(function, arguments);
}

Value Evaluator::Call(const Value& function, const Arguments& arguments) {
  Value result = function.function("a call")(arguments);
  if (result.is(Kind::kNamespace)) namespaces_.push_back(result);
  return result;
}

}  // namespace baton::tokenizer::jinja
