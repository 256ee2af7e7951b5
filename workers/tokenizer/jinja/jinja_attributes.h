// `object.name` and `object[key]`, as jinja2's sandbox looks them up. Internal to the Jinja
// renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_ATTRIBUTES_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_ATTRIBUTES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// `object.name`: a method or an attribute, else `object["name"]`, else undefined. Throws on an
/// undefined object.
Value AttributeOf(const Value& object, absl::string_view name);
/// The same without `object["name"]`: what the filter `attr` gives.
Value OwnAttributeOf(const Value& object, absl::string_view name);
/// `object[key]`: an item, else `object.key`, else undefined. Throws on an undefined object.
Value Subscript(const Value& object, const Value& key);
/// `object.name(arguments)`; nothing when the type has no such method.
std::optional<Value> CallMethod(const Value& object, absl::string_view name,
                                const Arguments& arguments);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_ATTRIBUTES_H_
