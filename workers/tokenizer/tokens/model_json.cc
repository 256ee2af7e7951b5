#include "workers/tokenizer/tokens/model_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/tokens/bpe.h"
#include "workers/tokenizer/tokens/unigram.h"
#include "workers/tokenizer/tokens/word_piece.h"

namespace baton::tokenizer {
namespace {

constexpr int64_t kMaxWordCharacters = 1 << 20;

absl::StatusOr<Vocab> ParseVocab(const Json& model) {
  const Json* json = FindField(model, "vocab");
  if (json == nullptr || !json->is_object()) {
    return absl::InvalidArgumentError("model.vocab: expected an object of token to id");
  }
  Vocab vocab;
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

// The model's type; old files leave it out.
absl::StatusOr<std::string> ParseType(const Json& model) {
  if (FindField(model, "type") != nullptr) return StringField(model, "type", "model");
  if (model.contains("merges")) return std::string("BPE");
  const Json* vocab = FindField(model, "vocab");
  if (vocab != nullptr && vocab->is_array()) return std::string("Unigram");
  if (model.contains("continuing_subword_prefix")) return std::string("WordPiece");
  if (model.contains("unk_token")) return std::string("WordLevel");
  return StringField(model, "type", "model");
}

// The id of unk_token; nullopt without that key. A token outside of the vocabulary is none: the
// reference needs it only for words that it cannot cover.
absl::StatusOr<std::optional<int32_t>> ParseUnk(const Json& model, const Vocab& vocab) {
  if (FindField(model, "unk_token") == nullptr) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(const std::string unk, StringField(model, "unk_token", "model"));
  const auto it = vocab.find(unk);
  if (it != vocab.end()) return it->second;
  return std::nullopt;
}

absl::StatusOr<std::string> OptionalString(const Json& model, const char* key,
                                           const std::string& otherwise) {
  if (FindField(model, key) == nullptr) return otherwise;
  return StringField(model, key, "model");
}

absl::StatusOr<BpeOptions> ParseBpeOptions(const Json& model, const Vocab& vocab, bool byte_level) {
  const Json* dropout = FindField(model, "dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    return Unsupported("model.dropout", dropout->dump(), "null");
  }
  BpeOptions options;
  BATON_ASSIGN_OR_RETURN(options.continuing_prefix,
                         OptionalString(model, "continuing_subword_prefix", ""));
  BATON_ASSIGN_OR_RETURN(options.word_suffix, OptionalString(model, "end_of_word_suffix", ""));
  BATON_ASSIGN_OR_RETURN(options.byte_fallback, BoolField(model, "byte_fallback", false, "model"));
  options.byte_level =
      byte_level && options.continuing_prefix.empty() && options.word_suffix.empty();
  if (options.byte_fallback && !(options.continuing_prefix + options.word_suffix).empty()) {
    return Unsupported("model.byte_fallback",
                       "true with continuing_subword_prefix or end_of_word_suffix", "false there");
  }
  if (options.byte_fallback && byte_level) {
    return Unsupported("model.byte_fallback", "true with a ByteLevel pre-tokenizer", "false there");
  }
  BATON_ASSIGN_OR_RETURN(options.ignore_merges, BoolField(model, "ignore_merges", false, "model"));
  BATON_ASSIGN_OR_RETURN(options.fuse_unk, BoolField(model, "fuse_unk", false, "model"));
  BATON_ASSIGN_OR_RETURN(options.unk_id, ParseUnk(model, vocab));
  return options;
}

absl::StatusOr<ParsedModel> ParseBpe(const Json& json, bool byte_level,
                                     const std::unordered_set<int32_t>& special) {
  BATON_ASSIGN_OR_RETURN(const Vocab vocab, ParseVocab(json));
  BATON_ASSIGN_OR_RETURN(const std::vector<Bpe::Merge> merges, ParseMerges(json));
  BATON_ASSIGN_OR_RETURN(BpeOptions options, ParseBpeOptions(json, vocab, byte_level));
  options.never_joined = special;
  ParsedModel out;
  out.unk_id = options.unk_id;
  out.takes_bytes = options.byte_level;
  auto bpe = Bpe::Create(vocab, merges, options);
  if (!bpe.ok()) return Annotate(bpe.status(), "model");
  out.model = std::make_unique<Bpe>(*std::move(bpe));
  out.vocab.assign(vocab.begin(), vocab.end());
  return out;
}

absl::StatusOr<ParsedModel> ParseUnigram(const Json& json,
                                         const std::unordered_set<int32_t>& special) {
  const Json* vocab = FindField(json, "vocab");
  if (vocab == nullptr || !vocab->is_array() || vocab->size() > size_t{kMaxId}) {
    return absl::InvalidArgumentError("model.vocab: expected a list of [token, score]");
  }
  ParsedModel out;
  Unigram::Pieces pieces;
  for (size_t i = 0; i < vocab->size(); ++i) {
    const Json& piece = (*vocab)[i];
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab[", i, "]: expected [token, score]"));
    }
    pieces.emplace_back(piece[0].get<std::string>(), piece[1].get<double>());
    out.vocab.emplace_back(pieces.back().first, static_cast<int32_t>(i));
  }
  UnigramOptions options;
  if (const Json* unk = FindField(json, "unk_id")) {
    BATON_ASSIGN_OR_RETURN(
        const int64_t id,
        IntegerValue(*unk, 0, static_cast<int64_t>(pieces.size()) - 1, "model.unk_id"));
    options.unk_id = static_cast<int32_t>(id);
  }
  BATON_ASSIGN_OR_RETURN(options.byte_fallback, BoolField(json, "byte_fallback", false, "model"));
  options.never_found = special;
  out.unk_id = options.unk_id;
  out.model = std::make_unique<Unigram>(pieces, std::move(options));
  return out;
}

absl::StatusOr<ParsedModel> ParseWordPiece(const Json& json,
                                           const std::unordered_set<int32_t>& special) {
  BATON_ASSIGN_OR_RETURN(Vocab vocab, ParseVocab(json));
  WordPieceOptions options;
  BATON_ASSIGN_OR_RETURN(options.continuing_prefix,
                         OptionalString(json, "continuing_subword_prefix", "##"));
  if (const Json* most = FindField(json, "max_input_chars_per_word")) {
    BATON_ASSIGN_OR_RETURN(options.max_characters, IntegerValue(*most, 0, kMaxWordCharacters,
                                                                "model.max_input_chars_per_word"));
  }
  BATON_ASSIGN_OR_RETURN(options.unk_id, ParseUnk(json, vocab));
  ParsedModel out;
  out.unk_id = options.unk_id;
  out.vocab.assign(vocab.begin(), vocab.end());
  out.model = std::make_unique<WordPiece>(vocab, std::move(options), special);
  return out;
}

absl::StatusOr<ParsedModel> ParseWordLevel(const Json& json,
                                           const std::unordered_set<int32_t>& special) {
  BATON_ASSIGN_OR_RETURN(Vocab vocab, ParseVocab(json));
  ParsedModel out;
  BATON_ASSIGN_OR_RETURN(out.unk_id, ParseUnk(json, vocab));
  out.vocab.assign(vocab.begin(), vocab.end());
  out.model = std::make_unique<WordLevel>(std::move(vocab), out.unk_id, special);
  return out;
}

}  // namespace

absl::StatusOr<ParsedModel> ParseModel(const Json& model, bool byte_level,
                                       const std::unordered_set<int32_t>& special) {
  BATON_ASSIGN_OR_RETURN(const std::string type, ParseType(model));
  if (type == "BPE") return ParseBpe(model, byte_level, special);
  if (type == "Unigram") return ParseUnigram(model, special);
  if (type == "WordPiece") return ParseWordPiece(model, special);
  if (type == "WordLevel") return ParseWordLevel(model, special);
  return Unsupported("model.type", absl::StrCat("'", type, "'"),
                     "BPE, Unigram, WordPiece, WordLevel");
}

std::vector<std::pair<int32_t, const std::string*>> ById(const ParsedModel& model) {
  std::vector<std::pair<int32_t, const std::string*>> tokens;
  tokens.reserve(model.vocab.size());
  for (const auto& [text, id] : model.vocab) tokens.emplace_back(id, &text);
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  return tokens;
}

}  // namespace baton::tokenizer
