#include "workers/tokenizer/steps/text_pattern.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/tokenizer/steps/json_components.h"

namespace baton::tokenizer {
namespace {

std::vector<PatternPiece> FindText(absl::string_view wanted, absl::string_view text) {
  std::vector<PatternPiece> pieces;
  size_t done = 0;
  for (size_t at = text.find(wanted); at != absl::string_view::npos; at = text.find(wanted, done)) {
    if (at > done) pieces.push_back({done, at, false});
    done = at + wanted.size();
    pieces.push_back({at, done, true});
  }
  if (done < text.size()) pieces.push_back({done, text.size(), false});
  return pieces;
}

}  // namespace

absl::StatusOr<TextPattern> TextPattern::FromJson(const nlohmann::json& step,
                                                  const std::string& where) {
  const std::string at = absl::StrCat(where, ".pattern");
  const Json* pattern = FindField(step, "pattern");
  if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1 ||
      !(pattern->contains("Regex") || pattern->contains("String")) ||
      !pattern->begin()->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(at, ": expected {\"Regex\": string} or {\"String\": string}"));
  }
  const std::string text = pattern->begin()->get<std::string>();
  if (pattern->contains("String")) {
    if (!text.empty()) return FromText(text);
    return absl::InvalidArgumentError(absl::StrCat(at, ": expected a string that is not empty"));
  }
  auto translated = TranslatePattern(text);
  if (!translated.ok()) return Annotate(translated.status(), at);
  auto compiled = FromPcre2(*translated);
  if (!compiled.ok()) return Annotate(compiled.status(), at);
  return compiled;
}

absl::StatusOr<TextPattern> TextPattern::FromPcre2(absl::string_view pattern) {
  BATON_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  return TextPattern(std::move(regex), "");
}

TextPattern TextPattern::FromText(std::string text) {
  return TextPattern(std::nullopt, std::move(text));
}

absl::StatusOr<std::vector<PatternPiece>> TextPattern::Find(absl::string_view text) const {
  if (!regex_.has_value()) return FindText(text_, text);
  std::vector<PatternPiece> pieces;
  RegexMatcher matcher(*regex_, text);
  size_t done = 0;
  size_t from = 0;
  bool matched = false;  // a match ends at `done`
  while (from <= text.size()) {
    BATON_ASSIGN_OR_RETURN(const bool found, matcher.Find(from));
    if (!found) break;
    const size_t begin = matcher.begin(), end = matcher.end();
    if (begin < done) {
      return absl::InvalidArgumentError("a pattern that moves back in the text is not supported");
    }
    // An empty match right behind another is none, as in the reference.
    if (begin < end || begin > done || !matched) {
      if (begin > done) pieces.push_back({done, begin, false});
      pieces.push_back({begin, end, true});
      done = end;
      matched = true;
    }
    from = end;
    if (begin == end) {  // go on after the next character
      do {
        ++from;
      } while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
    }
  }
  if (done < text.size()) pieces.push_back({done, text.size(), false});
  return pieces;
}

}  // namespace baton::tokenizer
