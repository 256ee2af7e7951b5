// Filters, tests and methods of values. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_BUILTINS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_BUILTINS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// `input | name(arguments)`. Throws Error.
Value ApplyFilter(absl::string_view name, const Value& input, const Arguments& arguments);
/// `input is name(arguments)`. Throws Error.
bool ApplyTest(absl::string_view name, const Value& input, const Arguments& arguments);
/// `object.name(arguments)` of a text or a dict; nothing when it has no such method.
std::optional<Value> CallMethod(const Value& object, absl::string_view name,
                                const Arguments& arguments);
/// Whether dicts have a method of this name, which `object.name` then means instead of an entry.
bool IsDictMethod(absl::string_view name);

/// `object[key]`: undefined without such an item. Throws on an undefined object.
Value Subscript(const Value& object, const Value& key);

/// `name` as the template calls it: the global functions, or null.
const Value* GlobalFunction(absl::string_view name);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_BUILTINS_H_
