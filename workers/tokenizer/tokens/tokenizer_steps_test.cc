// The steps of a tokenizer.json's normalizer, pre_tokenizer and decoder, one after the other.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json WithoutSteps() {
  return json::parse(R"({
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "_": 2}, "merges": []}})");
}

void ExpectRefused(const json& tokenizer, const std::string& text) {
  const absl::Status status = Tokenizer::FromJson(tokenizer.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// As in `tokenizers`, which prepends at the place 0 of the original text alone.
TEST(TokenizerStepsTest, DoesNotPrependIfTheStartWasRemoved) {
  json source = WithoutSteps();
  source["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]})");
  const auto first = *Tokenizer::FromJson(source.dump());
  EXPECT_THAT(*first->Encode("a b"), ElementsAre(2, 0, 1));
  EXPECT_THAT(*first->Encode(" a b"), ElementsAre(0, 1));
  EXPECT_THAT(*first->Encode("  a"), ElementsAre(0));
  source["pre_tokenizer"]["pretokenizers"][1]["prepend_scheme"] = "always";
  const auto always = *Tokenizer::FromJson(source.dump());
  EXPECT_THAT(*always->Encode(" a b"), ElementsAre(2, 0, 2, 1));
}

// Each of n steps may double a text: 2^n bytes for one.
TEST(TokenizerStepsTest, StepsThatGrowATextWithoutBoundAreRefused) {
  const auto replace = [](const std::string& from, const std::string& to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const auto load = [](const char* key, const char* list, const std::vector<json>& steps) {
    json source = WithoutSteps();
    source[key] = {{"type", "Sequence"}, {list, steps}};
    return source;
  };
  const auto refused = [&](const std::vector<json>& steps, const std::string& text) {
    ExpectRefused(load("normalizer", "normalizers", steps), text);
  };
  const json doubles = replace("a", "aa");
  const auto eight =
      Tokenizer::FromJson(load("normalizer", "normalizers", std::vector<json>(8, doubles)).dump());
  ASSERT_TRUE(eight.ok()) << eight.status();
  EXPECT_EQ((*eight)->Decode(*(*eight)->Encode("a")), std::string(256, 'a'));
  refused(std::vector<json>(9, doubles), "normalizer.normalizers[8]: with the steps before it");
  refused({replace("a", std::string(257, 'b'))}, "more than 256 times as long");
  refused({doubles, {{"type", "NFKD"}}, {{"type", "NFKC"}}, {{"type", "NFC"}}},
          "normalizer.normalizers[3]: with the steps before it");
  refused(std::vector<json>(65, replace("a", "b")), "normalizer.normalizers[64]: there may be 64");
  refused({{{"type", "Prepend"}, {"prepend", std::string(1025, 'a')}}}, "more than 1024 bytes");
  ExpectRefused(load("decoder", "decoders", std::vector<json>(9, doubles)),
                "decoder.decoders[8]: with the steps before it");
}

// `tokenizers` prepends to each word that begins at the place 0 of the original text: two, where a
// step cut behind what was prepended there.
TEST(TokenizerStepsTest, PrependingToTheFirstWordBehindOtherPrependingIsRefused) {
  const auto refused = [](const json& source) {
    const absl::Status status = Tokenizer::FromJson(source.dump()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    return std::string(status.message());
  };
  const auto metaspace = [](const char* scheme) {
    return json{{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", scheme}};
  };
  json source = WithoutSteps();
  source["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {{{"type", "Digits"}}, metaspace("first")}}};
  EXPECT_TRUE(Tokenizer::FromJson(source.dump()).ok());
  source["normalizer"] = {{"type", "Prepend"}, {"prepend", "_"}};
  EXPECT_THAT(refused(source), HasSubstr("normalizer: Prepend before a Metaspace"));
  source["pre_tokenizer"] = metaspace("first");
  EXPECT_TRUE(Tokenizer::FromJson(source.dump()).ok());
  source["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {metaspace("always"), metaspace("first")}}};
  EXPECT_THAT(refused(source), HasSubstr("pretokenizers[1].prepend_scheme: 'first' behind steps"));
}

// Ids of tokenizers 0.23.3: a text whose first character was removed has no start to prepend to.
TEST(TokenizerStepsTest, DoesNotPrependIfANormalizerRemovedTheStart) {
  json source = json::parse(R"({
    "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"},
    "model": {"type": "WordLevel", "vocab": {"?": 0, "_ab": 1, "ab": 2}, "unk_token": "?"}})");
  const auto replace = [](const char* from, const char* to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const struct {
    json step;
    const char* text;
    int32_t id;
  } cases[] = {{{{"type", "StripAccents"}}, "\u0301ab", 2},
               {{{"type", "StripAccents"}}, "a\u0301b", 1},
               {{{"type", "Strip"}}, "  ab", 2},
               {{{"type", "Nmt"}},
                "\x01"
                "ab",
                2},
               {{{"type", "BertNormalizer"}},
                "\x01"
                "ab",
                2},
               {replace("x", ""), "xab", 2},
               {replace("xa", "a"), "xab", 2},
               {replace("x", "a"), "xb", 1},
               {{{"type", "Lowercase"}}, "AB", 1}};
  for (const auto& c : cases) {
    source["normalizer"] = c.step;
    EXPECT_THAT(*(*Tokenizer::FromJson(source.dump()))->Encode(c.text), ElementsAre(c.id))
        << c.step;
  }
}

// Ids of tokenizers 0.23.3: of several matches in a row the first alone joins what is before it.
TEST(TokenizerStepsTest, OneMatchIsMergedWithThePreviousWord) {
  const json source = json::parse(R"({
    "pre_tokenizer": {"type": "Punctuation", "behavior": "MergedWithPrevious"},
    "model": {"type": "WordLevel", "unk_token": "?",
              "vocab": {"?": 0, "a!": 1, "!": 2, "a!!": 3, "b": 4}}})");
  const auto tokenizer = *Tokenizer::FromJson(source.dump());
  EXPECT_THAT(*tokenizer->Encode("a!!b"), ElementsAre(1, 2, 4));
  EXPECT_THAT(*tokenizer->Encode("!!"), ElementsAre(2, 2));
}

// Ids of tokenizers 0.23.3.
TEST(TokenizerStepsTest, AWordAboveTheLimitOfWordPieceIsUnknown) {
  const json source = json::parse(R"({
    "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 3, "vocab": {"?": 0, "a": 1, "##a": 2}}})");
  const auto tokenizer = *Tokenizer::FromJson(source.dump());
  EXPECT_THAT(*tokenizer->Encode("aaa"), ElementsAre(1, 2, 2));
  EXPECT_THAT(*tokenizer->Encode("aaaa"), ElementsAre(0));
}

// A range that a match reaches into loses the match's part: a template's mark does not begin in
// text that was not the template's.
TEST(TokenizerStepsTest, AReplacementAcrossTheBorderOfATemplateIsNotTheTemplates) {
  json source = WithoutSteps();
  source["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "xy"}}}, {"content", "<end>"}};
  source["added_tokens"] =
      json::parse(R"([{"id": 3, "content": "<end>", "special": true, "normalized": true}])");
  source["model"]["unk_token"] = "_";
  const auto tokenizer = *Tokenizer::FromJson(source.dump());
  RenderedText whole;
  whole.AddTemplate("axyb");
  EXPECT_THAT(*tokenizer->Encode(whole), ElementsAre(0, 3, 1));
  RenderedText across;
  across.AddTemplate("ax");
  across.AddContent("yb");
  EXPECT_THAT(*tokenizer->Encode(across), ElementsAre(0, 2, 2, 2, 2, 2, 1));
}

// The texts of tokenizers 0.23.3.
TEST(TokenizerStepsTest, AnAddedTokenIsDecodedAsTheNormalizerAndTheByteAlphabetHaveIt) {
  json source = json::parse(R"({
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2}, "merges": []}})");
  const struct {
    const char* normalizer;  // its type; empty: none
    const char* token;
    bool normalized;
    const char* text;
    const char* text_back;
  } cases[] = {{"Nmt", "▁x", true, "a▁xb", "a xb"},
               {"Lowercase", "<X>", true, "a<X>b", "a<x>b"},
               {"ByteLevel", "two words", true, "atwo wordsb", "atwo wordsb"},
               {"", "Ġx", false, "aĠxb", "a xb"},
               // `tokenizers` reads the byte E9 and gives U+FFFD.
               {"", "<é>", false, "a<é>b", "a<é>b"}};
  for (const auto& c : cases) {
    source["normalizer"] = *c.normalizer == '\0' ? json() : json{{"type", c.normalizer}};
    source["added_tokens"] = {{{"id", 3}, {"content", c.token}, {"normalized", c.normalized}}};
    const auto tokenizer = Tokenizer::FromJson(source.dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_THAT(*(*tokenizer)->Encode(c.text), ElementsAre(0, 3, 1)) << c.token;
    EXPECT_EQ((*tokenizer)->Decode({0, 3, 1}), c.text_back);
  }
}

// `tokenizers` finds such a token between any two characters, and so cuts a text into these.
TEST(TokenizerStepsTest, AnAddedTokenThatTheNormalizerRemovesIsRefused) {
  json source = WithoutSteps();
  source["normalizer"] = {{"type", "Strip"}};
  source["added_tokens"] = json::parse(R"([{"id": 3, "content": " ", "normalized": true}])");
  ExpectRefused(source, "nothing is left of the added token ' ' (id 3) by the normalizer");
  source["added_tokens"][0]["normalized"] = false;
  EXPECT_TRUE(Tokenizer::FromJson(source.dump()).ok());
}

TEST(TokenizerStepsTest, AnUnknownTokenOutsideOfTheVocabularyIsMissedWhereItIsNeeded) {
  json source = WithoutSteps();
  source["model"]["unk_token"] = "<unk>";
  const auto tokenizer = Tokenizer::FromJson(source.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("ab"), ElementsAre(0, 1));
  EXPECT_THAT((*tokenizer)->Encode("ax").status().ToString(), HasSubstr("'x'"));
}

TEST(TokenizerStepsTest, SettingsThatContradictEachOtherAreRefusedByName) {
  json source = WithoutSteps();
  source["pre_tokenizer"] = json::parse(
      R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false,
          "prepend_scheme": "first"})");
  ExpectRefused(source, "pre_tokenizer: add_prefix_space is false, but prepend_scheme is 'first'");
  source["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_TRUE(Tokenizer::FromJson(source.dump()).ok());
  source["model"]["byte_fallback"] = true;
  source["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_THAT(Tokenizer::FromJson(source.dump()).status().ToString(),
              HasSubstr("model.byte_fallback: true with continuing_subword_prefix"));
}

// Copies of such values overflow the stack.
TEST(TokenizerStepsTest, DeeplyNestedValuesAreRefused) {
  const auto nested = [](size_t depth) {
    return R"({"normalizer": {"type": "NFC", "x": )" + std::string(depth, '[') +
           std::string(depth, ']') + R"(}, "model": {"type": "BPE", "vocab": {"[[": 0}}})";
  };
  EXPECT_TRUE(Tokenizer::FromJson(nested(98)).ok());
  for (const size_t depth : {99, 1'000'000}) {
    const absl::Status refused = Tokenizer::FromJson(nested(depth)).status();
    EXPECT_EQ(refused.message(), "tokenizer.json: values are nested more than 100 deep");
  }
}

TEST(TokenizerStepsTest, ATokenOfManyBytesIsRefused) {
  json source = WithoutSteps();
  source["model"]["vocab"][std::string(16384, 'a')] = 3;
  EXPECT_TRUE(Tokenizer::FromJson(source.dump()).ok());
  source["model"]["vocab"][std::string(16385, 'a')] = 4;
  ExpectRefused(source, "the token with id 4 has 16385 bytes; there may be 16384 at most");
}

// `tokenizers` cannot be asked: it panics where Strip meets a text that is too short.
TEST(TokenizerStepsTest, StripLeavesOutTheEndOfATextHoweverItComes) {
  json source = WithoutSteps();
  source["decoder"] = json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Fuse"}, {"type": "Strip", "content": "_", "start": 1, "stop": 2}]})");
  const auto tokenizer = *Tokenizer::FromJson(source.dump());
  const std::pair<std::vector<int32_t>, std::string> cases[] = {
      {{2, 2, 0, 2, 1, 2, 2, 2}, "_a_b_"}, {{2, 2}, ""}, {{0, 2}, "a"}, {{}, ""}, {{2, 2, 2}, ""}};
  for (const auto& [ids, text] : cases) {
    EXPECT_EQ(tokenizer->Decode(ids), text);
    StreamDecoder stream(tokenizer.get());
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.Push({id});
    EXPECT_EQ(streamed + stream.Finish(), text);
  }
}

}  // namespace
}  // namespace baton::tokenizer
