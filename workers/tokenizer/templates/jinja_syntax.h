// The parts of a template: tokens, and the tree that the parser makes of them. Internal to the
// Jinja renderer (jinja_template.h).
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_SYNTAX_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_SYNTAX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

struct Token {
  enum class Kind {
    kText,            ///< Outside of tags.
    kOutputBegin,     ///< {{
    kOutputEnd,       ///< }}
    kStatementBegin,  ///< {%
    kStatementEnd,    ///< %}
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;  ///< A string without its quotes and escapes.
  int line = 1;

  bool is(Kind k, absl::string_view t) const { return kind == k && text == t; }
};

/// With Jinja's trim_blocks and lstrip_blocks, as transformers sets them. Throws Error.
std::vector<Token> Lex(absl::string_view source);

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        ///< *values; may be null.
  ExpressionPtr spread_named;  ///< **values; may be null.
};

struct Expression {
  enum class Kind {
    kConstant,     ///< value
    kName,         ///< text
    kList,         ///< operands
    kTuple,        ///< operands
    kDict,         ///< operands: key, value, key, value …
    kUnary,        ///< text: - + not; operands[0]
    kBinary,       ///< text: + - * / // % ** ~ and or; operands[0], operands[1]
    kComparison,   ///< texts: == != < <= > >= in "not in"; operands: one more than texts
    kConditional,  ///< operands: value, condition, otherwise (may be null)
    kAttribute,    ///< operands[0], text
    kSubscript,    ///< operands[0], operands[1]
    kSlice,        ///< operands: object, begin, end, step, each but the first may be null
    kCall,         ///< operands[0], arguments
    kFilter,       ///< text: its name; operands[0] (null: the text of a block), arguments
    kTest,         ///< text: its name; operands[0], arguments
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  int height = 1;  ///< Height of the tree under it.
  /// Whether jinja2 computes it beforehand: it reads no name, calls nothing, and no filter in it
  /// needs the rendering.
  bool is_constant = true;
  Value value;
  std::string text;
  std::vector<std::string> texts;
  std::vector<ExpressionPtr> operands;
  CallArguments arguments;
};

struct Statement;
using Statements = std::vector<std::unique_ptr<const Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  ///< Null: undefined where it is not given.
};

/// What an assignment sets: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name;
  std::string attribute;  ///< Of the namespace `name`; empty: the name itself.
  bool is_tuple = false;
  std::vector<Target> parts;  ///< Of a tuple.
};

struct Statement {
  enum class Kind {
    kText,        ///< text
    kOutput,      ///< expression
    kIf,          ///< branches; otherwise
    kFor,         ///< target, expression, condition (may be null), body, otherwise
    kSet,         ///< target, expression
    kSetBlock,    ///< target, body, expression: a filter (may be null)
    kMacro,       ///< text: its name; parameters, body
    kCall,        ///< expression: the call; parameters and body of what it calls `caller`
    kFilter,      ///< expression: the filter; body
    kWith,        ///< names, values, body
    kGeneration,  ///< body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  bool is_recursive = false;  ///< Of kFor.
  bool reads_loop = false;    ///< For kFor: the name `loop` stands somewhere inside.
  // Names that the body of a macro, a call or a generation reads, which then has them.
  bool reads_caller = false;
  bool reads_varargs = false;
  bool reads_kwargs = false;
  std::vector<std::pair<ExpressionPtr, Statements>> branches;
  std::vector<Parameter> parameters;
  std::vector<Target> names;
  std::vector<ExpressionPtr> values;
  Statements body;
  Statements otherwise;
};

/// Throws Error.
Statements Parse(absl::string_view source);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_SYNTAX_H_
