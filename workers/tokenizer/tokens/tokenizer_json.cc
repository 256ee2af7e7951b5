// Reads tokenizer.json, and the tokens that the files beside it name, into TokenizerParts.
#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/byte_level.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/tokens/model_json.h"
#include "workers/tokenizer/tokens/named_tokens.h"
#include "workers/tokenizer/tokens/tokenizer_parts.h"

namespace baton::tokenizer {
namespace {

// Each id up to the highest takes memory, used or not. So many ids cost little (20 MiB); beyond
// them, a vocabulary may have so many ids for each of its tokens. Real ones leave out a few.
constexpr int64_t kCheapIds = 1 << 18;
constexpr int64_t kIdsPerToken = 64;
constexpr char kFile[] = "tokenizer.json";
// To look a text up takes a time that grows with the longest token; real ones have some 500 bytes.
constexpr size_t kMaxTokenBytes = 1 << 14;

Json FieldOrNull(const Json& object, const char* key) {
  const Json* field = FindField(object, key);
  return field == nullptr ? Json() : *field;
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const Json& root) {
  std::vector<AddedToken> tokens;
  const Json* json = FindField(root, "added_tokens");
  if (json == nullptr) return tokens;
  if (!json->is_array()) return WrongType(kFile, "added_tokens", "a list", *json);
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string where = absl::StrCat("added_tokens[", i, "]");
    BATON_ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken((*json)[i], where));
    const std::string at = absl::StrCat(where, ".id");
    if (!(*json)[i].contains("id"))
      return absl::InvalidArgumentError(absl::StrCat(at, ": missing"));
    BATON_ASSIGN_OR_RETURN(const int64_t id, IntegerValue((*json)[i]["id"], 0, kMaxId, at));
    token.id = static_cast<int32_t>(id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Makes room for all ids. Judges the highest by the whole vocabulary: the first tokens that are
// looked at may well have the highest ids.
absl::Status MakeRoomForIds(const std::vector<std::pair<int32_t, const std::string*>>& vocab,
                            const std::vector<AddedToken>& added, TokenizerParts* parts) {
  std::pair<int32_t, const std::string*> highest = {-1, nullptr};
  if (!vocab.empty()) highest = vocab.back();
  for (const AddedToken& token : added) {
    if (token.id > highest.first && !token.content.empty()) highest = {token.id, &token.content};
  }
  const int64_t ids = int64_t{highest.first} + 1;
  const auto tokens = static_cast<int64_t>(vocab.size() + added.size());
  if (ids > kCheapIds && ids > tokens * kIdsPerToken) {
    return absl::InvalidArgumentError(absl::StrCat(
        kFile, ": token '", *highest.second, "' has id ", highest.first, ", but the file has only ",
        tokens, " tokens; number the tokens without such gaps (at most ", kIdsPerToken,
        " ids for each token)"));
  }
  parts->tokens.resize(static_cast<size_t>(ids));
  return absl::OkStatus();
}

absl::Status AddToken(const std::string& text, int32_t id, TokenDecoder::Token decoded,
                      TokenizerParts* parts) {
  if (text.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(kFile, ": the token with id ", id, " has ",
                                                   text.size(), " bytes; there may be ",
                                                   kMaxTokenBytes, " at most"));
  }
  TokenizerParts::Token& token = parts->tokens[id];
  const auto [it, is_new] = parts->token_to_id.emplace(text, id);
  if (it->second != id || (is_new && token.exists)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFile, ": token '", text, "' with id ", id,
                     it->second != id ? absl::StrCat(" has another id, ", it->second, ", as well")
                                      : std::string(": that id belongs to another token already")));
  }
  token.exists = true;
  token.decoded = std::move(decoded);
  return absl::OkStatus();
}

// What an added token stands for where the vocabulary is in the byte alphabet: that alphabet is
// read in it as well, unless no text comes of it ("<é>").
TokenDecoder::Token DecodeAddedBytes(const std::string& text) {
  auto bytes = TokenTextToBytes(text);
  return {bytes.has_value() && IsValidUtf8(*bytes) ? *std::move(bytes) : text, false};
}

// Decodes `text`, the token `id` of the vocabulary or an added one.
absl::StatusOr<TokenDecoder::Token> DecodeToken(const std::string& text, int32_t id,
                                                TokenizerParts* parts) {
  if (parts->decoder.first_differs()) {
    parts->first_tokens.resize(parts->tokens.size());
    BATON_ASSIGN_OR_RETURN(parts->first_tokens[id], parts->decoder.Decode(text, /*first=*/true));
  }
  return parts->decoder.Decode(text);
}

// Such a token would be found everywhere.
absl::Status RemovedByNormalizer(int32_t id, const TokenizerParts& parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(kFile, ": nothing is left of the added token '", parts.tokens[id].added_text,
                   "' (id ", id, ") by the normalizer; set its `normalized` to false"));
}

absl::Status FillTokens(const ParsedModel& model, std::vector<AddedToken> added,
                        TokenizerParts* parts) {
  const auto by_id = ById(model);
  BATON_RETURN_IF_ERROR(MakeRoomForIds(by_id, added, parts));
  for (const auto& [id, text] : by_id) {
    BATON_ASSIGN_OR_RETURN(auto decoded, DecodeToken(*text, id, parts));
    BATON_RETURN_IF_ERROR(AddToken(*text, id, std::move(decoded), parts));
  }
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : added) {
    if (token.content.empty()) continue;
    // A special token is its text whatever a normalizer makes of it.
    std::string text = token.content;
    if (token.normalized && !token.special) {
      BATON_ASSIGN_OR_RETURN(text, parts->normalizer.Normalize(token.content));
    }
    TokenDecoder::Token decoded = DecodeAddedBytes(text);
    if (!parts->decoder.byte_level()) {
      BATON_ASSIGN_OR_RETURN(decoded, DecodeToken(text, token.id, parts));
    }
    BATON_RETURN_IF_ERROR(AddToken(token.content, token.id, std::move(decoded), parts));
    parts->tokens[token.id].special = token.special;
    parts->tokens[token.id].added_text = token.content;
    // Without a normalizer too: `normalized` also says when the token is looked for.
    if (token.normalized) {
      BATON_ASSIGN_OR_RETURN(token.content, parts->normalizer.Normalize(token.content));
      if (token.content.empty()) return RemovedByNormalizer(token.id, *parts);
      normalized.push_back(std::move(token));
    } else {
      raw.push_back(std::move(token));
    }
  }
  parts->raw_added = AddedTokenFinder(std::move(raw));
  parts->normalized_added = AddedTokenFinder(std::move(normalized));
  return absl::OkStatus();
}

absl::Status AppendTemplateIds(const Json& processor, const Json& item, const std::string& where,
                               std::vector<int32_t>* ids) {
  const Json* special = FindField(processor, "special_tokens");
  const Json* entry = nullptr;
  if (special != nullptr && item.is_object()) {
    BATON_ASSIGN_OR_RETURN(const std::string name, StringField(item, "id", where));
    entry = FindField(*special, name.c_str());
  }
  const Json* list = entry == nullptr ? nullptr : FindField(*entry, "ids");
  if (list == nullptr || !list->is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": its special_tokens entry has no list of ids"));
  }
  for (const Json& id : *list) {
    BATON_ASSIGN_OR_RETURN(const int64_t value, IntegerValue(id, 0, kMaxId, where));
    ids->push_back(static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

absl::Status ParseTemplate(const Json& processor, const std::string& where, TokenizerParts* parts) {
  const Json* single = FindField(processor, "single");
  if (single == nullptr || !single->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ".single: expected a list"));
  }
  int sequences = 0;
  for (size_t i = 0; i < single->size(); ++i) {
    const Json& item = (*single)[i];
    const std::string at = absl::StrCat(where, ".single[", i, "]");
    if (FindField(item, "Sequence") != nullptr) {
      ++sequences;
    } else if (const Json* special = FindField(item, "SpecialToken")) {
      BATON_RETURN_IF_ERROR(AppendTemplateIds(
          processor, *special, at, sequences == 0 ? &parts->prefix_ids : &parts->suffix_ids));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(at, ": expected {\"Sequence\": …} or {\"SpecialToken\": …}"));
    }
  }
  if (sequences == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ".single: expected exactly one Sequence, found ", sequences));
}

// BertProcessing and RobertaProcessing: "cls" before a text and "sep" behind it, [token, id] each.
absl::Status ParseClassifying(const Json& processor, const std::string& where,
                              TokenizerParts* parts) {
  const std::pair<const char*, std::vector<int32_t>*> sides[] = {{"cls", &parts->prefix_ids},
                                                                 {"sep", &parts->suffix_ids}};
  for (const auto& [key, ids] : sides) {
    const std::string at = absl::StrCat(where, ".", key);
    const Json* pair = FindField(processor, key);
    if (pair == nullptr || !pair->is_array() || pair->size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(at, ": expected [token, id]"));
    }
    BATON_ASSIGN_OR_RETURN(const int64_t id, IntegerValue((*pair)[1], 0, kMaxId, at));
    ids->push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ParsePostProcessor(const Json& root, TokenizerParts* parts) {
  const Json post_processor = FieldOrNull(root, "post_processor");
  BATON_ASSIGN_OR_RETURN(const auto list,
                         FlattenSequence(post_processor, "processors", "post_processor"));
  int templates = 0;
  for (const auto& [where, processor] : list) {
    const std::string type = processor->at("type").get<std::string>();
    if (type == "ByteLevel") continue;  // offsets only
    const bool classifies = type == "BertProcessing" || type == "RobertaProcessing";
    if ((type != "TemplateProcessing" && !classifies) || ++templates > 1) {
      return Unsupported(absl::StrCat(where, ".type"), absl::StrCat("'", type, "'"),
                         "null, ByteLevel, one of TemplateProcessing, BertProcessing and "
                         "RobertaProcessing, a Sequence of these");
    }
    BATON_RETURN_IF_ERROR(classifies ? ParseClassifying(*processor, where, parts)
                                     : ParseTemplate(*processor, where, parts));
  }
  for (const auto* ids : {&parts->prefix_ids, &parts->suffix_ids}) {
    for (const int32_t id : *ids) {
      if (static_cast<size_t>(id) >= parts->tokens.size() || !parts->tokens[id].exists) {
        return absl::InvalidArgumentError(
            absl::StrCat("post_processor: token id ", id, " is not in the vocabulary"));
      }
    }
  }
  return absl::OkStatus();
}

// The vocabulary of the model, of any kind, before it is checked.
ModelVocabulary VocabularyOf(const Json& vocab) {
  const auto size = static_cast<int32_t>(vocab.size());
  const auto in_list = [size](int32_t id) { return id < size; };
  if (vocab.is_array()) {  // Unigram: [text, score]
    auto ids = std::make_shared<Vocab>();
    for (int32_t id = 0; id < size; ++id) {
      const Json& piece = vocab[id];
      if (piece.is_array() && !piece.empty() && piece[0].is_string()) {
        (*ids)[piece[0].get<std::string>()] = id;
      }
    }
    return {[ids](const std::string& text) -> std::optional<int32_t> {
              const auto it = ids->find(text);
              return it == ids->end() ? std::nullopt : std::optional<int32_t>(it->second);
            },
            size, in_list};
  }
  auto ids = std::make_shared<std::unordered_set<int64_t>>();
  for (const Json& id : vocab) {
    if (id.is_number_integer()) ids->insert(id.get<int64_t>());
  }
  return {[&vocab](const std::string& text) -> std::optional<int32_t> {
            const auto id = vocab.find(text);
            if (id == vocab.end() || !id->is_number_integer()) return std::nullopt;
            return id->get<int32_t>();
          },
          size, [ids](int32_t id) { return ids->count(id) > 0; }};
}

// The token that the file's `padding` pads with; empty: none. Nothing else is read of it.
std::string PaddingToken(const Json& root) {
  const Json* padding = FindField(root, "padding");
  const Json* token = padding == nullptr ? nullptr : FindField(*padding, "pad_token");
  return token == nullptr || !token->is_string() ? "" : token->get<std::string>();
}

absl::StatusOr<std::unique_ptr<TokenizerParts>> ParseRoot(const Json& root,
                                                          const std::vector<NamedToken>& named) {
  const Json* model_json = FindField(root, "model");
  if (model_json == nullptr || !model_json->is_object()) {
    return absl::InvalidArgumentError("model: expected an object");
  }
  const Json* vocab = FindField(*model_json, "vocab");
  if (vocab == nullptr || !vocab->is_structured()) {
    return absl::InvalidArgumentError("model.vocab: expected an object or a list of tokens");
  }
  auto parts = std::make_unique<TokenizerParts>();
  parts->padding_token = PaddingToken(root);
  BATON_ASSIGN_OR_RETURN(parts->pre_tokenizer,
                         PreTokenizer::FromJson(FieldOrNull(root, "pre_tokenizer")));
  BATON_ASSIGN_OR_RETURN(parts->decoder, TokenDecoder::FromJson(FieldOrNull(root, "decoder")));
  BATON_ASSIGN_OR_RETURN(parts->normalizer, Normalizer::FromJson(FieldOrNull(root, "normalizer")));
  if (parts->normalizer.prepends() && parts->pre_tokenizer.prepends_behind_cuts()) {
    return Unsupported("normalizer",
                       "Prepend before a Metaspace that cuts and prepends to the first word",
                       "a Metaspace that prepends always or never");
  }
  BATON_ASSIGN_OR_RETURN(std::vector<AddedToken> added, ParseAddedTokens(root));
  const ModelVocabulary vocabulary = VocabularyOf(*vocab);
  BATON_RETURN_IF_ERROR(CheckAddedTokens(vocabulary, &added, &parts->warning));
  BATON_RETURN_IF_ERROR(MergeNamedTokens(named, vocabulary, &added, &parts->warning));
  std::unordered_set<int32_t> special;
  for (const AddedToken& token : added) {
    if (token.special) special.insert(token.id);
  }
  const bool byte_level = parts->pre_tokenizer.byte_level();
  BATON_ASSIGN_OR_RETURN(ParsedModel model, ParseModel(*model_json, byte_level, special));
  parts->model = std::move(model.model);
  parts->unk_id = model.unk_id;
  parts->spells_bytes = byte_level && !model.takes_bytes;
  BATON_RETURN_IF_ERROR(FillTokens(model, std::move(added), parts.get()));
  BATON_RETURN_IF_ERROR(ParsePostProcessor(root, parts.get()));
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerParts>> ParseTokenizerJson(
    absl::string_view text, const TokenizerSideFiles& files) {
  BATON_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(text, kFile));
  BATON_ASSIGN_OR_RETURN(const std::vector<NamedToken> named,
                         ReadNamedTokens(files, PaddingToken(root)));
  auto parts = ParseRoot(root, named);
  if (!parts.ok() && !absl::StartsWith(parts.status().message(), kFile)) {
    return Annotate(parts.status(), kFile);
  }
  return parts;
}

}  // namespace baton::tokenizer
