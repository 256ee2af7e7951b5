#include "relay/delta/delta.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/weights/safetensors_writer.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;

using Bytes = std::vector<uint8_t>;
constexpr uint64_t kNoLimit = 1 << 30;

/// A file whose data are random numbers.
Bytes RandomFile(const std::vector<TensorSpec>& tensors, uint64_t seed,
                 const std::map<std::string, std::string>& metadata = {}) {
  const auto layout = SafetensorsLayout::Create(tensors, metadata).value();
  Bytes file(static_cast<size_t>(layout.file_size()));
  layout.WriteHeader(absl::MakeSpan(file));
  std::mt19937_64 random(seed);
  for (size_t at = layout.header().size(); at < file.size(); ++at) {
    file[at] = static_cast<uint8_t>(random());
  }
  return file;
}

/// The header of `file`, and zeros.
Bytes HeaderOf(const Bytes& file) {
  const auto header = static_cast<size_t>(SafetensorsView::Parse(file)->data_offset());
  Bytes empty(file.size());
  std::copy(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(header), empty.begin());
  return empty;
}

/// Changes every `nth` byte of the data.
Bytes Changed(Bytes file, size_t nth) {
  const auto header = static_cast<size_t>(SafetensorsView::Parse(file)->data_offset());
  for (size_t at = header; at < file.size(); at += nth) file[at] ^= 5;
  return file;
}

const std::vector<TensorSpec> kEveryWidth = {
    {"eight", DType::kF64, {7, 3}}, {"none", DType::kF32, {0}}, {"four", DType::kF32, {1000}},
    {"two", DType::kBF16, {333}},   {"half", DType::kF16, {5}}, {"one", DType::kI8, {11}}};
const std::vector<TensorSpec> kLarge = {{"w", DType::kBF16, {3, 1 << 20}},
                                        {"v", DType::kF32, {300'001}}};

TEST(DeltaTest, ADeltaAndItsBaseAreTheVersion) {
  for (const auto& tensors : {kEveryWidth, kLarge}) {
    const Bytes base = RandomFile(tensors, 1);
    for (const Bytes& next : {base, Changed(base, 97), Changed(base, 1), RandomFile(tensors, 2)}) {
      const auto delta = EncodeDelta(base, next, kNoLimit);
      ASSERT_TRUE(delta.ok()) << delta.status();
      Bytes made = HeaderOf(next);
      ASSERT_TRUE(ApplyDelta(base, *delta, absl::MakeSpan(made)).ok());
      EXPECT_TRUE(made == next);
    }
  }
}

TEST(DeltaTest, HeadersMayDifferInTheirMetadata) {
  const Bytes base = RandomFile(kEveryWidth, 1, {{"version", "9"}});
  const Bytes next = RandomFile(kEveryWidth, 2, {{"version", "10, whose header is longer"}});
  ASSERT_NE(base.size(), next.size());
  const auto delta = EncodeDelta(base, next, kNoLimit);
  ASSERT_TRUE(delta.ok()) << delta.status();
  Bytes made = HeaderOf(next);
  ASSERT_TRUE(ApplyDelta(base, *delta, absl::MakeSpan(made)).ok());
  EXPECT_TRUE(made == next);
}

TEST(DeltaTest, WhatIsUnchangedCostsFourBytesABlock) {
  const Bytes base = RandomFile(kLarge, 1);
  EXPECT_EQ(EncodeDelta(base, base, kNoLimit)->size(), 4 * (6 + 2));  // 6 MiB and 1.1 MiB
}

// One value of 33 changes in its lowest bit, as of numbers that are rounded to bfloat16.
TEST(DeltaTest, FewChangesMakeASmallDelta) {
  const Bytes base = RandomFile({{"w", DType::kBF16, {1 << 20}}}, 1);
  std::mt19937_64 random(2);
  Bytes next = base;
  const auto header = static_cast<size_t>(SafetensorsView::Parse(base)->data_offset());
  for (size_t at = header; at < next.size(); at += 2) next[at] ^= random() % 33 == 0;
  const auto delta = EncodeDelta(base, next, kNoLimit);
  ASSERT_TRUE(delta.ok()) << delta.status();
  EXPECT_LT(static_cast<double>(delta->size()), 0.04 * static_cast<double>(next.size()));
}

TEST(DeltaTest, ADeltaThatIsTooLargeIsNotMade) {
  const Bytes base = RandomFile(kLarge, 1), next = RandomFile(kLarge, 2);
  const uint64_t size = EncodeDelta(base, next, kNoLimit)->size();
  EXPECT_TRUE(EncodeDelta(base, next, size).ok());
  EXPECT_EQ(EncodeDelta(base, next, size - 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(DeltaTest, OtherTensorsHaveNoDelta) {
  const Bytes base = RandomFile(kEveryWidth, 1);
  const std::vector<std::vector<TensorSpec>> others = {
      {{"four", DType::kF32, {1000}}},
      {{"four", DType::kI32, {1000}}},
      {{"four", DType::kF32, {500, 2}}},
  };
  const Bytes last = RandomFile(others.back(), 1);
  for (const auto& tensors : others) {
    const Bytes next = RandomFile(tensors, 1);
    EXPECT_EQ(EncodeDelta(base, next, kNoLimit).status().code(),
              absl::StatusCode::kInvalidArgument);
    if (&tensors == &others.back()) continue;
    EXPECT_EQ(EncodeDelta(last, next, kNoLimit).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(DeltaTest, BytesThatAreNoDeltaAreRefused) {
  const Bytes base = RandomFile(kEveryWidth, 1), next = Changed(base, 5);
  const Bytes delta = EncodeDelta(base, next, kNoLimit).value();
  Bytes made = HeaderOf(next);
  const auto refusal = [&](const Bytes& bytes) {
    const absl::Status status = ApplyDelta(base, bytes, absl::MakeSpan(made));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("it ends early"));
  EXPECT_THAT(refusal({1, 0}), HasSubstr("it ends early"));
  EXPECT_THAT(refusal({200, 0, 0, 0, 1}), HasSubstr("it ends within a block"));
  EXPECT_THAT(refusal({4, 0, 0, 0, 1, 2, 3, 4}), HasSubstr("not a delta"));
  Bytes longer = delta;
  longer.push_back(0);
  EXPECT_THAT(refusal(longer), HasSubstr("bytes follow the last block"));
  for (size_t size = 0; size < delta.size(); size += 7) {
    refusal({delta.begin(), delta.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  // A frame of another block: too few bytes for it.
  const Bytes small = RandomFile({{"x", DType::kI8, {3}}}, 1), small_next = Changed(small, 1);
  Bytes of_small = EncodeDelta(small, small_next, kNoLimit).value();
  EXPECT_THAT(refusal(of_small), HasSubstr("a block has another size"));
}

}  // namespace
}  // namespace baton::relay
