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
