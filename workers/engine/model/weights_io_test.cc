#include "workers/engine/model/weights_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine/model_image.h"
#include "tests/support/engine/trainer.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using testing::MakeModel;
using testing::TinyConfig;
using torch::Tensor;

std::vector<uint8_t> Image(const WeightsImage& image) {
  std::vector<uint8_t> bytes(static_cast<size_t>(image.size_bytes()));
  EXPECT_TRUE(image.CopyTo(absl::MakeSpan(bytes)).ok());
  return bytes;
}

TEST(WeightsImage, CarriesAModelToAnother) {
  const auto family = ModelConfig::Family::kQwen2;
  const auto from = MakeModel(TinyConfig(family), torch::kFloat32, 1);
  const auto to = MakeModel(TinyConfig(family), torch::kFloat32, 2);
  ASSERT_TRUE(LoadModelFrom(Image(*testing::ModelImage(*from)), *to).ok());
  for (size_t i = 0; i < from->parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(from->parameters()[i].second, to->parameters()[i].second));
  }
}

TEST(WeightsImage, LayoutIsTheSameWhateverTheWeights) {
  const auto one = MakeModel(TinyConfig(), torch::kFloat32, 1);
  const auto two = MakeModel(TinyConfig(), torch::kFloat32, 2);
  EXPECT_EQ(testing::ModelImage(*one)->layout().header(),
            testing::ModelImage(*two)->layout().header());
}

TEST(WeightsImage, WritesWhatTheTensorsHoldAtThatTime) {
  Tensor x = torch::zeros({3});
  const auto image = WeightsImage::Create({{"x", x}});
  x.fill_(2);
  const std::vector<uint8_t> bytes = Image(*image);
  const auto view = relay::SafetensorsView::Parse(bytes);
  float value;
  std::memcpy(&value, view->Data(*view->Find("x")).data(), sizeof(value));
  EXPECT_EQ(value, 2.0f);
}

TEST(WeightsImage, ConvertsFloatsAndKeepsIntegers) {
  const Tensor f = torch::tensor({1.0, 1.00390625, -3.5}), i = torch::tensor({7, 8}, torch::kInt64);
  const auto image = WeightsImage::Create({{"f", f}, {"i", i}}, torch::kBFloat16);
  ASSERT_TRUE(image.ok());
  const std::vector<uint8_t> bytes = Image(*image);
  const auto view = relay::SafetensorsView::Parse(bytes);
  EXPECT_EQ(view->Find("f")->dtype, relay::DType::kBF16);
  EXPECT_EQ(view->Find("i")->dtype, relay::DType::kI64);
  const Tensor back = *BorrowTensor(*view, *view->Find("f"));
  // 1 + 2^-8 lies halfway between two bfloat16 numbers; ties go to even.
  EXPECT_TRUE(
      torch::equal(back.to(torch::kFloat64), torch::tensor({1.0, 1.0, -3.5}, torch::kFloat64)));
}

TEST(WeightsImage, StridedTensorsAndOddAddresses) {
  const Tensor x = torch::arange(6, torch::kFloat32).view({2, 3}).t();
  const auto image = WeightsImage::Create({{"x", x}});
  std::vector<uint8_t> bytes(static_cast<size_t>(image->size_bytes()) + 1);
  const absl::Span<uint8_t> odd = absl::MakeSpan(bytes).subspan(1);
  ASSERT_TRUE(image->CopyTo(odd).ok());
  const auto view = relay::SafetensorsView::Parse(odd);
  ASSERT_TRUE(view.ok());
  Tensor back = torch::empty({3, 2});
  ASSERT_TRUE(LoadTensors(*view, {{"x", back}}).ok());
  EXPECT_TRUE(torch::equal(back, x));
}

TEST(WeightsImage, BufferMustFit) {
  const auto image = WeightsImage::Create({{"x", torch::zeros({3})}});
  std::vector<uint8_t> bytes(static_cast<size_t>(image->size_bytes()) - 1);
  EXPECT_EQ(image->CopyTo(absl::MakeSpan(bytes)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(LoadTensors, ChecksAllBeforeItWritesAny) {
  const std::vector<uint8_t> bytes =
      Image(*WeightsImage::Create({{"a", torch::ones({2})}, {"b", torch::ones({3})}}));
  const auto view = relay::SafetensorsView::Parse(bytes);
  Tensor a = torch::zeros({2}), b = torch::zeros({4});
  const absl::Status status = LoadTensors(*view, {{"a", a}, {"b", b}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor b has shape [3], [4] is needed"));
  EXPECT_EQ(a.sum().item<double>(), 0);
}

TEST(LoadTensors, UnknownTensorsAreAnErrorUnlessIgnored) {
  const std::vector<uint8_t> bytes =
      Image(*WeightsImage::Create({{"a", torch::ones({2})}, {"b", torch::ones({3})}}));
  const auto view = relay::SafetensorsView::Parse(bytes);
  Tensor a = torch::zeros({2});
  EXPECT_THAT(std::string(LoadTensors(*view, {{"a", a}}).message()),
              HasSubstr("tensor b is not a tensor of this model"));
  EXPECT_TRUE(LoadTensors(*view, {{"a", a}}, /*ignore_extra=*/true).ok());
  EXPECT_EQ(a.sum().item<double>(), 2);
}

TEST(LoadTensors, WritesIntoLeavesThatNeedGradients) {
  const auto model = MakeModel(TinyConfig(), torch::kFloat32, 1);
  const std::vector<uint8_t> bytes =
      Image(*testing::ModelImage(*MakeModel(TinyConfig(), torch::kFloat32)));
  model->SetRequiresGrad(true);
  EXPECT_TRUE(LoadModelFrom(bytes, *model).ok());
  for (const auto& [name, parameter] : model->parameters()) {
    EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad()) << name;
  }
}

}  // namespace
}  // namespace baton::engine
