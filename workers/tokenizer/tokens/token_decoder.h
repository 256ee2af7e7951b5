// The decoder of a vocabulary's tokens to the text that they stand for.
//
// Understands the `decoder` of a Hugging Face tokenizer.json: ByteLevel (GPT-2, Llama-3, Qwen2), or
// a SentencePiece-style Sequence (Llama-2, Mistral) of Replace (of a String), ByteFallback, Fuse
// and Strip (at the start of the text), in this order, each of which but Fuse may be missing.
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_TOKEN_DECODER_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_TOKEN_DECODER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::tokenizer {

class TokenDecoder {
 public:
  struct Token {
    std::string bytes;
    /// The token is one byte of a character ("<0x0A>"). A run of such tokens is decoded as a whole:
    /// if it is not well-formed UTF-8, each of its bytes becomes U+FFFD.
    bool is_byte = false;
  };

  /// `json` is the value of "decoder". UNIMPLEMENTED for a kind that is not supported,
  /// INVALID_ARGUMENT for a broken one, and for one that may grow a token without bound
  /// (GrowthLimit in json_components.h); all say where.
  [[nodiscard]] static absl::StatusOr<TokenDecoder> FromJson(const nlohmann::json& json);

  /// The bytes that the token with this text in tokenizer.json stands for.
  [[nodiscard]] Token Decode(absl::string_view text) const;

  /// The vocabulary is in the byte alphabet (byte_level.h).
  bool byte_level() const { return byte_level_; }
  /// Up to so many of `strip_byte` are left out at the start of a decoded text.
  int64_t strip_count() const { return strip_count_; }
  char strip_byte() const { return strip_byte_; }

 private:
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  std::vector<std::pair<std::string, std::string>> replacements_;
  int64_t strip_count_ = 0;
  char strip_byte_ = ' ';
};

/// Joins decoded tokens to text, which is always valid UTF-8, as they come.
class TextJoiner {
 public:
  explicit TextJoiner(const TokenDecoder* decoder);
  /// Appends the text that is certain once `bytes`, a token of this kind, has come.
  void Push(absl::string_view bytes, bool is_byte, std::string* out);
  /// Appends the rest, when nothing more will come; the joiner is then as new.
  void Finish(std::string* out);

 private:
  void EndRun(std::string* out);
  void Emit(absl::string_view text, std::string* out);

  const TokenDecoder* const decoder_;
  int64_t strips_left_;
  std::string held_;  // a run of byte tokens; byte-level: at most 3 bytes, the beginning of a
                      // character
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_TOKEN_DECODER_H_
