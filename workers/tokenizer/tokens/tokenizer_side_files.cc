// Reads the special ids that tokenizer_config.json, generation_config.json and config.json name.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/json_fields.h"
#include "workers/tokenizer/tokens/generation_config.h"
#include "workers/tokenizer/tokens/named_tokens.h"
#include "workers/tokenizer/tokens/tokenizer_parts.h"

namespace baton::tokenizer {
namespace {

void AddOnce(int32_t id, std::vector<int32_t>* ids) {
  if (std::find(ids->begin(), ids->end(), id) == ids->end()) ids->push_back(id);
}

// The id of `key` in tokenizer_config.json: a string, or an object with its "content".
absl::Status ReadNamedToken(const Json& root, const char* key, const TokenizerParts& parts,
                            std::optional<int32_t>* out) {
  constexpr char kFile[] = "tokenizer_config.json";
  const Json* field = FindField(root, key);
  if (field == nullptr) return absl::OkStatus();
  std::string text;
  if (field->is_object()) {
    BATON_ASSIGN_OR_RETURN(text, StringField(*field, "content", absl::StrCat(kFile, ".", key)));
  } else {
    BATON_ASSIGN_OR_RETURN(text, StringField(root, key, kFile));
  }
  const auto it = parts.token_to_id.find(text);
  if (it == parts.token_to_id.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFile, ".", key, ": '", text, "' is not a token of tokenizer.json"));
  }
  *out = it->second;
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseSideFiles(const TokenizerSideFiles& files, TokenizerParts* parts) {
  // config.json names its special ids with the same keys.
  for (const std::string* text : {&files.generation_config_json, &files.config_json}) {
    if (text->empty()) continue;
    const std::string file = text == &files.config_json ? "config.json" : "generation_config.json";
    BATON_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(*text, file));
    Json ids = Json::object();
    for (const char* key : {"eos_token_id", "bos_token_id", "pad_token_id"}) {
      if (const Json* field = FindField(root, key)) ids[key] = *field;
    }
    auto config = GenerationConfig::FromJson(ids.dump(), file);
    if (!config.ok()) return config.status();
    if (parts->eos_ids.empty()) {
      for (const int32_t id : config->eos_token_ids) AddOnce(id, &parts->eos_ids);
    }
    if (!parts->bos_id.has_value()) parts->bos_id = config->bos_token_id;
    if (!parts->pad_id.has_value()) parts->pad_id = config->pad_token_id;
  }
  BATON_ASSIGN_OR_RETURN(const Json root, EffectiveTokenizerConfig(files.tokenizer_config_json,
                                                                   files.special_tokens_map_json));
  std::optional<int32_t> eos;
  BATON_RETURN_IF_ERROR(ReadNamedToken(root, "eos_token", *parts, &eos));
  if (eos.has_value()) AddOnce(*eos, &parts->eos_ids);
  // The tokenizer's own word on these two goes first.
  BATON_RETURN_IF_ERROR(ReadNamedToken(root, "bos_token", *parts, &parts->bos_id));
  BATON_RETURN_IF_ERROR(ReadNamedToken(root, "pad_token", *parts, &parts->pad_id));
  const auto padding = parts->token_to_id.find(parts->padding_token);
  if (!root.contains("pad_token") && padding != parts->token_to_id.end()) {
    parts->pad_id = padding->second;
  }
  return absl::OkStatus();
}

}  // namespace baton::tokenizer
