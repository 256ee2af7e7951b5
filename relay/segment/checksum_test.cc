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

/// Checksums of whole tensors.
std::vector<TensorDigest> Digests(const SafetensorsView& view) {
  return DigestBoxes(view, WholeTensors(view.entries())).value();
}

/// {"t": I16 [3, 4, 5]} whose elements count from 0.
std::vector<uint8_t> CountingImage() {
  const auto layout = SafetensorsLayout::Create({{"t", DType::kI16, {3, 4, 5}}}).value();
  std::vector<uint8_t> image(static_cast<size_t>(layout.file_size()));
  layout.WriteHeader(absl::MakeSpan(image));
  for (uint8_t i = 0; i < 60; ++i) image[layout.header().size() + 2 * i] = i;
  return image;
}

TEST(ChecksumTest, IsXxh3) {
  // XXH3-64 of the empty input with seed 0, as the xxHash specification gives it.
  EXPECT_EQ(Xxh3({}), 0x2d06800538d394c2u);
}

TEST(ChecksumTest, CoversEachTensorAlone) {
  std::vector<uint8_t> image = Image();
  const auto before = Digests(SafetensorsView::Parse(image).value());
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[0].name, "a");
  EXPECT_EQ(before[1].name, "b");
  const std::vector<uint8_t> b = {9, 10, 11};  // F32 comes first: 8 bytes.
  EXPECT_EQ(before[1].xxh3, Xxh3(b));
  image.back() ^= 1;
  const auto after = Digests(SafetensorsView::Parse(image).value());
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1].xxh3, before[1].xxh3);
}

TEST(ChecksumTest, VerifyNamesTheTensor) {
  std::vector<uint8_t> image = Image();
  const auto view = SafetensorsView::Parse(image).value();
  auto digests = Digests(view);
  EXPECT_TRUE(VerifyTensors(view, digests).ok());
  image.back() ^= 1;
  const absl::Status lost = VerifyTensors(view, digests);
  EXPECT_TRUE(absl::IsDataLoss(lost));
  EXPECT_NE(lost.message().find("\"b\""), absl::string_view::npos) << lost;
  auto more = digests;
  more.push_back({"c", 1});
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyTensors(view, more)));
  digests.pop_back();
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyTensors(view, digests)));
  digests.push_back({"c", 1});
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyTensors(view, digests)));
}

// Every box of a tensor: the plain way takes its elements one by one.
TEST(ChecksumTest, ABoxesDigestIsThatOfItsElementsInOrder) {
  const std::vector<uint8_t> image = CountingImage();
  const auto view = SafetensorsView::Parse(image).value();
  int boxes = 0;
  const int shape[] = {3, 4, 5};
  const auto ranges = [&](int d, const auto& visit) {
    for (int begin = 0; begin <= shape[d]; ++begin) {
      for (int end = begin; end <= shape[d]; ++end) visit(begin, end);
    }
  };
  ranges(0, [&](int a, int b) {
    ranges(1, [&](int c, int d) {
      ranges(2, [&](int e, int f) {
        std::vector<uint8_t> row;
        for (int x = a; x < b; ++x) {
          for (int y = c; y < d; ++y) {
            for (int z = e; z < f; ++z) {
              row.push_back(static_cast<uint8_t>((x * 4 + y) * 5 + z));
              row.push_back(0);
            }
          }
        }
        const auto digests = DigestBoxes(view, {{"t", {{a, c, e}, {b, d, f}}}});
        ASSERT_TRUE(digests.ok()) << digests.status();
        EXPECT_EQ((*digests)[0].xxh3, Xxh3(row));
        ++boxes;
      });
    });
  });
  EXPECT_EQ(boxes, 10 * 15 * 21);
  EXPECT_TRUE(DigestBoxes(view, {{"t", Box::Full({3, 4, 5})}})->at(0).whole());
  EXPECT_TRUE(absl::IsInvalidArgument(DigestBoxes(view, {{"u", {}}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DigestBoxes(view, {{"t", Box::Full({3, 4, 6})}}).status()));
}

TEST(ChecksumTest, PartsThatAreAddedInARowMakeTheDigestOfTheirBox) {
  const auto layout =
      SafetensorsLayout::Create({{"a", DType::kF32, {6, 4}}, {"s", DType::kF32, {}}}).value();
  std::vector<uint8_t> file(static_cast<size_t>(layout.file_size()));
  layout.WriteHeader(absl::MakeSpan(file));
  for (size_t i = layout.header().size(); i < file.size(); ++i) file[i] = static_cast<uint8_t>(i);
  const auto view = SafetensorsView::Parse(file).value();
  const std::vector<TensorBox> boxes = {
      {"a", {{0, 0}, {6, 2}}}, {"a", {{1, 2}, {6, 4}}}, {"a", {{0, 2}, {1, 4}}}, {"s", {}}};
  BoxDigests digests(&view);
  for (const TensorBox& box : boxes) {
    if (box.box.rank() == 0) {
      ASSERT_TRUE(digests.Add(box, box.box).ok());
      continue;
    }
    for (int64_t row = box.box.begin[0]; row < box.box.end[0]; row += 2) {
      Box part = box.box;
      part.begin[0] = row;
      part.end[0] = std::min(row + 2, box.box.end[0]);
      ASSERT_TRUE(digests.Add(box, part).ok());
    }
  }
  EXPECT_EQ(digests.Take(), DigestBoxes(view, boxes).value());
  const std::vector<TensorBox> whole = WholeTensors(view.entries());
  for (const TensorBox& box : whole) ASSERT_TRUE(digests.Add(box, box.box).ok());
  EXPECT_EQ(digests.Take(), DigestBoxes(view, whole).value());
  EXPECT_FALSE(digests.Add({"b", {}}, {}).ok());
  EXPECT_FALSE(digests.Add({"a", {{0, 0}, {7, 4}}}, {{0, 0}, {1, 4}}).ok());
}

TEST(ChecksumTest, BoxesMustCoverTheirTensor) {
  std::vector<uint8_t> image = CountingImage();
  const auto view = SafetensorsView::Parse(image).value();
  const TensorBox low = {"t", {{0, 0, 0}, {3, 4, 2}}}, high = {"t", {{0, 0, 2}, {3, 4, 5}}};
  const auto both = DigestBoxes(view, {low, high}).value();
  EXPECT_TRUE(VerifyTensors(view, both).ok());
  const absl::Status hole = VerifyTensors(view, {both[0]});
  EXPECT_TRUE(absl::IsFailedPrecondition(hole));
  EXPECT_NE(hole.message().find("[0:3, 0:4, 2:5] of tensor \"t\""), absl::string_view::npos)
      << hole;
  EXPECT_TRUE(absl::IsFailedPrecondition(
      VerifyTensors(view, {both[0], both[1], {"t", 1, Box::Full({3, 4, 6})}})));
  image.back() ^= 1;  // of the last element, in `high`
  const absl::Status lost = VerifyTensors(view, both);
  EXPECT_TRUE(absl::IsDataLoss(lost));
  EXPECT_NE(lost.message().find("\"t\" [0:3, 0:4, 2:5]"), absl::string_view::npos) << lost;
}

TEST(SegmentHeaderTest, ListsTensorsOfAFileThatIsNotThere) {
  const auto layout =
      SafetensorsLayout::Create({{"z", DType::kF32, {1 << 20, 1 << 10}}, {"y", DType::kU8, {3}}})
          .value();
  const auto size = static_cast<uint64_t>(layout.file_size());  // 4 GiB, none of it touched.
  const auto shapes = CheckSegmentHeader(layout.header(), size);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ(*shapes, (TensorShapes{{"y", {3}}, {"z", {1 << 20, 1 << 10}}}));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader(layout.header(), size + 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader(layout.header(), 16).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader("", size).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader("nonsense", 8).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSegmentHeader(layout.header() + "x", size).status()));
}

}  // namespace
}  // namespace baton::relay
