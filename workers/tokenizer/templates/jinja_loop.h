// The variable `loop` of a for. Internal to the Jinja renderer (jinja_template.h).
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_LOOP_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// Where a for stands in its items, as jinja2's LoopContext: it takes the next item only when it is
/// asked for it, and all of them when it is asked how many there are.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  /// Renders the loop's body for other items, one level deeper.
  using Recurse = std::function<Value(const Value& iterable, int64_t depth0)>;

  /// `next` walks over `iterable`. `length`: the number of items, where it is known beforehand.
  /// `recurse` may be null.
  Loop(const Value& iterable, NextItem next, std::optional<int64_t> length, int64_t depth0,
       Recurse recurse);
  /// The loop as a value.
  static Value AsValue(const std::shared_ptr<Loop>& loop);

  /// Goes to the next item; false at the end.
  bool Advance();
  const Value& current() const { return *current_; }
  /// The for is over: whoever still has the loop finds no more items, and nothing of the for is
  /// used any more.
  void End();

  std::optional<Value> Attribute(absl::string_view name) override;
  std::string Repr() override;
  bool IsCallable() const override { return true; }
  Value Call(const Arguments& arguments) override;
  std::optional<int64_t> Length() override;

 private:
  /// The item after the current one; nothing at the end.
  const std::optional<Value>& Peek();
  Value Cycle(const Arguments& arguments) const;
  Value Changed(const Arguments& arguments);

  const Value iterable_;  // bounds how deep the loop is nested, which holds the items
  NextItem next_;
  std::optional<int64_t> length_;
  const int64_t depth0_;
  Recurse recurse_;
  int64_t index0_ = -1;
  bool peeked_ = false;
  bool ended_ = false;
  std::optional<Value> before_, current_, after_;
  std::optional<Value> last_changed_;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_LOOP_H_
