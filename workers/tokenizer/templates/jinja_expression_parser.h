// The expressions of a template: tokens to a tree, with jinja2's grammar and precedence. Internal
// to the Jinja renderer's parser.
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_EXPRESSION_PARSER_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_EXPRESSION_PARSER_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "workers/tokenizer/templates/jinja_syntax.h"
#include "workers/tokenizer/templates/jinja_token_cursor.h"

namespace baton::tokenizer::jinja {

/// Each function takes what it is called after; they throw Error.
class ExpressionParser : protected TokenCursor {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : TokenCursor(std::move(tokens)) {}

  /// Counts how deep rules call one another.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser* parser) : parser_(parser) {
      if (++parser_->depth_ > kMaxNesting) {
        parser_->Fail("tags or expressions are nested more than 200 levels deep",
                      Error::Kind::kLimit);
      }
    }
    ~Nesting() { --parser_->depth_; }

   private:
    ExpressionParser* const parser_;
  };

  bool TupleEnds() const;
  /// One expression, or several with commas between them: a tuple.
  ExpressionPtr TupleExpression(bool with_conditional = true);
  ExpressionPtr Conditional();
  ExpressionPtr Or();
  ExpressionPtr And();
  ExpressionPtr Not();
  ExpressionPtr Comparison();
  ExpressionPtr Sum();
  ExpressionPtr Joined();
  ExpressionPtr Product();
  ExpressionPtr Power();
  ExpressionPtr Unary(bool with_filters);
  ExpressionPtr Constant(Value value);
  ExpressionPtr Primary();
  ExpressionPtr Group();
  ExpressionPtr ListExpression();
  ExpressionPtr DictExpression();
  ExpressionPtr Postfix(ExpressionPtr value);
  /// `[key]`, `[a, b]` or `[begin:end:step]`.
  ExpressionPtr Subscript(ExpressionPtr object);
  /// A tuple as a key.
  ExpressionPtr KeysFrom(ExpressionPtr first);
  /// `(a, b, name=c, *d, **e)`; a comma may end it.
  CallArguments Arguments();
  /// `names`: those of the arguments before it.
  void Argument(CallArguments* arguments, std::set<std::string>* names);
  ExpressionPtr Call(ExpressionPtr callee);
  /// A filter or a test that does not exist: as in jinja2 an error at once, but where a condition
  /// stands around it, when it is reached.
  void NoteUnknown(const std::string& what);
  /// One or more of `| name(arguments)`; the first may stand without its bar.
  ExpressionPtr Filters(ExpressionPtr value, bool first_has_no_bar = false);
  ExpressionPtr FiltersAndTests(ExpressionPtr value);
  ExpressionPtr Test(ExpressionPtr value);

  bool lenient_ = false;        ///< A condition stands around what is parsed.
  std::vector<Error> unknown_;  ///< Filters and tests that do not exist.

 private:
  static constexpr int kMaxNesting = 200;

  int depth_ = 0;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_EXPRESSION_PARSER_H_
