// libFuzzer: any bytes as tokenizer.json, and any bytes as text. The first byte chooses.
#include <cstdint>
#include <cstdlib>

#include "sdk/base/utf8.h"
#include "workers/tokenizer/character_tokenizer.h"
#include "workers/tokenizer/tokenizer.h"

using baton::engine::Tokenizer;

namespace {

// Every byte is a token, so that every text must come back as it was.
const Tokenizer& ByteTokenizer() {
  static const auto* const tokenizer = [] {
    std::string alphabet;
    for (char32_t c = 0; c < 0x800; ++c) baton::AppendUtf8(c, &alphabet);
    baton::engine::CharacterTokenizerOptions options;
    options.unk_token = "<unk>";
    auto files = baton::engine::MakeCharacterTokenizer(alphabet, options);
    return Tokenizer::FromJson(files->tokenizer_json)->release();
  }();
  return *tokenizer;
}

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
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
  baton::engine::StreamDecoder decoder(&tokenizer, false);
  std::string streamed;
  for (const int32_t id : *ids) streamed += decoder.Push({id});
  Require(streamed + decoder.Finish() == tokenizer.Decode(*ids, false));
  return 0;
}
