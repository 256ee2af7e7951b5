#include "workers/tokenizer/steps/normalizer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/byte_level.h"
#include "workers/tokenizer/steps/charsmap.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/steps/unicode_text.h"

namespace baton::tokenizer {
namespace {

// Bytes that a normal form makes of one, at most (Unicode Standard Annex 15, section 14).
constexpr size_t kCanonicalGrowth = 3;
constexpr size_t kCompatibilityGrowth = 11;

// The characters that BERT cuts apart: its list of blocks of ideographs.
bool IsIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string RemoveIf(absl::string_view text, bool (*is_removed)(char32_t)) {
  return ChangeEachCharacter(text, [is_removed](char32_t c, std::string* out) {
    if (!is_removed(c)) AppendUtf8(c, out);
  });
}

// BERT's clean_text: no control characters, spaces for white space.
std::string Clean(absl::string_view text) {
  return ChangeEachCharacter(text, [](char32_t c, std::string* out) {
    const bool is_space = c == '\t' || c == '\n' || c == '\r' || IsWhiteSpace(c);
    const bool is_kept_control = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (IsControl(c) && !is_kept_control)) return;
    AppendUtf8(is_space ? U' ' : c, out);
  });
}

std::string SetIdeographsApart(absl::string_view text) {
  return ChangeEachCharacter(text, [](char32_t c, std::string* out) {
    const bool apart = IsIdeograph(c);
    if (apart) out->push_back(' ');
    AppendUtf8(c, out);
    if (apart) out->push_back(' ');
  });
}

// SentencePiece's rules for machine translation (Nmt).
std::string NormalizeNmt(absl::string_view text) {
  return ChangeEachCharacter(text, [](char32_t c, std::string* out) {
    const bool removed = (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) ||
                         c == 0x7F || c == 0x8F || c == 0x9F;
    if (removed) return;
    const bool is_space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                          c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    AppendUtf8(is_space ? U' ' : c, out);
  });
}

struct BertOptions {
  bool clean_text = true, ideographs_apart = true, strip_accents = true, lowercase = true;
};

std::string NormalizeBert(absl::string_view text, const BertOptions& options) {
  std::string out(text);
  if (options.clean_text) out = Clean(out);
  if (options.ideographs_apart) out = SetIdeographsApart(out);
  if (options.strip_accents) {
    out = RemoveIf(NormalizeUnicode(out, NormalForm::kD), IsNonspacingMark);
  }
  return options.lowercase ? LowerCase(out) : out;
}

absl::StatusOr<BertOptions> ParseBert(const Json& json, const std::string& where) {
  BertOptions out;
  BATON_ASSIGN_OR_RETURN(out.clean_text, BoolField(json, "clean_text", true, where));
  BATON_ASSIGN_OR_RETURN(out.ideographs_apart,
                         BoolField(json, "handle_chinese_chars", true, where));
  BATON_ASSIGN_OR_RETURN(out.lowercase, BoolField(json, "lowercase", true, where));
  BATON_ASSIGN_OR_RETURN(out.strip_accents, BoolField(json, "strip_accents", out.lowercase, where));
  return out;
}

absl::StatusOr<std::shared_ptr<const Charsmap>> ParseCharsmap(const Json& json,
                                                              const std::string& where) {
  BATON_ASSIGN_OR_RETURN(const std::string base64,
                         StringField(json, "precompiled_charsmap", where));
  auto charsmap = Charsmap::Create(base64);
  if (!charsmap.ok()) {
    return Annotate(charsmap.status(), absl::StrCat(where, ".precompiled_charsmap"));
  }
  return std::make_shared<const Charsmap>(*std::move(charsmap));
}

// The kinds without settings: for each `from` bytes, `to` at most.
struct PlainChange {
  absl::string_view type;
  size_t from;
  size_t to;
  std::string (*change)(absl::string_view);
  bool removes_characters = false;
};

absl::Span<const PlainChange> PlainChanges() {
  using Text = absl::string_view;
  static constexpr PlainChange kChanges[] = {
      {"NFC", 1, kCanonicalGrowth, [](Text t) { return NormalizeUnicode(t, NormalForm::kC); }},
      {"NFD", 1, kCanonicalGrowth, [](Text t) { return NormalizeUnicode(t, NormalForm::kD); }},
      {"NFKC", 1, kCompatibilityGrowth,
       [](Text t) { return NormalizeUnicode(t, NormalForm::kKc); }},
      {"NFKD", 1, kCompatibilityGrowth,
       [](Text t) { return NormalizeUnicode(t, NormalForm::kKd); }},
      {"Lowercase", 2, 3, LowerCase},
      {"StripAccents", 1, 1, [](Text t) { return RemoveIf(t, IsMark); }, true},
      {"Nmt", 1, 1, NormalizeNmt, true},
      {"ByteLevel", 1, 2, BytesToTokenText}};
  return kChanges;
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const nlohmann::json& json) {
  Normalizer out;
  GrowthLimit growth;
  BATON_ASSIGN_OR_RETURN(const auto parts, FlattenSequence(json, "normalizers", "normalizer"));
  for (const auto& [at, part] : parts) {
    BATON_ASSIGN_OR_RETURN(Step step, ParseStep(*part, at, &growth));
    out.steps_.push_back(std::move(step));
  }
  return out;
}

absl::StatusOr<Normalizer::Step> Normalizer::ParseStep(const nlohmann::json& json,
                                                       const std::string& where,
                                                       GrowthLimit* growth) {
  const std::string type = json.at("type").get<std::string>();
  for (const PlainChange& plain : PlainChanges()) {
    if (type != plain.type) continue;
    BATON_RETURN_IF_ERROR(growth->AddChange(plain.from, plain.to, where));
    return Step(Change{plain.change, plain.removes_characters});
  }
  if (type == "BertNormalizer") {
    BATON_ASSIGN_OR_RETURN(const BertOptions options, ParseBert(json, where));
    BATON_RETURN_IF_ERROR(growth->AddChange(1, kCanonicalGrowth, where));
    return Step(Change{[options](absl::string_view text) { return NormalizeBert(text, options); },
                       /*removes_characters=*/true});
  }
  if (type == "Precompiled") {
    BATON_ASSIGN_OR_RETURN(auto charsmap, ParseCharsmap(json, where));
    // The longest replacements are those of characters of three bytes.
    BATON_RETURN_IF_ERROR(growth->AddChange(3, charsmap->longest_replacement(), where));
    return Step(
        Change{[charsmap](absl::string_view text) { return charsmap->Normalize(text); }, false});
  }
  if (type == "Prepend") {
    BATON_ASSIGN_OR_RETURN(std::string text, StringField(json, "prepend", where));
    BATON_RETURN_IF_ERROR(growth->AddPrepend(text.size(), where));
    return Step(Prepend{std::move(text)});
  }
  if (type == "Replace") {
    BATON_ASSIGN_OR_RETURN(Replacement replacement, Replacement::FromJson(json, where, growth));
    return Step(std::move(replacement));
  }
  if (type == "Strip") {
    Strip strip;
    BATON_ASSIGN_OR_RETURN(strip.left, BoolField(json, "strip_left", true, where));
    BATON_ASSIGN_OR_RETURN(strip.right, BoolField(json, "strip_right", true, where));
    return Step(strip);
  }
  return Unsupported(absl::StrCat(where, ".type"), absl::StrCat("'", type, "'"),
                     "null, BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "
                     "Precompiled, Prepend, Replace, Strip, StripAccents, a Sequence of these");
}

std::string Normalizer::Apply(const Change& change, absl::string_view text,
                              std::vector<TextRange>* ranges) {
  std::string out;
  size_t done = 0;
  for (TextRange& range : *ranges) {
    out += change.apply(text.substr(done, range.begin - done));
    const size_t begin = out.size();
    out += change.apply(text.substr(range.begin, range.end - range.begin));
    done = range.end;
    range = {begin, out.size()};
  }
  return out += change.apply(text.substr(done));
}

std::string Normalizer::Apply(const Prepend& prepend, absl::string_view text,
                              std::vector<TextRange>* ranges) {
  if (text.empty()) return "";
  const size_t size = prepend.text.size();
  // A prepended text belongs to the range that it stands before: a token may begin with it.
  for (TextRange& range : *ranges) {
    range = {range.begin == 0 ? 0 : range.begin + size, range.end + size};
  }
  return absl::StrCat(prepend.text, text);
}

std::string Normalizer::Apply(const Strip& strip, absl::string_view text, bool at_start,
                              std::vector<TextRange>* ranges) {
  size_t begin = 0, end = 0;  // end: after the last character that is no white space
  bool only_spaces = true;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text.substr(at));
    if (!IsWhiteSpace(c.code_point)) {
      if (std::exchange(only_spaces, false)) begin = at;
      end = at + c.length;
    }
    at += c.length;
  }
  if (only_spaces) begin = text.size();
  if (!strip.left || !at_start) begin = 0;
  if (!strip.right) end = text.size();
  end = std::max(begin, end);
  const auto moved = [&](size_t place) { return std::clamp(place, begin, end) - begin; };
  for (TextRange& range : *ranges) range = {moved(range.begin), moved(range.end)};
  return std::string(text.substr(begin, end - begin));
}

bool Normalizer::prepends() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<Prepend>(step); });
}

absl::StatusOr<std::string> Normalizer::Normalize(absl::string_view text) const {
  std::vector<TextRange> none;
  return Normalize(text, /*prepends=*/true, &none);
}

absl::StatusOr<std::string> Normalizer::Normalize(absl::string_view text, bool prepends,
                                                  std::vector<TextRange>* ranges,
                                                  bool* keeps_start) const {
  std::string current(text);
  bool keeps = true;
  for (const Step& step : steps_) {
    const std::string first = current.substr(0, ReadUtf8(current).length);
    if (const auto* change = std::get_if<Change>(&step)) {
      keeps &= !change->removes_characters || first.empty() || !change->apply(first).empty();
      current = Apply(*change, current, ranges);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (prepends) current = Apply(*prepend, current, ranges);
    } else if (const auto* strip = std::get_if<Strip>(&step)) {
      keeps &=
          !strip->left || !prepends || first.empty() || !IsWhiteSpace(ReadUtf8(first).code_point);
      current = Apply(*strip, current, /*at_start=*/prepends, ranges);
    } else {
      BATON_ASSIGN_OR_RETURN(current, std::get<Replacement>(step).Apply(current, ranges, &keeps));
    }
  }
  if (keeps_start != nullptr) *keeps_start = keeps;
  return current;
}

}  // namespace baton::tokenizer
