// A tokenizer, from text to token ids and back, by a Hugging Face directory's tokenizer.json.
//
// Supported: model BPE (byte-level as GPT-2, Llama-3 and Qwen2 have it, or SentencePiece-style with
// byte_fallback as Llama-2 and Mistral), Unigram (T5, XLM-R), WordPiece (BERT) and WordLevel;
// normalizer, pre_tokenizer and decoder as in normalizer.h, pre_tokenizer.h and token_decoder.h;
// post_processor none, ByteLevel, TemplateProcessing, BertProcessing or RobertaProcessing; added
// tokens with all their flags. Anything else is UNIMPLEMENTED with its place in the file.
// Of `truncation` and `padding` only the padding token is read (named_tokens.h): nothing is ever
// cut or padded. Ids and texts are equal to those of Python's `tokenizers`
// (testdata/make_tokenizer_golden.py, compare_tokenizers.py).
//
// A Tokenizer is immutable: any number of threads may share one.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_TOKENIZER_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer {

class TextJoiner;
struct ControlScope;
struct TokenizerParts;
enum class TextPlace;

/// The context that a text follows. Some tokenizers prepend a space ("▁") to a text;
/// SentencePiece-style ones often to what follows an added token too, but never to text that
/// follows other text.
enum class Follows { kNothing, kAddedToken, kText };

struct EncodeOptions {
  /// Adds what the post_processor's template puts around a text (<|begin_of_text|>). Leave it off
  /// for text that a chat template rendered: the template writes these tokens itself.
  bool add_special_tokens = false;
  /// False: the text of a special token ("<|im_end|>") is plain text, as text of unknown origin
  /// should be.
  bool parse_special_tokens = true;
  /// Ids that count as special beside those that the tokenizer says are: what a chat template
  /// marks turns with, what ends a response.
  absl::Span<const int32_t> control_ids;
  Follows follows = Follows::kNothing;
};

/// The other files of a directory that name tokens (named_tokens.h); each may be empty (absent).
struct TokenizerSideFiles {
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
  std::string added_tokens_json;
  std::string generation_config_json;
  std::string config_json;
};

/// The files of a directory that decide ids and texts.
struct TokenizerFiles {
  std::string tokenizer_json;
  TokenizerSideFiles side;
};
/// Reads them from `dir`. NOT_FOUND without tokenizer.json.
[[nodiscard]] absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& dir);

class Tokenizer {
 public:
  /// Reads `dir`/tokenizer.json and, where they exist, the files of TokenizerSideFiles. NOT_FOUND
  /// without tokenizer.json.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& dir);
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(
      absl::string_view tokenizer_json, const TokenizerSideFiles& side_files = {});
  ~Tokenizer();

  /// Any bytes are accepted; bytes that are not UTF-8 are encoded byte by byte. INVALID_ARGUMENT
  /// names a character that the vocabulary does not cover when there is no unk token.
  [[nodiscard]] absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options = {}) const;

  /// As above, for a text whose content is plain text: special tokens are found in the template's
  /// own parts alone. The text is cut into words as a whole, so that without special tokens in the
  /// content the ids are those of the whole text; only Unicode normalization, where the tokenizer
  /// has it, joins no characters across a border.
  [[nodiscard]] absl::StatusOr<std::vector<int32_t>> Encode(
      const RenderedText& text, const EncodeOptions& options = {}) const;

  /// The context of a text that is encoded after `text`.
  Follows FollowsAfter(const RenderedText& text, const EncodeOptions& options = {}) const;

  /// Text that is always valid UTF-8: ill-formed bytes become U+FFFD. Ids without a token (a
  /// model's vocabulary may be padded) give nothing. No clean-up of spaces is done, but that which
  /// a SentencePiece-style tokenizer prepended is left out, as its decoder says.
  [[nodiscard]] std::string Decode(absl::Span<const int32_t> ids,
                                   bool skip_special_tokens = true) const;
  /// The exact bytes, those of one token after the other's: Decode before the replacement, with a
  /// prepended space. DecodeBytes(Encode(x)) == x for whatever neither a normalizer, a prepended
  /// space, lstrip/rstrip nor an unk token has changed.
  [[nodiscard]] std::string DecodeBytes(absl::Span<const int32_t> ids,
                                        bool skip_special_tokens = true) const;

  /// One more than the largest id, added tokens included.
  int64_t vocab_size() const;
  /// By the token's text in tokenizer.json (a byte-level one is in the byte alphabet: "Ġthe").
  std::optional<int32_t> TokenToId(absl::string_view token) const;
  /// The bytes the token stands for; empty when there is no such id.
  absl::string_view TokenBytes(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  /// The text that an added token is found by; empty for any other id.
  absl::string_view AddedText(int32_t id) const;

  /// What a user should know of ids that other engines see otherwise; empty: nothing.
  const std::string& warning() const;

  /// Ids that end a response: those of generation_config.json (else config.json), then
  /// tokenizer_config.json's eos_token. Without duplicates; may be empty.
  const std::vector<int32_t>& eos_ids() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> pad_id() const;
  std::optional<int32_t> unk_id() const;

 private:
  friend class StreamDecoder;

  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  void Join(absl::Span<const int32_t> ids, bool skip_special_tokens, TextJoiner* joiner,
            std::string* out) const;
  absl::StatusOr<std::vector<int32_t>> EncodeScoped(absl::string_view text,
                                                    const ControlScope& control,
                                                    const EncodeOptions& options) const;
  absl::Status EncodePlain(absl::string_view text, TextPlace place, const ControlScope& control,
                           std::vector<int32_t>* ids) const;
  /// TokenModel::Encode of a word of the pre-tokenizer.
  std::optional<size_t> EncodeWord(absl::string_view word, std::vector<int32_t>* ids) const;
  absl::Status EncodeWords(absl::string_view text, TextPlace place,
                           std::vector<int32_t>* ids) const;

  const std::unique_ptr<const TokenizerParts> parts_;
};

/// Decodes a response as its tokens arrive. The strings returned, one after the other, are what
/// Tokenizer::Decode gives for all tokens at once; bytes of a character that is not complete yet,
/// and a run of tokens that are single bytes, are held back. One thread. The tokenizer must outlive
/// it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer* tokenizer, bool skip_special_tokens = true);
  ~StreamDecoder();
  [[nodiscard]] std::string Push(absl::Span<const int32_t> ids);
  /// The rest, when no more tokens will come; the decoder is then as new.
  [[nodiscard]] std::string Finish();

 private:
  const Tokenizer* const tokenizer_;
  const bool skip_special_tokens_;
  const std::unique_ptr<TextJoiner> joiner_;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_TOKENIZER_H_
