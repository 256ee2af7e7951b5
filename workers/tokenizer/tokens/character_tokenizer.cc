#include "workers/tokenizer/tokens/character_tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/schema/json_fields.h"
#include "workers/tokenizer/steps/byte_level.h"

namespace baton::tokenizer {
namespace {

// Keeps the order in which tokens were added, for a file that people can read.
using OrderedJson = nlohmann::ordered_json;

struct Vocabulary {
  OrderedJson vocab = OrderedJson::object();
  OrderedJson added = OrderedJson::array();
  int next_id = 0;
};

absl::Status AddSpecial(const std::string& token, Vocabulary* out) {
  if (token.empty()) return absl::OkStatus();
  if (!IsValidUtf8(token)) {
    return absl::InvalidArgumentError("special token: it is not valid UTF-8");
  }
  if (out->vocab.contains(token)) {
    return absl::InvalidArgumentError(absl::StrCat("special token '", token, "' is named twice"));
  }
  out->added.push_back({{"id", out->next_id},
                        {"content", token},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", true}});
  out->vocab[token] = out->next_id++;
  return absl::OkStatus();
}

absl::Status AddCharacters(absl::string_view alphabet, Vocabulary* out) {
  if (alphabet.empty()) return absl::InvalidArgumentError("alphabet: it is empty");
  for (size_t at = 0; at < alphabet.size();) {
    const Utf8Char c = ReadUtf8(alphabet.substr(at));
    if (c.kind != Utf8Char::Kind::kValid) {
      return absl::InvalidArgumentError(absl::StrCat("alphabet: byte ", at, " is not valid UTF-8"));
    }
    const absl::string_view character = alphabet.substr(at, c.length);
    const std::string text = BytesToTokenText(character);
    if (out->vocab.contains(text)) {
      return absl::InvalidArgumentError(
          absl::StrCat("alphabet: '", character, "' at byte ", at, " is in it twice"));
    }
    out->vocab[text] = out->next_id++;
    at += c.length;
  }
  return absl::OkStatus();
}

OrderedJson TokenizerJson(const Vocabulary& vocabulary, const std::string& unk_token) {
  OrderedJson byte_level = {{"type", "ByteLevel"},
                            {"add_prefix_space", false},
                            {"trim_offsets", true},
                            {"use_regex", false}};
  OrderedJson each_character = {{"type", "Split"},
                                {"pattern", {{"Regex", "[\\s\\S]"}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  OrderedJson model = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", true},
                       {"vocab", vocabulary.vocab},
                       {"merges", OrderedJson::array()}};
  if (!unk_token.empty()) model["unk_token"] = unk_token;
  OrderedJson sequence = {{"type", "Sequence"}};
  sequence["pretokenizers"] = OrderedJson::array({each_character, byte_level});
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", vocabulary.added},
          {"normalizer", nullptr},
          {"pre_tokenizer", sequence},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", model}};
}

OrderedJson ConfigJson(const CharacterTokenizerOptions& options) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  const std::pair<const char*, const std::string*> named[] = {{"pad_token", &options.pad_token},
                                                              {"eos_token", &options.eos_token},
                                                              {"bos_token", &options.bos_token},
                                                              {"unk_token", &options.unk_token}};
  for (const auto& [key, token] : named) {
    if (!token->empty()) config[key] = *token;
  }
  if (!options.extra_special_tokens.empty()) {
    config["additional_special_tokens"] = options.extra_special_tokens;
  }
  return config;
}

}  // namespace

absl::StatusOr<CharacterTokenizerFiles> MakeCharacterTokenizer(
    absl::string_view alphabet, const CharacterTokenizerOptions& options) {
  Vocabulary vocabulary;
  for (const std::string* token :
       {&options.pad_token, &options.eos_token, &options.bos_token, &options.unk_token}) {
    BATON_RETURN_IF_ERROR(AddSpecial(*token, &vocabulary));
  }
  for (const std::string& token : options.extra_special_tokens) {
    BATON_RETURN_IF_ERROR(AddSpecial(token, &vocabulary));
  }
  BATON_RETURN_IF_ERROR(AddCharacters(alphabet, &vocabulary));
  return CharacterTokenizerFiles{TokenizerJson(vocabulary, options.unk_token).dump(2) + "\n",
                                 ConfigJson(options).dump(2) + "\n"};
}

}  // namespace baton::tokenizer
