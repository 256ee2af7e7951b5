// A text that a template and content from elsewhere make together.
//
// A special token ("<|im_end|>") is a command to the model. A template writes such tokens; content
// (a prompt of a data set, a response, an answer) must not, whatever it spells out. So a rendered
// text knows which of its bytes are the template's own: Tokenizer::Encode finds special tokens in
// those alone.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_RENDERED_TEXT_H_
#define BATON_WORKERS_TOKENIZER_JINJA_RENDERED_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "workers/tokenizer/jinja/jinja_budget.h"

namespace baton::tokenizer {

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

/// Inside a rendering of a template (jinja_budget.h) a text counts what it holds, and throws
/// jinja::Error when it grows beyond what the rendering may take.
class RenderedText {
 public:
  RenderedText() = default;
  RenderedText(RenderedText&&) noexcept = default;
  RenderedText& operator=(RenderedText&&) noexcept = default;
  RenderedText(const RenderedText& other);
  RenderedText& operator=(const RenderedText& other);
  /// Content, all of it.
  explicit RenderedText(absl::string_view content) { AddContent(content); }

  void AddTemplate(absl::string_view text);
  void AddContent(absl::string_view text);
  void Add(const RenderedText& other);

  /// Bytes [begin, end) of it.
  RenderedText Slice(size_t begin, size_t end) const;
  /// Without the ASCII white space at both ends, the template's or the content's.
  RenderedText Trimmed() const;

  const std::string& text() const { return text_; }
  /// The ranges that are the template's own: ascending, never empty, never touching one another.
  absl::Span<const TextRange> template_ranges() const { return template_ranges_; }

 private:
  void Append(absl::string_view text);
  void Count();

  std::string text_;
  std::vector<TextRange> template_ranges_;
  jinja::Held held_;  // the memory of both
};

/// `text`, all of it the template's own.
[[nodiscard]] RenderedText OwnText(absl::string_view text);

/// The parts of ascending `ranges` inside [begin, end), counted from `begin`. Takes the time of a
/// binary search and of what it answers.
[[nodiscard]] std::vector<TextRange> Clip(absl::Span<const TextRange> ranges, size_t begin,
                                          size_t end);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_JINJA_RENDERED_TEXT_H_
