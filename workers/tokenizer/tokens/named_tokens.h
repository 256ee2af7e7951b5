// The tokens that the files beside tokenizer.json name: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json. What is read of them and which file beats which
// is as in transformers 5 (PreTrainedTokenizerBase._from_pretrained, TokenizersBackend.__init__).
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_NAMED_TOKENS_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_NAMED_TOKENS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/common/schema/json_fields.h"
#include "workers/tokenizer/tokens/added_tokens.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {

/// tokenizer_config.json as transformers 5 takes it: without added_tokens_decoder, what
/// special_tokens_map.json says of a key beats it; with one, that file is not read. Empty texts
/// are absent files. INVALID_ARGUMENT for broken JSON.
[[nodiscard]] absl::StatusOr<Json> EffectiveTokenizerConfig(
    const std::string& tokenizer_config_json, const std::string& special_tokens_map_json);

/// A token that a file beside tokenizer.json names.
struct NamedToken {
  AddedToken token;            ///< Its id is that of the file, or -1 where the file says none.
  bool keeps_known = false;    ///< An added token of this text stays as it is.
  std::string where;           ///< "tokenizer_config.json.added_tokens_decoder['5']"
  bool by_key = false;         ///< One of a file's keys, whose order is not known.
  bool has_name = false;       ///< bos_token and its kin, or a key of the model's own.
  bool makes_special = false;  ///< An added token of this text becomes special.
};

/// All of them, in the order in which transformers 5 adds them: those of added_tokens_decoder (else
/// of added_tokens.json) by id, then bos_token and its kin, then extra_special_tokens.
/// `padding_token`, that of tokenizer.json's padding (empty: none), is the pad_token where no file
/// has this key. UNIMPLEMENTED for split_special_tokens: true.
[[nodiscard]] absl::StatusOr<std::vector<NamedToken>> ReadNamedTokens(
    const TokenizerSideFiles& files, const std::string& padding_token);

/// What the model of tokenizer.json has.
struct ModelVocabulary {
  std::function<std::optional<int32_t>(const std::string&)> find;
  int32_t size = 0;  ///< The number of its tokens.
};

/// Checks that the ids of `added`, the added tokens of tokenizer.json, are those that `tokenizers`
/// gives them, whatever the file says: a token of the model keeps its id, new ones are numbered
/// behind all others in the order of the file. INVALID_ARGUMENT names the first other id. Of
/// several tokens of one text the last stays; empty ones are left out.
[[nodiscard]] absl::Status CheckAddedTokens(const ModelVocabulary& vocabulary,
                                            std::vector<AddedToken>* added);

/// Adds `named` to `added`, the added tokens of tokenizer.json, or changes the flags of those that
/// are there. A token that is new gets the next id, as in `tokenizers`; INVALID_ARGUMENT where its
/// file says another, and for a second new token that is `by_key`. An eos_token, bos_token or
/// pad_token that is new is left out, for ParseSideFiles to refuse.
[[nodiscard]] absl::Status MergeNamedTokens(const std::vector<NamedToken>& named,
                                            const ModelVocabulary& vocabulary,
                                            std::vector<AddedToken>* added);

/// A token of a file's object, such as added_tokens[0], without its id. `where` stands in messages.
[[nodiscard]] absl::StatusOr<AddedToken> ParseAddedToken(const Json& json,
                                                         const std::string& where);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_NAMED_TOKENS_H_
