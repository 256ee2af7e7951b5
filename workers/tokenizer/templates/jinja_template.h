// Jinja, as chat templates of models are written in it.
//
// It renders as `transformers` does (jinja2 3.1 in the immutable sandbox with trim_blocks,
// lstrip_blocks, loopcontrols, and the functions that apply_chat_template adds), and unlike jinja2
// it knows of every byte of the result whether the template or a message wrote it
// (rendered_text.h): through trim, split, join, slices, replace, formats and tojson. So a message
// that spells out "<|im_end|>" ends no turn. tests/differential compares it with jinja2.
//
// Has: {{ }}, {% if for set macro call filter with raw break continue generation %}, comments, `-`
// and `+` at tags; all operators; calls with *values and **values; loop, recursive loops too;
// namespace, range, dict, cycler, joiner, raise_exception; jinja2's filters (jinja_filters.h) and
// tests (jinja_value_tests.h); Python's methods of strings, dicts, lists, tuples and numbers
// (jinja_text_methods.cc, jinja_methods.cc); `%` and format.
//
// Differs, as docs/formats/data-set.md lists. What it has not is an error that names it and its
// line: unknown tags when the template is parsed, filters, tests and methods when they are reached.
//
// Bounds, since a template comes from outside (jinja_budget.h): 1 MiB of source, 200 levels of
// nested tags, 500 of operations, 2 million steps (some tenths of a second to a second), 256 MiB of
// values, 16 MiB of text.
#ifndef BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_TEMPLATE_H_
#define BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_TEMPLATE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_value.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer::jinja {

using Variables = std::map<std::string, Value, std::less<>>;

/// Immutable; any thread.
class Template {
 public:
  /// INVALID_ARGUMENT for what is no Jinja, UNIMPLEMENTED for what this renderer has not; both say
  /// "line N". RESOURCE_EXHAUSTED for what is too long or nested too deep.
  [[nodiscard]] static absl::StatusOr<Template> Parse(absl::string_view source);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// INVALID_ARGUMENT with the template's own words when it raises an exception, or when a value
  /// does not fit an operation; UNIMPLEMENTED; RESOURCE_EXHAUSTED beyond the bounds.
  /// `generated` (may be null) gets the bytes that {% generation %} blocks outside macros and set
  /// blocks wrote, in order.
  [[nodiscard]] absl::StatusOr<RenderedText> Render(
      const Variables& variables, std::vector<TextRange>* generated = nullptr) const;

  /// Whether the template reads the variable `name` anywhere.
  [[nodiscard]] bool Mentions(absl::string_view name) const;

 private:
  struct Parts;
  explicit Template(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_TEMPLATES_JINJA_TEMPLATE_H_
