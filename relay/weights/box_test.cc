#include "relay/weights/box.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace baton::relay {
namespace {

/// Every element of a box, one by one.
std::set<std::vector<int64_t>> Elements(const Box& box) {
  std::set<std::vector<int64_t>> out;
  if (box.volume() == 0) return out;
  std::vector<int64_t> at = box.begin;
  while (true) {
    out.insert(at);
    size_t d = box.rank();
    while (d > 0 && ++at[d - 1] == box.end[d - 1]) {
      at[d - 1] = box.begin[d - 1];
      --d;
    }
    if (d == 0) return out;
  }
}

Box RandomBox(std::mt19937& random, size_t rank) {
  Box box;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t begin = static_cast<int64_t>(random() % 5);
    box.begin.push_back(begin);
    box.end.push_back(begin + static_cast<int64_t>(random() % 4));
  }
  return box;
}

TEST(Box, IntersectionByHand) {
  const Box a{{0, 2}, {4, 8}}, b{{3, 0}, {9, 3}};
  ASSERT_TRUE(Intersect(a, b).has_value());
  EXPECT_EQ(*Intersect(a, b), (Box{{3, 2}, {4, 3}}));
  EXPECT_FALSE(Intersect(a, Box{{4, 2}, {5, 8}}).has_value()) << "they only touch";
  EXPECT_FALSE(Intersect(a, Box{{0}, {4}}).has_value()) << "ranks differ";
}

TEST(Box, ScalarsAreOneElement) {
  const Box scalar = Box::Full({});
  EXPECT_EQ(scalar.volume(), 1);
  ASSERT_TRUE(Intersect(scalar, scalar).has_value());
  EXPECT_TRUE(Subtract(scalar, scalar).empty());
}

TEST(Box, EmptyBoxesHaveNoVolumeHoweverLargeTheirOtherSides) {
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(Box::Full({huge, huge, 0}).volume(), 0);
}

TEST(Box, ContainsOnlyBoxesInsideIt) {
  const Box box{{0, 2}, {4, 8}};
  EXPECT_TRUE(box.Contains(box));
  EXPECT_TRUE(box.Contains({{1, 2}, {2, 3}}));
  EXPECT_FALSE(box.Contains({{0, 1}, {4, 8}}));
  EXPECT_FALSE(box.Contains({{0, 2}, {4, 9}}));
  EXPECT_FALSE(box.Contains({{0}, {4}}));
}

TEST(Box, FitsIn) {
  const std::vector<int64_t> shape = {4, 8};
  EXPECT_TRUE((Box{{0, 0}, {4, 8}}).FitsIn(shape));
  EXPECT_TRUE((Box{{2, 3}, {2, 3}}).FitsIn(shape)) << "an empty box";
  EXPECT_FALSE((Box{{0, 0}, {4, 9}}).FitsIn(shape));
  EXPECT_FALSE((Box{{-1, 0}, {4, 8}}).FitsIn(shape));
  EXPECT_FALSE((Box{{3, 0}, {2, 8}}).FitsIn(shape));
  EXPECT_FALSE((Box{{0}, {4}}).FitsIn(shape));
}

TEST(Box, IntersectAndSubtractAgreeWithSetsOfElements) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const size_t rank = random() % 4;
    const Box a = RandomBox(random, rank), b = RandomBox(random, rank);
    const std::set<std::vector<int64_t>> in_a = Elements(a), in_b = Elements(b);
    std::set<std::vector<int64_t>> common, outside;
    for (const auto& element : in_a) (in_b.count(element) ? common : outside).insert(element);

    const std::optional<Box> intersection = Intersect(a, b);
    EXPECT_EQ(intersection ? Elements(*intersection) : std::set<std::vector<int64_t>>{}, common);

    std::set<std::vector<int64_t>> rest;
    int64_t volume = 0;
    const std::vector<Box> parts = Subtract(a, b);
    EXPECT_LE(parts.size(), 2 * rank + 1);
    for (const Box& part : parts) {
      volume += part.volume();
      for (const auto& element : Elements(part)) rest.insert(element);
    }
    EXPECT_EQ(rest, outside) << a.ToString() << " - " << b.ToString();
    EXPECT_EQ(volume, static_cast<int64_t>(outside.size())) << "the parts overlap";
  }
}

}  // namespace
}  // namespace baton::relay
