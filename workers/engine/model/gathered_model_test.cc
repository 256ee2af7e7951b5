// A model put together from its tensor-parallel slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine/generator.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "workers/engine/model/attention.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

// By slices, each row is summed alone and in one order.
TEST(GatheredModelTest, ABatchEqualsOneByOneBitwise) {
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 1; id <= 6; ++id) {
    requests.push_back(Request(id, {static_cast<int32_t>(id), 3, 9}, 4 + 3 * id, 0.8));
  }
  const auto whole = MakeModel();
  const Responses expected = RunAll(whole.get(), requests, {});
  testing::RunRanks(2, [&](Communicator& group) {
    auto slice = CausalLM::Create(whole->config(), torch::kFloat32, torch::kCPU, &group);
    ASSERT_TRUE(slice.ok()) << slice.status();
    (*slice)->InitializeRandom(1);
    (*slice)->SetDeterministic(true);
    const auto gathered = CausalLM::Gather(**slice, &group, nullptr);
    ASSERT_TRUE(gathered.ok()) << gathered.status();
    EXPECT_TRUE((*gathered)->deterministic());
    const Responses together = RunAll(gathered->get(), requests, Deterministic());
    for (const GenerateRequest& request : requests) {
      EXPECT_EQ(together.at(request.id).tokens, expected.at(request.id).tokens);
      EXPECT_EQ(RunAlone(gathered->get(), request, Deterministic()), together.at(request.id));
    }
  });
}

// Queries and keys are normalised over the heads of all slices.
TEST(GatheredModelTest, NormsOverAllHeadsEqualTheWholeModel) {
  ModelConfig config = testing::SharedConfig(false);
  config.family = ModelFamily::kOlmo2;
  config.mlp_bias = false;
  const Tensor tokens = torch::tensor({1, 12, 5, 7, 0}, torch::kInt64);
  const Tensor positions = torch::arange(5, torch::kInt64);
  const auto logits = [&](CausalLM& model) {
    torch::NoGradGuard no_grad;
    PackedCausalAttention attention({5});
    return model.Logits(model.Hidden(tokens, positions, attention));
  };
  const Tensor whole = logits(*testing::MakeSharedModel(config));
  testing::RunRanks(2, [&](Communicator& group) {
    const auto slice = testing::MakeSharedModel(config, &group);
    const auto gathered = CausalLM::Gather(*slice, &group, nullptr);
    ASSERT_TRUE(gathered.ok()) << gathered.status();
    EXPECT_TRUE(torch::allclose(logits(**gathered), whole, 1e-11, 1e-12));
  });
}

// Trained parameters require gradients; a gathered model records none of its own, and its slices'
// weights cannot be changed through it.
TEST(GatheredModelTest, ComputesWithoutGradients) {
  testing::RunRanks(2, [&](Communicator& group) {
    const auto slice = testing::MakeSharedModel(testing::SharedConfig(false), &group);
    slice->SetRequiresGrad(true);
    const auto gathered = CausalLM::Gather(*slice, &group, nullptr);
    ASSERT_TRUE(gathered.ok()) << gathered.status();
    EXPECT_EQ((*gathered)->tensor_group(), nullptr);
    EXPECT_EQ((*gathered)->local_config().vocab_size, 13);
    const Tensor tokens = torch::tensor({1, 12, 5}, torch::kInt64);
    const Tensor positions = torch::arange(3, torch::kInt64);
    PackedCausalAttention attention({3});
    const Tensor logits = (*gathered)->Logits((*gathered)->Hidden(tokens, positions, attention));
    EXPECT_FALSE(logits.requires_grad());
    EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{3, 13}));
    EXPECT_TRUE(slice->parameters()[0].second.requires_grad());
    EXPECT_THROW((*gathered)->InitializeRandom(1), c10::Error);
    EXPECT_THROW((*gathered)->SetRequiresGrad(false), c10::Error);
    const Tensor outside = torch::tensor({1, 13, 5}, torch::kInt64);
    EXPECT_THROW((*gathered)->Hidden(outside, positions, attention), c10::Error);
  });
}

TEST(GatheredModelTest, PlacesThatDoNotFitAreRefused) {
  const auto whole = testing::MakeSharedModel(testing::SharedConfig(true));
  testing::RunRanks(2, [&](Communicator& group) {
    const auto fault = [](const CausalLM& model, Communicator* slices, Communicator* tensor) {
      return std::string(CausalLM::Gather(model, slices, tensor).status().message());
    };
    EXPECT_THAT(fault(*whole, &group, nullptr), HasSubstr("slice 0 of 1 cannot be slice"));
    const auto slice = testing::MakeSharedModel(testing::SharedConfig(true), &group);
    EXPECT_THAT(fault(*slice, nullptr, nullptr), HasSubstr("of 2 cannot be slice 0 of 1"));
    EXPECT_THAT(fault(*slice, &group, &group), HasSubstr("cannot be slice"));
    const auto gathered = CausalLM::Gather(*slice, &group, nullptr);
    ASSERT_TRUE(gathered.ok());
    EXPECT_THAT(fault(**gathered, nullptr, nullptr), HasSubstr("cannot be gathered again"));
    // A size that stays: the same parameters, nothing received.
    const auto same = CausalLM::Gather(*slice, nullptr, &group);
    ASSERT_TRUE(same.ok()) << same.status();
    for (size_t i = 0; i < slice->parameters().size(); ++i) {
      EXPECT_EQ((*same)->parameters()[i].second.data_ptr(),
                slice->parameters()[i].second.data_ptr());
    }
  });
}

}  // namespace
}  // namespace baton::engine
