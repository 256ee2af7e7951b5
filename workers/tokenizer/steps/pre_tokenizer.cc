#include "workers/tokenizer/steps/pre_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/byte_level.h"
#include "workers/tokenizer/steps/json_components.h"

namespace baton::tokenizer {
namespace {

// GPT-2's pattern, which ByteLevel uses by default.
constexpr char kByteLevelPattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Punctuation, as BertPreTokenizer and Punctuation have it: Unicode's and all of ASCII's signs.
constexpr char kPunctuation[] = "[\\p{P}!-/:-@\\[-`{-~]";
constexpr int64_t kMaxFixedLength = 65535;  // of a repetition in PCRE2

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

// Joins pieces as `behavior` says; the result's words in order.
std::vector<std::pair<size_t, size_t>> JoinPieces(const std::vector<PatternPiece>& pieces,
                                                  SplitBehavior behavior) {
  std::vector<std::pair<size_t, size_t>> words;
  bool previous_match = false;
  for (const PatternPiece& piece : pieces) {
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
  words.erase(std::remove_if(words.begin(), words.end(),
                             [](const auto& word) { return word.first == word.second; }),
              words.end());
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
  if (out->byte_level_ && (type == "ByteLevel" || type == "Metaspace")) {
    return absl::UnimplementedError(
        absl::StrCat(where, ": '", type, "' after ByteLevel is not supported"));
  }
  if (out->byte_level_) out->cuts_alphabet_ = true;
  if (type == "Split") return ParseSplit(json, where, out);
  if (type == "Metaspace") return ParseMetaspace(json, where, out);
  if (type == "ByteLevel") return ParseByteLevel(json, where, out);
  if (type == "CharDelimiterSplit") return ParseDelimiter(json, where, out);
  return ParseNamed(type, json, where, out);
}

// The kinds that are a pattern with a name.
absl::Status PreTokenizer::ParseNamed(const std::string& type, const nlohmann::json& json,
                                      const std::string& where, PreTokenizer* out) {
  const std::string space = absl::StrCat("[", kWhiteSpaceCharacters, "]");
  if (type == "Digits") {
    BATON_ASSIGN_OR_RETURN(const bool each, BoolField(json, "individual_digits", false, where));
    return out->AddPattern("\\p{N}", each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (FindField(json, "behavior") != nullptr) {
      BATON_ASSIGN_OR_RETURN(const std::string name, StringField(json, "behavior", where));
      BATON_ASSIGN_OR_RETURN(behavior, ParseBehavior(name, where));
    }
    return out->AddPattern(kPunctuation, behavior);
  }
  if (type == "WhitespaceSplit") return out->AddPattern(space, SplitBehavior::kRemoved);
  if (type == "BertPreTokenizer") {
    BATON_RETURN_IF_ERROR(out->AddPattern(space, SplitBehavior::kRemoved));
    return out->AddPattern(kPunctuation, SplitBehavior::kIsolated);
  }
  if (type == "Whitespace") {  // words and runs of other signs
    BATON_RETURN_IF_ERROR(out->AddPattern(
        absl::StrCat("[", kWordCharacters, "]+|[^", kWordCharacters, kWhiteSpaceCharacters, "]+"),
        SplitBehavior::kRemoved));
    out->steps_.back().invert = true;
    return absl::OkStatus();
  }
  if (type == "FixedLength") {
    const Json* length = FindField(json, "length");
    BATON_ASSIGN_OR_RETURN(const int64_t characters,
                           IntegerValue(length == nullptr ? Json(5) : *length, 1, kMaxFixedLength,
                                        absl::StrCat(where, ".length")));
    return out->AddPattern(absl::StrCat("(?s:.{1,", characters, "})"), SplitBehavior::kIsolated);
  }
  return Unsupported(absl::StrCat(where, ".type"), absl::StrCat("'", type, "'"),
                     "null, BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, "
                     "Metaspace, Punctuation, Split, Whitespace, WhitespaceSplit, a Sequence of "
                     "these");
}

absl::Status PreTokenizer::AddPattern(absl::string_view pattern, SplitBehavior behavior) {
  Step step;
  BATON_ASSIGN_OR_RETURN(step.pattern, TextPattern::FromPcre2(pattern));
  step.behavior = behavior;
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ParseByteLevel(const nlohmann::json& json, const std::string& where,
                                          PreTokenizer* out) {
  Step step;
  BATON_ASSIGN_OR_RETURN(const bool prefix, BoolField(json, "add_prefix_space", true, where));
  step.prefix = " ";
  step.prefixed = prefix ? Prefixed::kEach : Prefixed::kNone;
  BATON_ASSIGN_OR_RETURN(const bool use_regex, BoolField(json, "use_regex", true, where));
  if (use_regex) {
    BATON_ASSIGN_OR_RETURN(const std::string pattern, TranslatePattern(kByteLevelPattern));
    BATON_ASSIGN_OR_RETURN(step.pattern, TextPattern::FromPcre2(pattern));
  }
  out->byte_level_ = true;
  out->byte_level_steps_ = out->steps_.size() + 1;
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ParseDelimiter(const nlohmann::json& json, const std::string& where,
                                          PreTokenizer* out) {
  BATON_ASSIGN_OR_RETURN(std::string delimiter, StringField(json, "delimiter", where));
  if (delimiter.empty() || ReadUtf8(delimiter).length != delimiter.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".delimiter: expected one character, found '", delimiter, "'"));
  }
  Step step;
  step.pattern = TextPattern::FromText(std::move(delimiter));
  step.behavior = SplitBehavior::kRemoved;
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ParseSplit(const nlohmann::json& json, const std::string& where,
                                      PreTokenizer* out) {
  Step step;
  BATON_ASSIGN_OR_RETURN(step.pattern, TextPattern::FromJson(json, where));
  BATON_ASSIGN_OR_RETURN(const std::string behavior, StringField(json, "behavior", where));
  BATON_ASSIGN_OR_RETURN(step.behavior, ParseBehavior(behavior, where));
  BATON_ASSIGN_OR_RETURN(step.invert, BoolField(json, "invert", false, where));
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ParseMetaspace(const nlohmann::json& json, const std::string& where,
                                          PreTokenizer* out) {
  BATON_ASSIGN_OR_RETURN(const MetaspaceOptions options, ParseMetaspaceOptions(json, where));
  using Scheme = MetaspaceOptions::Scheme;
  Step step;
  step.space = step.prefix = options.replacement;
  step.prefixed = options.scheme == Scheme::kAlways  ? Prefixed::kEach
                  : options.scheme == Scheme::kFirst ? Prefixed::kFirst
                                                     : Prefixed::kNone;
  const auto any_step = [out](const auto& is) {
    return std::any_of(out->steps_.begin(), out->steps_.end(), is);
  };
  if (step.prefixed == Prefixed::kFirst &&
      any_step([](const Step& s) { return s.pattern.has_value(); })) {
    if (any_step([](const Step& s) { return s.prefixed != Prefixed::kNone; })) {
      return Unsupported(absl::StrCat(where, ".prepend_scheme"),
                         "'first' behind steps that prepend and cut", "always, never there");
    }
    out->prepends_behind_cuts_ = true;
  }
  if (options.split) {
    step.pattern = TextPattern::FromText(step.space);
    step.behavior = SplitBehavior::kMergedWithNext;
  }
  out->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::Split(absl::string_view text, TextPlace place,
                                 std::vector<std::string>* words) const {
  std::vector<std::string> current = {std::string(text)};
  for (size_t done = 0; done < steps_.size(); ++done) {
    const Step& step = steps_[done];
    if (cuts_alphabet_ && done == byte_level_steps_) {
      for (std::string& word : current) word = BytesToTokenText(word);
    }
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
    if (word.empty()) continue;
    if (cuts_alphabet_) word = TokenTextToBytes(word).value_or(word);
    words->push_back(std::move(word));
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
  auto pieces = step.pattern->Find(*text);
  if (!pieces.ok()) return Annotate(pieces.status(), "pre_tokenizer");
  if (step.invert) {
    for (PatternPiece& piece : *pieces) piece.match = !piece.match;
  }
  const auto ranges = JoinPieces(*pieces, step.behavior);
  for (const auto& [begin, end] : ranges) words->push_back(text->substr(begin, end - begin));
  return !ranges.empty() && ranges.front().first <= start;
}

}  // namespace baton::tokenizer
