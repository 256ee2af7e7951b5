#include "workers/tokenizer/templates/jinja_macro.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr uint64_t kWalkOfValue = 8;

/// Takes the argument `name` out of `named`.
std::optional<Value> Take(std::vector<std::pair<std::string, Value>>* named,
                          absl::string_view name) {
  Budget::SpendWalk(kWalkOfValue * named->size());
  const auto it = std::find_if(named->begin(), named->end(),
                               [&](const auto& entry) { return entry.first == name; });
  if (it == named->end()) return std::nullopt;
  std::optional<Value> value = std::move(it->second);
  named->erase(it);
  return value;
}

}  // namespace

std::optional<Value> Macro::Attribute(absl::string_view name) {
  if (name == "name") return statement_.text.empty() ? Value::None() : Value::Own(statement_.text);
  if (name == "catch_kwargs") return Value::Bool(statement_.reads_kwargs);
  if (name == "catch_varargs") return Value::Bool(statement_.reads_varargs);
  if (name == "caller") return Value::Bool(statement_.reads_caller);
  if (name != "arguments") return std::nullopt;
  Items names;
  for (const Parameter& parameter : statement_.parameters)
    names.push_back(Value::Own(parameter.name));
  return Value::List(std::move(names), Value::Kind::kTuple);
}

std::string Macro::Repr() {
  return statement_.text.empty() ? "<Macro anonymous>"
                                 : absl::StrCat("<Macro '", statement_.text, "'>");
}

// As jinja2's Macro.__call__ deals out what it is given.
Value Macro::Call(const Arguments& arguments) {
  const size_t count = statement_.parameters.size();
  auto named = arguments.named;
  Bound bound;
  for (size_t i = 0; i < count; ++i) {
    Budget::Spend(1);
    bound.parameters.push_back(i < arguments.positional.size()
                                   ? std::optional<Value>(arguments.positional[i])
                                   : Take(&named, statement_.parameters[i].name));
  }
  if (statement_.reads_caller) {
    std::optional<Value> caller = Take(&named, "caller");
    const bool given = caller.has_value() && !caller->is(Value::Kind::kNone);
    bound.others["caller"] = given ? *std::move(caller) : Value::Undefined("caller");
  }
  if (statement_.reads_kwargs) {
    Entries entries;
    for (auto& [name, value] : named) entries.emplace_back(Value::Own(name), std::move(value));
    bound.others["kwargs"] = Value::Dict(std::move(entries));
  } else if (!named.empty()) {
    throw Error{Error::Kind::kType, absl::StrCat("macro ", statement_.text, " has no parameter '",
                                                 named.front().first, "' left")};
  }
  Items rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    rest.push_back(arguments.positional[i]);
  }
  if (statement_.reads_varargs) {
    bound.others["varargs"] = Value::List(std::move(rest), Value::Kind::kTuple);
  } else if (!rest.empty()) {
    throw Error{Error::Kind::kType,
                absl::StrCat("macro ", statement_.text, " takes at most ", count, " arguments")};
  }
  return render_(bound);
}

}  // namespace baton::tokenizer::jinja
