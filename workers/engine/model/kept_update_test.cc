#include "workers/engine/model/kept_update.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {
namespace {

// Between 1 and 2 the numbers of bfloat16 are 2^-7 apart, those of float16 2^-10; below 1 half of
// that. A change of less than half of the distance is rounded away; of exactly half of it too,
// since ties go to the even neighbour, which 1 is.
TEST(KeptUpdateTest, CountsChangesThatSurviveRounding) {
  const TestFolder folder;
  const auto write = [&](const std::string& name, const torch::Tensor& weights,
                         const std::string& other) {
    std::filesystem::create_directories(folder.path(name));
    const NamedTensors tensors = {{"a.weight", weights}, {other, torch::ones({3})}};
    ASSERT_TRUE(
        WeightsImage::Create(tensors)->WriteFile(folder.path(name + "/model.safetensors")).ok());
  };
  const float step = 0.0078125F;  // 2^-7
  write("base", torch::ones({6}).to(torch::kBFloat16), "b.weight");
  write("trained",
        torch::tensor({1.F, 1 + step, 1 + step / 2, 1 + step * 0.6F, 1 - step / 8, 1.0001F}),
        "c.weight");
  const auto kept = [&](torch::Dtype dtype) {
    return CompareUpdate(folder.path("trained"), folder.path("base"), dtype).value();
  };
  EXPECT_EQ(kept(torch::kBFloat16).changed, 5);
  // 1 + 2^-7, and 1 + 0.6 · 2^-7, which is nearer to it than to 1.
  EXPECT_EQ(kept(torch::kBFloat16).kept, 2);
  // All but 1.0001: half of 2^-10 is 0.00049.
  EXPECT_EQ(kept(torch::kFloat16).kept, 4);
  EXPECT_EQ(kept(torch::kFloat32).kept, 5);
  EXPECT_TRUE(absl::IsNotFound(
      CompareUpdate(folder.path("trained"), folder.path("none"), torch::kBFloat16).status()));
}

}  // namespace
}  // namespace baton::engine
