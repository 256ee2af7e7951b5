#include "workers/tokenizer/tokens/added_tokens.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/regex.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/text_pattern.h"
#include "workers/tokenizer/steps/unicode_text.h"

namespace baton::tokenizer {
namespace {

// The begin of the white space that ends at `end`, not before `low`.
size_t WhiteSpaceBegin(absl::string_view text, size_t low, size_t end) {
  while (end > low) {
    size_t begin = end - 1;
    while (begin > low && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const Utf8Char c = ReadUtf8(text.substr(begin, end - begin));
    if (c.kind != Utf8Char::Kind::kValid || c.length != end - begin) break;
    if (!IsWhiteSpace(c.code_point)) break;
    end = begin;
  }
  return end;
}

size_t WhiteSpaceEnd(absl::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Char c = ReadUtf8(text.substr(begin));
    if (c.kind != Utf8Char::Kind::kValid || !IsWhiteSpace(c.code_point)) break;
    begin += c.length;
  }
  return begin;
}

// A character of a word, as `\w` of Rust's regular expressions.
bool IsWordCharacter(absl::string_view character) {
  static const auto* const kWord = [] {
    auto word = Regex::Compile(absl::StrCat("[", kWordCharacters, "]"));
    return word.ok() ? new Regex(*std::move(word)) : nullptr;
  }();
  if (kWord == nullptr) return false;
  RegexMatcher matcher(*kWord, character);
  const auto found = matcher.Find(0);
  return found.ok() && *found;
}

// Whether [begin, end) of `text` is not part of a longer word.
bool IsSingleWord(absl::string_view text, size_t begin, size_t end) {
  size_t before = begin;
  while (before > 0 && begin - before < 4) {
    --before;
    if ((static_cast<unsigned char>(text[before]) & 0xC0) != 0x80) break;
  }
  if (IsWordCharacter(text.substr(before, begin - before))) return false;
  const absl::string_view rest = text.substr(end);
  return rest.empty() || !IsWordCharacter(rest.substr(0, ReadUtf8(rest).length));
}

// Whether `token` may be found at `at`.
bool IsAllowed(const AddedToken& token, size_t at, const ControlScope& control) {
  const bool is_control = token.special || std::find(control.ids.begin(), control.ids.end(),
                                                     token.id) != control.ids.end();
  if (!is_control) return true;
  const auto after =
      std::upper_bound(control.ranges.begin(), control.ranges.end(), at,
                       [](size_t place, const TextRange& range) { return place < range.begin; });
  return after != control.ranges.begin() && at + token.content.size() <= std::prev(after)->end;
}

// Whether `token` at `at` has a byte in text where control tokens are found.
bool Reaches(const AddedToken& token, size_t at, const ControlScope& control) {
  return !Clip(control.ranges, at, at + token.content.size()).empty();
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  PrefixTable::Entries entries;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    entries.emplace_back(tokens_[i].content, static_cast<int32_t>(i));
  }
  places_ = PrefixTable(std::move(entries));
}

const AddedToken* AddedTokenFinder::MatchAt(absl::string_view text) const {
  const auto longest = places_.FindLongest(text);
  return longest.has_value() ? &tokens_[longest->first] : nullptr;
}

void AddedTokenFinder::Split(absl::string_view text, const ControlScope& control,
                             std::vector<Piece>* pieces) const {
  size_t done = 0;
  TextRange spaces = {0, 0};  // the last white space that a token took on its right
  for (size_t at = 0; !places_.empty() && at < text.size();) {
    const AddedToken* token = MatchAt(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t match = at;
    if (!IsAllowed(*token, at, control)) {
      // Plain text; but what it says of the control text behind it must not hide that.
      at += Reaches(*token, at, control) ? 1 : token->content.size();
      continue;
    }
    at += token->content.size();
    // A part of a longer word is plain text, and so is whatever else is found within it.
    if (token->single_word && !IsSingleWord(text, match, at)) continue;
    // `done` is beyond `match` where the last token took white space that is a token itself.
    const size_t begin = token->lstrip ? std::max(done, WhiteSpaceBegin(text, done, match)) : match;
    if (token->rstrip && (at < spaces.begin || at >= spaces.end)) {
      spaces = {at, WhiteSpaceEnd(text, at)};
    }
    const size_t end = token->rstrip ? spaces.end : at;
    if (begin > done) pieces->push_back({text.substr(done, begin - done), -1});
    if (begin < end) pieces->push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) pieces->push_back({text.substr(done), -1});
}

}  // namespace baton::tokenizer
