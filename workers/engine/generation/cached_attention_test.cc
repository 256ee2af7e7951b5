#include "workers/engine/generation/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace baton::engine {
namespace {

// A sequence as its full keys, values and queries, [length, heads, channels] each.
struct Sequence {
  int64_t prompt_length;
  int64_t length;
  torch::Tensor q, k, v;
  std::vector<int32_t> prompt_blocks, own_blocks;
};

struct Shape {
  int64_t heads, kv_heads, channels;
  int64_t window = 0;
};

torch::Tensor Random(std::vector<int64_t> sizes, unsigned seed, torch::Dtype dtype) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  torch::Tensor x = torch::empty(sizes, torch::kFloat32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data_ptr<float>()[i] = normal(random);
  return x.to(dtype);
}

// One output row, by definition, in double precision.
std::vector<double> SlowRow(const Sequence& s, const Shape& shape, int64_t position) {
  const auto q = s.q.to(torch::kFloat64).contiguous(), k = s.k.to(torch::kFloat64).contiguous(),
             v = s.v.to(torch::kFloat64).contiguous();
  const auto qa = q.accessor<double, 3>(), ka = k.accessor<double, 3>(),
             va = v.accessor<double, 3>();
  std::vector<double> out;
  for (int64_t h = 0; h < shape.heads; ++h) {
    const int64_t kv = h / (shape.heads / shape.kv_heads);
    std::vector<double> weights;
    double total = 0;
    const int64_t first = shape.window > 0 ? std::max<int64_t>(0, position + 1 - shape.window) : 0;
    for (int64_t t = first; t <= position; ++t) {
      double score = 0;
      for (int64_t d = 0; d < shape.channels; ++d) score += qa[position][h][d] * ka[t][kv][d];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.channels))));
      total += weights.back();
    }
    for (int64_t d = 0; d < shape.channels; ++d) {
      double sum = 0;
      for (int64_t t = first; t <= position; ++t) sum += weights[t - first] / total * va[t][kv][d];
      out.push_back(sum);
    }
  }
  return out;
}

class Fixture {
 public:
  Fixture(Shape shape, torch::Dtype dtype) : shape_(shape), dtype_(dtype) {
    ModelConfig config;
    config.num_hidden_layers = 2;
    config.num_key_value_heads = shape.kv_heads;
    config.head_dim = shape.channels;
    cache_ = *KvCache::Create(config, dtype, torch::kCPU, int64_t{1} << 22);
    attention_ = std::make_unique<CachedAttention>(cache_.get());
  }

  Sequence MakeSequence(int64_t prompt_length, int64_t length, unsigned seed) {
    Sequence s{prompt_length,
               length,
               Random({length, shape_.heads, shape_.channels}, seed, dtype_),
               Random({length, shape_.kv_heads, shape_.channels}, seed + 1, dtype_),
               Random({length, shape_.kv_heads, shape_.channels}, seed + 2, dtype_),
               {},
               {}};
    for (int64_t i = 0; i < KvCache::BlocksFor(prompt_length); ++i) {
      s.prompt_blocks.push_back(*cache_->Allocate());
    }
    for (int64_t i = 0; i < KvCache::BlocksFor(length - prompt_length); ++i) {
      s.own_blocks.push_back(*cache_->Allocate());
    }
    // The memory's earlier contents must not matter.
    for (const auto* blocks : {&s.prompt_blocks, &s.own_blocks}) {
      for (const int32_t block : *blocks) {
        for (int64_t layer = 0; layer < 2; ++layer) {
          cache_->keys(layer)[block].fill_(std::nan(""));
          cache_->values(layer)[block].fill_(std::nan(""));
        }
      }
    }
    return s;
  }

  struct Piece {
    const Sequence* sequence;
    int64_t begin, count;
    const std::vector<int32_t>* parents = nullptr;
  };

  // One pass over the pieces.
  torch::Tensor Pass(const std::vector<Piece>& pieces, int64_t layer = 1) {
    return Pass(pieces, layer, shape_.window);
  }
  torch::Tensor Pass(const std::vector<Piece>& pieces, int64_t layer, int64_t window) {
    std::vector<torch::Tensor> q, k, v;
    std::vector<CachedRows> runs;
    int64_t row = 0;
    for (const Piece& piece : pieces) {
      const Sequence& s = *piece.sequence;
      q.push_back(s.q.narrow(0, piece.begin, piece.count));
      k.push_back(s.k.narrow(0, piece.begin, piece.count));
      v.push_back(s.v.narrow(0, piece.begin, piece.count));
      runs.push_back({row, piece.count, piece.begin, s.prompt_length, &s.prompt_blocks,
                      &s.own_blocks, piece.parents != nullptr, piece.parents});
      row += piece.count;
    }
    attention_->Begin(runs);
    // Strided views, as a model passes slices of one product.
    const torch::Tensor qkv = torch::cat({torch::cat(q), torch::cat(k), torch::cat(v)}, 1);
    const torch::Tensor out =
        attention_->Attend({layer, window}, qkv.narrow(1, 0, shape_.heads),
                           qkv.narrow(1, shape_.heads, shape_.kv_heads),
                           qkv.narrow(1, shape_.heads + shape_.kv_heads, shape_.kv_heads));
    EXPECT_EQ(out.sizes(), (std::vector<int64_t>{row, shape_.heads, shape_.channels}));
    return out;
  }

  void ExpectRows(const torch::Tensor& out, int64_t first_row, const Piece& piece,
                  double tolerance) {
    for (int64_t i = 0; i < piece.count; ++i) {
      ExpectRow(out[first_row + i], *piece.sequence, piece.begin + i, tolerance);
    }
  }

  void ExpectRow(const torch::Tensor& row, const Sequence& sequence, int64_t position,
                 double tolerance) {
    const std::vector<double> expected = SlowRow(sequence, shape_, position);
    const auto numbers = row.to(torch::kFloat64).reshape({-1}).contiguous();
    for (size_t j = 0; j < expected.size(); ++j) {
      ASSERT_NEAR(numbers.data_ptr<double>()[j], expected[j], tolerance)
          << "position " << position << " element " << j;
    }
  }

 private:
  const Shape shape_;
  const torch::Dtype dtype_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<CachedAttention> attention_;
};

struct Case {
  Shape shape;
  torch::Dtype dtype;
  double tolerance;
};

class CachedAttentionTest : public ::testing::TestWithParam<Case> {};

// Prompts in uneven chunks, then token by token, several sequences side by side, lengths that end
// before, at and after block edges.
TEST_P(CachedAttentionTest, EqualsTheDefinition) {
  const Case& c = GetParam();
  Fixture fixture(c.shape, c.dtype);
  const Sequence a = fixture.MakeSequence(5, 22, 1), b = fixture.MakeSequence(16, 34, 10),
                 d = fixture.MakeSequence(35, 37, 20);
  using Pieces = std::vector<Fixture::Piece>;
  std::vector<Pieces> passes = {
      {{&a, 0, 3}, {&b, 0, 16}, {&d, 0, 1}},
      {{&a, 3, 2}, {&b, 16, 15}, {&d, 1, 30}},
      {{&a, 5, 1}, {&b, 31, 1}, {&d, 31, 4}},
      {{&a, 6, 1}, {&b, 32, 2}, {&d, 35, 1}},
      {{&a, 7, 14}, {&d, 36, 1}},
      {{&a, 21, 1}},
  };
  for (const Pieces& pieces : passes) {
    const torch::Tensor out = fixture.Pass(pieces);
    int64_t row = 0;
    for (const Fixture::Piece& piece : pieces) {
      fixture.ExpectRows(out, row, piece, c.tolerance);
      row += piece.count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CachedAttentionTest,
    ::testing::Values(
        Case{{4, 4, 24}, torch::kFloat32, 2e-6}, Case{{4, 2, 8}, torch::kFloat32, 2e-6},
        Case{{6, 1, 70}, torch::kFloat32, 2e-6}, Case{{2, 2, 2}, torch::kFloat32, 2e-6},
        Case{{3, 3, 6}, torch::kFloat32, 2e-6}, Case{{4, 2, 16}, torch::kFloat64, 1e-12},
        Case{{4, 4, 8}, torch::kBFloat16, 1e-2}, Case{{4, 2, 24, 1}, torch::kFloat32, 2e-6},
        Case{{4, 2, 8, 7}, torch::kFloat32, 2e-6}, Case{{6, 1, 70, 16}, torch::kFloat32, 2e-6},
        Case{{2, 2, 2, 21}, torch::kFloat32, 2e-6}, Case{{4, 2, 16, 1}, torch::kFloat64, 1e-12},
        Case{{4, 2, 16, 18}, torch::kFloat64, 1e-12}, Case{{4, 4, 8, 7}, torch::kBFloat16, 1e-2}));

// In float32 the bits of a row are its own.
TEST(CachedAttentionIndependenceTest, RowsDoNotDependOnTheBatch) {
  for (const Shape& shape :
       {Shape{4, 4, 24}, Shape{6, 1, 70}, Shape{3, 3, 6}, Shape{4, 2, 24, 9}}) {
    Fixture fixture(shape, torch::kFloat32);
    const Sequence a = fixture.MakeSequence(5, 22, 1), b = fixture.MakeSequence(16, 34, 10);
    fixture.Pass({{&a, 0, 20}});
    const torch::Tensor alone = fixture.Pass({{&a, 20, 1}});
    fixture.Pass({{&b, 0, 30}});
    const torch::Tensor together = fixture.Pass({{&b, 30, 1}, {&a, 20, 1}});
    EXPECT_TRUE(torch::equal(alone[0], together[1]));
  }
}

// One cache serves layers with a window and without, in any order.
TEST(CachedAttentionLayersTest, LayersMayDifferInTheirWindow) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    Fixture fixture({2, 1, 8}, dtype);
    const Sequence a = fixture.MakeSequence(4, 20, 1);
    fixture.Pass({{&a, 0, 19}}, 0);
    fixture.Pass({{&a, 0, 19}}, 1, 3);
    fixture.ExpectRows(fixture.Pass({{&a, 19, 1}}, 0), 0, {&a, 19, 1}, 2e-6);
    const torch::Tensor slid = fixture.Pass({{&a, 19, 1}}, 1, 3);
    const std::vector<double> expected = SlowRow(a, {2, 1, 8, 3}, 19);
    const torch::Tensor wanted = torch::tensor(expected, torch::kFloat64).view({2, 8});
    EXPECT_LT((slid[0].to(torch::kFloat64) - wanted).abs().max().item<double>(), 2e-6);
  }
}

TEST(CachedAttentionLayersTest, LayersDoNotMix) {
  Fixture fixture({2, 1, 8}, torch::kFloat32);
  const Sequence a = fixture.MakeSequence(4, 9, 1);
  Sequence other = a;  // same blocks, other contents
  other.k = a.k * 2 + 1;
  other.v = a.v - 3;
  fixture.Pass({{&a, 0, 8}}, 0);
  fixture.Pass({{&other, 0, 8}}, 1);
  fixture.ExpectRows(fixture.Pass({{&a, 8, 1}}, 0), 0, {&a, 8, 1}, 2e-6);
}

TEST(CachedAttentionSharingTest, TwoSequencesReadOnePrompt) {
  Fixture fixture({4, 2, 8}, torch::kFloat32);
  const Sequence a = fixture.MakeSequence(10, 14, 1);
  Sequence b = fixture.MakeSequence(0, 4, 30);  // only its own tokens
  b.prompt_length = 10;
  b.length = 14;
  b.prompt_blocks = a.prompt_blocks;
  b.q = torch::cat({a.q.narrow(0, 0, 10), b.q});
  b.k = torch::cat({a.k.narrow(0, 0, 10), b.k});
  b.v = torch::cat({a.v.narrow(0, 0, 10), b.v});
  fixture.Pass({{&a, 0, 10}});
  const torch::Tensor out = fixture.Pass({{&a, 10, 4}, {&b, 10, 4}});
  fixture.ExpectRows(out, 0, {&a, 10, 4}, 2e-6);
  fixture.ExpectRows(out, 4, {&b, 10, 4}, 2e-6);
}

// The rows of a tree: each attends to what its path attends to when the path alone is computed, in
// place. In float32 the bits are equal.
//
//   the response -+- 0 -+- 1 - 3 - 6 - 7 ... 24
//                 |     +- 4 - 5
//                 +- 2 -- 25
class CachedAttentionTreeTest : public ::testing::TestWithParam<Case> {
 protected:
  const std::vector<int32_t> parents_ = [] {
    std::vector<int32_t> parents = {-1, 0, -1, 1, 0, 4, 3};
    for (int32_t i = 7; i <= 24; ++i) parents.push_back(i - 1);
    parents.push_back(2);
    return parents;
  }();
};

TEST_P(CachedAttentionTreeTest, EachPathEqualsASequenceWithoutBranches) {
  const Case& c = GetParam();
  // The place where the tree begins: at the response's first token, in a block, at its end, behind
  // it.
  for (const int64_t begin : {10, 13, 25, 26}) {
    SCOPED_TRACE(begin);
    Fixture fixture(c.shape, c.dtype);
    const auto nodes = static_cast<int64_t>(parents_.size());
    const Sequence tree = fixture.MakeSequence(10, begin + nodes, 1);
    fixture.Pass({{&tree, 0, begin}});
    const torch::Tensor out = fixture.Pass({{&tree, begin, nodes, &parents_}});
    for (int64_t node = 0; node < nodes; ++node) {
      std::vector<int64_t> path;
      for (int64_t i = node; i >= 0; i = parents_[i]) path.insert(path.begin(), begin + i);
      const auto rows = [&](const torch::Tensor& x) {
        return torch::cat({x.narrow(0, 0, begin), x.index_select(0, torch::tensor(path))});
      };
      const auto length = static_cast<int64_t>(path.size());
      Sequence alone = fixture.MakeSequence(10, begin + length, 50);
      alone.q = rows(tree.q);
      alone.k = rows(tree.k);
      alone.v = rows(tree.v);
      fixture.Pass({{&alone, 0, begin}});
      const torch::Tensor right = fixture.Pass({{&alone, begin, length}})[length - 1];
      if (c.dtype != torch::kFloat64) {
        EXPECT_TRUE(torch::equal(out[node], right)) << "node " << node;
      }
      fixture.ExpectRow(out[node], alone, begin + length - 1, c.tolerance);
    }
  }
}

// A wrong guess may be a token of NaN. Nodes off its path know nothing of it.
TEST_P(CachedAttentionTreeTest, ANanNodeAffectsOnlyItsDescendants) {
  const Case& c = GetParam();
  Fixture fixture(c.shape, c.dtype);
  Sequence tree = fixture.MakeSequence(10, 13 + static_cast<int64_t>(parents_.size()), 1);
  tree.k[13 + 4].fill_(std::nan(""));
  tree.v[13 + 4].fill_(std::nan(""));
  fixture.Pass({{&tree, 0, 13}});
  const auto nodes = static_cast<int64_t>(parents_.size());
  const torch::Tensor out = fixture.Pass({{&tree, 13, nodes, &parents_}});
  for (int64_t node = 0; node < nodes; ++node) {
    const bool bad = node == 4 || node == 5;
    EXPECT_EQ(torch::isfinite(out[node]).all().item<bool>(), !bad) << "node " << node;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CachedAttentionTreeTest,
                         ::testing::Values(Case{{4, 4, 24}, torch::kFloat32, 2e-6},
                                           Case{{6, 1, 70}, torch::kFloat32, 2e-6},
                                           Case{{3, 3, 6}, torch::kFloat32, 2e-6},
                                           Case{{4, 2, 16}, torch::kFloat64, 1e-12},
                                           Case{{4, 4, 8}, torch::kBFloat16, 1e-2},
                                           Case{{6, 1, 70, 3}, torch::kFloat32, 2e-6},
                                           Case{{4, 2, 8, 17}, torch::kFloat32, 2e-6},
                                           Case{{4, 2, 16, 5}, torch::kFloat64, 1e-12}));

// Scores far apart: the softmax must not overflow, and what is far below the best must vanish.
TEST(CachedAttentionExtremesTest, LargeScores) {
  Fixture fixture({1, 1, 8}, torch::kFloat32);
  Sequence a = fixture.MakeSequence(3, 40, 1);
  a.q *= 100;
  const torch::Tensor out = fixture.Pass({{&a, 0, 40}});
  EXPECT_TRUE(torch::isfinite(out).all().item<bool>());
  fixture.ExpectRows(out, 0, {&a, 0, 40}, 1e-3);
}

}  // namespace
}  // namespace baton::engine
