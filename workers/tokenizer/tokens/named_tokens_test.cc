// Tokens that the files beside tokenizer.json name. The ids and texts are those of transformers
// 5.24.0 (AutoTokenizer on a folder of these files).
#include "workers/tokenizer/tokens/named_tokens.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace baton::tokenizer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr char kTokenizer[] = R"({
    "added_tokens": [{"id": 5, "content": "<end>", "special": true, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4},
              "merges": ["a b"]}})";

json Token(const std::string& content, bool special = true) {
  return {{"content", content}, {"special", special}, {"normalized", false},
          {"lstrip", false},    {"rstrip", false},    {"single_word", false}};
}

TokenizerSideFiles Config(const json& config) {
  TokenizerSideFiles files;
  files.tokenizer_config_json = config.dump();
  return files;
}

void ExpectNames(const TokenizerSideFiles& files, const std::string& text, const Ids& ids,
                 const std::string& text_back) {
  const auto tokenizer = Tokenizer::FromJson(kTokenizer, files);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Encode(text), ids) << files.tokenizer_config_json;
  EXPECT_EQ((*tokenizer)->Decode(ids), text_back) << files.tokenizer_config_json;
}

std::string NamedRefusal(const TokenizerSideFiles& files) {
  return Tokenizer::FromJson(kTokenizer, files).status().ToString();
}

TEST(NamedTokensTest, AddedTokensDecoderAddsTokensById) {
  const json decoder = {{"5", Token("<end>")}, {"7", Token("<x>", false)}, {"6", Token("<im>")}};
  const auto files = Config({{"added_tokens_decoder", decoder}, {"eos_token", "<im>"}});
  ExpectNames(files, "a<im>b", {0, 6, 1}, "ab");
  ExpectNames(files, "<x><end>", {7, 5}, "<x>");
  EXPECT_THAT((*Tokenizer::FromJson(kTokenizer, files))->eos_ids(), ElementsAre(6));
}

TEST(NamedTokensTest, AddedTokensDecoderBeatsTheFlagsOfTokenizerJson) {
  json end = Token("<end>", /*special=*/false);
  end["lstrip"] = true;
  ExpectNames(Config({{"added_tokens_decoder", {{"5", end}}}}), "a <end> b", {0, 5, 3, 1}, "a b");
  // A token of the model's vocabulary keeps its id, and is found before the model.
  ExpectNames(Config({{"added_tokens_decoder", {{"4", Token("ab")}}}}), "cab", {2, 4}, "c");
}

// transformers makes 6 of it, which the model was not trained with.
TEST(NamedTokensTest, ATokenHasTheIdThatItsFileSaysIfThatIsFree) {
  const auto files = Config({{"added_tokens_decoder", {{"9", Token("<im>")}}}});
  ExpectNames(files, "a<im>b", {0, 9, 1}, "ab");
  EXPECT_THAT((*Tokenizer::FromJson(kTokenizer, files))->warning(),
              HasSubstr("added_tokens_decoder['9']: the id of '<im>' is 9, and transformers 5 "
                        "makes it 6"));
  // A hole in the vocabulary.
  json source = json::parse(kTokenizer);
  source["model"]["vocab"]["d"] = 20;
  const auto tokenizer = Tokenizer::FromJson(
      source.dump(),
      Config({{"added_tokens_decoder", {{"5", Token("<end>")}, {"8", Token("<q>")}}}}));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("a<q>d<end>"), ElementsAre(0, 8, 20, 5));
}

TEST(NamedTokensTest, AnIdOfAnotherTokenIsRefused) {
  EXPECT_THAT(NamedRefusal(Config({{"added_tokens_decoder", {{"3", Token("<im>")}}}})),
              HasSubstr("tokenizer_config.json.added_tokens_decoder['3']: '<im>' would have id 3, "
                        "but another token has it"));
  EXPECT_THAT(NamedRefusal(Config({{"added_tokens_decoder", {{"9", Token("ab")}}}})),
              HasSubstr("'ab' would have id 9, but tokenizer.json makes it 4"));
  EXPECT_EQ((*Tokenizer::FromJson(kTokenizer))->warning(), "");
}

TEST(NamedTokensTest, SpecialTokensMapBeatsTheConfigButNotAnAddedTokensDecoder) {
  auto files = Config({{"eos_token", "c"}});
  files.special_tokens_map_json = R"({"eos_token": "<end>"})";
  EXPECT_THAT((*Tokenizer::FromJson(kTokenizer, files))->eos_ids(), ElementsAre(5));
  files = Config({{"eos_token", "<end>"}, {"added_tokens_decoder", {{"6", Token("<im>")}}}});
  files.special_tokens_map_json = R"({"eos_token": "<im>"})";
  EXPECT_THAT((*Tokenizer::FromJson(kTokenizer, files))->eos_ids(), ElementsAre(5));
}

TEST(NamedTokensTest, AddedTokensFileCountsWithoutAnAddedTokensDecoder) {
  auto files = Config({{"eos_token", "<im>"}});
  files.added_tokens_json = R"({"<im>": 6, "<y>": 7, "<end>": 5})";
  ExpectNames(files, "a<im> <y>", {0, 6, 3, 7}, "a <y>");
  files = Config({{"added_tokens_decoder", {{"6", Token("<im>")}}}});
  files.added_tokens_json = R"({"<y>": 7})";
  EXPECT_FALSE((*Tokenizer::FromJson(kTokenizer, files))->TokenToId("<y>").has_value());
}

TEST(NamedTokensTest, NamedSpecialTokensAreFoundInText) {
  const json with_flags = {{"__type", "AddedToken"}, {"content", "<q>"}, {"special", true}};
  ExpectNames(Config({{"eos_token", "c"}, {"pad_token", "ab"}}), "abc", {4, 2}, "");
  ExpectNames(Config({{"mask_token", "<m>"}, {"image_token", "<e>"}}), "<m><e>", {6, 7}, "");
  ExpectNames(Config({{"extra_special_tokens", {"<p>", "<q>"}}}), "<p><q>", {6, 7}, "");
  ExpectNames(Config({{"additional_special_tokens", {"<p>", with_flags}}}), "<p><q>", {6, 7}, "");
  ExpectNames(Config({{"extra_special_tokens", {{"boi_token", "<p>"}}}}), "<p>", {6}, "");
  TokenizerSideFiles map;
  map.special_tokens_map_json = R"({"additional_special_tokens": ["<p>"]})";
  ExpectNames(map, "<p>", {6}, "");
  // eos_token makes special what its added_tokens_decoder does not.
  ExpectNames(Config({{"eos_token", "<im>"},
                      {"added_tokens_decoder", {{"6", Token("<im>", /*special=*/false)}}}}),
              "a<im>", {0, 6}, "a");
}

// kTokenizer, whose own token is not special.
std::string WithPlainEnd() {
  json source = json::parse(kTokenizer);
  source["added_tokens"][0]["special"] = false;
  return source.dump();
}

TEST(NamedTokensTest, WhatAKeyNamesIsSpecialWithoutAnAddedTokensDecoder) {
  const std::pair<json, const char*> cases[] = {
      {{{"eos_token", "<end>"}}, "ab"},
      {{{"image_token", "<end>"}}, "ab"},
      {{{"extra_special_tokens", {"<end>"}}}, "a<end>b"},
      {{{"eos_token", "<end>"}, {"added_tokens_decoder", {{"6", Token("<im>")}}}}, "a<end>b"},
      {{{"eos_token", "<end>"}, {"added_tokens_decoder", json::object()}}, "a<end>b"},
      {{{"eos_token", "<end>"}, {"added_tokens_decoder", {{"5", Token("<end>", false)}}}}, "ab"}};
  for (const auto& [config, text_back] : cases) {
    const auto tokenizer = Tokenizer::FromJson(WithPlainEnd(), Config(config));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_THAT(*(*tokenizer)->Encode("a<end>b"), ElementsAre(0, 5, 1)) << config;
    EXPECT_EQ((*tokenizer)->Decode({0, 5, 1}), text_back) << config;
  }
}

TEST(NamedTokensTest, ThePaddingOfTokenizerJsonNamesThePadTokenWhereNoOtherFileHasTheKey) {
  const struct {
    const char* padding;
    json config;
    std::optional<int32_t> pad_id;
    Ids ids;  // of "ab[PAD]c"
    const char* text_back;
  } cases[] = {{"c", json::object(), 2, {}, ""},
               {"<end>", json::object(), 5, {}, ""},
               {"[PAD]", json::object(), 6, {4, 6, 2}, "abc"},
               {"ab", {{"pad_token", "c"}}, 2, {}, ""},
               {"ab", {{"pad_token", nullptr}}, std::nullopt, {}, ""}};
  for (const auto& c : cases) {
    json source = json::parse(kTokenizer);
    source["padding"] = {{"strategy", "BatchLongest"}, {"pad_id", 0}, {"pad_token", c.padding}};
    const auto tokenizer = Tokenizer::FromJson(source.dump(), Config(c.config));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->pad_id(), c.pad_id) << c.padding << c.config;
    if (!c.pad_id.has_value()) continue;
    EXPECT_TRUE((*tokenizer)->IsSpecial(*c.pad_id));
    if (c.ids.empty()) continue;
    EXPECT_EQ(*(*tokenizer)->Encode("ab[PAD]c"), c.ids);
    EXPECT_EQ((*tokenizer)->Decode(c.ids), c.text_back);
  }
}

TEST(NamedTokensTest, ObjectsOfOtherKeysAreTokensIfTheySaySo) {
  json token = Token("<p>");
  EXPECT_FALSE((*Tokenizer::FromJson(kTokenizer, Config({{"image_token", token}})))
                   ->TokenToId("<p>")
                   .has_value());
  TokenizerSideFiles map;
  map.special_tokens_map_json = json{{"image_token", token}}.dump();
  ExpectNames(map, "<p>a", {6, 0}, "a");
  token["__type"] = "AddedToken";
  ExpectNames(Config({{"image_token", token}}), "<p>a", {6, 0}, "a");
  ExpectNames(Config({{"model_specific_special_tokens", {{"p_token", "<p>"}}}}), "<p>a", {6, 0},
              "a");
}

TEST(NamedTokensTest, WhatIsNotReadIsRefusedByName) {
  EXPECT_THAT(
      NamedRefusal(Config({{"fast_tokenizer_files", {"tokenizer.json", "tokenizer.4.0.0.json"}}})),
      HasSubstr("tokenizer_config.json.fast_tokenizer_files: 'tokenizer.4.0.0.json'"));
  EXPECT_THAT(NamedRefusal(Config({{"split_special_tokens", true}})),
              HasSubstr("tokenizer_config.json.split_special_tokens: true is not supported"));
  EXPECT_THAT(NamedRefusal(Config({{"eos_token", "<no>"}})),
              HasSubstr("tokenizer_config.json.eos_token: '<no>' is not a token"));
  EXPECT_THAT(NamedRefusal(Config({{"image_token", "<e>"}, {"audio_token", "<f>"}})),
              HasSubstr("depends on the order of the file's keys"));
  EXPECT_THAT(NamedRefusal(Config({{"added_tokens_decoder", {{"x", Token("<e>")}}}})),
              HasSubstr("added_tokens_decoder['x']: the key is not an id"));
}

}  // namespace
}  // namespace baton::tokenizer
