#include "controller/core/job/file_ranges.h"

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(FileRangesTest, MergesAdjacentFilesIntoOneRange) {
  FileRanges files;
  files.Add(7);
  files.Add(3);
  files.Add(9);
  EXPECT_THAT(files.ranges(), ElementsAre(Pair(3, 3), Pair(7, 7), Pair(9, 9)));
  files.Add(8);
  EXPECT_THAT(files.ranges(), ElementsAre(Pair(3, 3), Pair(7, 9)));
  files.Add(1, 20);
  EXPECT_THAT(files.ranges(), ElementsAre(Pair(1, 20)));
}

TEST(FileRangesTest, TheLargestNumberHasNoNeighbour) {
  constexpr uint32_t kLast = ~uint32_t{0};
  FileRanges files;
  files.Add(5, kLast);
  files.Add(kLast);
  files.Add(1);
  EXPECT_THAT(files.ranges(), ElementsAre(Pair(1, 1), Pair(5, kLast)));
  EXPECT_TRUE(files.Contains(kLast));
  EXPECT_FALSE(files.Contains(4));
}

// Against a plain set.
TEST(FileRangesTest, ARandomSetHasExactlyItsFiles) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    FileRanges files;
    std::set<uint32_t> plain;
    for (int i = 0; i < 12; ++i) {
      const uint32_t first = random() % 40, last = first + random() % 4;
      files.Add(first, last);
      for (uint32_t file = first; file <= last; ++file) plain.insert(file);
    }
    for (uint32_t file = 0; file < 50; ++file) {
      EXPECT_EQ(files.Contains(file), plain.count(file) > 0) << "round " << round;
    }
    for (auto it = files.ranges().begin(); it != files.ranges().end(); ++it) {
      const auto next = std::next(it);
      EXPECT_LE(it->first, it->second);
      if (next != files.ranges().end()) EXPECT_GT(next->first, it->second + 1);
    }
    store::v1::StepSerials row;
    files.Save(&row);
    FileRanges restored;
    restored.Restore(row);
    EXPECT_EQ(restored.ranges(), files.ranges());
  }
}

}  // namespace
}  // namespace baton::controller
