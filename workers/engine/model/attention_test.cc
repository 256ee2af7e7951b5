#include "workers/engine/model/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>

#include "workers/engine/kernels/packed_layout.h"

namespace baton::engine {
namespace {

using torch::Tensor;

/// Nested loops in double precision.
Tensor PlainAttention(const std::vector<int64_t>& lengths, const Tensor& q, const Tensor& k,
                      const Tensor& v, int64_t window = 0) {
  Tensor out = torch::zeros_like(q);
  const auto Q = q.accessor<double, 3>(), K = k.accessor<double, 3>(), V = v.accessor<double, 3>();
  auto O = out.accessor<double, 3>();
  const int64_t group = q.size(1) / k.size(1), dim = q.size(2);
  int64_t first = 0;
  for (int64_t length : lengths) {
    for (int64_t n = first; n < first + length; ++n) {
      for (int64_t h = 0; h < q.size(1); ++h) {
        std::vector<double> weight;
        double sum = 0;
        const int64_t seen = window > 0 ? std::max(first, n + 1 - window) : first;
        for (int64_t m = seen; m <= n; ++m) {
          double dot = 0;
          for (int64_t d = 0; d < dim; ++d) dot += Q[n][h][d] * K[m][h / group][d];
          weight.push_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
          sum += weight.back();
        }
        for (int64_t m = seen; m <= n; ++m) {
          for (int64_t d = 0; d < dim; ++d) {
            O[n][h][d] += weight[static_cast<size_t>(m - seen)] / sum * V[m][h / group][d];
          }
        }
      }
    }
    first += length;
  }
  return out;
}

struct Inputs {
  std::vector<int64_t> lengths;
  Tensor q, k, v;
};

Inputs RandomInputs(std::vector<int64_t> lengths, int64_t heads, int64_t kv_heads, int64_t dim) {
  const int64_t rows = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  torch::manual_seed(4);
  const auto make = [&](int64_t h) { return torch::randn({rows, h, dim}, torch::kFloat64); };
  return {std::move(lengths), make(heads), make(kv_heads), make(kv_heads)};
}

/// No window, and windows at and beside the borders of the kernels' blocks of keys and of queries.
constexpr int64_t kWindows[] = {0, 1, 3, 8, 15, 16, 17, 33, 200};

/// A window for each round, all of them in turn.
int64_t WindowOf(int round) { return kWindows[static_cast<size_t>(round) % std::size(kWindows)]; }

TEST(PackedCausalAttention, EqualsThePlainOneForAnyLengthsAndBlocks) {
  std::mt19937 random(1);
  for (int round = 0; round < 27; ++round) {
    const int64_t window = WindowOf(round);
    std::vector<int64_t> lengths(1 + random() % 9);
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % 60);
    const int64_t kv_heads = 1 + static_cast<int64_t>(random() % 3);
    const Inputs in =
        RandomInputs(lengths, kv_heads * (1 + static_cast<int64_t>(random() % 3)), kv_heads, 6);
    const Tensor expected = PlainAttention(in.lengths, in.q, in.k, in.v, window);
    for (const bool deterministic : {false, true}) {
      for (const int64_t max_saved : {int64_t{1}, int64_t{3000}, int64_t{1} << 26}) {
        PackedCausalAttention attention(in.lengths, {deterministic, max_saved});
        const Tensor out = attention.Attend({0, window}, in.q, in.k, in.v);
        EXPECT_LT((out - expected).abs().max().item<double>(), 1e-12) << window;
      }
    }
  }
}

TEST(PackedCausalAttention, Float32KernelEqualsThePlainOne) {
  std::mt19937 random(2);
  for (const int64_t dim : {2, 6, 16, 24, 40, 128}) {
    for (int round = 0; round < 9; ++round) {
      const int64_t window = WindowOf(round);
      std::vector<int64_t> lengths(1 + random() % 5);
      for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % 70);
      const int64_t kv_heads = 1 + static_cast<int64_t>(random() % 2);
      const int64_t heads = kv_heads * (1 + static_cast<int64_t>(random() % 3));
      const Inputs in = RandomInputs(lengths, heads, kv_heads, dim);
      const Tensor expected = PlainAttention(in.lengths, in.q, in.k, in.v, window);
      // As rows of one tensor, the way the model's fused projection hands them over.
      const Tensor joined = torch::cat({in.q, in.k, in.v}, 1).to(torch::kFloat32);
      for (const int64_t prompt : {0, 1, 20, 33}) {  // 0: without the order of sums of a cache
        PackedAttentionOptions options;
        if (prompt > 0) options.prompt_lengths.assign(lengths.size(), prompt);
        PackedCausalAttention attention(in.lengths, options);
        const Tensor out = attention.Attend({0, window}, joined.narrow(1, 0, heads),
                                            joined.narrow(1, heads, kv_heads),
                                            joined.narrow(1, heads + kv_heads, kv_heads));
        EXPECT_LT((out.to(torch::kFloat64) - expected).abs().max().item<double>(), 3e-6)
            << window << " " << prompt;
      }
    }
  }
}

TEST(PackedCausalAttention, Float32KernelsGradientsEqualFloat64s) {
  std::mt19937 random(3);
  int round = 0;
  for (const int64_t dim : {2, 6, 16, 24, 40, 128, 6, 24, 40}) {
    const int64_t window = WindowOf(round++);
    std::vector<int64_t> lengths(1 + random() % 5);
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % 70);
    const Inputs in = RandomInputs(lengths, 6, 1 + static_cast<int64_t>(random() % 3), dim);
    const Tensor weights = torch::randn_like(in.q);
    std::vector<Tensor> grads[3];
    for (const int kind : {0, 1, 2}) {  // 2: with the order of sums of cached attention
      const torch::Dtype dtype = kind == 0 ? torch::kFloat64 : torch::kFloat32;
      std::vector<Tensor> leaves;
      for (const Tensor& x : {in.q, in.k, in.v}) {
        leaves.push_back(x.to(dtype, false, /*copy=*/true).set_requires_grad(true));
      }
      PackedAttentionOptions options;
      for (size_t i = 0; i < lengths.size() && kind == 2; ++i) {
        options.prompt_lengths.push_back(1 + static_cast<int64_t>(random() % 80));
      }
      PackedCausalAttention attention(in.lengths, options);
      const Tensor out = attention.Attend({0, window}, leaves[0], leaves[1], leaves[2]);
      (out * weights.to(dtype)).sum().backward();
      for (const Tensor& leaf : leaves) grads[kind].push_back(leaf.grad().to(torch::kFloat64));
    }
    for (int i = 0; i < 6; ++i) {
      const auto difference = (grads[0][i % 3] - grads[1 + i / 3][i % 3]).abs().max();
      EXPECT_LT(difference.item<double>(), 2e-5) << dim << " " << i << " " << window;
    }
  }
}

TEST(PackedCausalAttention, LargeScoresDoNotOverflow) {
  Inputs in = RandomInputs({20}, 2, 2, 8);
  in.q *= 100;
  PackedCausalAttention attention(in.lengths);
  const Tensor out = attention.Attend({}, in.q.to(torch::kFloat32), in.k.to(torch::kFloat32),
                                      in.v.to(torch::kFloat32));
  const Tensor expected = PlainAttention(in.lengths, in.q, in.k, in.v);
  EXPECT_LT((out.to(torch::kFloat64) - expected).abs().max().item<double>(), 1e-3);
}

TEST(PackedCausalAttention, TakesStridedViews) {
  const Inputs in = RandomInputs({5, 9, 3}, 4, 2, 6);
  const Tensor joined = torch::cat({in.q, in.k, in.v}, 1);
  PackedCausalAttention attention(in.lengths);
  const Tensor out =
      attention.Attend({}, joined.narrow(1, 0, 4), joined.narrow(1, 4, 2), joined.narrow(1, 6, 2));
  EXPECT_LT((out - PlainAttention(in.lengths, in.q, in.k, in.v)).abs().max().item<double>(), 1e-12);
}

TEST(PackedCausalAttention, GradientsEqualFiniteDifferences) {
  Inputs in = RandomInputs({4, 1, 11, 9}, 4, 2, 6);
  const Tensor weights = torch::randn_like(in.q);
  for (const auto& [max_saved, window] :
       {std::make_pair(int64_t{60}, int64_t{0}), std::make_pair(int64_t{60}, int64_t{4}),
        std::make_pair(int64_t{1} << 26, int64_t{0}),
        std::make_pair(int64_t{1} << 26, int64_t{4})}) {
    PackedCausalAttention attention(in.lengths, {false, max_saved});
    const AttentionLayer layer = {0, window};
    for (Tensor* x : {&in.q, &in.k, &in.v}) {
      x->mutable_grad().reset();
      x->set_requires_grad(true);
    }
    (attention.Attend(layer, in.q, in.k, in.v) * weights).sum().backward();
    torch::NoGradGuard no_grad;
    for (Tensor* x : {&in.q, &in.k, &in.v}) {
      const Tensor grad = x->grad().contiguous();
      double* value = x->data_ptr<double>();
      for (int64_t i = 0; i < x->numel(); i += 7) {
        constexpr double kStep = 1e-5;
        const double kept = value[i];
        const auto loss = [&] {
          const Tensor out = PlainAttention(in.lengths, in.q, in.k, in.v, layer.window);
          return (out * weights).sum().item<double>();
        };
        value[i] = kept + kStep;
        const double up = loss();
        value[i] = kept - kStep;
        const double down = loss();
        value[i] = kept;
        EXPECT_NEAR(grad.data_ptr<double>()[i], (up - down) / (2 * kStep), 1e-7);
      }
    }
  }
}

TEST(PackedCausalAttention, PositionsStartAgainWithEverySequence) {
  const Tensor positions = PackedCausalAttention({3, 1, 2}).Positions();
  EXPECT_TRUE(torch::equal(positions,
                           torch::tensor(std::vector<int64_t>{0, 1, 2, 0, 0, 1}, torch::kInt64)));
}

TEST(PackedCausalAttention, ShapesAreChecked) {
  PackedAttentionOptions one_prompt;
  one_prompt.prompt_lengths = {1};
  PackedCausalAttention two({1, 1}, one_prompt);
  const Tensor rows = torch::zeros({2, 1, 4});
  EXPECT_THROW(two.Attend({}, rows, rows, rows), c10::Error);
  EXPECT_THROW(PackedCausalAttention({3, 0}), c10::Error);
  const Inputs in = RandomInputs({5}, 2, 2, 4);
  PackedCausalAttention other({4});
  EXPECT_THROW(other.Attend({}, in.q, in.k, in.v), c10::Error);
}

TEST(GroupByLength, BoundsThePadding) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> lengths(1 + random() % 100);
    for (int64_t& length : lengths) {
      length = 1 + static_cast<int64_t>(random() % (1 + random() % 2000));
    }
    std::vector<int> seen(lengths.size(), 0);
    for (const std::vector<int64_t>& group : GroupByLength(lengths)) {
      const int64_t longest = lengths[static_cast<size_t>(group[0])];
      for (int64_t sequence : group) {
        const int64_t length = lengths[static_cast<size_t>(sequence)];
        EXPECT_LE(length, longest);
        EXPECT_LE(longest - length, longest / 5 + 8);
        ++seen[static_cast<size_t>(sequence)];
      }
    }
    for (int count : seen) EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace baton::engine
