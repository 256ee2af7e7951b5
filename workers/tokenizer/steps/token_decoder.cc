#include "workers/tokenizer/steps/token_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/byte_level.h"
#include "workers/tokenizer/steps/json_components.h"

namespace baton::tokenizer {
namespace {

constexpr char kSupported[] =
    "null, ByteLevel, Metaspace, WordPiece, ByteFallback, Fuse, Replace, Strip, a Sequence of "
    "these "
    "in the order Replace and Strip, Metaspace or WordPiece, ByteFallback, Fuse, Strip";
constexpr int64_t kMaxStrips = 1 << 20;

// "<0x0A>": six characters, two hexadecimal digits, or '+' and one, as the reference has it.
bool IsByteText(absl::string_view text) {
  return text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>' &&
         (text[3] == '+' || absl::ascii_isxdigit(static_cast<unsigned char>(text[3]))) &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[4]));
}

absl::StatusOr<TokenDecoder::Strip> ParseStrip(const Json& part, const std::string& where) {
  TokenDecoder::Strip out;
  BATON_ASSIGN_OR_RETURN(out.character, StringField(part, "content", where));
  if (out.character.empty() || ReadUtf8(out.character).length != out.character.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".content: expected one character, found '", out.character, "'"));
  }
  const std::pair<const char*, int64_t*> counts[] = {{"start", &out.start}, {"stop", &out.stop}};
  for (const auto& [key, count] : counts) {
    const Json* field = FindField(part, key);
    BATON_ASSIGN_OR_RETURN(*count, IntegerValue(field == nullptr ? Json(0) : *field, 0, kMaxStrips,
                                                absl::StrCat(where, ".", key)));
  }
  return out;
}

// `text` without the strip's characters at its start and end.
std::string Stripped(absl::string_view text, const TokenDecoder::Strip& strip) {
  for (int64_t i = 0; i < strip.start && absl::ConsumePrefix(&text, strip.character); ++i) {
  }
  for (int64_t i = 0; i < strip.stop && absl::ConsumeSuffix(&text, strip.character); ++i) {
  }
  return std::string(text);
}

// WordPiece's clean-up of English: one replacement after the other, as the reference has them.
std::string CleanUp(std::string text) {
  static constexpr std::pair<absl::string_view, absl::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& replacement : kReplacements) absl::StrReplaceAll({replacement}, &text);
  return text;
}

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::FromJson(const nlohmann::json& json) {
  TokenDecoder out;
  if (json.is_null()) {
    out.joint_ = Joint::kSpace;
    return out;
  }
  BATON_ASSIGN_OR_RETURN(const auto parts, FlattenSequence(json, "decoders", "decoder"));
  GrowthLimit growth;
  for (const auto& [where, part] : parts) BATON_RETURN_IF_ERROR(out.Add(*part, where, &growth));
  return out;
}

absl::Status TokenDecoder::Add(const Json& part, const std::string& where, GrowthLimit* growth) {
  const std::string type = part.at("type").get<std::string>();
  const bool bytes = byte_level_ || byte_fallback_;
  const auto refuse = [&](absl::string_view what) {
    return Unsupported(absl::StrCat(where, ".type"), absl::StrCat("'", type, "'", what),
                       kSupported);
  };
  if (type == "Replace" || type == "Strip") return AddStep(type, part, where, growth);
  if (type == "Metaspace" || type == "WordPiece") {
    if (joint_ != Joint::kNone || bytes || fused_) return refuse(" after what is before it");
    return AddJoint(type, part, where);
  }
  if (type == "ByteLevel") {
    if (joint_ != Joint::kNone || bytes || fused_ || !before_joint_.empty()) {
      return refuse(" after what is before it");
    }
    byte_level_ = fused_ = true;
  } else if (type == "ByteFallback") {
    if (bytes || fused_ || joint_ != Joint::kNone) return refuse(" after what is before it");
    byte_fallback_ = true;
  } else if (type == "Fuse") {
    fused_ = true;
  } else {
    return refuse("");
  }
  return absl::OkStatus();
}

absl::Status TokenDecoder::AddJoint(const std::string& type, const Json& part,
                                    const std::string& where) {
  if (type == "WordPiece") {
    joint_ = Joint::kWordPiece;
    BATON_ASSIGN_OR_RETURN(joint_text_, StringField(part, "prefix", where));
    BATON_ASSIGN_OR_RETURN(joint_cleans_, BoolField(part, "cleanup", true, where));
    return absl::OkStatus();
  }
  joint_ = Joint::kMetaspace;
  BATON_ASSIGN_OR_RETURN(const MetaspaceOptions options, ParseMetaspaceOptions(part, where));
  joint_text_ = options.replacement;
  joint_keeps_first_ = options.scheme == MetaspaceOptions::Scheme::kNever;
  return absl::OkStatus();
}

absl::Status TokenDecoder::AddStep(const std::string& type, const Json& part,
                                   const std::string& where, GrowthLimit* growth) {
  Step step;
  if (type == "Replace") {
    BATON_ASSIGN_OR_RETURN(Replacement replacement, Replacement::FromJson(part, where, growth));
    const std::string& text = replacement.text();
    if (fused_ && (text.empty() || ReadUtf8(text).length != text.size() ||
                   fused_strip_.start + fused_strip_.stop > 0)) {
      return Unsupported(where, "a Replace of more than one character, or behind Strip, after Fuse",
                         kSupported);
    }
    step.replacement.push_back(std::move(replacement));
  } else {
    BATON_ASSIGN_OR_RETURN(step.strip, ParseStrip(part, where));
    if (fused_ && fused_strip_.start + fused_strip_.stop > 0) {
      return Unsupported(where, "a second Strip after Fuse", kSupported);
    }
    if (fused_) {
      fused_strip_ = step.strip;
      return absl::OkStatus();
    }
  }
  const bool bytes = byte_level_ || byte_fallback_ || fused_;
  (bytes                    ? behind_bytes_
   : joint_ != Joint::kNone ? behind_joint_
                            : before_joint_)
      .push_back(std::move(step));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenDecoder::Apply(const std::vector<Step>& steps, std::string text) {
  for (const Step& step : steps) {
    if (step.replacement.empty()) {
      text = Stripped(text, step.strip);
    } else {
      BATON_ASSIGN_OR_RETURN(text, step.replacement[0].Apply(text));
    }
  }
  return text;
}

std::string TokenDecoder::Joined(std::string text, bool first) const {
  if (joint_ == Joint::kSpace) return first ? text : " " + text;
  if (joint_ == Joint::kMetaspace) {
    return absl::StrReplaceAll(text, {{joint_text_, first && !joint_keeps_first_ ? "" : " "}});
  }
  if (joint_ == Joint::kNone) return text;
  if (!first) {
    text = absl::StartsWith(text, joint_text_) ? text.substr(joint_text_.size()) : " " + text;
  }
  return joint_cleans_ ? CleanUp(std::move(text)) : text;
}

absl::StatusOr<TokenDecoder::Token> TokenDecoder::Decode(absl::string_view text, bool first) const {
  if (byte_level_) return Token{TokenTextToBytes(text).value_or(std::string(text)), false};
  BATON_ASSIGN_OR_RETURN(std::string out, Apply(before_joint_, std::string(text)));
  BATON_ASSIGN_OR_RETURN(out, Apply(behind_joint_, Joined(std::move(out), first)));
  if (!byte_fallback_ || !IsByteText(out)) return Token{std::move(out), false};
  if (out[3] == '+') out[3] = '0';
  return Token{absl::HexStringToBytes(absl::string_view(out).substr(3, 2)), true};
}

TextJoiner::TextJoiner(const TokenDecoder* decoder)
    : decoder_(decoder), strips_left_(decoder->fused_strip_.start) {}

void TextJoiner::Push(absl::string_view bytes, bool is_byte, std::string* out) {
  empty_ = false;
  if (decoder_->byte_level()) {
    held_.append(bytes.data(), bytes.size());
    // Everything is ready but a character that the end cuts; it is within the last three bytes.
    size_t ready = held_.size();
    for (size_t back = 1; back <= std::min<size_t>(3, held_.size()); ++back) {
      const absl::string_view tail = absl::string_view(held_).substr(held_.size() - back);
      if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80) continue;
      if (ReadUtf8(tail).kind == Utf8Char::Kind::kIncomplete) ready = held_.size() - back;
      break;
    }
    Emit(ReplaceInvalidUtf8(absl::string_view(held_).substr(0, ready)), out);
    held_.erase(0, ready);
  } else if (is_byte) {
    held_.append(bytes.data(), bytes.size());
  } else {
    EndRun(out);
    Emit(bytes, out);
  }
}

void TextJoiner::EndRun(std::string* out) {
  if (held_.empty()) return;
  if (IsValidUtf8(held_)) {
    Emit(held_, out);
  } else {
    for (size_t i = 0; i < held_.size(); ++i) Emit("\xEF\xBF\xBD", out);
  }
  held_.clear();
}

void TextJoiner::Emit(absl::string_view text, std::string* out) {
  if (decoder_->behind_bytes_.empty()) return EmitFused(text, out);
  // A pattern that gives up leaves the token as it is.
  const auto changed = TokenDecoder::Apply(decoder_->behind_bytes_, std::string(text));
  EmitFused(changed.ok() ? *changed : text, out);
}

void TextJoiner::EmitFused(absl::string_view text, std::string* out) {
  const TokenDecoder::Strip& strip = decoder_->fused_strip_;
  while (strips_left_ > 0 && !text.empty()) {
    if (!absl::ConsumePrefix(&text, strip.character)) {
      strips_left_ = 0;
      break;
    }
    --strips_left_;
  }
  if (strip.stop == 0) {
    out->append(text.data(), text.size());
    return;
  }
  // What Strip may take from the end waits for what comes next.
  tail_.append(text.data(), text.size());
  absl::string_view rest = tail_;
  for (int64_t i = 0; i < strip.stop && absl::ConsumeSuffix(&rest, strip.character); ++i) {
  }
  out->append(rest.data(), rest.size());
  tail_.erase(0, rest.size());
}

void TextJoiner::Finish(std::string* out) {
  if (decoder_->byte_level()) {
    Emit(ReplaceInvalidUtf8(held_), out);
    held_.clear();
  } else {
    EndRun(out);
  }
  tail_.clear();
  strips_left_ = decoder_->fused_strip_.start;
  empty_ = true;
}

}  // namespace baton::tokenizer
