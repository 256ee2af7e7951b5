#include "relay/segment/checksum.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "relay/segment/segment_header.h"
#include "relay/weights/safetensors_writer.h"

namespace baton::relay {
namespace {

/// {"a": F32 [2], "b": U8 [3]} with bytes 1, 2, 3 …
std::vector<uint8_t> Image() {
  const auto layout =
      SafetensorsLayout::Create({{"a", DType::kF32, {2}}, {"b", DType::kU8, {3}}}).value();
  std::vector<uint8_t> image(static_cast<size_t>(layout.file_size()));
  layout.WriteHeader(absl::MakeSpan(image));
  uint8_t next = 1;
  for (size_t i = layout.header().size(); i < image.size(); ++i) image[i] = next++;
  return image;
}

TEST(ChecksumTest, IsXxh3) {
  // XXH3-64 of the empty input with seed 0, as the xxHash specification gives it.
  EXPECT_EQ(Xxh3({}), 0x2d06800538d394c2u);
}

TEST(ChecksumTest, CoversEachTensorAlone) {
  std::vector<uint8_t> image = Image();
  const auto before = DigestTensors(SafetensorsView::Parse(image).value());
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[0].name, "a");
  EXPECT_EQ(before[1].name, "b");
  const std::vector<uint8_t> b = {9, 10, 11};  // F32 comes first: 8 bytes.
  EXPECT_EQ(before[1].xxh3, Xxh3(b));
  image.back() ^= 1;
  const auto after = DigestTensors(SafetensorsView::Parse(image).value());
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1].xxh3, before[1].xxh3);
}

TEST(ChecksumTest, VerifyNamesTheTensor) {
  std::vector<uint8_t> image = Image();
  const auto view = SafetensorsView::Parse(image).value();
  auto digests = DigestTensors(view);
  EXPECT_TRUE(VerifyTensors(view, digests).ok());
  image.back() ^= 1;
  const absl::Status lost = VerifyTensors(view, digests);
  EXPECT_TRUE(absl::IsDataLoss(lost));
  EXPECT_NE(lost.message().find("\"b\""), absl::string_view::npos) << lost;
  digests.pop_back();
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyTensors(view, digests)));
  digests.push_back({"c", 1});
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyTensors(view, digests)));
}

TEST(SegmentHeaderTest, ListsTensorsOfAFileThatIsNotThere) {
  const auto layout =
      SafetensorsLayout::Create({{"z", DType::kF32, {1 << 20, 1 << 10}}, {"y", DType::kU8, {3}}})
          .value();
  const auto size = static_cast<uint64_t>(layout.file_size());  // 4 GiB, none of it touched.
  const auto names = CheckSegmentHeader(layout.header(), size);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(*names, (std::vector<std::string>{"y", "z"}));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader(layout.header(), size + 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader(layout.header(), 16).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader("", size).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader("nonsense", 8).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader(layout.header() + "x", size).status()));
}

}  // namespace
}  // namespace baton::relay
