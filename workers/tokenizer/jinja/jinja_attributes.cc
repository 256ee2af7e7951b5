#include "workers/tokenizer/jinja/jinja_attributes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_format.h"
#include "workers/tokenizer/jinja/jinja_methods.h"
#include "workers/tokenizer/jinja/jinja_text_methods.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

void RefuseUndefined(const Value& object) {
  if (!object.is(Kind::kUndefined)) return;
  throw Error{Error::Kind::kType, absl::StrCat("'", object.undefined_name(), "' is undefined")};
}

/// Looks up the parts of a place's name in a format.
Value LookUp(const Value& object, const Value& name, bool is_attribute) {
  return is_attribute ? AttributeOf(object, name.text("format").text()) : Subscript(object, name);
}

Value FormatMethod(const Value& text, const Arguments& arguments) {
  return Value::Text(FormatByBraces(text.text("format"), arguments, &LookUp));
}

Value FormatMapMethod(const Value& text, const Arguments& arguments) {
  arguments.Check("format_map", 1);
  Arguments named;
  for (const auto& [key, value] : arguments.Need(0, "", "format_map").entries("format_map")) {
    if (key.is(Kind::kText)) named.named.emplace_back(key.text("format_map").text(), value);
  }
  return Value::Text(FormatByBraces(text.text("format_map"), named, &LookUp));
}

Method MethodOf(const Value& object, absl::string_view name) {
  if (object.is(Kind::kText) && name == "format") return &FormatMethod;
  if (object.is(Kind::kText) && name == "format_map") return &FormatMapMethod;
  return FindMethod(object, name);
}

TextMethod TextMethodOf(const Value& object, absl::string_view name) {
  if (!object.is(Kind::kText)) return nullptr;
  const auto it = TextMethods().find(name);
  return it == TextMethods().end() ? nullptr : it->second;
}

/// The attributes of numbers, ranges and what groupby gives, which are no methods.
std::optional<Value> DataAttribute(const Value& object, absl::string_view name) {
  if (object.is_number()) {
    const bool whole = !object.is(Kind::kFloat);
    if (name == "real" || (whole && name == "numerator")) {
      return whole ? Value::Int(object.integer(name)) : object;
    }
    if (name == "imag") return whole ? Value::Int(0) : Value::Float(0);
    if (whole && name == "denominator") return Value::Int(1);
  }
  if (object.is(Kind::kRange)) {
    if (name == "start") return Value::Int(object.range().begin);
    if (name == "stop") return Value::Int(object.range().end);
    if (name == "step") return Value::Int(object.range().step);
  }
  if (object.is_group() && name == "grouper") return object.At(0);
  if (object.is_group() && name == "list") return object.At(1);
  return std::nullopt;
}

/// A method, bound to its object, or another attribute of the object's type.
std::optional<Value> AttributeOfType(const Value& object, absl::string_view name) {
  if (object.is(Kind::kObject)) return object.object().Attribute(name);
  if (object.is(Kind::kNamespace)) {
    const Value* value = object.Find(name);
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  if (const TextMethod method = TextMethodOf(object, name); method != nullptr) {
    return Value::Callable(
        [object, method](const Arguments& arguments) {
          return method(object.text("a method"), arguments);
        },
        &object);
  }
  if (const Method method = MethodOf(object, name); method != nullptr) {
    return Value::Callable(
        [object, method](const Arguments& arguments) { return method(object, arguments); },
        &object);
  }
  if (IsForbiddenMethod(object, name)) return Value::Undefined(name);
  if (IsMissingMethod(object, name)) {
    throw Error{Error::Kind::kUnsupported, absl::StrCat("the method '", name, "' of ",
                                                        object.TypeName(), " is not supported")};
  }
  return DataAttribute(object, name);
}

/// An item of the object; nothing when there is none.
std::optional<Value> ItemOf(const Value& object, const Value& key) {
  if (object.is(Kind::kDict)) {
    const Value* value = key.is_hashable() ? object.Find(key) : nullptr;
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  if (object.is_sequence() && (key.is(Kind::kInt) || key.is(Kind::kBool))) {
    Value item = object.At(key.integer("[]"));
    if (!item.is(Kind::kUndefined) || object.is_list()) return item;
  }
  return std::nullopt;
}

/// What is undefined is called after the key.
Value Missing(const Value& key) {
  if (key.is(Kind::kText)) return Value::Undefined(key.text("[]").text());
  return Value::Undefined(key.is_number() ? key.ToText().text() : "an item");
}

}  // namespace

Value AttributeOf(const Value& object, absl::string_view name) {
  RefuseUndefined(object);
  if (std::optional<Value> found = AttributeOfType(object, name)) return *std::move(found);
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.Find(name); value != nullptr) return *value;
  }
  return Value::Undefined(name);
}

Value OwnAttributeOf(const Value& object, absl::string_view name) {
  RefuseUndefined(object);
  return AttributeOfType(object, name).value_or(Value::Undefined(name));
}

Value Subscript(const Value& object, const Value& key) {
  RefuseUndefined(object);
  if (std::optional<Value> item = ItemOf(object, key)) return *std::move(item);
  if (!key.is(Kind::kText)) return Missing(key);
  return AttributeOfType(object, key.text("[]").text()).value_or(Missing(key));
}

std::optional<Value> CallMethod(const Value& object, absl::string_view name,
                                const Arguments& arguments) {
  if (const TextMethod method = TextMethodOf(object, name); method != nullptr) {
    return method(object.text(name), arguments);
  }
  if (const Method method = MethodOf(object, name); method != nullptr) {
    return method(object, arguments);
  }
  return std::nullopt;
}

}  // namespace baton::tokenizer::jinja
