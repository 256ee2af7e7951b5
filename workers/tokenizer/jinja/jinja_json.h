// Values as JSON text. Internal to the Jinja renderer (jinja_template.h).
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_JSON_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_JSON_H_

#include <optional>

#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// The arguments of Python's json.dumps.
struct JsonStyle {
  std::optional<RenderedText> indent;  ///< Of each level; absent: one line.
  bool sort_keys = false;
  bool ensure_ascii = false;
  RenderedText item_separator;
  RenderedText key_separator;
};
/// json.dumps. Throws on what JSON has not: an undefined value, a function.
RenderedText ToJsonText(const Value& value, const JsonStyle& style);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_JSON_H_
