#include "workers/tokenizer/tokens/prefix_table.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::pair<size_t, int32_t>> PrefixesOf(const PrefixTable& table,
                                                   const std::string& text) {
  std::vector<std::pair<size_t, int32_t>> out;
  table.VisitPrefixes(text, [&](size_t length, int32_t value) { out.emplace_back(length, value); });
  return out;
}

TEST(PrefixTableTest, VisitsWhatATextBeginsWithFromTheShortest) {
  const PrefixTable table({{"abc", 1}, {"b", 2}, {"a", 3}, {"ab\xFF", 4}, {"ab", 5}, {"abcd", 6}});
  EXPECT_THAT(PrefixesOf(table, "abcx"), ElementsAre(Pair(1, 3), Pair(2, 5), Pair(3, 1)));
  EXPECT_THAT(PrefixesOf(table, "ab\xFF"), ElementsAre(Pair(1, 3), Pair(2, 5), Pair(3, 4)));
  EXPECT_THAT(PrefixesOf(table, "a"), ElementsAre(Pair(1, 3)));
  EXPECT_THAT(PrefixesOf(table, "xab"), IsEmpty());
  EXPECT_THAT(PrefixesOf(table, ""), IsEmpty());
  EXPECT_EQ(table.FindLongest("abcdabcd"), std::pair(6, size_t{4}));
  EXPECT_EQ(table.FindLongest("c"), std::nullopt);
}

TEST(PrefixTableTest, OfOneTextTheFirstEntryStaysAndEmptyTextsAreNone) {
  const PrefixTable table({{"a", 1}, {"", 2}, {"a", 3}});
  EXPECT_EQ(table.Find("a"), 1);
  EXPECT_EQ(table.Find(""), std::nullopt);
  EXPECT_EQ(table.Find("aa"), std::nullopt);
  EXPECT_THAT(PrefixesOf(table, "aa"), ElementsAre(Pair(1, 1)));
  EXPECT_TRUE(PrefixTable({{"", 2}}).empty());
}

}  // namespace
}  // namespace baton::tokenizer
