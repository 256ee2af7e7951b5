#include "workers/tokenizer/tokens/named_tokens.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/tokens/model_json.h"

namespace baton::tokenizer {
namespace {

constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kAddedTokensFile[] = "added_tokens.json";
constexpr char kDecoder[] = "added_tokens_decoder";
// Version 5's name for a list of special tokens beats the older one.
constexpr char kOlderList[] = "additional_special_tokens";
constexpr char kNewerList[] = "extra_special_tokens";
constexpr const char* kAttributes[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
// Responses end and begin with these: without a token of the model they would never be found.
constexpr const char* kMustExist[] = {"bos_token", "eos_token", "pad_token"};

// A string, or an object with its flags, that names a special token; nothing for other values.
absl::StatusOr<std::optional<AddedToken>> ParseSpecial(const Json& value,
                                                       const std::string& where) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
  } else if (value.is_object() && value.contains("content")) {
    BATON_ASSIGN_OR_RETURN(token, ParseAddedToken(value, where));
  } else {
    return std::nullopt;
  }
  token.id = -1;
  token.special = true;
  return token;
}

absl::Status AddDecoder(const Json& decoder, std::vector<NamedToken>* out) {
  if (!decoder.is_object()) return WrongType(kTokenizerConfig, kDecoder, "an object", decoder);
  std::map<int32_t, NamedToken> by_id;
  for (const auto& [key, value] : decoder.items()) {
    const std::string where = absl::StrCat(kTokenizerConfig, ".", kDecoder, "['", key, "']");
    int32_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || id < 0 || id > kMaxId) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": the key is not an id"));
    }
    BATON_ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(value, where));
    token.id = id;
    by_id[id] = {std::move(token), /*keeps_known=*/false, where};
  }
  for (auto& [id, named] : by_id) out->push_back(std::move(named));
  return absl::OkStatus();
}

// added_tokens.json, {text: id}: special are those that the other files name. What tokenizer.json
// says of a token beats it.
absl::Status AddAddedTokens(const std::string& text, const std::set<std::string>& special,
                            std::vector<NamedToken>* out) {
  BATON_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(text, kAddedTokensFile));
  std::map<int32_t, NamedToken> by_id;
  for (const auto& [content, value] : root.items()) {
    const std::string where = absl::StrCat(kAddedTokensFile, "['", content, "']");
    BATON_ASSIGN_OR_RETURN(const int64_t id, IntegerValue(value, 0, kMaxId, where));
    AddedToken token;
    token.id = static_cast<int32_t>(id);
    token.content = content;
    token.special = special.count(content) > 0;
    token.normalized = !token.special;
    by_id[token.id] = {std::move(token), /*keeps_known=*/true, where};
  }
  for (auto& [id, named] : by_id) out->push_back(std::move(named));
  return absl::OkStatus();
}

// bos_token and its kin, keys of the model's own ("image_token"), extra_special_tokens.
absl::StatusOr<std::vector<NamedToken>> SpecialTokensOf(const Json& config) {
  std::vector<NamedToken> out;
  const auto add = [&](const Json& value, const std::string& key, bool by_key) -> absl::Status {
    const std::string where = absl::StrCat(kTokenizerConfig, ".", key);
    BATON_ASSIGN_OR_RETURN(auto token, ParseSpecial(value, where));
    if (token.has_value()) out.push_back({*std::move(token), /*keeps_known=*/true, where, by_key});
    return absl::OkStatus();
  };
  for (const char* key : kAttributes) {
    if (const Json* value = FindField(config, key)) BATON_RETURN_IF_ERROR(add(*value, key, false));
  }
  for (const auto& [key, value] : config.items()) {
    const bool known =
        std::find(std::begin(kAttributes), std::end(kAttributes), key) != std::end(kAttributes);
    if (!known && absl::EndsWith(key, "_token")) BATON_RETURN_IF_ERROR(add(value, key, true));
  }
  const Json* extra = FindField(config, kNewerList);
  if (extra == nullptr || extra->empty()) extra = FindField(config, kOlderList);
  if (extra == nullptr) return out;
  for (const auto& [key, value] : extra->items()) {
    const std::string at = absl::StrCat(kNewerList, "[", key, "]");
    BATON_RETURN_IF_ERROR(add(value, at, extra->is_object()));
  }
  return out;
}

// The id that `tokenizers` gives to a new added token.
int32_t NextId(const std::vector<AddedToken>& added, int32_t vocabulary_size) {
  int32_t next = vocabulary_size;
  for (const AddedToken& token : added) next = std::max(next, token.id + 1);
  return next;
}

bool MustExist(const std::string& where) {
  return std::any_of(std::begin(kMustExist), std::end(kMustExist), [&](const char* key) {
    return where == absl::StrCat(kTokenizerConfig, ".", key);
  });
}

}  // namespace

absl::StatusOr<AddedToken> ParseAddedToken(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an object, found ", json.type_name()));
  }
  AddedToken token;
  BATON_ASSIGN_OR_RETURN(token.content, StringField(json, "content", where));
  BATON_ASSIGN_OR_RETURN(token.special, BoolField(json, "special", false, where));
  BATON_ASSIGN_OR_RETURN(token.lstrip, BoolField(json, "lstrip", false, where));
  BATON_ASSIGN_OR_RETURN(token.rstrip, BoolField(json, "rstrip", false, where));
  BATON_ASSIGN_OR_RETURN(token.normalized, BoolField(json, "normalized", !token.special, where));
  BATON_ASSIGN_OR_RETURN(token.single_word, BoolField(json, "single_word", false, where));
  return token;
}

absl::StatusOr<Json> EffectiveTokenizerConfig(const std::string& tokenizer_config_json,
                                              const std::string& special_tokens_map_json) {
  Json config = Json::object();
  if (!tokenizer_config_json.empty()) {
    BATON_ASSIGN_OR_RETURN(config, ParseJsonObject(tokenizer_config_json, kTokenizerConfig));
  }
  const Json* newer = FindField(config, kNewerList);
  if (config.contains(kOlderList) && (newer == nullptr || newer->empty())) {
    config[kNewerList] = Json(config[kOlderList]);
  }
  if (config.contains(kDecoder) || special_tokens_map_json.empty()) return config;
  BATON_ASSIGN_OR_RETURN(const Json map,
                         ParseJsonObject(special_tokens_map_json, "special_tokens_map.json"));
  for (const auto& [key, value] : map.items()) {
    Json& merged = config[key];
    if (key == kNewerList && value.is_array() && merged.is_array()) {
      for (const Json& token : value) {
        if (std::find(merged.begin(), merged.end(), token) == merged.end()) merged.push_back(token);
      }
    } else {
      merged = value;
    }
  }
  return config;
}

absl::StatusOr<std::vector<NamedToken>> ReadNamedTokens(const TokenizerSideFiles& files) {
  BATON_ASSIGN_OR_RETURN(
      const Json config,
      EffectiveTokenizerConfig(files.tokenizer_config_json, files.special_tokens_map_json));
  BATON_ASSIGN_OR_RETURN(const bool splits,
                         BoolField(config, "split_special_tokens", false, kTokenizerConfig));
  if (splits) {
    return Unsupported(absl::StrCat(kTokenizerConfig, ".split_special_tokens"), "true", "false");
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<NamedToken> special, SpecialTokensOf(config));
  std::vector<NamedToken> out;
  if (const Json* decoder = FindField(config, kDecoder)) {
    BATON_RETURN_IF_ERROR(AddDecoder(*decoder, &out));
  } else if (!files.added_tokens_json.empty()) {
    std::set<std::string> texts;
    for (const NamedToken& named : special) texts.insert(named.token.content);
    BATON_RETURN_IF_ERROR(AddAddedTokens(files.added_tokens_json, texts, &out));
  }
  // Those that bos_token and its kin name are special, whatever their flags say.
  for (NamedToken& named : out) {
    for (const NamedToken& other : special) {
      if (other.token.content == named.token.content) named.token.special = true;
    }
  }
  out.insert(out.end(), special.begin(), special.end());
  return out;
}

absl::Status MergeNamedTokens(const std::vector<NamedToken>& named,
                              const ModelVocabulary& vocabulary, std::vector<AddedToken>* added) {
  bool one_by_key = false;
  for (const NamedToken& item : named) {
    const std::string& text = item.token.content;
    if (text.empty()) continue;
    const auto known = std::find_if(added->begin(), added->end(),
                                    [&](const AddedToken& token) { return token.content == text; });
    const std::optional<int32_t> in_model = vocabulary.find(text);
    if (known == added->end() && !in_model.has_value() && MustExist(item.where)) continue;
    AddedToken token = item.token;
    token.id = known != added->end()  ? known->id
               : in_model.has_value() ? *in_model
                                      : NextId(*added, vocabulary.size);
    if (item.token.id >= 0 && item.token.id != token.id) {
      return absl::InvalidArgumentError(absl::StrCat(
          item.where, ": '", text, "' would have id ", item.token.id, ", but tokenizer.json and ",
          "what is added to it make it ", token.id,
          " (new tokens are numbered without gaps, as in `tokenizers`); save the tokenizer anew"));
    }
    const bool is_new = known == added->end() && !in_model.has_value();
    if (is_new && item.by_key && std::exchange(one_by_key, true)) {
      return absl::InvalidArgumentError(absl::StrCat(
          item.where, ": the id of the new token '", text,
          "' depends on the order of the file's keys; name it in added_tokens_decoder"));
    }
    if (known == added->end()) {
      added->push_back(std::move(token));
    } else if (!item.keeps_known) {
      token.special |= known->special;
      *known = std::move(token);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::tokenizer
