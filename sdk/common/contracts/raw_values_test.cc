#include "sdk/common/contracts/raw_values.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RawValues, CopiesBytesThatAreNotAligned) {
  const int32_t numbers[] = {7, -1};
  const std::string bytes =
      "x" + std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  EXPECT_EQ(RawValues<int32_t>(absl::string_view(bytes).substr(1)), (std::vector<int32_t>{7, -1}));
}

TEST(RawValues, IgnoresWhatFollowsTheLastWholeValue) {
  EXPECT_EQ(RawValues<uint8_t>("ab").size(), 2);
  EXPECT_EQ(RawValues<int32_t>("abcdef").size(), 1);
  EXPECT_TRUE(RawValues<int32_t>("abc").empty());
}

TEST(RawValues, TakesNothingFromNull) {
  EXPECT_TRUE(RawValues<float>(absl::string_view()).empty());
  EXPECT_TRUE(RawValues<float>(absl::string_view(nullptr, 0)).empty());
}

}  // namespace
}  // namespace baton
