// Python's operators on values. Internal to the Jinja renderer (jinja_template.h).
//
// Errors: kType where Python raises one; kLimit for an integer beyond 64 bits, where Python goes
// on.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_OPERATORS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_OPERATORS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// `a op b` for + - * / // % **.
Value Arithmetic(absl::string_view op, const Value& a, const Value& b);
/// `+a` and `-a`.
Value Signed(absl::string_view op, const Value& a);
/// `a op b` for == != < <= > >= in "not in".
bool Compare(absl::string_view op, const Value& a, const Value& b);

/// Python's <; throws on values without an order.
bool Less(const Value& a, const Value& b);
/// Python's `needle in haystack`.
bool Contains(const Value& haystack, const Value& needle);

/// `object[begin:end:step]`; each of the three is none where it is absent.
Value SliceOf(const Value& object, const Value& begin, const Value& end, const Value& step);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_OPERATORS_H_
