// Filters of lists, dicts and other values with items. Internal to the Jinja renderer.
//
// Those that jinja2 writes as generators (map, select, unique, …) return an iterator here too: it
// goes on only when it is asked, gives its items once, and counts as true.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_SEQUENCE_FILTERS_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_SEQUENCE_FILTERS_H_

#include <map>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

using Filter = Value (*)(const Value& input, const Arguments& arguments);

/// By their names; all but `map`.
const std::map<absl::string_view, Filter>& SequenceFilters();

/// `input | name(arguments)` of any filter.
using FilterByName = Value (*)(absl::string_view name, const Value& input,
                               const Arguments& arguments);
/// The filter `map`: `apply` is what it maps with.
Value MapItems(const Value& input, const Arguments& arguments, FilterByName apply);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_SEQUENCE_FILTERS_H_
