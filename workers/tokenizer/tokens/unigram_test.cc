// The ids are those of `tokenizers` 0.23.3, models.Unigram.
#include "workers/tokenizer/tokens/unigram.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;

// Each pair of letters is as probable as both letters: a token that begins earlier stays.
TEST(UnigramTest, OfEqualPathsTheFirstFoundStays) {
  UnigramOptions options;
  options.unk_id = 0;
  const Unigram unigram({{"?", 0}, {"a", -1}, {"b", -1}, {"ab", -2}, {"c", -1}, {"bc", -2}},
                        options);
  const auto encode = [&](const std::string& word) {
    std::vector<int32_t> ids;
    EXPECT_EQ(unigram.Encode(word, &ids), std::nullopt) << word;
    return ids;
  };
  EXPECT_THAT(encode("ab"), ElementsAre(3));
  EXPECT_THAT(encode("aab"), ElementsAre(1, 3));
  EXPECT_THAT(encode("abc"), ElementsAre(1, 5));
}

}  // namespace
}  // namespace baton::tokenizer
