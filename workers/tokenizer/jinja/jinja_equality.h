// Whether values are equal. Internal to the Jinja renderer (jinja_template.h).
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_EQUALITY_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_EQUALITY_H_

#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// Python's ==. Throws (kLimit) on values nested more than 200 levels deep.
bool Equal(const Value& a, const Value& b, int depth = 0);

/// -1, 0 or 1; 2 where one is NaN. An integer and a float are compared exactly.
int OrderOfNumbers(const Value& a, const Value& b);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_EQUALITY_H_
