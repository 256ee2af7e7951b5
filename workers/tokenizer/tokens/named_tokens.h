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
  std::function<bool(int32_t)> has_id;
};

/// Checks `added`, the added tokens of tokenizer.json. Each has the id that the file says, for the
/// model was trained with it; `warning` tells of the first that `tokenizers` numbers otherwise (a
/// token of the model keeps its id, new ones are numbered behind the others in the order of the
/// file). INVALID_ARGUMENT for an id of another token, and for another id than the model has. Of
/// several tokens of one text the last stays; empty ones are left out.
[[nodiscard]] absl::Status CheckAddedTokens(const ModelVocabulary& vocabulary,
                                            std::vector<AddedToken>* added, std::string* warning);

/// Adds `named` to `added`, the added tokens of tokenizer.json, or changes the flags of those that
/// are there. A token that is new gets the id that its file says, if no other token has it, else
/// the next, as in `tokenizers`. Where transformers gives another id than the file says, `warning`
/// tells of the first. INVALID_ARGUMENT for an id that is not free or that tokenizer.json has
/// otherwise, and for a second new token that is `by_key`. An eos_token, bos_token or
/// pad_token that is new is left out, for ParseSideFiles to refuse.
[[nodiscard]] absl::Status MergeNamedTokens(const std::vector<NamedToken>& named,
                                            const ModelVocabulary& vocabulary,
                                            std::vector<AddedToken>* added, std::string* warning);

/// A token of a file's object, such as added_tokens[0], without its id. `where` stands in messages.
[[nodiscard]] absl::StatusOr<AddedToken> ParseAddedToken(const Json& json,
                                                         const std::string& where);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_NAMED_TOKENS_H_
