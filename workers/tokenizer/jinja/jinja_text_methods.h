// Methods of texts, as Python's str has them. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEXT_METHODS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEXT_METHODS_H_

#include <map>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

using TextMethod = Value (*)(const RenderedText& text, const Arguments& arguments);

/// By their names; all but format and format_map.
const std::map<absl::string_view, TextMethod>& TextMethods();

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEXT_METHODS_H_
