// A model that ranks share, to and from the files and images of a whole one.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/model_image.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {
namespace {

using torch::Tensor;

class TensorParallelWeightsTest : public ::testing::Test {
 protected:
  const TestFolder folder_;
  const ModelConfig config_ = testing::SharedConfig(true);
  const std::unique_ptr<CausalLM> whole_ =
      testing::MakeSharedModel(config_, nullptr, torch::kFloat32);
};

/// Every slice equals that of `whole`, bitwise.
void ExpectSlicesOf(const CausalLM& model, const CausalLM& whole) {
  for (size_t i = 0; i < model.shards().size(); ++i) {
    const Tensor want = SliceOf(whole.parameters()[i].second, model.shards()[i].box);
    EXPECT_TRUE(torch::equal(model.parameters()[i].second, want)) << model.shards()[i].name;
  }
}

std::vector<uint8_t> BytesOf(const WeightsImage& image) {
  std::vector<uint8_t> bytes(image.size_bytes());
  EXPECT_TRUE(image.CopyTo(absl::MakeSpan(bytes)).ok());
  return bytes;
}

TEST_F(TensorParallelWeightsTest, RandomWeightsAreSlicesOfTheWholeModels) {
  testing::RunRanks(4, [&](Communicator& group) {
    ExpectSlicesOf(*testing::MakeSharedModel(config_, &group, torch::kFloat32), *whole_);
  });
}

TEST_F(TensorParallelWeightsTest, LoadsSlicesOfADirectoryAndSavesItWhole) {
  ASSERT_TRUE(SaveModel(*whole_, folder_.path("whole")).ok());
  SaveOptions sharded;
  sharded.max_shard_bytes = 700;
  ASSERT_TRUE(SaveModel(*whole_, folder_.path("files"), sharded).ok());
  for (const std::string source : {"whole", "files"}) {
    const std::string copy = folder_.path(source + "_copy");
    testing::RunRanks(2, [&](Communicator& group) {
      const auto model = LoadModel(folder_.path(source), torch::kFloat32, torch::kCPU, &group);
      ASSERT_TRUE(model.ok()) << model.status();
      ExpectSlicesOf(**model, *whole_);
      EXPECT_TRUE(SaveModel(**model, copy).ok());
    });
    const auto again = LoadModel(copy, torch::kFloat32, torch::kCPU);
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSlicesOf(**again, *whole_);
  }
}

TEST_F(TensorParallelWeightsTest, ImagesAreThoseOfTheWholeModel) {
  const auto image = testing::ModelImage(*whole_, torch::kBFloat16);
  ASSERT_TRUE(image.ok());
  const std::vector<uint8_t> want = BytesOf(*image);
  std::vector<uint8_t> boxes(want.size());
  testing::RunRanks(2, [&](Communicator& group) {
    const auto model = testing::MakeSharedModel(config_, &group, torch::kFloat32);
    const auto gathered = testing::ModelImage(*model, torch::kBFloat16);
    ASSERT_TRUE(gathered.ok());
    EXPECT_EQ(BytesOf(*gathered), want);
    // Each rank alone writes its boxes; together they are the image but for the header.
    const auto layout = ModelLayout(*model, torch::kBFloat16);
    ASSERT_TRUE(layout.ok());
    ASSERT_EQ(layout->file_size(), static_cast<int64_t>(boxes.size()));
    if (group.rank() == 0) layout->WriteHeader(absl::MakeSpan(boxes));
    std::map<std::string, int64_t> heard;
    const auto written = [&](const relay::TensorBox& box, const relay::Box& part) {
      EXPECT_TRUE(box.box.Contains(part)) << box.name << part.ToString();
      heard[box.name] += part.volume();
      return absl::OkStatus();
    };
    EXPECT_TRUE(WriteModelBoxes(*model, *layout, absl::MakeSpan(boxes), written).ok());
    for (const relay::TensorBox& box : ModelBoxes(*model)) {
      EXPECT_EQ(heard[box.name], box.box.volume()) << box.name;
    }
    // Loading takes slices of an image.
    const auto other = testing::MakeSharedModel(config_, &group, torch::kBFloat16);
    for (const auto& named : other->parameters()) Tensor(named.second).fill_(9);
    EXPECT_TRUE(LoadModelFrom(want, *other).ok());
    for (size_t i = 0; i < other->shards().size(); ++i) {
      EXPECT_TRUE(torch::equal(other->parameters()[i].second,
                               model->parameters()[i].second.to(torch::kBFloat16)));
    }
  });
  EXPECT_EQ(boxes, want);
}

TEST_F(TensorParallelWeightsTest, RefusesAnImageOfAnotherModel) {
  ModelConfig wider = config_;
  wider.intermediate_size = 12;
  const auto image =
      testing::ModelImage(*testing::MakeSharedModel(wider, nullptr, torch::kFloat32));
  const std::vector<uint8_t> bytes = BytesOf(*image);
  testing::RunRanks(2, [&](Communicator& group) {
    const auto model = testing::MakeSharedModel(config_, &group, torch::kFloat32);
    const absl::Status status = LoadModelFrom(bytes, *model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "tensor model.layers.0.mlp.down_proj.weight has shape [8, 12], [8, 11] is needed");
  });
}

}  // namespace
}  // namespace baton::engine
