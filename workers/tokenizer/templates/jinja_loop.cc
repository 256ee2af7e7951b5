#include "workers/tokenizer/templates/jinja_loop.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_equality.h"

namespace baton::tokenizer::jinja {

Loop::Loop(const Value& iterable, NextItem next, std::optional<int64_t> length, int64_t depth0,
           Recurse recurse)
    : iterable_(iterable),
      next_(std::move(next)),
      length_(length),
      depth0_(depth0),
      recurse_(std::move(recurse)) {}

Value Loop::AsValue(const std::shared_ptr<Loop>& loop) {
  return Value::OfObject(loop, {&loop->iterable_});
}

bool Loop::Advance() {
  std::optional<Value> item = Peek();
  peeked_ = false;
  if (!item.has_value()) return false;
  ++index0_;
  before_ = std::exchange(current_, std::move(item));
  return true;
}

void Loop::End() {
  ended_ = true;
  next_ = [] { return std::nullopt; };
  recurse_ = nullptr;
  last_changed_.reset();
}

const std::optional<Value>& Loop::Peek() {
  if (!peeked_) after_ = next_();
  peeked_ = true;
  return after_;
}

std::optional<int64_t> Loop::Length() {
  if (length_.has_value()) return length_;
  auto rest = std::make_shared<Items>();
  while (std::optional<Value> item = next_()) rest->push_back(*std::move(item));
  const bool waits = peeked_ && after_.has_value();
  length_ = static_cast<int64_t>(rest->size()) + index0_ + 1 + (waits ? 1 : 0);
  next_ = [rest, i = size_t{0}]() mutable -> std::optional<Value> {
    return i < rest->size() ? std::optional<Value>((*rest)[i++]) : std::nullopt;
  };
  return length_;
}

std::optional<Value> Loop::Attribute(absl::string_view name) {
  if (name == "index") return Value::Int(index0_ + 1);
  if (name == "index0") return Value::Int(index0_);
  if (name == "revindex") return Value::Int(*Length() - index0_);
  if (name == "revindex0") return Value::Int(*Length() - index0_ - 1);
  if (name == "first") return Value::Bool(index0_ == 0);
  if (name == "last") return Value::Bool(!Peek().has_value());
  if (name == "length") return Value::Int(*Length());
  if (name == "depth") return Value::Int(depth0_ + 1);
  if (name == "depth0") return Value::Int(depth0_);
  if (name == "previtem") {
    return index0_ == 0 ? Value::Undefined("loop.previtem") : *before_;
  }
  if (name == "nextitem") return Peek().value_or(Value::Undefined("loop.nextitem"));
  if (name != "cycle" && name != "changed") return std::nullopt;
  const bool cycles = name == "cycle";
  return Value::Callable(
      [self = shared_from_this(), cycles](const Arguments& arguments) {
        return cycles ? self->Cycle(arguments) : self->Changed(arguments);
      },
      &iterable_);
}

std::string Loop::Repr() { return absl::StrCat("<LoopContext ", index0_ + 1, "/", *Length(), ">"); }

Value Loop::Call(const Arguments& arguments) {
  arguments.Check("loop", 1, {"iterable"});
  const Value& iterable = arguments.Need(0, "iterable", "loop");
  if (recurse_ == nullptr) {
    throw Error{Error::Kind::kType, ended_ ? "loop(…) after the end of its for"
                                           : "loop(…) needs a for that ends with 'recursive'"};
  }
  return recurse_(iterable, depth0_ + 1);
}

Value Loop::Cycle(const Arguments& arguments) const {
  arguments.Check("loop.cycle", SIZE_MAX);
  const Items& values = arguments.positional;
  if (values.empty()) throw Error{Error::Kind::kType, "loop.cycle needs values"};
  return values[static_cast<size_t>(index0_) % values.size()];
}

Value Loop::Changed(const Arguments& arguments) {
  arguments.Check("loop.changed", SIZE_MAX);
  Value value = Value::List(arguments.positional, Value::Kind::kTuple);
  if (last_changed_.has_value() && Equal(*last_changed_, value)) return Value::Bool(false);
  // After its end the loop would hold a value that may hold the loop.
  if (!ended_) last_changed_ = std::move(value);
  return Value::Bool(true);
}

}  // namespace baton::tokenizer::jinja
