// A place in the tokens of a template. Internal to the Jinja renderer's parser.
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_TOKEN_CURSOR_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_TOKEN_CURSOR_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {

/// The parser's questions about the token at hand. `Expect…` throw Error with its line.
class TokenCursor {
 protected:
  using TokenKind = Token::Kind;
  using ExprKind = Expression::Kind;
  using NewExpression = std::unique_ptr<Expression>;

  static constexpr int kMaxHeight = 500;

  /// `tokens` ends with kEnd.
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool IsOperator(absl::string_view text) const { return now().is(TokenKind::kOperator, text); }
  bool IsName(absl::string_view text) const { return now().is(TokenKind::kName, text); }
  bool TakeOperator(absl::string_view text) {
    if (!IsOperator(text)) return false;
    ++at_;
    return true;
  }
  bool TakeName(absl::string_view text) {
    if (!IsName(text)) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void Fail(const std::string& message,
                         Error::Kind kind = Error::Kind::kSyntax) const {
    throw Error{kind, message, now().line};
  }
  std::string Shown() const {
    switch (now().kind) {
      case TokenKind::kText:
        return "text";
      case TokenKind::kOutputBegin:
        return "{{";
      case TokenKind::kOutputEnd:
        return "}}";
      case TokenKind::kStatementBegin:
        return "{%";
      case TokenKind::kStatementEnd:
        return "%}";
      case TokenKind::kEnd:
        return "the end of the template";
      default:
        return absl::StrCat("'", now().text, "'");
    }
  }
  void Expect(TokenKind kind, absl::string_view what) {
    if (now().kind != kind) Fail(absl::StrCat("expected ", what, " and found ", Shown()));
    ++at_;
  }
  void ExpectOperator(absl::string_view text) {
    if (!TakeOperator(text)) Fail(absl::StrCat("expected '", text, "' and found ", Shown()));
  }
  std::string ExpectName(absl::string_view what) {
    if (now().kind != TokenKind::kName) {
      Fail(absl::StrCat("expected ", what, " and found ", Shown()));
    }
    return tokens_[at_++].text;
  }
  void EndStatement() { Expect(TokenKind::kStatementEnd, "%}"); }

  // --- Expressions at the line of the token at hand ---

  NewExpression Make(ExprKind kind, std::string text = "") const {
    auto expression = std::make_unique<Expression>();
    expression->kind = kind;
    expression->is_constant = kind != ExprKind::kName && kind != ExprKind::kCall;
    expression->line = now().line;
    expression->text = std::move(text);
    return expression;
  }
  /// Makes `child` (which may be null) an operand.
  void Adopt(Expression* parent, ExpressionPtr child) const {
    Count(parent, child);
    parent->operands.push_back(std::move(child));
  }
  void AdoptArguments(Expression* parent, CallArguments arguments) const {
    for (const ExpressionPtr& argument : arguments.positional) Count(parent, argument);
    for (const auto& [name, argument] : arguments.named) Count(parent, argument);
    Count(parent, arguments.spread);
    Count(parent, arguments.spread_named);
    if (arguments.spread != nullptr || arguments.spread_named != nullptr) {
      parent->is_constant = false;
    }
    parent->arguments = std::move(arguments);
  }
  /// Counts `child` (which may be null) as a part: a long chain makes a deep tree, which is walked
  /// by recursion.
  void Count(Expression* parent, const ExpressionPtr& child) const {
    if (child == nullptr) return;
    parent->is_constant = parent->is_constant && child->is_constant;
    parent->height = std::max(parent->height, child->height + 1);
    if (parent->height > kMaxHeight) {
      Fail("an expression has more than 500 operations one inside the other", Error::Kind::kLimit);
    }
  }
  NewExpression Binary(std::string op, ExpressionPtr left, ExpressionPtr right, int line) const {
    NewExpression expression = Make(ExprKind::kBinary, std::move(op));
    expression->line = line;
    Adopt(expression.get(), std::move(left));
    Adopt(expression.get(), std::move(right));
    return expression;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_TOKEN_CURSOR_H_
