// The evaluator, which walks a template's tree. Internal to the Jinja renderer (jinja_template.h).
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_EVALUATOR_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_EVALUATOR_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_value.h"
#include "workers/tokenizer/templates/jinja_loop.h"
#include "workers/tokenizer/templates/jinja_macro.h"
#include "workers/tokenizer/templates/jinja_scopes.h"
#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {

/// Renders once. Throws Error.
class Evaluator {
 public:
  using Variables = std::map<std::string, Value, std::less<>>;

  /// `hidden` must stay.
  Evaluator(const Variables& variables, const HiddenNames& hidden);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  RenderedText Run(const Statements& statements);
  /// The bytes of Run's text that {% generation %} blocks wrote, in order.
  const std::vector<TextRange>& generated() const { return generated_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  struct Scope {
    Scope* parent = nullptr;
    std::map<std::string, Value, std::less<>, Counted<std::pair<const std::string, Value>>>
        variables = {};
  };
  class Depth;

  // Statements.
  Flow Execute(const Statements& statements, Scope* scope, RenderedText* out);
  Flow ExecuteOne(const Statement& statement, Scope* scope, RenderedText* out);
  Flow ExecuteIf(const Statement& statement, Scope* scope, RenderedText* out);
  Flow ExecuteFor(const Statement& statement, const Value& iterable, int64_t depth0, Scope* scope,
                  RenderedText* out);
  Flow ExecuteSetBlock(const Statement& statement, Scope* scope);
  Flow ExecuteFilter(const Statement& statement, Scope* scope, RenderedText* out);
  Flow ExecuteWith(const Statement& statement, Scope* scope, RenderedText* out);
  void ExecuteCall(const Statement& statement, Scope* scope, RenderedText* out);
  void ExecuteGeneration(const Statement& statement, Scope* scope, RenderedText* out);
  std::shared_ptr<Loop> MakeLoop(const Statement& statement, const Value& iterable, int64_t depth0,
                                 Scope* scope);
  void Assign(const Target& target, const Value& value, Scope* scope);
  void AssignAttribute(const Target& target, const Value& value, Scope* scope);
  Value ValueOf(const Target& target, Scope* scope);
  Value MakeMacro(const Statement& statement, Scope* scope);
  Value RenderMacro(const Statement& statement, const Macro::Bound& bound, Scope* scope);

  // Expressions.
  Value Evaluate(const Expression& expression, Scope* scope);
  Value EvaluateOne(const Expression& expression, Scope* scope);
  Value EvaluateBinary(const Expression& expression, Scope* scope);
  Value EvaluateComparison(const Expression& expression, Scope* scope);
  Value EvaluateSlice(const Expression& expression, Scope* scope);
  Value EvaluateCall(const Expression& expression, Scope* scope, const Value* caller = nullptr);
  Value EvaluateDict(const Expression& expression, Scope* scope);
  /// The filters `expression` of the text of a block.
  Value Filtered(const Expression& expression, RenderedText text, Scope* scope);
  Items EvaluateAll(const std::vector<ExpressionPtr>& expressions, Scope* scope);
  Arguments EvaluateArguments(const CallArguments& arguments, Scope* scope);

  Value Call(const Value& function, const Arguments& arguments);
  Scope* NewScope(Scope* parent);
  /// Hides the names that the scope of these statements has by itself.
  void Hide(const Statements& statements, Scope* scope);
  const Value* Lookup(const Scope* scope, absl::string_view name) const;

  const HiddenNames& hidden_;
  const Budget budget_;  // before those whose memory counts for it
  /// A macro may outlive the block it was written in: those made since a macro was stay to the end.
  std::deque<Scope, Counted<Scope>> scopes_;
  Scope* const root_;
  /// To be emptied at the end: a namespace may hold itself.
  Items namespaces_;
  const RenderedText* whole_ = nullptr;  ///< What Run makes.
  std::vector<TextRange> generated_;
  int64_t macros_ = 0;
  int depth_ = 0;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_EVALUATOR_H_
