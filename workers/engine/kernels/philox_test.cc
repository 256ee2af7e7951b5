#include "workers/engine/kernels/philox.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace baton::engine {
namespace {

using Counter = std::array<uint32_t, 4>;

// The known-answer vectors that Random123 publishes for philox4x32-10 (tests/kat_vectors).
TEST(PhiloxTest, MatchesPublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The fold of the key and the 53-bit mantissa, spelled out from the description in the header.
TEST(UniformStreamTest, FoldsTheKeyAsDocumented) {
  const SamplingKey key{0x0123456789abcdef, 7, 0xfeedface12345678, 0x1111222233334444, 5};
  const Counter hash =
      Philox4x32({0x12345678, 0xfeedface, 0x33334444, 0x11112222}, {0x89abcdef, 0x01234567});
  const Counter bits = Philox4x32({42, 5, 7, hash[2]}, {hash[0], hash[1]});
  const double expected =
      ((bits[0] >> 5) * 67108864.0 + (bits[1] >> 6)) / 9007199254740992.0;  // (a 2^26 + b) / 2^53
  EXPECT_EQ(UniformStream(key).At(42), expected);
}

TEST(UniformStreamTest, EveryFieldAndThePositionChangeTheDraw) {
  const SamplingKey base{1, 2, 3, 4, 5};
  std::vector<SamplingKey> keys(8, base);
  keys[1].job_seed ^= 1;
  keys[2].job_seed ^= uint64_t{1} << 63;
  keys[3].purpose ^= 1;
  keys[4].prompt_id ^= uint64_t{1} << 40;
  keys[5].prompt_index ^= 1;
  keys[6].prompt_index ^= uint64_t{1} << 33;
  keys[7].sample ^= 1;
  std::set<double> seen;
  for (const SamplingKey& key : keys) {
    for (uint32_t position = 0; position < 100; ++position) {
      seen.insert(UniformStream(key).At(position));
    }
  }
  EXPECT_EQ(seen.size(), 800u);
}

TEST(UniformStreamTest, IsUniformOverPositionsAndSamples) {
  constexpr int kBins = 64;
  constexpr int kDraws = 64000;
  std::vector<int> bins(kBins, 0);
  double sum_of_products = 0;  // of neighbours, for correlation
  double previous = 0.5;
  for (int i = 0; i < kDraws; ++i) {
    const SamplingKey key{99, 0, 12, 0, static_cast<uint32_t>(i / 40)};
    const double u = UniformStream(key).At(i % 40);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<int>(u * kBins)];
    sum_of_products += (u - 0.5) * (previous - 0.5);
    previous = u;
  }
  double chi_square = 0;
  const double expected = static_cast<double>(kDraws) / kBins;
  for (int count : bins) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 103.4);  // 63 degrees of freedom, p = 0.001
  EXPECT_GT(chi_square, 33.0);   // as improbably even
  // Standard error of the mean product is (1/12)/sqrt(n).
  EXPECT_LT(std::abs(sum_of_products / kDraws), 4.0 / 12 / std::sqrt(kDraws));
}

}  // namespace
}  // namespace baton::engine
