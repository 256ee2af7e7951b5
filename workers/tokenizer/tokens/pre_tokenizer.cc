#include "workers/tokenizer/tokens/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/tokens/json_components.h"

namespace baton::tokenizer {
namespace {

// GPT-2's pattern, which ByteLevel uses by default.
constexpr char kByteLevelPattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Unicode's White_Space, as the inside of a character class.
constexpr char kWhiteSpace[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

// \s -> White_Space and, outside of a class, \S -> its complement. (\S inside a class stays
// PCRE2's, which differs in U+180E alone.)
std::string RewriteWhiteSpace(absl::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        absl::StrAppend(&out, in_class ? "" : "[", kWhiteSpace, in_class ? "" : "]");
      } else if (escaped == 'S' && !in_class) {
        absl::StrAppend(&out, "[^", kWhiteSpace, "]");
      } else {
        out.push_back(c);
        out.push_back(escaped);
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out.push_back(c);
      // A ']' that comes first is a member, not the end.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out.push_back(pattern[++i]);
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out.push_back(pattern[++i]);
      continue;
    }
    if (in_class && c == '[' && i + 1 < pattern.size() && pattern[i + 1] == ':') {
      const size_t end = pattern.find(":]", i + 2);  // a POSIX class, [:alpha:]
      if (end != absl::string_view::npos) {
        absl::StrAppend(&out, pattern.substr(i, end + 2 - i));
        i = end + 1;
        continue;
      }
    }
    if (c == ']') in_class = false;
    out.push_back(c);
  }
  return out;
}

std::string EscapeLiteral(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (absl::string_view("\\^$.|?*+()[]{}-# \t\n\r").find(c) != absl::string_view::npos) {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

absl::StatusOr<SplitBehavior> ParseBehavior(const std::string& name, const std::string& where) {
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return absl::InvalidArgumentError(
      absl::StrCat(where, ".behavior: '", name,
                   "' is not one of Isolated, Removed, MergedWithPrevious, MergedWithNext, "
                   "Contiguous"));
}

struct Piece {
  size_t begin, end;
  bool match;
};

// The whole of `text` as alternating unmatched and matched pieces.
absl::StatusOr<std::vector<Piece>> FindPieces(const Regex& pattern, absl::string_view text) {
  std::vector<Piece> pieces;
  RegexMatcher matcher(pattern, text);
  size_t done = 0;
  size_t from = 0;
  while (from <= text.size()) {
    BATON_ASSIGN_OR_RETURN(const bool found, matcher.Find(from));
    if (!found) break;
    if (matcher.begin() < done) {
      return absl::InvalidArgumentError("a pattern that moves back in the text is not supported");
    }
    if (matcher.begin() > done) pieces.push_back({done, matcher.begin(), false});
    if (matcher.end() > matcher.begin()) pieces.push_back({matcher.begin(), matcher.end(), true});
    done = matcher.end();
    from = done;
    if (matcher.end() == matcher.begin()) {  // an empty match: go on after the next character
      do {
        ++from;
      } while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
    }
  }
  if (done < text.size()) pieces.push_back({done, text.size(), false});
  return pieces;
}

// Joins pieces as `behavior` says; the result's words in order.
std::vector<std::pair<size_t, size_t>> JoinPieces(const std::vector<Piece>& pieces,
                                                  SplitBehavior behavior) {
  std::vector<std::pair<size_t, size_t>> words;
  bool previous_match = false;
  for (const Piece& piece : pieces) {
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kRemoved:
        if (piece.match) continue;
        break;
      case SplitBehavior::kMergedWithPrevious:
        join = piece.match && !previous_match;
        break;
      case SplitBehavior::kMergedWithNext:
        join = !piece.match && previous_match;
        break;
      case SplitBehavior::kContiguous:
        join = piece.match == previous_match;
        break;
    }
    if (join && !words.empty()) {
      words.back().second = piece.end;
    } else {
      words.emplace_back(piece.begin, piece.end);
    }
    previous_match = piece.match;
  }
  return words;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const nlohmann::json& json) {
  PreTokenizer out;
  BATON_ASSIGN_OR_RETURN(const auto parts, FlattenSequence(json, "pretokenizers", "pre_tokenizer"));
  for (const auto& [where, part] : parts) BATON_RETURN_IF_ERROR(ParseStep(*part, where, &out));
  return out;
}

absl::Status PreTokenizer::ParseStep(const nlohmann::json& json, const std::string& where,
                                     PreTokenizer* out) {
  const std::string type = json.at("type").get<std::string>();
  if (out->byte_level_) {
    return absl::UnimplementedError(
        absl::StrCat(where, ": '", type, "' after ByteLevel is not supported"));
  }
  if (type == "Split") return ParseSplit(json, where, out);
  if (type == "Metaspace") return ParseMetaspace(json, where, out);
  Step step;
  std::string pattern;
  if (type == "Digits") {
    BATON_ASSIGN_OR_RETURN(const bool each, BoolField(json, "individual_digits", false, where));
    pattern = "\\p{N}";
    step.behavior = each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  } else if (type == "ByteLevel") {
    BATON_ASSIGN_OR_RETURN(const bool prefix, BoolField(json, "add_prefix_space", true, where));
    step.prefix = " ";
    step.prefixed = prefix ? Prefixed::kEach : Prefixed::kNone;
    BATON_ASSIGN_OR_RETURN(const bool use_regex, BoolField(json, "use_regex", true, where));
    if (use_regex) pattern = kByteLevelPattern;
    out->byte_level_ = true;
  } else {
    return Unsupported(absl::StrCat(where, ".type"), absl::StrCat("'", type, "'"),
                       "null, ByteLevel, Metaspace, Split, Digits, a Sequence of these");
  }
  if (!pattern.empty()) {
    BATON_ASSIGN_OR_RETURN(step.pattern, Regex::Compile(RewriteWhiteSpace(pattern)));
  }
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ParseSplit(const nlohmann::json& json, const std::string& where,
                                      PreTokenizer* out) {
  Step step;
  const Json* pattern = FindField(json, "pattern");
  if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1 ||
      !(pattern->contains("Regex") || pattern->contains("String")) ||
      !pattern->begin()->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".pattern: expected {\"Regex\": string} or {\"String\": string}"));
  }
  const std::string text = pattern->begin()->get<std::string>();
  auto compiled =
      Regex::Compile(pattern->contains("Regex") ? RewriteWhiteSpace(text) : EscapeLiteral(text));
  if (!compiled.ok()) return Annotate(compiled.status(), absl::StrCat(where, ".pattern"));
  step.pattern = *std::move(compiled);
  BATON_ASSIGN_OR_RETURN(const std::string behavior, StringField(json, "behavior", where));
  BATON_ASSIGN_OR_RETURN(step.behavior, ParseBehavior(behavior, where));
  BATON_ASSIGN_OR_RETURN(step.invert, BoolField(json, "invert", false, where));
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ParseMetaspace(const nlohmann::json& json, const std::string& where,
                                          PreTokenizer* out) {
  Step step;
  BATON_ASSIGN_OR_RETURN(step.space, StringField(json, "replacement", where));
  const Utf8Char replacement = ReadUtf8(step.space);
  if (step.space.empty() || replacement.length != step.space.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".replacement: expected one character, found '", step.space, "'"));
  }
  step.prefix = step.space;
  // Older files have add_prefix_space alone.
  BATON_ASSIGN_OR_RETURN(const bool adds, BoolField(json, "add_prefix_space", true, where));
  std::string scheme = adds ? "always" : "never";
  if (FindField(json, "prepend_scheme") != nullptr) {
    BATON_ASSIGN_OR_RETURN(scheme, StringField(json, "prepend_scheme", where));
  }
  if (scheme == "always") {
    step.prefixed = Prefixed::kEach;
  } else if (scheme == "first") {
    step.prefixed = Prefixed::kFirst;
  } else if (scheme != "never") {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".prepend_scheme: '", scheme, "' is not one of first, always, never"));
  }
  BATON_ASSIGN_OR_RETURN(const bool split, BoolField(json, "split", true, where));
  if (split) {
    BATON_ASSIGN_OR_RETURN(step.pattern, Regex::Compile(EscapeLiteral(step.space)));
    step.behavior = SplitBehavior::kMergedWithNext;
  }
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::Split(absl::string_view text, TextPlace place,
                                 std::vector<std::string>* words) const {
  std::vector<std::string> current = {std::string(text)};
  for (const Step& step : steps_) {
    std::vector<std::string> next;
    TextPlace at = place;
    for (size_t i = 0; i < current.size(); ++i) {
      BATON_ASSIGN_OR_RETURN(const bool keeps_start, Apply(step, current[i], at, &next));
      if (i == 0 && !keeps_start) place = TextPlace::kPieceStart;
      at = TextPlace::kPieceStart;
    }
    current = std::move(next);
  }
  for (std::string& word : current) {
    if (!word.empty()) words->push_back(std::move(word));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PreTokenizer::Apply(const Step& step, const std::string& word, TextPlace place,
                                         std::vector<std::string>* words) {
  std::string changed;
  const std::string* text = &word;
  if (!step.space.empty()) {
    changed = absl::StrReplaceAll(word, {{" ", step.space}});
    text = &changed;
  }
  const bool prefixed = (step.prefixed == Prefixed::kEach && place != TextPlace::kInside) ||
                        (step.prefixed == Prefixed::kFirst && place == TextPlace::kTextStart);
  size_t start = 0;  // of what `word` has itself
  if (prefixed && !absl::StartsWith(*text, step.prefix)) {
    changed = step.prefix + *text;
    text = &changed;
    start = step.prefix.size();
  }
  if (!step.pattern.has_value()) {
    words->push_back(*text);
    return true;
  }
  auto pieces = FindPieces(*step.pattern, *text);
  if (!pieces.ok()) return Annotate(pieces.status(), "pre_tokenizer");
  if (step.invert) {
    for (Piece& piece : *pieces) piece.match = !piece.match;
  }
  const auto ranges = JoinPieces(*pieces, step.behavior);
  for (const auto& [begin, end] : ranges) words->push_back(text->substr(begin, end - begin));
  return !ranges.empty() && ranges.front().first <= start;
}

}  // namespace baton::tokenizer
