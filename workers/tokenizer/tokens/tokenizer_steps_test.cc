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
  const auto five =
      Tokenizer::FromJson(load("normalizer", "normalizers", std::vector<json>(5, doubles)).dump());
  ASSERT_TRUE(five.ok()) << five.status();
  EXPECT_EQ((*five)->Decode(*(*five)->Encode("a")), std::string(32, 'a'));
  refused(std::vector<json>(6, doubles), "normalizer.normalizers[5]: with the steps before it");
  refused({replace("a", std::string(33, 'b'))}, "more than 32 times as long");
  refused({doubles, {{"type", "NFC"}}, {{"type", "NFC"}}, {{"type", "NFC"}}},
          "normalizer.normalizers[3]: with the steps before it");
  refused(std::vector<json>(65, replace("a", "b")), "normalizer.normalizers[64]: there may be 64");
  refused({{{"type", "Prepend"}, {"prepend", std::string(1025, 'a')}}}, "more than 1024 bytes");
  ExpectRefused(load("decoder", "decoders", std::vector<json>(6, doubles)),
                "decoder.decoders[5]: with the steps before it");
}

}  // namespace
}  // namespace baton::tokenizer
