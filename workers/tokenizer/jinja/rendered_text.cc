#include "workers/tokenizer/jinja/rendered_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace baton::tokenizer {

RenderedText::RenderedText(const RenderedText& other) {
  jinja::Budget::SpendText(0, other.text_.size());
  jinja::Budget::SpendCopy(other.template_ranges_.size() * sizeof(TextRange));
  text_ = other.text_;
  template_ranges_ = other.template_ranges_;
  Count();
}

RenderedText& RenderedText::operator=(const RenderedText& other) {
  if (this != &other) *this = RenderedText(other);
  return *this;
}

void RenderedText::Append(absl::string_view text) {
  jinja::Budget::SpendText(text_.size(), text.size());
  text_.append(text.data(), text.size());
  Count();
}

void RenderedText::Count() {
  held_.Set(text_.capacity() + template_ranges_.capacity() * sizeof(TextRange));
}

void RenderedText::AddTemplate(absl::string_view text) {
  if (text.empty()) return;
  const size_t begin = text_.size();
  Append(text);
  if (!template_ranges_.empty() && template_ranges_.back().end == begin) {
    template_ranges_.back().end = text_.size();
  } else {
    template_ranges_.push_back({begin, text_.size()});
  }
}

void RenderedText::AddContent(absl::string_view text) {
  if (!text.empty()) Append(text);
}

void RenderedText::Add(const RenderedText& other) {
  size_t done = 0;
  for (const TextRange& range : other.template_ranges_) {
    AddContent(absl::string_view(other.text_).substr(done, range.begin - done));
    AddTemplate(absl::string_view(other.text_).substr(range.begin, range.end - range.begin));
    done = range.end;
  }
  AddContent(absl::string_view(other.text_).substr(done));
}

RenderedText RenderedText::Slice(size_t begin, size_t end) const {
  jinja::Budget::SpendWalk(16);
  jinja::Budget::SpendText(0, end - begin);
  RenderedText out;
  out.text_ = text_.substr(begin, end - begin);
  out.template_ranges_ = Clip(template_ranges_, begin, end);
  jinja::Budget::SpendCopy(out.template_ranges_.size() * sizeof(TextRange));
  out.Count();
  return out;
}

RenderedText RenderedText::Trimmed() const {
  const absl::string_view kept = absl::StripAsciiWhitespace(text_);
  const auto begin = static_cast<size_t>(kept.data() - text_.data());
  return Slice(begin, begin + kept.size());
}

RenderedText OwnText(absl::string_view text) {
  RenderedText out;
  out.AddTemplate(text);
  return out;
}

std::vector<TextRange> Clip(absl::Span<const TextRange> ranges, size_t begin, size_t end) {
  std::vector<TextRange> out;
  // A chat of many messages has many ranges, and each piece of it asks for its own.
  auto range = std::partition_point(ranges.begin(), ranges.end(),
                                    [begin](const TextRange& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    const size_t from = std::max(range->begin, begin), to = std::min(range->end, end);
    if (from < to) out.push_back({from - begin, to - begin});
  }
  return out;
}

}  // namespace baton::tokenizer
