#include "workers/engine/kernels/row_products.h"

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace baton::engine {
namespace {

std::vector<float> Random(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

class RowProductsTest : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(RowProductsTest, EqualsTheDefinition) {
  const auto [rows, outs, depth] = GetParam();
  const std::vector<float> x = Random(rows * depth, 1), weight = Random(outs * depth, 2);
  const std::vector<float> before = Random(rows * outs, 3);
  for (const bool accumulate : {false, true}) {
    // A guard behind the result: nothing may be written there.
    std::vector<float> out = before;
    out.resize(out.size() + 32, 7.0f);
    RowProducts(x.data(), weight.data(), out.data(), rows, outs, depth, accumulate);
    for (int m = 0; m < rows; ++m) {
      for (int n = 0; n < outs; ++n) {
        double sum = accumulate ? before[m * outs + n] : 0;
        double size = 1;
        for (int k = 0; k < depth; ++k) {
          const double term = static_cast<double>(x[m * depth + k]) * weight[n * depth + k];
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(out[m * outs + n], sum, 3e-7 * size) << "row " << m << " out " << n;
      }
    }
    for (size_t i = before.size(); i < out.size(); ++i) ASSERT_EQ(out[i], 7.0f);
  }
}

// Each row's bits are those it has alone, at any place among any number of rows.
TEST_P(RowProductsTest, RowsAreIndependent) {
  const auto [rows, outs, depth] = GetParam();
  const std::vector<float> x = Random(rows * depth, 1), weight = Random(outs * depth, 2);
  std::vector<float> together(rows * outs), alone(outs);
  RowProducts(x.data(), weight.data(), together.data(), rows, outs, depth, false);
  for (int m = 0; m < rows; ++m) {
    RowProducts(x.data() + m * depth, weight.data(), alone.data(), 1, outs, depth, false);
    ASSERT_EQ(std::memcmp(alone.data(), together.data() + m * outs, outs * sizeof(float)), 0)
        << "row " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RowProductsTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 5, 7, 16, 33),
                                            ::testing::Values(1, 3, 4, 15, 16, 17, 40),
                                            ::testing::Values(1, 15, 16, 24, 96, 130)));

// More rows than pass at a time.
INSTANTIATE_TEST_SUITE_P(Blocks, RowProductsTest,
                         ::testing::Values(std::make_tuple(1367, 5, 96),
                                           std::make_tuple(69, 3, 2500)));

TEST(RowProductsEdgesTest, HandlesEmptyInputs) {
  float out = 3;
  RowProducts(nullptr, nullptr, &out, 0, 1, 4, false);
  RowProducts(nullptr, nullptr, &out, 1, 0, 4, false);
  EXPECT_EQ(out, 3);
  RowProducts(nullptr, nullptr, &out, 1, 1, 0, true);  // an empty sum
  EXPECT_EQ(out, 3);
  RowProducts(nullptr, nullptr, &out, 1, 1, 0, false);
  EXPECT_EQ(out, 0);
}

}  // namespace
}  // namespace baton::engine
