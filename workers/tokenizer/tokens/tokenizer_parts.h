// The checked contents of tokenizer.json and its side files. Internal to Tokenizer.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_TOKENIZER_PARTS_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_TOKENIZER_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/tokenizer/steps/normalizer.h"
#include "workers/tokenizer/steps/pre_tokenizer.h"
#include "workers/tokenizer/steps/token_decoder.h"
#include "workers/tokenizer/tokens/added_tokens.h"
#include "workers/tokenizer/tokens/token_model.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {

struct TokenizerParts {
  struct Token {
    TokenDecoder::Token decoded;
    std::string added_text;  // as the file has it; of added tokens alone
    bool exists = false;
    bool special = false;
  };

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  bool spells_bytes = false;  // the model is given words in the byte alphabet
  TokenDecoder decoder;
  AddedTokenFinder raw_added;         // looked for first, in the text as given
  AddedTokenFinder normalized_added;  // looked for in what raw_added left, normalized
  std::vector<int32_t> prefix_ids;    // of the post_processor's template
  std::vector<int32_t> suffix_ids;
  std::vector<Token> tokens;  // by id
  /// By id, what a token stands for at the start of a text; empty where it makes no difference.
  std::vector<TokenDecoder::Token> first_tokens;
  Vocab token_to_id;
  std::string padding_token;  // the pad_token where no other file names one; empty: none
  std::string warning;        // of ids that engines see otherwise; empty: none
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id, pad_id, unk_id;
};

/// Everything but the special ids that the side files name; their added tokens are there.
[[nodiscard]] absl::StatusOr<std::unique_ptr<TokenizerParts>> ParseTokenizerJson(
    absl::string_view text, const TokenizerSideFiles& files);

/// Fills eos_ids, bos_id, pad_id, unk_id.
[[nodiscard]] absl::Status ParseSideFiles(const TokenizerSideFiles& files, TokenizerParts* parts);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_TOKENIZER_PARTS_H_
