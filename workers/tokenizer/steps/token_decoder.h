// The decoder of a vocabulary's tokens to the text that they stand for.
//
// Understands the `decoder` of a Hugging Face tokenizer.json: null (a space between tokens),
// ByteLevel (GPT-2, Llama-3, Qwen2), Metaspace (T5, XLM-R), WordPiece (BERT), ByteFallback, Fuse,
// Replace, Strip, or a Sequence of these, such as a SentencePiece-style one (Llama-2, Mistral):
// Replace, ByteFallback, Fuse, Strip. Refused by name: Metaspace and WordPiece behind anything but
// Replace and Strip, ByteFallback behind them, and what would need the whole text at once (behind
// Fuse or ByteLevel: all but one Strip and Replace of one character).
// Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_TOKEN_DECODER_H_
#define BATON_WORKERS_TOKENIZER_STEPS_TOKEN_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/steps/replacement.h"

namespace baton::tokenizer {

class TokenDecoder {
 public:
  struct Token {
    std::string bytes;
    /// The token is one byte of a character ("<0x0A>"). A run of such tokens is decoded as a whole:
    /// if it is not well-formed UTF-8, each of its bytes becomes U+FFFD.
    bool is_byte = false;
  };
  /// Up to `start` of `character` are left out at the start of a text and `stop` at its end.
  struct Strip {
    std::string character;
    int64_t start = 0;
    int64_t stop = 0;
  };

  /// `json` is the value of "decoder". UNIMPLEMENTED for a kind that is not supported,
  /// INVALID_ARGUMENT for a broken one, and for one that may grow a token without bound
  /// (GrowthLimit in json_components.h); all say where.
  [[nodiscard]] static absl::StatusOr<TokenDecoder> FromJson(const nlohmann::json& json);

  /// The bytes that the token with this text in tokenizer.json stands for, `first` of a text or
  /// behind others. RESOURCE_EXHAUSTED when a pattern needs too much work.
  [[nodiscard]] absl::StatusOr<Token> Decode(absl::string_view text, bool first = false) const;

  /// The vocabulary is in the byte alphabet (byte_level.h).
  bool byte_level() const { return byte_level_; }
  /// The first token of a text may stand for other bytes than behind others.
  bool first_differs() const { return joint_ != Joint::kNone; }

 private:
  friend class TextJoiner;
  /// What stands between tokens.
  enum class Joint { kNone, kSpace, kMetaspace, kWordPiece };
  struct Step {
    std::vector<Replacement> replacement;  // one, or none: strip
    Strip strip;
  };
  absl::Status Add(const Json& part, const std::string& where, GrowthLimit* growth);
  absl::Status AddJoint(const std::string& type, const Json& part, const std::string& where);
  absl::Status AddStep(const std::string& type, const Json& part, const std::string& where,
                       GrowthLimit* growth);
  std::string Joined(std::string text, bool first) const;
  static absl::StatusOr<std::string> Apply(const std::vector<Step>& steps, std::string text);

  std::vector<Step> before_joint_;  // of each token
  Joint joint_ = Joint::kNone;
  std::string joint_text_;         // of kMetaspace: what a space is; of kWordPiece: the prefix
  bool joint_keeps_first_ = true;  // of kMetaspace: a space before the first token stays
  bool joint_cleans_ = false;      // of kWordPiece: takes spaces before punctuation away
  std::vector<Step> behind_joint_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  std::vector<Step> behind_bytes_;  // of each token, once runs of bytes are characters
  bool fused_ = false;
  Strip fused_strip_;  // of the whole text
};

/// Joins decoded tokens to text, which is always valid UTF-8, as they come.
class TextJoiner {
 public:
  explicit TextJoiner(const TokenDecoder* decoder);
  /// Appends the text that is certain once `bytes`, a token of this kind, has come.
  void Push(absl::string_view bytes, bool is_byte, std::string* out);
  /// Appends the rest, when nothing more will come; the joiner is then as new.
  void Finish(std::string* out);
  /// No token has come yet.
  bool empty() const { return empty_; }

 private:
  void EndRun(std::string* out);
  void Emit(absl::string_view text, std::string* out);
  void EmitFused(absl::string_view text, std::string* out);

  const TokenDecoder* const decoder_;
  bool empty_ = true;
  int64_t strips_left_;
  std::string held_;  // a run of byte tokens; byte-level: at most 3 bytes, the beginning of a
                      // character
  std::string tail_;  // what Strip may leave out if the text ends here
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_TOKEN_DECODER_H_
