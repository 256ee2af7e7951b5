// The statements of a template: tokens to a tree, with jinja2's grammar.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/templates/jinja_expression_parser.h"
#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {
namespace {

class Parser : private ExpressionParser {
 public:
  explicit Parser(absl::string_view source) : ExpressionParser(Lex(source)) {
    for (size_t i = 1; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != TokenKind::kName || tokens_[i - 1].is(TokenKind::kOperator, ".")) {
        continue;
      }
      const auto found = mentions_.find(tokens_[i].text);
      if (found != mentions_.end()) found->second.push_back(i);
    }
  }

  Statements Run() {
    Statements statements = Body({});
    if (!unknown_.empty()) throw unknown_.front();
    return statements;
  }

 private:
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
    if (name == "call") return CallBlock();
    if (name == "filter") return FilterBlock();
    if (name == "with") return With();
    if (name == "generation") return Generation();
    if (name == "break" || name == "continue") {
      if (loops_ == 0) Fail(absl::StrCat("{% ", name, " %} stands outside of a loop"));
      auto statement = New(name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue);
      EndStatement();
      return statement;
    }
    static const std::set<std::string> kKnown = {"autoescape", "block",   "extends", "from",
                                                 "import",     "include", "print"};
    if (kKnown.count(name) > 0) {
      Fail(absl::StrCat("the tag {% ", name,
                        " %} is not supported; supported are if, for, set, macro, call, filter, "
                        "with, raw, break, continue and generation"),
           Error::Kind::kUnsupported);
    }
    Fail(absl::StrCat("there is no tag {% ", name, " %} here"));
  }

  /// The end of a tag whose body follows; a colon may stand there.
  void BeginBody() {
    TakeOperator(":");
    EndStatement();
  }

  /// A body that jinja2 compiles to a scope of its own, where an unknown filter is an error at once
  /// even in an `if` around it.
  Statements ScopedBody(const std::set<std::string>& ends, std::string* ended_by) {
    const bool lenient = std::exchange(lenient_, false);
    Statements body = Body(ends, ended_by);
    lenient_ = lenient;
    return body;
  }

  /// The body of what is called later: no loop is around it. Notes which names it reads.
  void CalledBody(Statement* statement, const std::string& end) {
    std::string ended_by;
    const size_t begin = at_;
    const int loops = std::exchange(loops_, 0);
    statement->body = ScopedBody({end}, &ended_by);
    loops_ = loops;
    statement->reads_caller = Mentions("caller", begin);
    statement->reads_varargs = Mentions("varargs", begin);
    statement->reads_kwargs = Mentions("kwargs", begin);
    for (const Parameter& parameter : statement->parameters) {
      if (parameter.name == "varargs") statement->reads_varargs = false;
      if (parameter.name == "kwargs") statement->reads_kwargs = false;
      if (parameter.name != "caller" || !statement->reads_caller) continue;
      if (parameter.fallback == nullptr) Fail("the parameter 'caller' needs a default");
      statement->reads_caller = false;  // an ordinary parameter
    }
    EndStatement();
  }

  /// Whether the name (one of mentions_) stands between the token `begin` and the one at hand.
  bool Mentions(absl::string_view name, size_t begin) const {
    const std::vector<size_t>& places = mentions_.at(name);
    const auto next = std::lower_bound(places.begin(), places.end(), begin);
    return next != places.end() && *next < at_;
  }

  std::unique_ptr<Statement> If() {
    auto statement = New(Statement::Kind::kIf);
    const bool lenient = std::exchange(lenient_, true);
    std::string end = "elif";
    while (end == "elif") {
      ExpressionPtr condition = TupleExpression(/*with_conditional=*/false);
      BeginBody();
      Statements body = Body({"elif", "else", "endif"}, &end);
      statement->branches.emplace_back(std::move(condition), std::move(body));
    }
    if (end == "else") {
      BeginBody();
      statement->otherwise = Body({"endif"}, &end);
    }
    lenient_ = lenient;
    EndStatement();
    return statement;
  }

  /// One target, or several with commas between them.
  Target Targets(bool with_attributes) {
    const Nesting nesting(this);
    Target first = OneTarget(with_attributes);
    if (!IsOperator(",")) return first;
    Target tuple;
    tuple.is_tuple = true;
    tuple.parts.push_back(std::move(first));
    while (TakeOperator(",")) {
      if (TupleEnds()) break;
      tuple.parts.push_back(OneTarget(with_attributes));
    }
    return tuple;
  }

  Target OneTarget(bool with_attributes) {
    if (TakeOperator("(")) {
      Target inside;
      inside.is_tuple = true;
      if (!IsOperator(")")) inside = Targets(with_attributes);
      ExpectOperator(")");
      return inside;
    }
    Target target;
    target.name = TargetName("a variable's name");
    if (with_attributes && TakeOperator(".")) target.attribute = ExpectName("a name");
    return target;
  }

  std::string TargetName(absl::string_view what) {
    if (IsConstantName(now().text) && now().kind == TokenKind::kName) {
      Fail(absl::StrCat("cannot assign to ", now().text));
    }
    return ExpectName(what);
  }

  /// As in jinja2 nothing inside of a for may set its variable `loop`.
  void RefuseLoop(const Target& target) const {
    for (const Target& part : target.parts) RefuseLoop(part);
    if (target.name == "loop" && target.attribute.empty()) {
      Fail("a for has a variable `loop` of its own, which cannot be set");
    }
  }

  static bool IsConstantName(absl::string_view name) {
    return name == "true" || name == "True" || name == "false" || name == "False" ||
           name == "none" || name == "None";
  }

  std::unique_ptr<Statement> For() {
    auto statement = New(Statement::Kind::kFor);
    ++fors_;
    statement->target = Targets(/*with_attributes=*/false);
    RefuseLoop(statement->target);
    if (!TakeName("in")) Fail(absl::StrCat("expected 'in' and found ", Shown()));
    statement->expression = TupleExpression(/*with_conditional=*/false);
    if (TakeName("if")) {
      const bool lenient = std::exchange(lenient_, false);
      statement->condition = Conditional();
      lenient_ = lenient;
    }
    statement->is_recursive = TakeName("recursive");
    BeginBody();
    std::string end;
    const size_t begin = at_;
    ++loops_;
    statement->body = ScopedBody({"else", "endfor"}, &end);
    --loops_;
    statement->reads_loop = Mentions("loop", begin);
    if (end == "else") {
      BeginBody();
      // A recursive loop is a function to jinja2: no loop is around it.
      const int loops = std::exchange(loops_, statement->is_recursive ? 0 : loops_);
      statement->otherwise = ScopedBody({"endfor"}, &end);
      loops_ = loops;
    }
    --fors_;
    EndStatement();
    return statement;
  }

  std::unique_ptr<Statement> Set() {
    auto statement = New(Statement::Kind::kSet);
    statement->target = Targets(/*with_attributes=*/true);
    if (fors_ > 0) RefuseLoop(statement->target);
    if (TakeOperator("=")) {
      statement->expression = TupleExpression();
      EndStatement();
      return statement;
    }
    statement->kind = Statement::Kind::kSetBlock;
    const bool lenient = std::exchange(lenient_, false);
    if (IsOperator("|")) statement->expression = Filters(nullptr);
    lenient_ = lenient;
    BeginBody();
    std::string end;
    statement->body = ScopedBody({"endset"}, &end);
    EndStatement();
    return statement;
  }

  std::vector<Parameter> Parameters() {
    std::vector<Parameter> parameters;
    std::set<std::string> names;
    ExpectOperator("(");
    const bool lenient = std::exchange(lenient_, false);
    while (!TakeOperator(")")) {
      if (!parameters.empty()) ExpectOperator(",");
      Parameter parameter;
      parameter.name = TargetName("a parameter's name");
      if (!names.insert(parameter.name).second) Fail("two parameters have the same name");
      if (TakeOperator("=")) {
        parameter.fallback = Conditional();
      } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
        Fail("a parameter without a default follows one with a default");
      }
      parameters.push_back(std::move(parameter));
    }
    lenient_ = lenient;
    return parameters;
  }

  std::unique_ptr<Statement> Macro() {
    auto statement = New(Statement::Kind::kMacro);
    statement->text = TargetName("the macro's name");
    statement->parameters = Parameters();
    BeginBody();
    CalledBody(statement.get(), "endmacro");
    return statement;
  }

  std::unique_ptr<Statement> CallBlock() {
    auto statement = New(Statement::Kind::kCall);
    if (IsOperator("(")) statement->parameters = Parameters();
    statement->expression = Conditional();
    if (statement->expression->kind != ExprKind::kCall) Fail("{% call %} needs a call");
    BeginBody();
    CalledBody(statement.get(), "endcall");
    return statement;
  }

  std::unique_ptr<Statement> Generation() {
    auto statement = New(Statement::Kind::kGeneration);
    BeginBody();
    CalledBody(statement.get(), "endgeneration");
    return statement;
  }

  std::unique_ptr<Statement> FilterBlock() {
    auto statement = New(Statement::Kind::kFilter);
    const bool lenient = std::exchange(lenient_, false);
    statement->expression = Filters(nullptr, /*first_has_no_bar=*/true);
    lenient_ = lenient;
    BeginBody();
    std::string end;
    statement->body = ScopedBody({"endfilter"}, &end);
    EndStatement();
    return statement;
  }

  std::unique_ptr<Statement> With() {
    auto statement = New(Statement::Kind::kWith);
    while (now().kind != TokenKind::kStatementEnd) {
      if (!statement->names.empty()) ExpectOperator(",");
      statement->names.push_back(Targets(/*with_attributes=*/false));
      ExpectOperator("=");
      statement->values.push_back(Conditional());
    }
    BeginBody();
    std::string end;
    statement->body = ScopedBody({"endwith"}, &end);
    EndStatement();
    return statement;
  }

  /// Where the names stand that bodies are asked for, by their tokens, ascending.
  std::map<absl::string_view, std::vector<size_t>> mentions_ = {
      {"caller", {}}, {"kwargs", {}}, {"loop", {}}, {"varargs", {}}};
  int loops_ = 0;  ///< Loops around, up to the macro at hand.
  int fors_ = 0;   ///< Loops around, those outside of the macro too.
};

}  // namespace

Statements Parse(absl::string_view source) { return Parser(source).Run(); }

}  // namespace baton::tokenizer::jinja
