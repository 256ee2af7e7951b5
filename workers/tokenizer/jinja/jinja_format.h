// Texts made after a pattern: Python's `%`, str.format and format(). Internal to the Jinja
// renderer.
//
// The text of an argument keeps its origin; the digits of a number and the padding are the
// template's own.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_FORMAT_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_FORMAT_H_

#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// `pattern % values`: a tuple's items one by one, a dict's entries by %(name)s, or one value.
RenderedText FormatByPercent(const RenderedText& pattern, const Value& values);
/// `object.name` or `object[name]`.
using LookUpPart = Value (*)(const Value& object, const Value& name, bool is_attribute);
/// `pattern.format(arguments)`, as jinja2's sandbox does it; `look_up` finds the parts of names.
RenderedText FormatByBraces(const RenderedText& pattern, const Arguments& arguments,
                            LookUpPart look_up);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_FORMAT_H_
