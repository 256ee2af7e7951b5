#include "workers/tokenizer/templates/jinja_expression_parser.h"

#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_filters.h"
#include "workers/tokenizer/jinja/jinja_number.h"
#include "workers/tokenizer/jinja/jinja_value_tests.h"

namespace baton::tokenizer::jinja {
namespace {

/// Whether jinja2 computes a filter of constants beforehand.
bool IsComputedEarly(absl::string_view filter) {
  static const auto* const kLate = new std::set<absl::string_view>{
      "map", "random", "reject", "rejectattr", "select", "selectattr"};
  return kLate->count(filter) == 0;
}

}  // namespace

bool ExpressionParser::TupleEnds() const {
  return now().kind == TokenKind::kOutputEnd || now().kind == TokenKind::kStatementEnd ||
         IsOperator(")");
}

ExpressionPtr ExpressionParser::TupleExpression(bool with_conditional) {
  const auto one = [&] { return with_conditional ? Conditional() : Or(); };
  ExpressionPtr first = one();
  if (!IsOperator(",")) return first;
  NewExpression tuple = Make(ExprKind::kTuple);
  Adopt(tuple.get(), std::move(first));
  while (TakeOperator(",")) {
    if (TupleEnds()) break;
    Adopt(tuple.get(), one());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::Conditional() {
  const Nesting nesting(this);
  const size_t unknown = unknown_.size();
  ExpressionPtr value = Or();
  while (IsName("if")) {
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(unknown), unknown_.end());
    const bool lenient = std::exchange(lenient_, true);
    NewExpression expression = Make(ExprKind::kConditional);
    ++at_;
    Adopt(expression.get(), std::move(value));
    Adopt(expression.get(), Or());
    Adopt(expression.get(), TakeName("else") ? Conditional() : nullptr);
    lenient_ = lenient;
    value = std::move(expression);
  }
  return value;
}

ExpressionPtr ExpressionParser::Or() {
  ExpressionPtr left = And();
  while (IsName("or")) {
    const int line = tokens_[at_++].line;
    left = Binary("or", std::move(left), And(), line);
  }
  return left;
}

ExpressionPtr ExpressionParser::And() {
  ExpressionPtr left = Not();
  while (IsName("and")) {
    const int line = tokens_[at_++].line;
    left = Binary("and", std::move(left), Not(), line);
  }
  return left;
}

ExpressionPtr ExpressionParser::Not() {
  const Nesting nesting(this);
  if (!IsName("not")) return Comparison();
  NewExpression expression = Make(ExprKind::kUnary, "not");
  ++at_;
  Adopt(expression.get(), Not());
  return expression;
}

ExpressionPtr ExpressionParser::Comparison() {
  ExpressionPtr first = Sum();
  NewExpression expression;
  for (;;) {
    std::string op;
    if (now().kind == TokenKind::kOperator &&
        (now().text == "==" || now().text == "!=" || now().text == "<" || now().text == "<=" ||
         now().text == ">" || now().text == ">=")) {
      op = now().text;
    } else if (IsName("in")) {
      op = "in";
    } else if (IsName("not") && next().is(TokenKind::kName, "in")) {
      op = "not in";
    } else {
      break;
    }
    if (expression == nullptr) {
      expression = Make(ExprKind::kComparison);
      Adopt(expression.get(), std::move(first));
    }
    at_ += op == "not in" ? 2 : 1;
    expression->texts.push_back(op);
    Adopt(expression.get(), Sum());
  }
  if (expression == nullptr) return first;
  return expression;
}

ExpressionPtr ExpressionParser::Sum() {
  ExpressionPtr left = Joined();
  while (IsOperator("+") || IsOperator("-")) {
    const Token& op = tokens_[at_++];
    left = Binary(op.text, std::move(left), Joined(), op.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::Joined() {
  ExpressionPtr left = Product();
  while (IsOperator("~")) {
    const Token& op = tokens_[at_++];
    left = Binary(op.text, std::move(left), Product(), op.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::Product() {
  ExpressionPtr left = Power();
  while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
    const Token& op = tokens_[at_++];
    left = Binary(op.text, std::move(left), Power(), op.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::Power() {
  ExpressionPtr left = Unary(true);
  while (IsOperator("**")) {
    const int line = tokens_[at_++].line;
    ExpressionPtr right = Unary(true);
    const bool negative = left->kind == ExprKind::kUnary && left->text == "-" &&
                          left->operands[0]->kind == ExprKind::kConstant;
    if (!negative || right->is_constant) {
      left = Binary("**", std::move(left), std::move(right), line);
      continue;
    }
    // jinja2 writes -2 ** x into Python's code as it stands, where the sign comes last.
    NewExpression base = Make(ExprKind::kConstant);
    base->value = left->operands[0]->value;
    NewExpression sign = Make(ExprKind::kUnary, "-");
    Adopt(sign.get(), Binary("**", std::move(base), std::move(right), line));
    left = std::move(sign);
  }
  return left;
}

ExpressionPtr ExpressionParser::Unary(bool with_filters) {
  const Nesting nesting(this);
  ExpressionPtr value;
  if (IsOperator("-") || IsOperator("+")) {
    NewExpression expression = Make(ExprKind::kUnary, now().text);
    ++at_;
    Adopt(expression.get(), Unary(false));
    value = std::move(expression);
  } else {
    value = Primary();
  }
  value = Postfix(std::move(value));
  return with_filters ? FiltersAndTests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::Constant(Value value) {
  NewExpression expression = Make(ExprKind::kConstant);
  expression->value = std::move(value);
  ++at_;
  return expression;
}

ExpressionPtr ExpressionParser::Primary() {
  const Token token = now();
  switch (token.kind) {
    case TokenKind::kName:
      if (token.text == "true" || token.text == "True") return Constant(Value::Bool(true));
      if (token.text == "false" || token.text == "False") return Constant(Value::Bool(false));
      if (token.text == "none" || token.text == "None") return Constant(Value::None());
      {
        NewExpression name = Make(ExprKind::kName, token.text);
        ++at_;
        return name;
      }
    case TokenKind::kString: {
      std::string text = token.text;
      while (next().kind == TokenKind::kString) {  // "a" "b"
        ++at_;
        text += now().text;
      }
      return Constant(Value::Own(text));
    }
    case TokenKind::kInteger: {
      try {
        const std::optional<int64_t> number = ReadInteger(token.text, 0);
        if (number.has_value()) return Constant(Value::Int(*number));
      } catch (const Error&) {  // beyond 64 bits
      }
      Fail(absl::StrCat("the integer ", token.text, " is too large"), Error::Kind::kLimit);
    }
    case TokenKind::kFloat:
      return Constant(Value::Float(std::strtod(token.text.c_str(), nullptr)));
    default:
      break;
  }
  if (TakeOperator("(")) return Group();
  if (IsOperator("[")) return ListExpression();
  if (IsOperator("{")) return DictExpression();
  Fail(absl::StrCat("expected an expression and found ", Shown()));
}

ExpressionPtr ExpressionParser::Group() {
  if (IsOperator(")")) {
    ++at_;
    return Make(ExprKind::kTuple);
  }
  ExpressionPtr inside = TupleExpression();
  ExpectOperator(")");
  return inside;
}

ExpressionPtr ExpressionParser::ListExpression() {
  NewExpression list = Make(ExprKind::kList);
  ExpectOperator("[");
  while (!TakeOperator("]")) {
    if (!list->operands.empty()) {
      ExpectOperator(",");
      if (TakeOperator("]")) break;
    }
    Adopt(list.get(), Conditional());
  }
  return list;
}

ExpressionPtr ExpressionParser::DictExpression() {
  NewExpression dict = Make(ExprKind::kDict);
  ExpectOperator("{");
  while (!TakeOperator("}")) {
    if (!dict->operands.empty()) {
      ExpectOperator(",");
      if (TakeOperator("}")) break;
    }
    Adopt(dict.get(), Conditional());
    ExpectOperator(":");
    Adopt(dict.get(), Conditional());
  }
  return dict;
}

ExpressionPtr ExpressionParser::Postfix(ExpressionPtr value) {
  for (;;) {
    if (IsOperator(".")) {
      NewExpression attribute = Make(ExprKind::kAttribute);
      ++at_;
      if (now().kind == TokenKind::kInteger) {  // x.0
        attribute->kind = ExprKind::kSubscript;
        Adopt(attribute.get(), std::move(value));
        Adopt(attribute.get(), Primary());
      } else {
        attribute->text = ExpectName("an attribute's name");
        Adopt(attribute.get(), std::move(value));
      }
      value = std::move(attribute);
    } else if (IsOperator("[")) {
      value = Subscript(std::move(value));
    } else if (IsOperator("(")) {
      value = Call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::Subscript(ExpressionPtr object) {
  NewExpression subscript = Make(ExprKind::kSubscript);
  ExpectOperator("[");
  std::vector<ExpressionPtr> parts(1);
  while (!IsOperator("]")) {
    if (TakeOperator(":")) {
      parts.emplace_back();
      if (parts.size() > 3) Fail("a slice has more than three parts");
    } else if (parts.back() == nullptr) {
      parts.back() = Conditional();
    } else if (parts.size() == 1 && IsOperator(",")) {
      parts.back() = KeysFrom(std::move(parts.back()));
    } else {
      Fail(absl::StrCat("expected ']' and found ", Shown()));
    }
  }
  ExpectOperator("]");
  Adopt(subscript.get(), std::move(object));
  if (parts.size() == 1) {
    if (parts[0] == nullptr) parts[0] = Make(ExprKind::kTuple);  // x[] has the key ()
    Adopt(subscript.get(), std::move(parts[0]));
    return subscript;
  }
  subscript->kind = ExprKind::kSlice;
  parts.resize(3);
  for (ExpressionPtr& part : parts) Adopt(subscript.get(), std::move(part));
  return subscript;
}

ExpressionPtr ExpressionParser::KeysFrom(ExpressionPtr first) {
  NewExpression tuple = Make(ExprKind::kTuple);
  Adopt(tuple.get(), std::move(first));
  while (TakeOperator(",")) Adopt(tuple.get(), Conditional());
  return tuple;
}

CallArguments ExpressionParser::Arguments() {
  CallArguments arguments;
  std::set<std::string> names;
  bool first = true;
  ExpectOperator("(");
  while (!TakeOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (TakeOperator(")")) break;
    }
    first = false;
    Argument(&arguments, &names);
  }
  return arguments;
}

void ExpressionParser::Argument(CallArguments* arguments, std::set<std::string>* names) {
  const bool spread = arguments->spread != nullptr, named = arguments->spread_named != nullptr;
  const auto allow = [&](bool allowed) {
    if (!allowed) Fail("the arguments of a call stand in the wrong order");
  };
  if (TakeOperator("*")) {
    allow(!spread && !named);
    arguments->spread = Conditional();
  } else if (TakeOperator("**")) {
    allow(!named);
    arguments->spread_named = Conditional();
  } else if (now().kind == TokenKind::kName && next().is(TokenKind::kOperator, "=")) {
    allow(!named);
    const std::string name = tokens_[at_].text;
    at_ += 2;
    if (!names->insert(name).second) {
      Fail(absl::StrCat("the argument '", name, "' is given twice"));
    }
    arguments->named.emplace_back(name, Conditional());
  } else {
    allow(!spread && !named && arguments->named.empty());
    arguments->positional.push_back(Conditional());
  }
}

ExpressionPtr ExpressionParser::Call(ExpressionPtr callee) {
  NewExpression call = Make(ExprKind::kCall);
  Adopt(call.get(), std::move(callee));
  AdoptArguments(call.get(), Arguments());
  return call;
}

void ExpressionParser::NoteUnknown(const std::string& what) {
  if (lenient_) return;
  unknown_.push_back(
      {Error::Kind::kUnsupported, absl::StrCat(what, " is not supported"), now().line});
}

ExpressionPtr ExpressionParser::Filters(ExpressionPtr value, bool first_has_no_bar) {
  while (std::exchange(first_has_no_bar, false) || TakeOperator("|")) {
    NewExpression filter = Make(ExprKind::kFilter);
    filter->text = ExpectName("a filter's name");
    while (TakeOperator(".")) filter->text += "." + ExpectName("a filter's name");
    filter->is_constant = IsComputedEarly(filter->text);
    if (!IsFilter(filter->text)) NoteUnknown(absl::StrCat("the filter '", filter->text, "'"));
    Adopt(filter.get(), std::move(value));
    if (IsOperator("(")) AdoptArguments(filter.get(), Arguments());
    value = std::move(filter);
  }
  return value;
}

ExpressionPtr ExpressionParser::FiltersAndTests(ExpressionPtr value) {
  for (;;) {
    if (IsOperator("|")) {
      value = Filters(std::move(value));
    } else if (IsName("is")) {
      value = Test(std::move(value));
    } else if (IsOperator("(")) {
      value = Call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::Test(ExpressionPtr value) {
  NewExpression test = Make(ExprKind::kTest);
  ++at_;
  const bool negated = TakeName("not");
  test->text = ExpectName("a test's name");
  while (TakeOperator(".")) test->text += "." + ExpectName("a test's name");
  if (!IsTest(test->text)) NoteUnknown(absl::StrCat("the test 'is ", test->text, "'"));
  Adopt(test.get(), std::move(value));
  const TokenKind kind = now().kind;
  if (IsOperator("(")) {
    AdoptArguments(test.get(), Arguments());
  } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || IsOperator("[") || IsOperator("{") ||
             (kind == TokenKind::kName && !IsName("else") && !IsName("or") && !IsName("and"))) {
    if (IsName("is")) Fail("a test follows another; put the first into parentheses");
    CallArguments arguments;
    arguments.positional.push_back(Postfix(Primary()));
    AdoptArguments(test.get(), std::move(arguments));
  }
  if (!negated) return test;
  NewExpression expression = Make(ExprKind::kUnary, "not");
  Adopt(expression.get(), std::move(test));
  return expression;
}

}  // namespace baton::tokenizer::jinja
