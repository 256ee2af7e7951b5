// Macros, and the bodies of call blocks: what a template calls. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_MACRO_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_MACRO_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"
#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {

/// A macro as a value. Its statement must stay.
class Macro : public Object {
 public:
  /// What the body is rendered with.
  struct Bound {
    std::vector<std::optional<Value>> parameters;  ///< In order; absent: not given.
    std::map<std::string, Value> others;  ///< caller, kwargs and varargs, where it reads them.
  };
  using Render = std::function<Value(const Bound& bound)>;

  Macro(const Statement& statement, Render render)
      : statement_(statement), render_(std::move(render)) {}

  std::optional<Value> Attribute(absl::string_view name) override;
  std::string Repr() override;
  bool IsCallable() const override { return true; }
  Value Call(const Arguments& arguments) override;

 private:
  const Statement& statement_;
  const Render render_;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_MACRO_H_
