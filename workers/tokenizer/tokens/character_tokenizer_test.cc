#include "workers/tokenizer/tokens/character_tokenizer.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "relay/weights/file_io.h"
#include "sdk/common/base/test_folder.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> Make(const std::string& alphabet,
                                const CharacterTokenizerOptions& options = {}) {
  auto files = MakeCharacterTokenizer(alphabet, options);
  EXPECT_TRUE(files.ok()) << files.status();
  TokenizerSideFiles side;
  side.tokenizer_config_json = files->tokenizer_config_json;
  auto tokenizer = Tokenizer::FromJson(files->tokenizer_json, side);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(CharacterTokenizerTest, OneTokenPerCharacterInOrder) {
  const auto tokenizer = Make("0123456789+=:# \n");
  EXPECT_EQ(tokenizer->vocab_size(), 18);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(1));
  EXPECT_THAT(*tokenizer->Encode("47+85: #\n<eos>"),
              ElementsAre(6, 9, 12, 10, 7, 14, 16, 15, 17, 1));
  EXPECT_EQ(tokenizer->Decode({6, 9, 12, 1}), "47+");
}

TEST(CharacterTokenizerTest, CharactersOfSeveralBytesAreOneToken) {
  const std::string alphabet = "a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80\xC2\xA0";  // a é 日 😀 NBSP
  const auto tokenizer = Make(alphabet);
  EXPECT_THAT(*tokenizer->Encode(alphabet + "a"), ElementsAre(2, 3, 4, 5, 6, 2));
  EXPECT_EQ(tokenizer->Decode({5, 4}), "\xF0\x9F\x98\x80\xE6\x97\xA5");
}

TEST(CharacterTokenizerTest, RandomTextRoundTrips) {
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz 0123456789\n\t\"\\'<>|";
  const auto tokenizer = Make(alphabet);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (unsigned k = random() % 60; k > 0; --k) text += alphabet[random() % alphabet.size()];
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(ids->size(), text.size());
    EXPECT_EQ(tokenizer->DecodeBytes(*ids), text);
  }
}

TEST(CharacterTokenizerTest, OtherCharactersAreAnErrorOrUnk) {
  EXPECT_THAT(std::string(Make("ab")->Encode("abx").status().message()), HasSubstr("'x' (U+0078)"));
  CharacterTokenizerOptions options;
  options.unk_token = "<unk>";
  options.bos_token = "<bos>";
  options.extra_special_tokens = {"<|im_start|>"};
  const auto tokenizer = Make("ab", options);
  EXPECT_EQ(tokenizer->bos_id(), 2);
  EXPECT_EQ(tokenizer->unk_id(), 3);
  EXPECT_THAT(*tokenizer->Encode("a<|im_start|>xb"), ElementsAre(5, 4, 3, 6));
}

TEST(CharacterTokenizerTest, BadAlphabetsAndNamesAreErrors) {
  const auto message = [](absl::string_view alphabet, const CharacterTokenizerOptions& options) {
    const auto files = MakeCharacterTokenizer(alphabet, options);
    EXPECT_EQ(files.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(files.status().message());
  };
  EXPECT_THAT(message("", {}), HasSubstr("empty"));
  EXPECT_THAT(message("aba", {}), HasSubstr("'a' at byte 2 is in it twice"));
  EXPECT_THAT(message("a\xFF", {}), HasSubstr("byte 1"));
  CharacterTokenizerOptions options;
  options.bos_token = "<eos>";
  EXPECT_THAT(message("a", options), HasSubstr("'<eos>' is named twice"));
}

TEST(CharacterTokenizerTest, WritesADirectoryThatLoads) {
  const TestFolder folder;
  auto files = MakeCharacterTokenizer("abc");
  ASSERT_TRUE(files.ok());
  ASSERT_TRUE(
      relay::WriteFileAtomically(folder.path("tokenizer.json"), files->tokenizer_json).ok());
  ASSERT_TRUE(
      relay::WriteFileAtomically(folder.path("tokenizer_config.json"), files->tokenizer_config_json)
          .ok());
  auto tokenizer = Tokenizer::Load(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("cab"), ElementsAre(4, 2, 3));
}

}  // namespace
}  // namespace baton::tokenizer
