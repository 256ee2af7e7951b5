#include "workers/engine/training/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine/thread_communicator.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using torch::Tensor;

TEST(GradientBucketsTest, OrderOfADecodersBackwardPass) {
  const std::vector<std::string> names = {"lm_head.weight",
                                          "model.embed_tokens.weight",
                                          "model.layers.0.mlp.a.weight",
                                          "model.layers.10.a.bias",
                                          "model.layers.2.a.bias",
                                          "model.norm.weight",
                                          "score.weight"};
  EXPECT_THAT(BackwardOrder(names), ElementsAre(0, 6, 5, 3, 4, 2, 1));
  EXPECT_TRUE(IsHeadParameter("score.weight"));
  EXPECT_FALSE(IsHeadParameter("model.norm.weight"));
}

TEST(GradientBucketsTest, BucketsByHand) {
  const auto buckets = MakeBuckets({3, 1, 5, 2, 2}, 4);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].begin, 0u);
  EXPECT_EQ(buckets[0].end, 2u);
  EXPECT_EQ(buckets[0].last_element, 4);
  EXPECT_EQ(buckets[1].end, 3u);
  EXPECT_EQ(buckets[1].last_element, 9);
  EXPECT_EQ(buckets[2].first_element, 9);
  EXPECT_EQ(buckets[2].last_element, 13);
  EXPECT_TRUE(MakeBuckets({}, 4).empty());
}

/// Two body tensors and a head; forward = head . (b2 * (b1 * x)).
struct Net {
  Tensor flat = torch::zeros({6}, torch::kFloat64);
  std::vector<Tensor> leaves;
  std::vector<GradientBuckets::Gradient> gradients;

  Net() {
    const char* names[] = {"lm_head.weight", "model.layers.1.a", "model.layers.0.a"};
    for (int i = 0; i < 3; ++i) {
      Tensor leaf = torch::full({2}, i + 2.0, torch::kFloat64).requires_grad_(true);
      leaf.mutable_grad() = flat.narrow(0, 2 * i, 2);
      leaves.push_back(leaf);
      gradients.push_back({names[i], leaf});
    }
  }
  /// As the trainer runs them: the head first, then the body.
  void Backward(double x, GradientBuckets* buckets) {
    const Tensor state = leaves[1] * (leaves[2] * x);
    const Tensor input = state.detach().requires_grad_(true);
    (leaves[0] * input).sum().backward();
    if (buckets != nullptr) buckets->ExpectLastBackward();
    state.backward(input.grad());
  }
};

TEST(GradientBucketsTest, AddsUpWhileBackwardRuns) {
  testing::RunRanks(2, [](Communicator& group) {
    Net net;
    GradientBuckets buckets(net.gradients, net.flat, &group, 16);
    EXPECT_EQ(buckets.buckets(), 3);
    for (int step = 1; step <= 2; ++step) {
      net.flat.zero_();
      net.Backward(1, nullptr);  // A micro-batch before the last: nothing is sent.
      EXPECT_EQ(buckets.overlapped(), 3 * (step - 1));
      net.Backward(group.rank() + 1, &buckets);
      EXPECT_EQ(buckets.overlapped(), 3 * step);
      buckets.Finish();
      // x is 1 twice and 1 and 2 once on the ranks: 5 in all. d head = b2 b1 x, d b2 = head b1 x.
      const Tensor want = torch::tensor({12.0, 12.0, 8.0, 8.0, 6.0, 6.0}, torch::kFloat64) * 5;
      EXPECT_TRUE(torch::equal(net.flat, want)) << net.flat;
    }
  });
}

TEST(GradientBucketsTest, ARankWithoutABackwardPassTakesPart) {
  testing::RunRanks(2, [](Communicator& group) {
    Net net;
    GradientBuckets buckets(net.gradients, net.flat, &group, 1 << 20);
    EXPECT_EQ(buckets.buckets(), 1);
    if (group.rank() == 0) net.Backward(1, &buckets);
    buckets.Finish();
    EXPECT_EQ(buckets.overlapped(), group.rank() == 0 ? 1 : 0);
    EXPECT_TRUE(
        torch::equal(net.flat, torch::tensor({12.0, 12.0, 8.0, 8.0, 6.0, 6.0}, torch::kFloat64)));
  });
}

TEST(GradientBucketsTest, LeavesNoHookBehind) {
  testing::RunRanks(1, [](Communicator& group) {
    Net net;
    { GradientBuckets buckets(net.gradients, net.flat, &group, 16); }
    net.Backward(1, nullptr);
    EXPECT_EQ(net.flat[0].item<double>(), 12);
  });
}

}  // namespace
}  // namespace baton::engine
