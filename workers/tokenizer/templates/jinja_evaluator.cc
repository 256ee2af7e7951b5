#include "workers/tokenizer/templates/jinja_evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_attributes.h"
#include "workers/tokenizer/jinja/jinja_filters.h"
#include "workers/tokenizer/jinja/jinja_globals.h"
#include "workers/tokenizer/jinja/jinja_operators.h"
#include "workers/tokenizer/jinja/jinja_value_tests.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

constexpr int kMaxWalkDepth = 1000;
/// The variable with the text of a block, which its filters begin with.
constexpr absl::string_view kBlockText = "";

Value Joined(const Value& a, const Value& b) {
  RenderedText out = a.ToText();
  out.Add(b.ToText());
  return Value::Text(std::move(out));
}

/// `name is filter` and `name is test`: whether there is one.
bool IsNameOf(bool (*exists)(absl::string_view), const Value& name, const Arguments& arguments) {
  arguments.Check("the test", 0);
  if (!name.is_hashable()) Refuse(absl::StrCat(name.TypeName(), " is no name"));
  return name.is(Kind::kText) && exists(name.text("a name").text());
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

/// Ends a loop however its for ends.
class EndOfLoop {
 public:
  explicit EndOfLoop(Loop* loop) : loop_(loop) {}
  ~EndOfLoop() { loop_->End(); }
  EndOfLoop(const EndOfLoop&) = delete;
  EndOfLoop& operator=(const EndOfLoop&) = delete;

 private:
  Loop* const loop_;
};

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

Evaluator::Evaluator(const Variables& variables, const HiddenNames& hidden)
    : hidden_(hidden), root_(NewScope(nullptr)) {
  root_->variables.insert(variables.begin(), variables.end());
}

Evaluator::~Evaluator() {
  for (Value& value : namespaces_) value.ClearEntries();
}

RenderedText Evaluator::Run(const Statements& statements) {
  RenderedText out;
  whole_ = &out;
  Scope* const scope = NewScope(root_);
  Hide(statements, scope);
  Execute(statements, scope, &out);
  return out;
}

Evaluator::Scope* Evaluator::NewScope(Scope* parent) {
  scopes_.push_back({parent, {}});
  return &scopes_.back();
}

void Evaluator::Hide(const Statements& statements, Scope* scope) {
  const auto found = hidden_.find(&statements);
  if (found == hidden_.end()) return;
  for (const std::string& name : found->second) {
    Budget::Spend(1);
    if (Lookup(scope, name) != nullptr) scope->variables[name] = Value::Undefined(name);
  }
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
      return ExecuteFor(statement, Evaluate(*statement.expression, scope), 0, scope, out);
    case Statement::Kind::kSet:
      Assign(statement.target, Evaluate(*statement.expression, scope), scope);
      return Flow::kNext;
    case Statement::Kind::kSetBlock:
      return ExecuteSetBlock(statement, scope);
    case Statement::Kind::kMacro:
      scope->variables[statement.text] = MakeMacro(statement, scope);
      return Flow::kNext;
    case Statement::Kind::kCall:
      ExecuteCall(statement, scope, out);
      return Flow::kNext;
    case Statement::Kind::kFilter:
      return ExecuteFilter(statement, scope, out);
    case Statement::Kind::kWith:
      return ExecuteWith(statement, scope, out);
    case Statement::Kind::kGeneration:
      ExecuteGeneration(statement, scope, out);
      return Flow::kNext;
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

std::shared_ptr<Loop> Evaluator::MakeLoop(const Statement& statement, const Value& iterable,
                                          int64_t depth0, Scope* scope) {
  NextItem next = iterable.Walk("for");
  std::optional<int64_t> length;
  if (statement.condition == nullptr) {
    length = iterable.MaybeLength();
  } else {
    next = [this, &statement, scope, all = std::move(next)]() -> std::optional<Value> {
      while (const std::optional<Value> item = all()) {
        Budget::Spend(1);
        const size_t scopes = scopes_.size();
        const int64_t macros = macros_;
        Scope* const inner = NewScope(scope);
        Assign(statement.target, *item, inner);
        const bool chosen = Evaluate(*statement.condition, inner).Truth();
        const Value value = ValueOf(statement.target, inner);
        if (macros_ == macros) scopes_.resize(scopes);
        if (chosen) return value;
      }
      return std::nullopt;
    };
  }
  Loop::Recurse recurse;
  if (statement.is_recursive) {
    recurse = [this, &statement, scope](const Value& items, int64_t depth) {
      RenderedText text;
      ExecuteFor(statement, items, depth, scope, &text);
      return Value::Text(std::move(text));
    };
  }
  return std::allocate_shared<Loop>(Counted<Loop>(), iterable, std::move(next), length, depth0,
                                    std::move(recurse));
}

Evaluator::Flow Evaluator::ExecuteFor(const Statement& statement, const Value& iterable,
                                      int64_t depth0, Scope* scope, RenderedText* out) {
  const Depth depth(this);
  const std::shared_ptr<Loop> loop = MakeLoop(statement, iterable, depth0, scope);
  const EndOfLoop end(loop.get());
  const size_t scopes = scopes_.size();
  const int64_t macros = macros_;
  bool whole = false;  // one of the bodies came to its end
  while (loop->Advance()) {
    Budget::Spend(1);
    Scope* const inner = NewScope(scope);
    Hide(statement.body, inner);
    Assign(statement.target, loop->current(), inner);
    if (statement.reads_loop || statement.is_recursive) {
      inner->variables["loop"] = Loop::AsValue(loop);
    }
    const Flow flow = Execute(statement.body, inner, out);
    if (macros_ == macros) scopes_.resize(scopes);
    whole = whole || flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  // As jinja2 has it, a loop whose bodies all ended with continue or break has its else.
  if (whole) return Flow::kNext;
  Scope* const inner = NewScope(scope);
  Hide(statement.otherwise, inner);
  return Execute(statement.otherwise, inner, out);
}

Evaluator::Flow Evaluator::ExecuteSetBlock(const Statement& statement, Scope* scope) {
  RenderedText text;
  Scope* const inner = NewScope(scope);
  Hide(statement.body, inner);
  const Flow flow = Execute(statement.body, inner, &text);
  if (flow != Flow::kNext) return flow;
  const Value value = statement.expression == nullptr
                          ? Value::Text(std::move(text))
                          : Filtered(*statement.expression, std::move(text), inner);
  Assign(statement.target, value, scope);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteFilter(const Statement& statement, Scope* scope,
                                         RenderedText* out) {
  RenderedText text;
  Scope* const inner = NewScope(scope);
  Hide(statement.body, inner);
  const Flow flow = Execute(statement.body, inner, &text);
  if (flow == Flow::kNext) {
    const Value value = Filtered(*statement.expression, std::move(text), inner);
    out->Add(value.text("the filter of a block"));
  }
  return flow;
}

Value Evaluator::Filtered(const Expression& expression, RenderedText text, Scope* scope) {
  Scope* const inner = NewScope(scope);
  inner->variables[std::string(kBlockText)] = Value::Text(std::move(text));
  return Evaluate(expression, inner);
}

Evaluator::Flow Evaluator::ExecuteWith(const Statement& statement, Scope* scope,
                                       RenderedText* out) {
  Scope* const inner = NewScope(scope);
  Hide(statement.body, inner);
  for (size_t i = 0; i < statement.names.size(); ++i) {
    Assign(statement.names[i], Evaluate(*statement.values[i], scope), inner);
  }
  return Execute(statement.body, inner, out);
}

void Evaluator::ExecuteCall(const Statement& statement, Scope* scope, RenderedText* out) {
  const Value caller = MakeMacro(statement, scope);
  const Value result = EvaluateCall(*statement.expression, scope, &caller);
  out->Add(result.text("{% call %}"));
}

void Evaluator::ExecuteGeneration(const Statement& statement, Scope* scope, RenderedText* out) {
  // A macro without arguments to jinja2, which is called where it stands.
  Macro::Bound bound;
  if (statement.reads_caller) bound.others["caller"] = Value::Undefined("caller");
  if (statement.reads_kwargs) bound.others["kwargs"] = Value::Dict({});
  if (statement.reads_varargs) bound.others["varargs"] = Value::List({}, Kind::kTuple);
  const size_t begin = out->text().size();
  out->Add(RenderMacro(statement, bound, scope).text("{% generation %}"));
  if (out == whole_) generated_.push_back({begin, out->text().size()});
}

void Evaluator::Assign(const Target& target, const Value& value, Scope* scope) {
  if (!target.attribute.empty()) return AssignAttribute(target, value, scope);
  if (!target.is_tuple) {
    scope->variables[target.name] = value;
    return;
  }
  const NextItem next = value.Walk("an assignment to several names");
  for (const Target& part : target.parts) {
    const std::optional<Value> item = next();
    if (!item.has_value()) {
      throw Error{Error::Kind::kType,
                  absl::StrCat("there are too few values for ", target.parts.size(), " names")};
    }
    Assign(part, *item, scope);
  }
  if (next().has_value()) {
    throw Error{Error::Kind::kType,
                absl::StrCat("there are too many values for ", target.parts.size(), " names")};
  }
}

void Evaluator::AssignAttribute(const Target& target, const Value& value, Scope* scope) {
  const std::string shown = absl::StrCat("set ", target.name, ".", target.attribute);
  const Value* found = Lookup(scope, target.name);
  if (found == nullptr || !found->is(Kind::kNamespace)) {
    throw Error{Error::Kind::kType, absl::StrCat(shown, ": '", target.name, "' is no namespace")};
  }
  if (absl::StartsWith(target.attribute, "_")) {
    throw Error{Error::Kind::kType, absl::StrCat(shown, ": the name begins with _")};
  }
  Value object = *found;
  object.SetEntry(target.attribute, value);
}

Value Evaluator::ValueOf(const Target& target, Scope* scope) {
  if (!target.is_tuple) return scope->variables[target.name];
  Items parts;
  for (const Target& part : target.parts) parts.push_back(ValueOf(part, scope));
  return Value::List(std::move(parts), Kind::kTuple);
}

Value Evaluator::MakeMacro(const Statement& statement, Scope* scope) {
  ++macros_;
  return Value::OfObject(
      std::allocate_shared<Macro>(Counted<Macro>(), statement,
                                  [this, &statement, scope](const Macro::Bound& bound) {
                                    return RenderMacro(statement, bound, scope);
                                  }),
      {});
}

Value Evaluator::RenderMacro(const Statement& statement, const Macro::Bound& bound, Scope* scope) {
  Scope* const inner = NewScope(scope);
  Hide(statement.body, inner);
  for (const auto& [name, value] : bound.others) inner->variables[name] = value;
  // A default may read the parameters: those that are not given are undefined, not those outside.
  for (size_t i = 0; i < bound.parameters.size(); ++i) {
    const std::string& name = statement.parameters[i].name;
    inner->variables[name] = bound.parameters[i].value_or(Value::Undefined(name));
  }
  for (size_t i = 0; i < bound.parameters.size(); ++i) {
    const Parameter& parameter = statement.parameters[i];
    if (bound.parameters[i].has_value() || parameter.fallback == nullptr) continue;
    inner->variables[parameter.name] = Evaluate(*parameter.fallback, inner);
  }
  RenderedText out;
  Execute(statement.body, inner, &out);
  return Value::Text(std::move(out));
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
      if (expression.text == "not") return Value::Bool(!operand(0).Truth());
      return Signed(expression.text, operand(0));
    case Expression::Kind::kBinary:
      return EvaluateBinary(expression, scope);
    case Expression::Kind::kComparison:
      return EvaluateComparison(expression, scope);
    case Expression::Kind::kConditional:
      if (operand(1).Truth()) return operand(0);
      return expression.operands[2] == nullptr ? Value::Undefined("the value of an if without else")
                                               : operand(2);
    case Expression::Kind::kAttribute:
      return AttributeOf(operand(0), expression.text);
    case Expression::Kind::kSubscript: {
      const Value object = operand(0);
      return Subscript(object, operand(1));
    }
    case Expression::Kind::kSlice:
      return EvaluateSlice(expression, scope);
    case Expression::Kind::kCall:
      return EvaluateCall(expression, scope);
    case Expression::Kind::kFilter: {
      const Value input =
          expression.operands[0] == nullptr ? *Lookup(scope, kBlockText) : operand(0);
      return ApplyFilter(expression.text, input, EvaluateArguments(expression.arguments, scope));
    }
    case Expression::Kind::kTest: {
      const Value input = operand(0);
      const Arguments arguments = EvaluateArguments(expression.arguments, scope);
      if (expression.text == "filter") return Value::Bool(IsNameOf(&IsFilter, input, arguments));
      if (expression.text == "test") return Value::Bool(IsNameOf(&IsTest, input, arguments));
      return Value::Bool(ApplyTest(expression.text, input, arguments));
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
  Entries entries;
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    Value key = Evaluate(*expression.operands[i], scope);
    PutEntry(&entries, std::move(key), Evaluate(*expression.operands[i + 1], scope));
  }
  return Value::Dict(std::move(entries));
}

Arguments Evaluator::EvaluateArguments(const CallArguments& arguments, Scope* scope) {
  Arguments out;
  out.positional = EvaluateAll(arguments.positional, scope);
  if (arguments.spread != nullptr) {
    for (Value& value : Evaluate(*arguments.spread, scope).Iterate("*")) {
      out.positional.push_back(std::move(value));
    }
  }
  for (const auto& [name, expression] : arguments.named) {
    out.named.emplace_back(name, Evaluate(*expression, scope));
  }
  if (arguments.spread_named == nullptr) return out;
  const Value spread = Evaluate(*arguments.spread_named, scope);
  if (!spread.is(Kind::kDict)) throw Error{Error::Kind::kType, "** needs a dict"};
  for (const auto& [key, value] : spread.entries("**")) {
    const std::string& name = key.text("**").text();
    if (name.size() > Budget::kMaxNameBytes || out.named.size() >= Budget::kMaxNamedArguments) {
      throw Error{Error::Kind::kLimit,
                  "a call has more than 1000 named arguments, or one whose name has more bytes"};
    }
    if (out.Find(SIZE_MAX, name) != nullptr) {
      throw Error{Error::Kind::kType, absl::StrCat("the argument '", name, "' is given twice")};
    }
    out.named.emplace_back(name, value);
  }
  return out;
}

Value Evaluator::EvaluateBinary(const Expression& expression, Scope* scope) {
  const std::string& op = expression.text;
  const Value left = Evaluate(*expression.operands[0], scope);
  if (op == "and" && !left.Truth()) return left;
  if (op == "or" && left.Truth()) return left;
  const Value right = Evaluate(*expression.operands[1], scope);
  if (op == "and" || op == "or") return right;
  if (op == "~") return Joined(left, right);
  return Arithmetic(op, left, right);
}

Value Evaluator::EvaluateComparison(const Expression& expression, Scope* scope) {
  Value left = Evaluate(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.texts.size(); ++i) {
    Value right = Evaluate(*expression.operands[i + 1], scope);
    if (!Compare(expression.texts[i], left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Evaluator::EvaluateSlice(const Expression& expression, Scope* scope) {
  const Value object = Evaluate(*expression.operands[0], scope);
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    const ExpressionPtr& part = expression.operands[i + 1];
    parts[i] = part == nullptr ? Value::None() : Evaluate(*part, scope);
  }
  return SliceOf(object, parts[0], parts[1], parts[2]);
}

Value Evaluator::EvaluateCall(const Expression& expression, Scope* scope, const Value* caller) {
  const Expression& callee = *expression.operands[0];
  const bool is_attribute = callee.kind == Expression::Kind::kAttribute;
  const Value object = Evaluate(is_attribute ? *callee.operands[0] : callee, scope);
  Arguments arguments = EvaluateArguments(expression.arguments, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  if (!is_attribute) {
    if (object.is(Kind::kUndefined) && callee.text == "strftime_now") {
      throw Error{
          Error::Kind::kUnsupported,
          "the template asks for the day, and none is given; set spec.model.chat_template_date"};
    }
    return Call(object, arguments);
  }
  if (auto result = CallMethod(object, callee.text, arguments); result.has_value()) return *result;
  const Value function = AttributeOf(object, callee.text);
  if (!function.is_callable() || function.is(Kind::kUndefined)) {
    throw Error{Error::Kind::kUnsupported,
                absl::StrCat(object.TypeName(), " has no method '", callee.text, "' here")};
  }
  return Call(function, arguments);
}

Value Evaluator::Call(const Value& function, const Arguments& arguments) {
  Value result = function.is(Kind::kObject) ? function.object().Call(arguments)
                                            : function.function("a call")(arguments);
  if (result.is(Kind::kNamespace)) namespaces_.push_back(result);
  return result;
}

}  // namespace baton::tokenizer::jinja
