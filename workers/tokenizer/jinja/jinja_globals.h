// The functions that every template has. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_GLOBALS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_GLOBALS_H_

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// cycler, dict, joiner, namespace, raise_exception or range; null for another name.
const Value* GlobalFunction(absl::string_view name);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_GLOBALS_H_
