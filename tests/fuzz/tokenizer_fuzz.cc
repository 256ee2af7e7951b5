// libFuzzer: any bytes as tokenizer.json, and any bytes as text, for a byte-level and a
// SentencePiece-style tokenizer. The first byte chooses.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/tokens/character_tokenizer.h"
#include "workers/tokenizer/tokens/tokenizer.h"

using baton::tokenizer::Tokenizer;

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// Every byte is a token, so that every text must come back as it was.
const Tokenizer& ByteTokenizer() {
  static const auto* const tokenizer = [] {
    std::string alphabet;
    for (char32_t c = 0; c < 0x800; ++c) baton::AppendUtf8(c, &alphabet);
    baton::tokenizer::CharacterTokenizerOptions options;
    options.unk_token = "<unk>";
    auto files = baton::tokenizer::MakeCharacterTokenizer(alphabet, options);
    return Tokenizer::FromJson(files->tokenizer_json)->release();
  }();
  return *tokenizer;
}

// As Mistral's, with all bytes.
const Tokenizer& SentencePieceTokenizer() {
  static const auto* const tokenizer = [] {
    nlohmann::json json = nlohmann::json::parse(R"({
        "added_tokens": [{"id": 1, "content": "<s>", "special": true, "normalized": false},
                         {"id": 2, "content": "ab", "single_word": true, "normalized": false}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
                  "vocab": {"<unk>": 0, "<s>": 1, "ab": 2, "\u2581": 3, "a": 4,
                            "\u2581a": 5, "aa": 6, "b": 7},
                  "merges": ["a a", "\u2581 a"]}})");
    for (int byte = 0; byte < 256; ++byte) {
      json["model"]["vocab"][absl::StrFormat("<0x%02X>", byte)] = 8 + byte;
    }
    return Tokenizer::FromJson(json.dump())->release();
  }();
  return *tokenizer;
}

// All but the space that it prepends, and but "\u2581", which becomes a space.
void CheckSentencePiece(absl::string_view input) {
  const Tokenizer& tokenizer = SentencePieceTokenizer();
  baton::tokenizer::EncodeOptions options;
  options.parse_special_tokens = false;
  const auto ids = tokenizer.Encode(input, options);
  Require(ids.ok());
  const std::string text = absl::StrReplaceAll(input, {{"\u2581", " "}});
  const std::string bytes = tokenizer.DecodeBytes(*ids, false);
  Require(bytes == text || bytes == " " + text ||  // an added token has its place prepended
          absl::StrReplaceAll(bytes, {{" ", ""}}) == absl::StrReplaceAll(text, {{" ", ""}}));
  baton::tokenizer::StreamDecoder decoder(&tokenizer, false);
  std::string streamed;
  for (const int32_t id : *ids) streamed += decoder.Push({id});
  Require(streamed + decoder.Finish() == tokenizer.Decode(*ids, false));
  options.follows = baton::tokenizer::Follows::kText;
  Require(tokenizer.Encode(input, options).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 2) {
    CheckSentencePiece(input);
    return 0;
  }
  if (data[0] % 3 == 0) {
    auto tokenizer = Tokenizer::FromJson(input);
    if (!tokenizer.ok()) return 0;
    const auto ids = (*tokenizer)->Encode("The runner's 12 b\xC3\xA9tons\n\n <eos>\xFF");
    if (ids.ok()) Require(baton::IsValidUtf8((*tokenizer)->Decode(*ids)));
    return 0;
  }
  const Tokenizer& tokenizer = ByteTokenizer();
  const auto ids = tokenizer.Encode(input);
  Require(ids.ok());
  bool covered = true;
  for (const int32_t id : *ids) covered = covered && id != *tokenizer.unk_id();
  if (covered) Require(tokenizer.DecodeBytes(*ids, false) == input);
  baton::tokenizer::StreamDecoder decoder(&tokenizer, false);
  std::string streamed;
  for (const int32_t id : *ids) streamed += decoder.Push({id});
  Require(streamed + decoder.Finish() == tokenizer.Decode(*ids, false));
  return 0;
}
