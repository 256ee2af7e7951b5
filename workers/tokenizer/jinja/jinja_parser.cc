// Tokens to a tree, with jinja2's grammar and precedence.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_syntax.h"
#include "workers/tokenizer/jinja/jinja_token_cursor.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr int kMaxNesting = 200;

class Parser : private TokenCursor {
 public:
  explicit Parser(absl::string_view source) : TokenCursor(Lex(source)) {}

  Statements Run() { return Body({}); }

 private:
  /// Counts how deep rules call one another.
  class Nesting {
   public:
    explicit Nesting(Parser* parser) : parser_(parser) {
      if (++parser_->depth_ > kMaxNesting) {
        parser_->Fail("tags or expressions are nested more than 200 levels deep",
                      Error::Kind::kLimit);
      }
    }
    ~Nesting() { --parser_->depth_; }

   private:
    Parser* const parser_;
  };

  // --- Statements --------------------------------------------------------------------------------

  /// Up to a tag whose name is one of `ends` (its name is taken, its arguments are not), or to the
  /// end of the template when there are none.
  Statements Body(const std::set<std::string>& ends, std::string* ended_by = nullptr) {
    const Nesting nesting(this);
    const int begun = now().line;
    Statements body;
    for (;;) {
      if (now().kind == TokenKind::kEnd) {
        if (ends.empty()) return body;
        throw Error{Error::Kind::kSyntax,
                    absl::StrCat("the tag before this line has no {% ", *ends.rbegin(), " %}"),
                    begun};
      }
      if (now().kind == TokenKind::kText || now().kind == TokenKind::kOutputBegin) {
        body.push_back(TextOrOutput());
        continue;
      }
      Expect(TokenKind::kStatementBegin, "{%");
      if (now().kind == TokenKind::kName && ends.count(now().text) > 0) {
        *ended_by = tokens_[at_++].text;
        return body;
      }
      body.push_back(Tag());
    }
  }

  std::unique_ptr<Statement> New(Statement::Kind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = now().line;
    return statement;
  }

  std::unique_ptr<Statement> TextOrOutput() {
    if (now().kind == TokenKind::kText) {
      auto statement = New(Statement::Kind::kText);
      statement->text = tokens_[at_++].text;
      return statement;
    }
    ++at_;
    auto statement = New(Statement::Kind::kOutput);
    statement->expression = TupleExpression();
    Expect(TokenKind::kOutputEnd, "}}");
    return statement;
  }

  std::unique_ptr<Statement> Tag() {
    const std::string name = ExpectName("the name of a tag");
    if (name == "if") return If();
    if (name == "for") return For();
    if (name == "set") return Set();
    if (name == "macro") return Macro();
    if (name == "generation") {
      auto statement = New(Statement::Kind::kBlock);
      EndStatement();
      std::string end;
      statement->body = Body({"endgeneration"}, &end);
      EndStatement();
      return statement;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) Fail(absl::StrCat("{% ", name, " %} stands outside of a loop"));
      auto statement = New(name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue);
      EndStatement();
      return statement;
    }
    static const std::set<std::string> kKnown = {"autoescape", "block",     "call",  "do",
                                                 "extends",    "filter",    "from",  "import",
                                                 "include",    "pluralize", "trans", "with"};
    if (kKnown.count(name) > 0) {
      Fail(absl::StrCat("the tag {% ", name,
                        " %} is not supported; supported are if, for, set, macro, raw, break, "
                        "continue and generation"),
           Error::Kind::kUnsupported);
    }
    Fail(absl::StrCat("there is no tag {% ", name, " %} here"));
  }

  std::unique_ptr<Statement> If() {
    auto statement = New(Statement::Kind::kIf);
    std::string end = "elif";
    while (end == "elif") {
      ExpressionPtr condition = TupleExpression();
      EndStatement();
      Statements body = Body({"elif", "else", "endif"}, &end);
      statement->branches.emplace_back(std::move(condition), std::move(body));
    }
    if (end == "else") {
      EndStatement();
      statement->otherwise = Body({"endif"}, &end);
    }
    EndStatement();
    return statement;
  }

  std::vector<std::string> Targets() {
    const bool brackets = TakeOperator("(");
    std::vector<std::string> targets;
    do {
      targets.push_back(ExpectName("a variable's name"));
    } while (TakeOperator(","));
    if (brackets) ExpectOperator(")");
    return targets;
  }

  std::unique_ptr<Statement> For() {
    auto statement = New(Statement::Kind::kFor);
    statement->targets = Targets();
    if (!TakeName("in")) Fail(absl::StrCat("expected 'in' and found ", Shown()));
    statement->expression = TupleExpression(/*with_conditional=*/false);
    if (TakeName("if")) statement->condition = Conditional();
    if (IsName("recursive")) {
      Fail("a recursive loop is not supported", Error::Kind::kUnsupported);
    }
    EndStatement();
    std::string end;
    const size_t begin = at_;
    ++loops_;
    statement->body = Body({"else", "endfor"}, &end);
    --loops_;
    statement->reads_loop =
        std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                    tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                    [](const Token& token) { return token.is(TokenKind::kName, "loop"); });
    if (end == "else") {
      EndStatement();
      statement->otherwise = Body({"endfor"}, &end);
    }
    EndStatement();
    return statement;
  }

  std::unique_ptr<Statement> Set() {
    auto statement = New(Statement::Kind::kSet);
    if (now().kind == TokenKind::kName && next().is(TokenKind::kOperator, ".")) {
      statement->targets = {ExpectName("a name")};
      ExpectOperator(".");
      statement->targets[0] = absl::StrCat(statement->targets[0], ".", ExpectName("a name"));
    } else {
      statement->targets = Targets();
    }
    if (TakeOperator("=")) {
      statement->expression = TupleExpression();
      EndStatement();
      return statement;
    }
    statement->kind = Statement::Kind::kSetBlock;
    if (IsOperator("|")) statement->expression = Filters(nullptr);
    EndStatement();
    std::string end;
    statement->body = Body({"endset"}, &end);
    EndStatement();
    return statement;
  }

  std::unique_ptr<Statement> Macro() {
    auto statement = New(Statement::Kind::kMacro);
    statement->text = ExpectName("the macro's name");
    ExpectOperator("(");
    while (!TakeOperator(")")) {
      if (!statement->parameters.empty()) ExpectOperator(",");
      Parameter parameter;
      parameter.name = ExpectName("a parameter's name");
      if (TakeOperator("=")) parameter.fallback = Conditional();
      statement->parameters.push_back(std::move(parameter));
    }
    EndStatement();
    std::string end;
    const int loops = loops_;
    loops_ = 0;
    statement->body = Body({"endmacro"}, &end);
    loops_ = loops;
    TakeName(statement->text);
    EndStatement();
    return statement;
  }

  // --- Expressions -------------------------------------------------------------------------------

  bool TupleEnds() const {
    return now().kind == TokenKind::kOutputEnd || now().kind == TokenKind::kStatementEnd ||
           IsOperator(")") || IsName("in");
  }

  /// One expression, or several with commas between them: a tuple.
  ExpressionPtr TupleExpression(bool with_conditional = true) {
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

  ExpressionPtr Conditional() {
    const Nesting nesting(this);
    ExpressionPtr value = Or();
    while (IsName("if")) {
      NewExpression expression = Make(ExprKind::kConditional);
      ++at_;
      Adopt(expression.get(), std::move(value));
      Adopt(expression.get(), Or());
      Adopt(expression.get(), TakeName("else") ? Conditional() : nullptr);
      value = std::move(expression);
    }
    return value;
  }

  ExpressionPtr Or() {
    ExpressionPtr left = And();
    while (IsName("or")) {
      const int line = tokens_[at_++].line;
      left = Binary("or", std::move(left), And(), line);
    }
    return left;
  }

  ExpressionPtr And() {
    ExpressionPtr left = Not();
    while (IsName("and")) {
      const int line = tokens_[at_++].line;
      left = Binary("and", std::move(left), Not(), line);
    }
    return left;
  }

  ExpressionPtr Not() {
    const Nesting nesting(this);
    if (!IsName("not")) return Comparison();
    NewExpression expression = Make(ExprKind::kUnary, "not");
    ++at_;
    Adopt(expression.get(), Not());
    return expression;
  }

  ExpressionPtr Comparison() {
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

  ExpressionPtr Sum() {
    ExpressionPtr left = Joined();
    while (IsOperator("+") || IsOperator("-")) {
      const Token& op = tokens_[at_++];
      left = Binary(op.text, std::move(left), Joined(), op.line);
    }
    return left;
  }

  ExpressionPtr Joined() {
    ExpressionPtr left = Product();
    while (IsOperator("~")) {
      const Token& op = tokens_[at_++];
      left = Binary(op.text, std::move(left), Product(), op.line);
    }
    return left;
  }

  ExpressionPtr Product() {
    ExpressionPtr left = Power();
    while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
      const Token& op = tokens_[at_++];
      left = Binary(op.text, std::move(left), Power(), op.line);
    }
    return left;
  }

  ExpressionPtr Power() {
    ExpressionPtr left = Unary(true);
    while (IsOperator("**")) {
      const int line = tokens_[at_++].line;
      left = Binary("**", std::move(left), Unary(true), line);
    }
    return left;
  }

  ExpressionPtr Unary(bool with_filters) {
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

  ExpressionPtr Constant(Value value) {
    NewExpression expression = Make(ExprKind::kConstant);
    expression->value = std::move(value);
    ++at_;
    return expression;
  }

  ExpressionPtr Primary() {
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
        int64_t number = 0;
        if (!absl::SimpleAtoi(token.text, &number)) {
          Fail(absl::StrCat("the integer ", token.text, " is too large"));
        }
        return Constant(Value::Int(number));
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

  ExpressionPtr Group() {
    if (IsOperator(")")) {
      ++at_;
      return Make(ExprKind::kTuple);
    }
    ExpressionPtr inside = TupleExpression();
    ExpectOperator(")");
    return inside;
  }

  ExpressionPtr ListExpression() {
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

  ExpressionPtr DictExpression() {
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

  ExpressionPtr Postfix(ExpressionPtr value) {
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

  ExpressionPtr Subscript(ExpressionPtr object) {
    NewExpression subscript = Make(ExprKind::kSubscript);
    ExpectOperator("[");
    std::vector<ExpressionPtr> parts(1);
    while (!IsOperator("]")) {
      if (TakeOperator(":")) {
        parts.emplace_back();
        if (parts.size() > 3) Fail("a slice has more than three parts");
      } else if (parts.back() == nullptr) {
        parts.back() = TupleExpression();
      } else {
        Fail(absl::StrCat("expected ']' and found ", Shown()));
      }
    }
    ExpectOperator("]");
    Adopt(subscript.get(), std::move(object));
    if (parts.size() == 1) {
      if (parts[0] == nullptr) Fail("a subscript is empty");
      Adopt(subscript.get(), std::move(parts[0]));
      return subscript;
    }
    subscript->kind = ExprKind::kSlice;
    parts.resize(3);
    for (ExpressionPtr& part : parts) Adopt(subscript.get(), std::move(part));
    return subscript;
  }

  CallArguments Arguments() {
    CallArguments arguments;
    bool first = true;
    ExpectOperator("(");
    while (!TakeOperator(")")) {
      if (!first) {
        ExpectOperator(",");
        if (TakeOperator(")")) break;
      }
      first = false;
      if (IsOperator("*") || IsOperator("**")) {
        Fail("* and ** in the arguments of a call are not supported", Error::Kind::kUnsupported);
      }
      if (now().kind == TokenKind::kName && next().is(TokenKind::kOperator, "=")) {
        const std::string name = tokens_[at_].text;
        at_ += 2;
        arguments.named.emplace_back(name, Conditional());
      } else {
        arguments.positional.push_back(Conditional());
      }
    }
    return arguments;
  }

  ExpressionPtr Call(ExpressionPtr callee) {
    NewExpression call = Make(ExprKind::kCall);
    Adopt(call.get(), std::move(callee));
    AdoptArguments(call.get(), Arguments());
    return call;
  }

  /// One or more of `| name(arguments)`.
  ExpressionPtr Filters(ExpressionPtr value) {
    while (TakeOperator("|")) {
      NewExpression filter = Make(ExprKind::kFilter);
      filter->text = ExpectName("a filter's name");
      if (!IsFilter(filter->text)) {
        Fail(absl::StrCat("the filter '", filter->text, "' is not supported"),
             Error::Kind::kUnsupported);
      }
      Adopt(filter.get(), std::move(value));
      if (IsOperator("(")) AdoptArguments(filter.get(), Arguments());
      value = std::move(filter);
    }
    return value;
  }

  ExpressionPtr FiltersAndTests(ExpressionPtr value) {
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

  ExpressionPtr Test(ExpressionPtr value) {
    NewExpression test = Make(ExprKind::kTest);
    ++at_;
    const bool negated = TakeName("not");
    test->text = ExpectName("a test's name");
    if (!IsTest(test->text)) {
      Fail(absl::StrCat("the test 'is ", test->text, "' is not supported"),
           Error::Kind::kUnsupported);
    }
    Adopt(test.get(), std::move(value));
    const TokenKind kind = now().kind;
    if (IsOperator("(")) {
      AdoptArguments(test.get(), Arguments());
    } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
               kind == TokenKind::kFloat || IsOperator("[") || IsOperator("{") ||
               (kind == TokenKind::kName && !IsName("else") && !IsName("or") && !IsName("and") &&
                !IsName("is") && !IsName("if") && !IsName("not") && !IsName("in"))) {
      CallArguments arguments;
      arguments.positional.push_back(Postfix(Primary()));
      AdoptArguments(test.get(), std::move(arguments));
    }
    if (!negated) return test;
    NewExpression expression = Make(ExprKind::kUnary, "not");
    Adopt(expression.get(), std::move(test));
    return expression;
  }

  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Statements Parse(absl::string_view source) { return Parser(source).Run(); }

}  // namespace baton::tokenizer::jinja
