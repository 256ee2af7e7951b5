// Vocabularies of the size that real models have, in any order of the file, and ids with gaps.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "workers/tokenizer/steps/byte_level.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Entries = std::vector<std::pair<std::string, int32_t>>;

// A token for every byte, then as many as needed, the last of which is "ab". The texts of high ids
// sort last, as in the tokenizers of Llama 3, where the byte alphabet makes them so.
Entries LargeVocabulary(int32_t size) {
  Entries entries;
  for (int32_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    entries.emplace_back(BytesToTokenText(absl::string_view(&raw, 1)), byte);
  }
  for (int32_t id = 256; id < size - 1; ++id) {
    entries.emplace_back(absl::StrFormat("%s%05x", id < 65536 ? "" : "\u0143", id), id);
  }
  entries.emplace_back("ab", size - 1);
  return entries;
}

std::string FileOf(const Entries& vocabulary, const Entries& added, bool merges_first = false) {
  std::vector<std::string> tokens, special;
  for (const auto& [text, id] : vocabulary) {
    const char* escape = text == "\"" || text == "\\" ? "\\" : "";
    tokens.push_back(absl::StrCat("\"", escape, text, "\":", id));
  }
  for (const auto& [text, id] : added) {
    special.push_back(absl::StrCat(R"({"content":")", text, R"(","special":true,"id":)", id, "}"));
  }
  const std::string vocab = absl::StrCat(R"("vocab":{)", absl::StrJoin(tokens, ","), "}");
  const std::string merges = R"("merges":["a b"])";
  return absl::StrCat(
      R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)",
      R"("decoder":{"type":"ByteLevel"},"added_tokens":[)", absl::StrJoin(special, ","),
      R"(],"model":{"type":"BPE",)", merges_first ? merges : vocab, ",",
      merges_first ? vocab : merges, "}}");
}

void ExpectReads(const std::string& file, int32_t size) {
  const auto tokenizer = Tokenizer::FromJson(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), size + 1);
  const auto ids = (*tokenizer)->Encode("ab<|end|>a");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(*ids, ElementsAre(size - 1, size, 'a'));
  EXPECT_EQ((*tokenizer)->Decode(*ids), "aba");
}

void ExpectVocabularyRefused(const std::string& file, const std::string& text) {
  const absl::Status status = Tokenizer::FromJson(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(TokenizerVocabularyTest, RealSizesAreReadInAnyOrderOfTheFile) {
  // As large as Llama 3's.
  Entries vocabulary = LargeVocabulary(128000);
  const Entries added = {{"<|end|>", 128000}};
  ExpectReads(FileOf(vocabulary, added), 128000);
  std::reverse(vocabulary.begin(), vocabulary.end());
  ExpectReads(FileOf(vocabulary, added, /*merges_first=*/true), 128000);
  std::mt19937 random(7);
  std::shuffle(vocabulary.begin(), vocabulary.end(), random);
  ExpectReads(FileOf(vocabulary, added), 128000);
  // Larger than Gemma 3's, whose 262,144 ids cost little.
  vocabulary = LargeVocabulary(300000);
  std::shuffle(vocabulary.begin(), vocabulary.end(), random);
  ExpectReads(FileOf(vocabulary, {{"<|end|>", 300000}}), 300000);
}

// A tokenizer of whole words: "<unk>" is 0, "w1" is 1, and so on.
std::string WordsFile(const std::string& type, std::vector<int32_t> ids) {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    tokens.push_back(absl::StrCat("\"", id == 0 ? "<unk>" : absl::StrCat("w", id), "\":", id));
  }
  return absl::StrCat(R"({"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":")", type,
                      R"(","unk_token":"<unk>","vocab":{)", absl::StrJoin(tokens, ","), "}}}");
}

TEST(TokenizerVocabularyTest, WordsOfRealVocabulariesAreReadInAnyOrderOfTheFile) {
  std::vector<int32_t> ids(150'000);
  std::iota(ids.begin(), ids.end(), 0);
  for (int order = 0; order < 3; ++order) {
    if (order == 1) std::reverse(ids.begin(), ids.end());
    if (order == 2) std::shuffle(ids.begin(), ids.end(), std::mt19937(5));
    for (const char* type : {"WordPiece", "WordLevel"}) {
      const auto tokenizer = Tokenizer::FromJson(WordsFile(type, ids));
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
      EXPECT_THAT(*(*tokenizer)->Encode("w149999 w1 x w70000"), ElementsAre(149999, 1, 0, 70000));
      EXPECT_EQ((*tokenizer)->Decode({149999, 1}), "w149999 w1");
    }
  }
}

// Scores fall with the length of the ids, so that a number is one token, never two.
TEST(TokenizerVocabularyTest, AUnigramVocabularyOfRealSizeIsRead) {
  std::vector<std::string> pieces = {R"(["<unk>",0])"};
  for (int32_t id = 1; id < 250'000; ++id) {
    pieces.push_back(absl::StrCat("[\"\u2581", id, "\",", -1 - 1e-6 * id, "]"));
  }
  const auto tokenizer = Tokenizer::FromJson(absl::StrCat(
      R"({"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"decoder":{"type":)"
      R"("Metaspace","replacement":"▁"},"model":{"type":"Unigram","unk_id":0,"vocab":[)",
      absl::StrJoin(pieces, ","), "]}}"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("249999 7 123456"), ElementsAre(249999, 7, 123456));
  EXPECT_EQ((*tokenizer)->Decode({249999, 7}), "249999 7");
}

TEST(TokenizerVocabularyTest, ManyAddedTokensAreReadAndFound) {
  // Gemma 3 has 6,415 of them.
  Entries added;
  for (int32_t i = 0; i < 9000; ++i) added.emplace_back(absl::StrCat("<", i, ">"), 1000 + i);
  const auto tokenizer = Tokenizer::FromJson(FileOf(LargeVocabulary(1000), added));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 10000);
  EXPECT_THAT(*(*tokenizer)->Encode("<89><8999><8"), ElementsAre(1089, 9999, '<', '8'));
}

// The model was trained with the ids of the file. tokenizers 0.23.3 makes [0, 3, 1] of "a<x>b" in
// each of these files, whatever id they say.
TEST(TokenizerVocabularyTest, AddedTokensWithOtherIdsThanTokenizersGivesAreWarnedAbout) {
  const Entries vocabulary = {{"a", 0}, {"b", 1}, {"ab", 2}};
  const auto warning = [](const Entries& model, const Entries& added) {
    const auto tokenizer = Tokenizer::FromJson(FileOf(model, added));
    if (!tokenizer.ok()) return std::string(tokenizer.status().message());
    EXPECT_THAT(*(*tokenizer)->Encode("a<x>b"), ElementsAre(0, added[0].second, 1));
    return (*tokenizer)->warning();
  };
  EXPECT_EQ(warning(vocabulary, {{"<x>", 3}, {"<y>", 4}}), "");
  EXPECT_THAT(warning(vocabulary, {{"<x>", 9}}),
              HasSubstr("added_tokens[0].id: the id of '<x>' is 9, and `tokenizers` makes it 3"));
  EXPECT_THAT(warning(vocabulary, {{"<x>", 3}, {"<y>", 7}}),
              HasSubstr("added_tokens[1].id: the id of '<y>' is 7, and `tokenizers` makes it 4"));
  EXPECT_THAT(warning(vocabulary, {{"<x>", 4}, {"<y>", 3}}),
              HasSubstr("the id of '<x>' is 4, and `tokenizers` makes it 3"));
  // Ids with a gap: new tokens are numbered by how many there are.
  EXPECT_THAT(warning({{"a", 0}, {"b", 1}, {"ab", 3}}, {{"<x>", 4}}),
              HasSubstr("the id of '<x>' is 4, and `tokenizers` makes it 3"));
  ExpectVocabularyRefused(FileOf(vocabulary, {{"b", 3}}),
                          "added_tokens[0].id: 'b' has id 3, but the vocabulary makes it 1");
  ExpectVocabularyRefused(FileOf(vocabulary, {{"<x>", 2}}),
                          "added_tokens[0].id: '<x>' has id 2, but that is another token's");
  ExpectVocabularyRefused(FileOf(vocabulary, {{"<x>", 3}, {"<y>", 3}}),
                          "added_tokens[1].id: '<y>' has id 3, but that is another token's");
}

TEST(TokenizerVocabularyTest, GapsThatCostLittleAreFine) {
  // A vocabulary that was cut down to a few tokens may keep their ids.
  const auto tokenizer = Tokenizer::FromJson(FileOf({{"a", 0}, {"b", 7}, {"ab", 262143}}, {}));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("ab"), ElementsAre(262143));
}

TEST(TokenizerVocabularyTest, IdsWithGapsBeyondMeasureAreRefusedByName) {
  // 128,001 tokens may have 8,192,064 ids.
  Entries vocabulary = LargeVocabulary(128000);
  vocabulary.emplace_back("far", 8192063);
  EXPECT_TRUE(Tokenizer::FromJson(FileOf(vocabulary, {})).ok());
  vocabulary.back().second = 8192064;
  const std::string refused =
      "tokenizer.json: token 'far' has id 8192064, but the file has only 128001 tokens";
  ExpectVocabularyRefused(FileOf(vocabulary, {}), refused);
  std::reverse(vocabulary.begin(), vocabulary.end());
  ExpectVocabularyRefused(FileOf(vocabulary, {}), refused);
  ExpectVocabularyRefused(FileOf({{"a", 0}, {"b", 1}, {"ab", 2}}, {{"<|far|>", 262144}}),
                          "token '<|far|>' has id 262144, but the file has only 4 tokens");
  ExpectVocabularyRefused(FileOf({{"a", 0}, {"b", 1}, {"ab", 1 << 24}}, {}), "model.vocab['ab']");
  ExpectVocabularyRefused(FileOf({{"a", 0}, {"b", 1}, {"ab", 2}}, {{"<|far|>", INT32_MAX}}),
                          "added_tokens[0].id");
}

TEST(TokenizerVocabularyTest, NamesTheSameTokenInAnyFileOrder) {
  Entries vocabulary = LargeVocabulary(2000);
  vocabulary.emplace_back("one", 1000);
  vocabulary.emplace_back("two", 1000);
  std::mt19937 random(7);
  for (int i = 0; i < 3; ++i) {
    ExpectVocabularyRefused(FileOf(vocabulary, {}), "token 'one' with id 1000");
    std::shuffle(vocabulary.begin(), vocabulary.end(), random);
  }
}

}  // namespace
}  // namespace baton::tokenizer
