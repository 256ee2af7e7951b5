// The filters, `input | name(arguments)`. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_FILTERS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_FILTERS_H_

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// Whether jinja2 has a filter of this name. Those for HTML (escape, urlize, …), pprint, random and
/// wordwrap are not supported, which ApplyFilter says.
bool IsFilter(absl::string_view name);
/// Throws Error, for an unknown name too.
Value ApplyFilter(absl::string_view name, const Value& input, const Arguments& arguments);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_FILTERS_H_
