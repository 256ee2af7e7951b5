#include "workers/tokenizer/tokens/token_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/tokens/byte_level.h"
#include "workers/tokenizer/tokens/json_components.h"

namespace baton::tokenizer {
namespace {

constexpr char kSupported[] =
    "ByteLevel, or a Sequence of Replace, ByteFallback, Fuse and Strip in this order";
constexpr int64_t kMaxStrips = 1 << 20;

// "<0x0A>": six characters, two hexadecimal digits, or '+' and one, as the reference has it.
bool IsByteText(absl::string_view text) {
  return text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>' &&
         (text[3] == '+' || absl::ascii_isxdigit(static_cast<unsigned char>(text[3]))) &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[4]));
}

// The place of a type in a Sequence; -1: not supported.
int OrderOf(absl::string_view type) {
  constexpr absl::string_view kOrder[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
  for (int i = 0; i < 4; ++i) {
    if (kOrder[i] == type) return i;
  }
  return -1;
}

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::FromJson(const nlohmann::json& json) {
  TokenDecoder out;
  BATON_ASSIGN_OR_RETURN(const auto parts, FlattenSequence(json, "decoders", "decoder"));
  if (parts.empty()) return Unsupported("decoder", "null", kSupported);
  if (parts.size() == 1 && parts[0].second->at("type") == "ByteLevel") {
    out.byte_level_ = true;
    return out;
  }
  GrowthLimit growth;
  int last = 0;
  bool fused = false;
  for (const auto& [where, part] : parts) {
    const std::string type = part->at("type").get<std::string>();
    const int order = OrderOf(type);
    if (order < last || (order == last && order > 0)) {
      return Unsupported(absl::StrCat(where, ".type"),
                         absl::StrCat("'", type, "'", order < 0 ? "" : " after what is before it"),
                         kSupported);
    }
    last = order;
    if (type == "Replace") {
      BATON_ASSIGN_OR_RETURN(std::string pattern, LiteralPattern(*part, where));
      BATON_ASSIGN_OR_RETURN(std::string content, StringField(*part, "content", where));
      BATON_RETURN_IF_ERROR(growth.AddChange(pattern.size(), content.size(), where));
      out.replacements_.emplace_back(std::move(pattern), std::move(content));
    } else if (type == "ByteFallback") {
      out.byte_fallback_ = true;
    } else if (type == "Fuse") {
      fused = true;
    } else {
      BATON_ASSIGN_OR_RETURN(const std::string content, StringField(*part, "content", where));
      const Json* start = FindField(*part, "start");
      const Json* stop = FindField(*part, "stop");
      if (content.size() != 1 || !fused || (stop != nullptr && *stop != 0)) {
        return Unsupported(where, "a Strip that is not of one ASCII character, after Fuse, stop 0",
                           kSupported);
      }
      BATON_ASSIGN_OR_RETURN(out.strip_count_,
                             IntegerValue(start == nullptr ? Json(0) : *start, 0, kMaxStrips,
                                          absl::StrCat(where, ".start")));
      out.strip_byte_ = content[0];
    }
  }
  return out;
}

TokenDecoder::Token TokenDecoder::Decode(absl::string_view text) const {
  if (byte_level_) return {TokenTextToBytes(text).value_or(std::string(text)), false};
  std::string replaced(text);
  for (const auto& [pattern, content] : replacements_) {
    absl::StrReplaceAll({{pattern, content}}, &replaced);
  }
  if (!byte_fallback_ || !IsByteText(replaced)) return {std::move(replaced), false};
  if (replaced[3] == '+') replaced[3] = '0';
  return {absl::HexStringToBytes(absl::string_view(replaced).substr(3, 2)), true};
}

TextJoiner::TextJoiner(const TokenDecoder* decoder)
    : decoder_(decoder), strips_left_(decoder->strip_count()) {}

void TextJoiner::Push(absl::string_view bytes, bool is_byte, std::string* out) {
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
  if (IsValidUtf8(held_)) {
    Emit(held_, out);
  } else {
    for (size_t i = 0; i < held_.size(); ++i) Emit("\xEF\xBF\xBD", out);
  }
  held_.clear();
}

void TextJoiner::Emit(absl::string_view text, std::string* out) {
  while (strips_left_ > 0 && !text.empty()) {
    if (text[0] != decoder_->strip_byte()) {
      strips_left_ = 0;
      break;
    }
    text.remove_prefix(1);
    --strips_left_;
  }
  out->append(text.data(), text.size());
}

void TextJoiner::Finish(std::string* out) {
  if (decoder_->byte_level()) {
    Emit(ReplaceInvalidUtf8(held_), out);
    held_.clear();
  } else {
    EndRun(out);
  }
  strips_left_ = decoder_->strip_count();
}

}  // namespace baton::tokenizer
