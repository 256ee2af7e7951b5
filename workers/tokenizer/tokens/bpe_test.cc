// Bpe against a naive encoder: after every merge it looks at all pairs of the word anew.
#include "workers/tokenizer/tokens/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace baton::tokenizer {
namespace {

using ::testing::ElementsAre;

// Random merges over an alphabet of four letters. Rank order has nothing to do with length, so
// joining one pair often takes away a pair that was queued before.
struct RandomMerges {
  Vocab vocab;
  std::vector<Bpe::Merge> merges;

  explicit RandomMerges(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::string> tokens = {"a", "b", "c", "d"};
    for (size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = static_cast<int32_t>(i);
    for (int i = 0; i < 24; ++i) {
      const Bpe::Merge merge = {tokens[random() % tokens.size()], tokens[random() % tokens.size()]};
      if (std::find(merges.begin(), merges.end(), merge) != merges.end()) continue;
      merges.push_back(merge);
      const std::string joined = merge.first + merge.second;
      if (!vocab.emplace(joined, static_cast<int32_t>(vocab.size())).second) continue;
      tokens.push_back(joined);
    }
    std::shuffle(merges.begin(), merges.end(), random);
  }
};

// Joins the leftmost pair of the lowest rank until no pair has one.
std::vector<int32_t> EncodeNaively(const RandomMerges& table, const std::string& word) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  while (true) {
    size_t best_rank = table.merges.size(), best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Bpe::Merge pair = {symbols[i], symbols[i + 1]};
      const auto it = std::find(table.merges.begin(), table.merges.end(), pair);
      const auto rank = static_cast<size_t>(it - table.merges.begin());
      if (rank < best_rank) best_rank = rank, best = i;
    }
    if (best_rank == table.merges.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<int64_t>(best) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& symbol : symbols) ids.push_back(table.vocab.at(symbol));
  return ids;
}

TEST(BpeTest, RandomWordsEqualTheNaiveEncoder) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const RandomMerges table(seed);
    const auto bpe = Bpe::Create(table.vocab, table.merges, BpeOptions());
    ASSERT_TRUE(bpe.ok()) << bpe.status();
    std::mt19937 random(seed + 1000);
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (size_t length = 1 + random() % 24; word.size() < length;) word += "abcd"[random() % 4];
      std::vector<int32_t> ids;
      EXPECT_EQ(bpe->Encode(word, &ids), std::nullopt);
      EXPECT_EQ(ids, EncodeNaively(table, word)) << word << " of seed " << seed;
    }
  }
}

// (b, c) comes first and takes b away from the pair (a, b), which was queued before.
TEST(BpeTest, SkipsAPairConsumedByAnEarlierMerge) {
  const Vocab vocab = {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"abc", 5}};
  const auto bpe = Bpe::Create(vocab, {{"b", "c"}, {"a", "b"}, {"a", "bc"}}, BpeOptions());
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  std::vector<int32_t> ids;
  EXPECT_EQ(bpe->Encode("abc", &ids), std::nullopt);
  EXPECT_THAT(ids, ElementsAre(5));
  const auto without = Bpe::Create(vocab, {{"b", "c"}, {"a", "b"}}, BpeOptions());
  ids.clear();
  EXPECT_EQ(without->Encode("abc", &ids), std::nullopt);
  EXPECT_THAT(ids, ElementsAre(0, 3));
}

}  // namespace
}  // namespace baton::tokenizer
