#include "workers/tokenizer/jinja/jinja_globals.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_methods.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

[[noreturn]] void Refuse(const std::string& message) { throw Error{Error::Kind::kType, message}; }

Value Range(const Arguments& arguments) {
  arguments.Check("range", 3);
  const Items& given = arguments.positional;
  if (given.empty()) Refuse("range needs a number");
  const bool one = given.size() == 1;
  const int64_t begin = one ? 0 : given[0].integer("range");
  const int64_t end = given[one ? 0 : 1].integer("range");
  const int64_t step = given.size() == 3 ? given[2].integer("range") : 1;
  if (step == 0) Refuse("range has a step of 0");
  return Value::Range(begin, end, step);
}

/// What dict() makes of its arguments: a dict or pairs, then names.
Entries EntriesOf(const Arguments& arguments) {
  if (arguments.positional.size() > 1) Refuse("dict takes one value and names");
  Entries entries;
  for (const Value& value : arguments.positional) {
    if (value.is(Kind::kUndefined)) value.entries("dict");
    if (value.is(Kind::kDict)) {
      entries = value.entries("dict");
      continue;
    }
    for (const Value& pair : value.Iterate("dict")) {
      const Items parts = pair.Iterate("dict");
      if (parts.size() != 2) Refuse("dict needs pairs");
      PutEntry(&entries, parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) PutEntry(&entries, Value::Own(name), value);
  return entries;
}

Value MakeNamespace(const Arguments& arguments) {
  Entries entries = EntriesOf(arguments);
  for (const auto& [key, value] : entries) {
    if (key.is(Kind::kText) && absl::StartsWith(key.text("namespace").text(), "_")) {
      Refuse("the name of a namespace's attribute begins with _");
    }
  }
  return Value::Dict(std::move(entries), Kind::kNamespace);
}

Value Raise(const Arguments& arguments) {
  arguments.Check("raise_exception", 1, {"message"});
  const Value& message = arguments.Need(0, "message", "raise_exception");
  throw Error{Error::Kind::kRefused, CutText(message.ToText().text())};
}

/// The function `dict`, and dict.fromkeys.
class DictMaker : public Object {
 public:
  std::optional<Value> Attribute(absl::string_view name) override {
    if (name != "fromkeys") return std::nullopt;
    return Value::Callable([](const Arguments& arguments) {
      const Value dict = Value::Dict({});
      return FindMethod(dict, "fromkeys")(dict, arguments);
    });
  }
  std::string Repr() override { return "<dict>"; }
  bool IsCallable() const override { return true; }
  Value Call(const Arguments& arguments) override { return Value::Dict(EntriesOf(arguments)); }
};

/// joiner(separator): "" when it is called first, then the separator.
Value MakeJoiner(const Arguments& arguments) {
  arguments.Check("joiner", 1, {"sep"});
  const Value* given = arguments.Find(0, "sep");
  const Value separator = given == nullptr ? Value::Own(", ") : *given;
  return Value::Callable(
      [separator, used = std::make_shared<bool>(false)](const Arguments& none) {
        none.Check("a joiner", 0);
        return std::exchange(*used, true) ? separator : Value::Own("");
      },
      &separator);
}

/// cycler(values…): gives them one after the other, again and again.
class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(const Value& values) : values_(values) {}

  std::optional<Value> Attribute(absl::string_view name) override {
    if (name == "current") return values_.At(at_);
    if (name == "pos") return Value::Int(at_);
    if (name == "items") return values_;
    if (name != "next" && name != "reset") return std::nullopt;
    return Value::Callable(
        [self = shared_from_this(), next = name == "next"](const Arguments& arguments) {
          arguments.Check("a cycler", 0);
          const int64_t at = self->at_;
          self->at_ = next ? (at + 1) % self->values_.Length() : 0;
          return next ? self->values_.At(at) : Value::None();
        },
        &values_);
  }
  std::string Repr() override { return "<Cycler>"; }

 private:
  const Value values_;  // a tuple
  int64_t at_ = 0;
};

Value MakeCycler(const Arguments& arguments) {
  arguments.Check("cycler", SIZE_MAX);
  if (arguments.positional.empty()) Refuse("cycler needs values");
  const Value values = Value::List(arguments.positional, Kind::kTuple);
  return Value::OfObject(std::make_shared<Cycler>(values), {&values});
}

}  // namespace

const Value* GlobalFunction(absl::string_view name) {
  const Uncounted they_stay;
  static const auto* const functions = new std::map<absl::string_view, Value>{
      {"cycler", Value::Callable(&MakeCycler)},
      {"dict", Value::OfObject(std::make_shared<DictMaker>(), {})},
      {"joiner", Value::Callable(&MakeJoiner)},
      {"namespace", Value::Callable(&MakeNamespace)},
      {"raise_exception", Value::Callable(&Raise)},
      {"range", Value::Callable(&Range)},
  };
  const auto it = functions->find(name);
  return it == functions->end() ? nullptr : &it->second;
}

}  // namespace baton::tokenizer::jinja
