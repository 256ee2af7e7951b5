#include "relay/weights/dtype.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace baton::relay {
namespace {

TEST(DType, NamesAndSizesAreTheFormats) {
  struct Row {
    const char* name;
    int64_t size_bytes;
  };
  const Row rows[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  for (const Row& row : rows) {
    const auto dtype = ParseDType(row.name);
    ASSERT_TRUE(dtype.ok()) << row.name;
    EXPECT_EQ(DTypeName(*dtype), row.name);
    EXPECT_EQ(SizeBytes(*dtype), row.size_bytes) << row.name;
  }
}

TEST(DType, UnknownNameIsEscapedInTheError) {
  const auto dtype = ParseDType("F\xc3\x28\n");
  ASSERT_EQ(dtype.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(dtype.status().message(), "unknown dtype \"F\\xc3(\\n\"");
}

TEST(DType, TensorSizeCountsBytes) {
  const std::vector<int64_t> matrix = {3, 5};
  EXPECT_EQ(*TensorSizeBytes(DType::kBF16, matrix), 30);
  EXPECT_EQ(*TensorSizeBytes(DType::kF64, {}), 8);
}

TEST(DType, EmptyTensorHasNoBytesHoweverLargeItsOtherDimensions) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> shape = {huge, 0, huge};
  EXPECT_EQ(*TensorSizeBytes(DType::kF32, shape), 0);
}

TEST(DType, OverflowAndNegativeDimensionsAreErrors) {
  const std::vector<int64_t> overflow = {int64_t{1} << 31, int64_t{1} << 31};  // 2^62 elements
  EXPECT_TRUE(TensorSizeBytes(DType::kU8, overflow).ok());
  EXPECT_EQ(TensorSizeBytes(DType::kF32, overflow).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::vector<int64_t> negative = {2, -1};
  EXPECT_EQ(TensorSizeBytes(DType::kF32, negative).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::relay
