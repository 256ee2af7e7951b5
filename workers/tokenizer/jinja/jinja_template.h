// The part of Jinja that chat templates of models are written in.
//
// It renders as `transformers` does (jinja2 3 with trim_blocks and lstrip_blocks, and the functions
// that apply_chat_template adds), and unlike other renderers it knows of every byte of the result
// whether the template or a message wrote it (rendered_text.h): through trim, split, join, slices,
// replace and tojson. So a message that spells out "<|im_end|>" ends no turn.
//
// Has: {{ }}, {% if for set macro raw break continue generation %}, comments, `-` and `+` at tags;
// all operators, `a if b else c`, subscripts, slices, calls with named arguments; loop, namespace,
// range, dict, raise_exception; the filters and tests of jinja_builtins.cc; the methods of strings
// and dicts of jinja_methods.cc.
//
// Has not: {% call, filter, include, import, extends, block, with, do %}, recursive loops, * and **
// in arguments, methods that change a list or a dict (transformers forbids these too), string
// formatting by %, keys of dicts that are no strings. Changes of case touch ASCII letters alone.
// strftime_now is what the variables say it is: a prompt is a function of the job, not of the day.
// An unsupported construct is an error that names it and its
// line, mostly when the template is parsed.
//
// Bounds, since a template comes from outside (jinja_budget.h): 1 MiB of source, 200 levels of
// nested tags, 500 of operations, 2 million steps (some tenths of a second to a second), 256 MiB of
// values, 16 MiB of text.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEMPLATE_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEMPLATE_H_

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

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEMPLATE_H_
