// Methods of values, as Python has them. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_METHODS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_METHODS_H_

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

using Method = Value (*)(const Value& object, const Arguments& arguments);

/// The method `name` of the value's type; null without one. str.format is not among them
/// (jinja_attributes.h). Calling it throws Error.
Method FindMethod(const Value& object, absl::string_view name);
/// Whether Python has the method but templates must not call it, since it changes the value.
bool IsForbiddenMethod(const Value& object, absl::string_view name);
/// Whether Python has the method or attribute and this renderer has not.
bool IsMissingMethod(const Value& object, absl::string_view name);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_METHODS_H_
