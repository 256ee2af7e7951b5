#include "workers/tokenizer/tokens/named_tokens.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
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
constexpr char kModelList[] = "model_specific_special_tokens";
constexpr const char* kAttributes[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
// Responses end and begin with these: without a token of the model they would never be found.
constexpr const char* kMustExist[] = {"bos_token", "eos_token", "pad_token"};

// An object is a token if it says so; those of special_tokens_map.json all are.
constexpr char kTypeKey[] = "__type";
constexpr char kTokenType[] = "AddedToken";

bool IsAttribute(const std::string& key) {
  return std::find(std::begin(kAttributes), std::end(kAttributes), key) != std::end(kAttributes);
}

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
  const auto add = [&](const Json& value, const std::string& key, bool by_key,
                       bool has_name) -> absl::Status {
    const std::string where = absl::StrCat(kTokenizerConfig, ".", key);
    BATON_ASSIGN_OR_RETURN(auto token, ParseSpecial(value, where));
    if (!token.has_value()) return absl::OkStatus();
    out.push_back({*std::move(token), /*keeps_known=*/true, where, by_key, has_name});
    return absl::OkStatus();
  };
  for (const char* key : kAttributes) {
    const Json* value = FindField(config, key);
    if (value != nullptr) BATON_RETURN_IF_ERROR(add(*value, key, false, true));
  }
  for (const auto& [key, value] : config.items()) {
    const bool is_token = !value.is_object() || value.value(kTypeKey, Json()) == kTokenType;
    if (IsAttribute(key) || !absl::EndsWith(key, "_token") || !is_token) continue;
    BATON_RETURN_IF_ERROR(add(value, key, true, true));
  }
  if (const Json* own = FindField(config, kModelList)) {
    for (const auto& [key, value] : own->items()) {
      BATON_RETURN_IF_ERROR(add(value, absl::StrCat(kModelList, "[", key, "]"), true, true));
    }
  }
  const Json* extra = FindField(config, kNewerList);
  if (extra == nullptr || extra->empty()) extra = FindField(config, kOlderList);
  if (extra == nullptr) return out;
  for (const auto& [key, value] : extra->items()) {
    const std::string at = absl::StrCat(kNewerList, "[", key, "]");
    BATON_RETURN_IF_ERROR(add(value, at, extra->is_object(), extra->is_object()));
  }
  return out;
}

// fast_tokenizer_files may name a tokenizer.VERSION.json that transformers takes instead.
absl::Status RefuseOtherFiles(const Json& config) {
  constexpr char kOtherFiles[] = "fast_tokenizer_files";
  const Json* files = FindField(config, kOtherFiles);
  if (files == nullptr) return absl::OkStatus();
  for (const Json& file : *files) {
    if (file == "tokenizer.json" || !file.is_string()) continue;
    return Unsupported(absl::StrCat(kTokenizerConfig, ".", kOtherFiles),
                       absl::StrCat("'", file.get<std::string>(), "'"), "tokenizer.json");
  }
  return absl::OkStatus();
}

// The added tokens so far, by text, and the ids that `tokenizers` gives to more of them.
class AddedIds {
 public:
  AddedIds(const ModelVocabulary& vocabulary, std::vector<AddedToken>* added)
      : vocabulary_(vocabulary), added_(added), next_(vocabulary.size) {
    for (size_t i = 0; i < added->size(); ++i) Count(i);
  }

  /// Null: not among them.
  AddedToken* Find(const std::string& text) {
    const auto it = places_.find(text);
    return it == places_.end() ? nullptr : &(*added_)[it->second];
  }
  /// A token of the model keeps its id; a new one gets the next.
  int32_t IdOf(const std::string& text) {
    if (const AddedToken* known = Find(text)) return known->id;
    return vocabulary_.find(text).value_or(next_);
  }
  /// Neither the model nor an added token has this id.
  bool IsFree(int32_t id) const { return !vocabulary_.has_id(id) && taken_.count(id) == 0; }
  void Add(AddedToken token) {
    added_->push_back(std::move(token));
    Count(added_->size() - 1);
  }

 private:
  void Count(size_t place) {
    const AddedToken& token = (*added_)[place];
    places_[token.content] = place;
    taken_.insert(token.id);
    next_ = std::max(next_, token.id + 1);
  }

  const ModelVocabulary& vocabulary_;
  std::vector<AddedToken>* const added_;
  std::unordered_map<std::string, size_t> places_;
  std::unordered_set<int32_t> taken_;  // ids of added tokens
  int32_t next_;
};

std::string OtherIdWarning(absl::string_view where, const AddedToken& token, int32_t other_id,
                           absl::string_view other) {
  return absl::StrCat(where, ": the id of '", token.content, "' is ", token.id, ", and ", other,
                      " makes it ", other_id,
                      " (new tokens are numbered behind the others there, in the order of the "
                      "file); engines that load this folder by AutoTokenizer (vLLM, TRL) see other "
                      "ids than this job; save the tokenizer anew");
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
      if (value.is_object() && key != kNewerList) merged[kTypeKey] = kTokenType;
    }
  }
  return config;
}

absl::StatusOr<std::vector<NamedToken>> ReadNamedTokens(const TokenizerSideFiles& files,
                                                        const std::string& padding_token) {
  BATON_ASSIGN_OR_RETURN(Json config, EffectiveTokenizerConfig(files.tokenizer_config_json,
                                                               files.special_tokens_map_json));
  const bool pads = !padding_token.empty() && !config.contains("pad_token");
  if (pads) config["pad_token"] = padding_token;
  BATON_ASSIGN_OR_RETURN(const bool splits,
                         BoolField(config, "split_special_tokens", false, kTokenizerConfig));
  if (splits) {
    return Unsupported(absl::StrCat(kTokenizerConfig, ".split_special_tokens"), "true", "false");
  }
  BATON_RETURN_IF_ERROR(RefuseOtherFiles(config));
  BATON_ASSIGN_OR_RETURN(std::vector<NamedToken> special, SpecialTokensOf(config));
  std::set<std::string> texts, with_name;
  for (NamedToken& named : special) {
    texts.insert(named.token.content);
    if (named.has_name) with_name.insert(named.token.content);
    // Without an added_tokens_decoder, those that tokenizer.json has become special as well.
    named.makes_special = named.has_name && !config.contains(kDecoder);
    if (pads && named.where == absl::StrCat(kTokenizerConfig, ".pad_token")) {
      named.where = "tokenizer.json.padding.pad_token";
    }
  }
  std::vector<NamedToken> out;
  if (const Json* decoder = FindField(config, kDecoder)) {
    BATON_RETURN_IF_ERROR(AddDecoder(*decoder, &out));
  } else if (!files.added_tokens_json.empty()) {
    BATON_RETURN_IF_ERROR(AddAddedTokens(files.added_tokens_json, texts, &out));
  }
  // Those that bos_token and its kin name are special, whatever their flags say.
  for (NamedToken& named : out) named.token.special |= with_name.count(named.token.content) > 0;
  out.insert(out.end(), special.begin(), special.end());
  return out;
}

absl::Status CheckAddedTokens(const ModelVocabulary& vocabulary, std::vector<AddedToken>* added,
                              std::string* warning) {
  std::vector<AddedToken> checked;
  AddedIds ids(vocabulary, &checked);
  for (size_t i = 0; i < added->size(); ++i) {
    AddedToken& token = (*added)[i];
    if (token.content.empty()) continue;
    const std::string where = absl::StrCat("tokenizer.json: added_tokens[", i, "].id");
    AddedToken* const known = ids.Find(token.content);
    const bool is_new = known == nullptr && !vocabulary.find(token.content).has_value();
    const int32_t id = ids.IdOf(token.content);
    if (id != token.id && !(is_new && ids.IsFree(token.id))) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": '", token.content, "' has id ", token.id, ", but ",
          is_new ? "that is another token's" : absl::StrCat("the vocabulary makes it ", id),
          "; save the tokenizer anew"));
    }
    if (id != token.id && warning->empty()) {
      *warning = OtherIdWarning(where, token, id, "`tokenizers`");
    }
    if (known != nullptr) {
      *known = std::move(token);  // the last flags count
    } else {
      ids.Add(std::move(token));
    }
  }
  *added = std::move(checked);
  return absl::OkStatus();
}

absl::Status MergeNamedTokens(const std::vector<NamedToken>& named,
                              const ModelVocabulary& vocabulary, std::vector<AddedToken>* added,
                              std::string* warning) {
  AddedIds ids(vocabulary, added);
  bool one_by_key = false;
  for (const NamedToken& item : named) {
    const std::string& text = item.token.content;
    if (text.empty()) continue;
    AddedToken* const known = ids.Find(text);
    const bool is_new = known == nullptr && !vocabulary.find(text).has_value();
    if (is_new && MustExist(item.where)) continue;
    AddedToken token = item.token;
    token.id = ids.IdOf(text);
    if (item.token.id >= 0 && item.token.id != token.id) {
      if (!is_new || !ids.IsFree(item.token.id)) {
        return absl::InvalidArgumentError(absl::StrCat(
            item.where, ": '", text, "' would have id ", item.token.id, ", but ",
            is_new ? "another token has it" : absl::StrCat("tokenizer.json makes it ", token.id),
            "; save the tokenizer anew"));
      }
      // The model was trained with the id that the file says.
      if (warning->empty()) {
        *warning = OtherIdWarning(item.where, item.token, token.id, "transformers 5");
      }
      token.id = item.token.id;
    }
    if (is_new && item.by_key && std::exchange(one_by_key, true)) {
      return absl::InvalidArgumentError(absl::StrCat(
          item.where, ": the id of the new token '", text,
          "' depends on the order of the file's keys; name it in added_tokens_decoder"));
    }
    if (known == nullptr) {
      ids.Add(std::move(token));
    } else if (!item.keeps_known) {
      token.special |= known->special;
      *known = std::move(token);
    } else {
      known->special |= item.makes_special;
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::tokenizer
