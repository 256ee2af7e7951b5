#include "workers/tokenizer/tokens/tokenizer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "relay/weights/file_io.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/byte_level.h"
#include "workers/tokenizer/tokens/tokenizer_parts.h"

namespace baton::tokenizer {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

// "'é' (U+00E9)" or "byte 0xFF": what stands at `at`, which may be inside a character.
std::string Describe(absl::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && at - begin < 3 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  const Utf8Char c = ReadUtf8(text.substr(begin));
  if (c.kind == Utf8Char::Kind::kValid && begin + c.length > at) {
    return absl::StrFormat("character '%s' (U+%04X)", text.substr(begin, c.length),
                           static_cast<uint32_t>(c.code_point));
  }
  return absl::StrFormat("byte 0x%02X", static_cast<unsigned char>(text[at]));
}

// The place of `part`, which is a part of `whole`.
size_t PlaceIn(absl::string_view whole, absl::string_view part) {
  return static_cast<size_t>(part.data() - whole.data());
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& dir) {
  TokenizerFiles out;
  BATON_ASSIGN_OR_RETURN(out.tokenizer_json,
                         relay::ReadFile(absl::StrCat(dir, "/tokenizer.json"), kMaxFileBytes));
  const std::pair<const char*, std::string*> files[] = {
      {"tokenizer_config.json", &out.side.tokenizer_config_json},
      {"special_tokens_map.json", &out.side.special_tokens_map_json},
      {"added_tokens.json", &out.side.added_tokens_json},
      {"generation_config.json", &out.side.generation_config_json},
      {"config.json", &out.side.config_json}};
  for (const auto& [name, text] : files) {
    auto read = relay::ReadFile(absl::StrCat(dir, "/", name), kMaxFileBytes);
    if (absl::IsNotFound(read.status())) continue;
    BATON_ASSIGN_OR_RETURN(*text, std::move(read));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& dir) {
  BATON_ASSIGN_OR_RETURN(const TokenizerFiles files, ReadTokenizerFiles(dir));
  auto tokenizer = FromJson(files.tokenizer_json, files.side);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), dir);
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(
    absl::string_view tokenizer_json, const TokenizerSideFiles& side_files) {
  BATON_ASSIGN_OR_RETURN(auto parts, ParseTokenizerJson(tokenizer_json, side_files));
  BATON_RETURN_IF_ERROR(ParseSideFiles(side_files, parts.get()));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       const EncodeOptions& options) const {
  const TextRange all = {0, text.size()};
  ControlScope control = {{}, options.control_ids};
  if (options.parse_special_tokens) control.ranges = absl::MakeConstSpan(&all, 1);
  return EncodeScoped(text, control, options);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(const RenderedText& text,
                                                       const EncodeOptions& options) const {
  ControlScope control = {{}, options.control_ids};
  if (options.parse_special_tokens) control.ranges = text.template_ranges();
  return EncodeScoped(text.text(), control, options);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeScoped(absl::string_view text,
                                                             const ControlScope& control,
                                                             const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = parts_->prefix_ids;
  TextPlace place = options.follows == Follows::kNothing      ? TextPlace::kTextStart
                    : options.follows == Follows::kAddedToken ? TextPlace::kPieceStart
                                                              : TextPlace::kInside;
  std::vector<AddedTokenFinder::Piece> pieces;
  parts_->raw_added.Split(text, control, &pieces);
  for (const auto& piece : pieces) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
    } else {
      const size_t begin = PlaceIn(text, piece.text);
      const auto ranges = Clip(control.ranges, begin, begin + piece.text.size());
      BATON_RETURN_IF_ERROR(EncodePlain(piece.text, place, {ranges, control.ids}, &ids));
    }
    place = TextPlace::kPieceStart;
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  }
  return ids;
}

// Text without raw added tokens: runs of valid UTF-8 are normalized and cut into words, other
// bytes are words of their own.
absl::Status Tokenizer::EncodePlain(absl::string_view text, TextPlace place,
                                    const ControlScope& control, std::vector<int32_t>* ids) const {
  const absl::string_view whole = text;
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    if (valid == 0) {
      const absl::string_view bad = text.substr(0, ReadUtf8(text).length);
      if (const auto uncovered = EncodeWord(bad, ids)) {
        return absl::InvalidArgumentError(absl::StrCat(
            Describe(bad, *uncovered), " has no token and the tokenizer has no unk_token"));
      }
      text.remove_prefix(bad.size());
      place = TextPlace::kInside;
      continue;
    }
    const absl::string_view good = text.substr(0, valid);
    text.remove_prefix(valid);
    const size_t begin = PlaceIn(whole, good);
    std::vector<TextRange> ranges = Clip(control.ranges, begin, begin + good.size());
    bool keeps_start = true;
    BATON_ASSIGN_OR_RETURN(
        const std::string normalized,
        parts_->normalizer.Normalize(good, place != TextPlace::kInside, &ranges, &keeps_start));
    // A text that lost its start has none that something may be prepended to.
    if (!keeps_start && place == TextPlace::kTextStart) place = TextPlace::kPieceStart;
    std::vector<AddedTokenFinder::Piece> pieces;
    parts_->normalized_added.Split(normalized, {ranges, control.ids}, &pieces);
    for (const auto& piece : pieces) {
      if (piece.id >= 0) {
        ids->push_back(piece.id);
      } else {
        BATON_RETURN_IF_ERROR(EncodeWords(piece.text, place, ids));
      }
      place = TextPlace::kPieceStart;
    }
    place = TextPlace::kInside;
  }
  return absl::OkStatus();
}

std::optional<size_t> Tokenizer::EncodeWord(absl::string_view word,
                                            std::vector<int32_t>* ids) const {
  if (!parts_->spells_bytes) return parts_->model->Encode(word, ids);
  // A word that cannot be encoded is named from its start.
  if (parts_->model->Encode(BytesToTokenText(word), ids).has_value()) return 0;
  return std::nullopt;
}

absl::Status Tokenizer::EncodeWords(absl::string_view text, TextPlace place,
                                    std::vector<int32_t>* ids) const {
  std::vector<std::string> words;
  BATON_RETURN_IF_ERROR(parts_->pre_tokenizer.Split(text, place, &words));
  for (const std::string& word : words) {
    if (const auto uncovered = EncodeWord(word, ids)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(word, *uncovered),
                       " is not in the tokenizer's vocabulary and there is no unk_token (in \"",
                       ReplaceInvalidUtf8(absl::string_view(word).substr(0, 40)), "\")"));
    }
  }
  return absl::OkStatus();
}

Follows Tokenizer::FollowsAfter(const RenderedText& text, const EncodeOptions& options) const {
  if (text.text().empty()) return options.follows;
  ControlScope control = {{}, options.control_ids};
  if (options.parse_special_tokens) control.ranges = text.template_ranges();
  std::vector<AddedTokenFinder::Piece> pieces;
  parts_->raw_added.Split(text.text(), control, &pieces);
  if (pieces.empty() || pieces.back().id >= 0) return Follows::kAddedToken;
  const absl::string_view last = pieces.back().text;
  if (!IsValidUtf8(last)) return Follows::kText;
  std::vector<TextRange> ranges =
      Clip(control.ranges, PlaceIn(text.text(), last), text.text().size());
  const auto normalized = parts_->normalizer.Normalize(last, /*prepends=*/true, &ranges);
  if (!normalized.ok()) return Follows::kText;
  pieces.clear();
  parts_->normalized_added.Split(*normalized, {ranges, control.ids}, &pieces);
  return !pieces.empty() && pieces.back().id >= 0 ? Follows::kAddedToken : Follows::kText;
}

std::string Tokenizer::DecodeBytes(absl::Span<const int32_t> ids, bool skip_special_tokens) const {
  std::string out;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    const absl::string_view bytes = TokenBytes(id);
    out.append(bytes.data(), bytes.size());
  }
  return out;
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const {
  std::string out;
  TextJoiner joiner(&parts_->decoder);
  Join(ids, skip_special_tokens, &joiner, &out);
  joiner.Finish(&out);
  return out;
}

void Tokenizer::Join(absl::Span<const int32_t> ids, bool skip_special_tokens, TextJoiner* joiner,
                     std::string* out) const {
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= parts_->tokens.size()) continue;
    const TokenizerParts::Token& token = parts_->tokens[id];
    if (!token.exists || (skip_special_tokens && token.special)) continue;
    const bool is_first = joiner->empty() && !parts_->first_tokens.empty();
    const TokenDecoder::Token& decoded = is_first ? parts_->first_tokens[id] : token.decoded;
    joiner->Push(decoded.bytes, decoded.is_byte, out);
  }
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(parts_->tokens.size()); }

std::optional<int32_t> Tokenizer::TokenToId(absl::string_view token) const {
  const auto it = parts_->token_to_id.find(std::string(token));
  if (it == parts_->token_to_id.end()) return std::nullopt;
  return it->second;
}

absl::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= parts_->tokens.size()) return {};
  return parts_->tokens[id].decoded.bytes;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < parts_->tokens.size() && parts_->tokens[id].special;
}

absl::string_view Tokenizer::AddedText(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= parts_->tokens.size()) return {};
  return parts_->tokens[id].added_text;
}

const std::string& Tokenizer::warning() const { return parts_->warning; }
const std::vector<int32_t>& Tokenizer::eos_ids() const { return parts_->eos_ids; }
std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad_id; }
std::optional<int32_t> Tokenizer::unk_id() const { return parts_->unk_id; }

StreamDecoder::StreamDecoder(const Tokenizer* tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer),
      skip_special_tokens_(skip_special_tokens),
      joiner_(std::make_unique<TextJoiner>(&tokenizer->parts_->decoder)) {}

StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::Push(absl::Span<const int32_t> ids) {
  std::string out;
  tokenizer_->Join(ids, skip_special_tokens_, joiner_.get(), &out);
  return out;
}

std::string StreamDecoder::Finish() {
  std::string out;
  joiner_->Finish(&out);
  return out;
}

}  // namespace baton::tokenizer
