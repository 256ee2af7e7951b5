// Reads tokenizer.json into TokenizerParts.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/tokenizer/tokens/json_components.h"
#include "workers/tokenizer/tokens/tokenizer_parts.h"

namespace baton::tokenizer {
namespace {

constexpr int64_t kMaxId = (int64_t{1} << 24) - 1;
// Each id up to the highest takes memory, used or not. So many ids cost little (20 MiB); beyond
// them, a vocabulary may have so many ids for each of its tokens. Real ones leave out a few.
constexpr int64_t kCheapIds = 1 << 18;
constexpr int64_t kIdsPerToken = 64;
constexpr char kFile[] = "tokenizer.json";

Json FieldOrNull(const Json& object, const char* key) {
  const Json* field = FindField(object, key);
  return field == nullptr ? Json() : *field;
}

absl::StatusOr<Bpe::Vocab> ParseVocab(const Json& model) {
  const Json* json = FindField(model, "vocab");
  if (json == nullptr || !json->is_object()) {
    return absl::InvalidArgumentError("model.vocab: expected an object of token to id");
  }
  Bpe::Vocab vocab;
  vocab.reserve(json->size());
  for (const auto& [token, id] : json->items()) {
    // The place is put into words only for an error: there are 100,000 of them.
    auto value = IntegerValue(id, 0, kMaxId, "");
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab['", token, "']", value.status().message()));
    }
    vocab.emplace(token, static_cast<int32_t>(*value));
  }
  return vocab;
}

absl::StatusOr<std::vector<Bpe::Merge>> ParseMerges(const Json& model) {
  const Json* json = FindField(model, "merges");
  std::vector<Bpe::Merge> merges;
  if (json == nullptr) return merges;
  if (!json->is_array()) return WrongType("model", "merges", "a list", *json);
  merges.reserve(json->size());
  for (size_t i = 0; i < json->size(); ++i) {
    const Json& merge = (*json)[i];
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      if (text.rfind("#version", 0) == 0) continue;
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        merges.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("model.merges[", i, "]: expected \"left right\" or [\"left\", \"right\"]"));
  }
  return merges;
}

// Options of Hugging Face's BPE that neither byte-level nor SentencePiece-style tokenizers set.
absl::Status CheckUnusedModelOptions(const Json& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* field = FindField(model, key);
    if (field != nullptr && *field != "") {
      return Unsupported(absl::StrCat("model.", key), field->dump(), "null");
    }
  }
  const Json* dropout = FindField(model, "dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    return Unsupported("model.dropout", dropout->dump(), "null");
  }
  return absl::OkStatus();
}

// The model's type; old files leave it out.
absl::Status CheckModelType(const Json& model) {
  if (FindField(model, "type") == nullptr && model.contains("merges")) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const std::string type, StringField(model, "type", "model"));
  if (type == "BPE") return absl::OkStatus();
  return Unsupported("model.type", absl::StrCat("'", type, "'"), "BPE");
}

absl::StatusOr<AddedToken> ParseAddedToken(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an object, found ", json.type_name()));
  }
  AddedToken token;
  if (!json.contains("id")) return absl::InvalidArgumentError(absl::StrCat(where, ".id: missing"));
  BATON_ASSIGN_OR_RETURN(const int64_t id,
                         IntegerValue(json["id"], 0, kMaxId, absl::StrCat(where, ".id")));
  token.id = static_cast<int32_t>(id);
  BATON_ASSIGN_OR_RETURN(token.content, StringField(json, "content", where));
  BATON_ASSIGN_OR_RETURN(token.special, BoolField(json, "special", false, where));
  BATON_ASSIGN_OR_RETURN(token.lstrip, BoolField(json, "lstrip", false, where));
  BATON_ASSIGN_OR_RETURN(token.rstrip, BoolField(json, "rstrip", false, where));
  BATON_ASSIGN_OR_RETURN(token.normalized, BoolField(json, "normalized", !token.special, where));
  BATON_ASSIGN_OR_RETURN(token.single_word, BoolField(json, "single_word", false, where));
  return token;
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const Json& root) {
  std::vector<AddedToken> tokens;
  const Json* json = FindField(root, "added_tokens");
  if (json == nullptr) return tokens;
  if (!json->is_array()) return WrongType(kFile, "added_tokens", "a list", *json);
  for (size_t i = 0; i < json->size(); ++i) {
    BATON_ASSIGN_OR_RETURN(AddedToken token,
                           ParseAddedToken((*json)[i], absl::StrCat("added_tokens[", i, "]")));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The vocabulary by ascending id, so that the file alone, not the order of a hash map, says which
// token an error names.
std::vector<std::pair<int32_t, const std::string*>> ById(const Bpe::Vocab& vocab) {
  std::vector<std::pair<int32_t, const std::string*>> tokens;
  tokens.reserve(vocab.size());
  for (const auto& [text, id] : vocab) tokens.emplace_back(id, &text);
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
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

absl::Status FillTokens(const Bpe::Vocab& vocab, std::vector<AddedToken> added,
                        TokenizerParts* parts) {
  const auto by_id = ById(vocab);
  BATON_RETURN_IF_ERROR(MakeRoomForIds(by_id, added, parts));
  for (const auto& [id, text] : by_id) {
    BATON_RETURN_IF_ERROR(AddToken(*text, id, parts->decoder.Decode(*text), parts));
  }
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : added) {
    if (token.content.empty()) continue;
    // The byte alphabet is the vocabulary's alone. A special token is its text whatever a
    // normalizer makes of it.
    TokenDecoder::Token decoded = {token.content, false};
    if (!parts->decoder.byte_level()) {
      const bool changes = token.normalized && !token.special;
      decoded = parts->decoder.Decode(changes ? parts->normalizer.Normalize(token.content)
                                              : token.content);
    }
    BATON_RETURN_IF_ERROR(AddToken(token.content, token.id, std::move(decoded), parts));
    parts->tokens[token.id].special = token.special;
    parts->tokens[token.id].added_text = token.content;
    // Without a normalizer too: `normalized` also says when the token is looked for.
    if (token.normalized) {
      token.content = parts->normalizer.Normalize(token.content);
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

absl::Status ParsePostProcessor(const Json& root, TokenizerParts* parts) {
  const Json post_processor = FieldOrNull(root, "post_processor");
  BATON_ASSIGN_OR_RETURN(const auto list,
                         FlattenSequence(post_processor, "processors", "post_processor"));
  int templates = 0;
  for (const auto& [where, processor] : list) {
    const std::string type = processor->at("type").get<std::string>();
    if (type == "ByteLevel") continue;  // offsets only
    if (type != "TemplateProcessing" || ++templates > 1) {
      return Unsupported(absl::StrCat(where, ".type"), absl::StrCat("'", type, "'"),
                         "null, ByteLevel, one TemplateProcessing, a Sequence of these");
    }
    BATON_RETURN_IF_ERROR(ParseTemplate(*processor, where, parts));
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

absl::StatusOr<BpeOptions> ParseBpeOptions(const Json& model, const Bpe::Vocab& vocab,
                                           bool byte_level) {
  BpeOptions options;
  options.byte_level = byte_level;
  BATON_ASSIGN_OR_RETURN(options.byte_fallback, BoolField(model, "byte_fallback", false, "model"));
  if (options.byte_fallback && byte_level) {
    return Unsupported("model.byte_fallback", "true with a ByteLevel pre-tokenizer", "false there");
  }
  BATON_ASSIGN_OR_RETURN(options.ignore_merges, BoolField(model, "ignore_merges", false, "model"));
  BATON_ASSIGN_OR_RETURN(options.fuse_unk, BoolField(model, "fuse_unk", false, "model"));
  if (FindField(model, "unk_token") == nullptr) return options;
  BATON_ASSIGN_OR_RETURN(const std::string unk, StringField(model, "unk_token", "model"));
  const auto it = vocab.find(unk);
  if (it == vocab.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.unk_token: '", unk, "' is not in model.vocab"));
  }
  options.unk_id = it->second;
  return options;
}

absl::StatusOr<std::unique_ptr<TokenizerParts>> ParseRoot(const Json& root) {
  const Json* model = FindField(root, "model");
  if (model == nullptr || !model->is_object()) {
    return absl::InvalidArgumentError("model: expected an object");
  }
  BATON_RETURN_IF_ERROR(CheckModelType(*model));
  BATON_RETURN_IF_ERROR(CheckUnusedModelOptions(*model));
  BATON_ASSIGN_OR_RETURN(PreTokenizer pre,
                         PreTokenizer::FromJson(FieldOrNull(root, "pre_tokenizer")));
  BATON_ASSIGN_OR_RETURN(TokenDecoder decoder,
                         TokenDecoder::FromJson(FieldOrNull(root, "decoder")));
  if (pre.byte_level() != decoder.byte_level()) {
    return Unsupported("decoder", "a byte-level one for other words, or the reverse,",
                       "ByteLevel as pre_tokenizer (or the end of it) and decoder, or as neither");
  }
  BATON_ASSIGN_OR_RETURN(const Bpe::Vocab vocab, ParseVocab(*model));
  BATON_ASSIGN_OR_RETURN(const std::vector<Bpe::Merge> merges, ParseMerges(*model));
  BATON_ASSIGN_OR_RETURN(std::vector<AddedToken> added, ParseAddedTokens(root));
  BATON_ASSIGN_OR_RETURN(BpeOptions options, ParseBpeOptions(*model, vocab, pre.byte_level()));
  for (const AddedToken& token : added) {
    if (token.special) options.never_joined.insert(token.id);
  }
  auto bpe = Bpe::Create(vocab, merges, options);
  if (!bpe.ok()) return Annotate(bpe.status(), "model");
  auto parts = std::make_unique<TokenizerParts>(std::move(pre), *std::move(bpe));
  parts->unk_id = options.unk_id;
  parts->decoder = std::move(decoder);
  BATON_ASSIGN_OR_RETURN(parts->normalizer, Normalizer::FromJson(FieldOrNull(root, "normalizer")));
  BATON_RETURN_IF_ERROR(FillTokens(vocab, std::move(added), parts.get()));
  BATON_RETURN_IF_ERROR(ParsePostProcessor(root, parts.get()));
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerParts>> ParseTokenizerJson(absl::string_view text) {
  BATON_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(text, kFile));
  auto parts = ParseRoot(root);
  if (!parts.ok() && !absl::StartsWith(parts.status().message(), kFile)) {
    return Annotate(parts.status(), kFile);
  }
  return parts;
}

}  // namespace baton::tokenizer
