#include "relay/weights/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "relay/weights/safetensors_writer.h"

namespace baton::relay {
namespace {

using testing::HasSubstr;

/// A 4 x 6 BF16 tensor, present as its left and its right half.
Manifest Halves() {
  Manifest manifest;
  manifest.total_bytes = 64;
  manifest.metadata = {{"version", "7"}};
  manifest.tensors = {{"w",
                       DType::kBF16,
                       {4, 6},
                       {{{{0, 0}, {4, 3}}, 8, 24, "xxh3:00ff"}, {{{0, 3}, {4, 6}}, 32, 24, ""}}}};
  return manifest;
}

std::string ErrorOf(const Manifest& manifest) { return std::string(manifest.Validate().message()); }

TEST(Manifest, JsonRoundTrip) {
  const Manifest manifest = Halves();
  ASSERT_TRUE(manifest.Validate().ok());
  const auto back = Manifest::FromJson(manifest.ToJson());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->total_bytes, 64);
  EXPECT_EQ(back->metadata.at("version"), "7");
  const ManifestTensor* w = back->Find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kBF16);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{4, 6}));
  ASSERT_EQ(w->pieces.size(), 2u);
  EXPECT_EQ(w->pieces[1].box, (Box{{0, 3}, {4, 6}}));
  EXPECT_EQ(w->pieces[1].offset_bytes, 32);
  EXPECT_EQ(w->pieces[0].checksum, "xxh3:00ff");
  EXPECT_EQ(back->Find("v"), nullptr);
}

TEST(Manifest, CompleteOnlyWhenEveryElementIsPresent) {
  Manifest manifest = Halves();
  EXPECT_TRUE(manifest.CheckComplete().ok());
  manifest.tensors[0].pieces.pop_back();
  const absl::Status status = manifest.CheckComplete();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor w: [0:4, 3:6]"));
}

TEST(Manifest, InconsistenciesAreNamed) {
  Manifest manifest = Halves();
  manifest.tensors[0].pieces[0].size_bytes = 22;
  EXPECT_THAT(ErrorOf(manifest), HasSubstr("tensor w: box [0:4, 0:3] of BF16 needs 24 bytes"));
  manifest = Halves();
  manifest.tensors[0].pieces[1].box.end[1] = 7;
  EXPECT_THAT(ErrorOf(manifest), HasSubstr("does not fit in shape"));
  manifest = Halves();
  manifest.tensors[0].pieces[1].box.end.pop_back();  // Found by the fuzzer.
  EXPECT_THAT(ErrorOf(manifest), HasSubstr("does not fit in shape"));
  manifest = Halves();
  manifest.tensors[0].pieces[1].offset_bytes = 41;
  EXPECT_THAT(ErrorOf(manifest), HasSubstr("is not within the 64 bytes"));
  manifest = Halves();
  manifest.tensors.push_back(manifest.tensors[0]);
  EXPECT_THAT(ErrorOf(manifest), HasSubstr("tensor w is there twice"));
}

TEST(Manifest, MalformedJsonIsAnError) {
  const std::string good = Halves().ToJson();
  ASSERT_TRUE(Manifest::FromJson(good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(Manifest::FromJson(good.substr(0, length)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const char* text : {"[]", "{}", "3", "{\"format\":\"baton.manifest.v2\"}",
                           "{\"format\":\"baton.manifest.v1\",\"total_bytes\":\"x\"}"}) {
    EXPECT_EQ(Manifest::FromJson(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Manifest, OfASafetensorsLayoutPointsAtItsBytes) {
  const auto layout =
      SafetensorsLayout::Create({{"b", DType::kF32, {3}}, {"a", DType::kF16, {2, 2}}});
  ASSERT_TRUE(layout.ok());
  const Manifest manifest =
      Manifest::Whole(layout->entries(), layout->data_offset(), layout->file_size());
  ASSERT_TRUE(manifest.Validate().ok()) << manifest.Validate();
  EXPECT_TRUE(manifest.CheckComplete().ok());
  EXPECT_EQ(manifest.tensors[0].name, "a");
  // F32 comes first in the file: a stands after b's 12 bytes.
  EXPECT_EQ(manifest.Find("a")->Placed(5)[0].offset_bytes, layout->data_offset() + 12);
  EXPECT_EQ(manifest.Find("a")->Placed(5)[0].buffer, 5);
}

}  // namespace
}  // namespace baton::relay
