#include "workers/tokenizer/steps/replacement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"

namespace baton::tokenizer {
namespace {

// A piece of the text before, and where its replacement lies in the text after.
struct Moved {
  PatternPiece piece;
  size_t begin;
  size_t end;
};

// Where `place`, the begin of a range or its end, lies after the change.
size_t NewPlace(const std::vector<Moved>& moved, size_t place, bool is_begin) {
  // The last piece that begins before `place`.
  const auto after = std::lower_bound(moved.begin(), moved.end(), place,
                                      [](const Moved& m, size_t at) { return m.piece.begin < at; });
  if (after == moved.begin()) return 0;
  const Moved& m = *std::prev(after);
  if (place >= m.piece.end) return m.end;
  if (!m.piece.match) return m.begin + (place - m.piece.begin);
  return is_begin ? m.end : m.begin;
}

}  // namespace

absl::StatusOr<Replacement> Replacement::FromJson(const Json& step, const std::string& where,
                                                  GrowthLimit* growth) {
  BATON_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::FromJson(step, where));
  BATON_ASSIGN_OR_RETURN(std::string content, StringField(step, "content", where));
  // A regular expression may match nothing before each byte, and leaves that byte.
  const bool is_text = !pattern.text().empty();
  BATON_RETURN_IF_ERROR(growth->AddChange(is_text ? pattern.text().size() : 1,
                                          is_text ? content.size() : content.size() + 1, where));
  return Replacement(std::move(pattern), std::move(content));
}

absl::StatusOr<std::string> Replacement::Apply(absl::string_view text,
                                               std::vector<TextRange>* ranges,
                                               bool* keeps_start) const {
  BATON_ASSIGN_OR_RETURN(const std::vector<PatternPiece> pieces, pattern_.Find(text));
  if (!pieces.empty() && pieces[0].match && pieces[0].end > 0 &&
      (content_.empty() || ReadUtf8(text).length < pieces[0].end)) {
    *keeps_start = false;
  }
  std::string out;
  out.reserve(text.size());
  std::vector<Moved> moved;
  if (!ranges->empty()) moved.reserve(pieces.size());
  for (const PatternPiece& piece : pieces) {
    const size_t begin = out.size();
    if (piece.match) {
      out += content_;
    } else {
      out.append(text.data() + piece.begin, piece.end - piece.begin);
    }
    if (!ranges->empty()) moved.push_back({piece, begin, out.size()});
  }
  for (TextRange& range : *ranges) {
    const size_t begin = NewPlace(moved, range.begin, /*is_begin=*/true);
    range = {begin, std::max(begin, NewPlace(moved, range.end, /*is_begin=*/false))};
  }
  return out;
}

absl::StatusOr<std::string> Replacement::Apply(absl::string_view text) const {
  std::vector<TextRange> none;
  bool keeps_start = true;
  return Apply(text, &none, &keeps_start);
}

}  // namespace baton::tokenizer
