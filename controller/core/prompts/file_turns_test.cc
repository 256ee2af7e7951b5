#include "controller/core/prompts/file_turns.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

std::string First(const std::vector<double>& weights, int turns) {
  const FileTurns files(weights);
  std::string out;
  for (int i = 0; i < turns; ++i) {
    out += static_cast<char>('a' + files.At(static_cast<uint64_t>(i)).file);
  }
  return out;
}

TEST(FileTurnsTest, ByHand) {
  EXPECT_EQ(First({7}, 3), "aaa");
  EXPECT_EQ(First({1, 1}, 6), "ababab");
  EXPECT_EQ(First({3, 1}, 8), "aabaaaba");  // of k turns round(3k/4): 1, 2, 2, 3, 4, 5, 5, 6
  EXPECT_EQ(First({0.001, 0.003}, 8), "bbabbbab");
  EXPECT_EQ(First({1, 1, 2}, 8), "cacbcacb");
}

// Weights from 0.001 to 1000, of 2 to 9 files; some of them equal.
std::vector<double> SomeWeights(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> weights(2 + random() % 8);
  for (double& weight : weights) {
    const uint64_t size = random() % 4;
    weight = size == 0   ? 1
             : size == 1 ? static_cast<double>(1 + random() % 1'000'000) / 1000
             : size == 2 ? static_cast<double>(1 + random() % 1000) / 1000
                         : static_cast<double>(1 + random() % 20);
  }
  return weights;
}

TEST(FileTurnsTest, AFileHasItsTurnsInOrderAndItsShareOfThem) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> weights = SomeWeights(seed);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const FileTurns files(weights);
    const double most = weights.size() <= 3 ? 1 : 2;
    std::vector<uint64_t> counts(weights.size());
    for (uint64_t turn = 0; turn < 2000; ++turn) {
      ASSERT_EQ(files.Among(turn), counts) << "seed " << seed << ", turn " << turn;
      for (size_t file = 0; file < weights.size(); ++file) {
        const double exact = static_cast<double>(turn) * weights[file] / total;
        ASSERT_LT(std::abs(static_cast<double>(counts[file]) - exact), most)
            << "seed " << seed << ", turn " << turn << ", file " << file;
      }
      const FileTurns::Turn at = files.At(turn);
      ASSERT_EQ(at.nth, counts[at.file]) << "seed " << seed << ", turn " << turn;
      ++counts[at.file];
    }
  }
}

TEST(FileTurnsTest, GivesExactSharesAfterEachWholeCycle) {
  const FileTurns files({5, 0.5, 2.5, 1, 1});  // 10 : 1 : 5 : 2 : 2
  for (uint64_t times = 1; times < 1000; ++times) {
    EXPECT_EQ(files.Among(20 * times),
              std::vector<uint64_t>({10 * times, times, 5 * times, 2 * times, 2 * times}));
  }
}

TEST(FileTurnsTest, BillionsOfTurnsCostNothing) {
  const std::vector<double> weights = {1000, 0.001, 333.333, 17, 17};
  const FileTurns files(weights);
  for (const uint64_t first : {uint64_t{1'000'000'000'000}, uint64_t{1} << 60}) {
    std::vector<uint64_t> counts = files.Among(first);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), first);
    for (uint64_t turn = first; turn < first + 5000; ++turn) {
      const FileTurns::Turn at = files.At(turn);
      ASSERT_EQ(at.nth, counts[at.file]++);
    }
    EXPECT_EQ(files.Among(first + 5000), counts);
  }
}

}  // namespace
}  // namespace baton::controller
