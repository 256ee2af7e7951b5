// The tests of values, `input is name(arguments)`. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_TESTS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_TESTS_H_

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// Whether jinja2 has a test of this name; all of them are here, but `is filter` and `is test`.
bool IsTest(absl::string_view name);
/// Throws Error, for an unknown name too.
bool ApplyTest(absl::string_view name, const Value& input, const Arguments& arguments);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_TESTS_H_
