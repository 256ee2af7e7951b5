#include "workers/engine/kernels/row_products.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "workers/engine/kernels/vector_math.h"

namespace baton::engine {
namespace {

using simd::Floats;
using simd::kLanes;

struct Operands {
  const float* x;
  const float* weight;
  float* out;
  int64_t rows, outs, depth;
  bool accumulate;
  // The elements beyond the last whole lanes of depth, filled up with zeros: [rows, kLanes] and
  // [outs, kLanes]. Null if there are none.
  const float* x_tail;
  const float* weight_tail;
};

// One of the four steps that turn 16 vectors into the vector of their sums: adds the halves of the
// groups of `a` and of `b`, and puts what remains of b behind what remains of a, group by group.
#define BATON_HALVES(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
BATON_ALWAYS_INLINE void Halve16(const Floats& a, const Floats& b, Floats& to) {
  to = BATON_HALVES(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
       BATON_HALVES(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
BATON_ALWAYS_INLINE void Halve8(const Floats& a, const Floats& b, Floats& to) {
  to = BATON_HALVES(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
       BATON_HALVES(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
BATON_ALWAYS_INLINE void Halve4(const Floats& a, const Floats& b, Floats& to) {
  to = BATON_HALVES(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
       BATON_HALVES(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
}
BATON_ALWAYS_INLINE void Halve2(const Floats& a, const Floats& b, Floats& to) {
  to = BATON_HALVES(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
       BATON_HALVES(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#undef BATON_HALVES

// sums[i] = the sum of the lanes of v[i].
BATON_ALWAYS_INLINE void SumEach(Floats (&v)[16], Floats& sums) {
  for (int i = 0; i < 8; ++i) Halve16(v[2 * i], v[2 * i + 1], v[i]);
  for (int i = 0; i < 4; ++i) Halve8(v[2 * i], v[2 * i + 1], v[i]);
  for (int i = 0; i < 2; ++i) Halve4(v[2 * i], v[2 * i + 1], v[i]);
  Halve2(v[0], v[1], sums);
}

// The dot products of R rows with C = 16 / R weights. Rows and weights beyond the matrices' are
// computed as copies of the last one, and not stored.
template <int R>
BATON_ALWAYS_INLINE void Tile(const Operands& p, int64_t row, int64_t out) {
  constexpr int C = 16 / R;
  int64_t x_row[R], w_row[C];
  for (int r = 0; r < R; ++r) x_row[r] = std::min(row + r, p.rows - 1);
  for (int c = 0; c < C; ++c) w_row[c] = std::min(out + c, p.outs - 1);
  Floats dots[16] = {};
  const auto add = [&](const float* x, const float* w, int64_t stride)
      __attribute__((always_inline)) {
    Floats xs[R], ws;
    for (int r = 0; r < R; ++r) simd::Load(x + x_row[r] * stride, xs[r]);
    for (int c = 0; c < C; ++c) {
      simd::Load(w + w_row[c] * stride, ws);
      for (int r = 0; r < R; ++r) dots[r * C + c] += xs[r] * ws;
    }
  };
  for (int64_t k = 0; k + kLanes <= p.depth; k += kLanes) add(p.x + k, p.weight + k, p.depth);
  if (p.x_tail != nullptr) add(p.x_tail, p.weight_tail, kLanes);
  Floats sums;
  SumEach(dots, sums);
  float flat[16];
  simd::Store(sums, flat);
  const int64_t rows = std::min<int64_t>(R, p.rows - row),
                outs = std::min<int64_t>(C, p.outs - out);
  for (int64_t r = 0; r < rows; ++r) {
    float* to = p.out + (row + r) * p.outs + out;
    for (int64_t c = 0; c < outs; ++c) to[c] = (p.accumulate ? to[c] : 0.0f) + flat[r * C + c];
  }
}

// Weights outermost: a tile's stay in the nearest cache while all rows pass.
template <int R>
BATON_ALWAYS_INLINE void Tiles(const Operands& p, int64_t first_row, int64_t end_row,
                               int64_t first_out, int64_t end_out) {
  for (int64_t out = first_out; out < end_out; out += 16 / R) {
    for (int64_t row = first_row; row < end_row; row += R) Tile<R>(p, row, out);
  }
}

BATON_ALWAYS_INLINE void ComputeBody(const Operands& p, int64_t first_out, int64_t end_out) {
  // Rows are taken in blocks of so many floats that they stay in the L2 cache while the weights
  // pass.
  constexpr int64_t kBlockFloats = 1 << 16;
  const int64_t block = std::max<int64_t>(32, kBlockFloats / std::max<int64_t>(p.depth, 1) / 4 * 4);
  const int64_t in_fours = p.rows % 4 == 3 ? p.rows : p.rows / 4 * 4;
  for (int64_t row = 0; row < in_fours; row += block) {
    Tiles<4>(p, row, std::min(row + block, in_fours), first_out, end_out);
  }
  if (p.rows - in_fours == 2) Tiles<2>(p, in_fours, p.rows, first_out, end_out);
  if (p.rows - in_fours == 1) Tiles<1>(p, in_fours, p.rows, first_out, end_out);
}
BATON_SIMD(Compute, (const Operands& p, int64_t first_out, int64_t end_out),
           (p, first_out, end_out))

// The last `count` of `depth` elements of each row, filled up to kLanes.
std::vector<float> Tails(const float* matrix, int64_t rows, int64_t depth, int64_t count) {
  std::vector<float> tails(rows * kLanes, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(matrix + (row + 1) * depth - count, count, tails.data() + row * kLanes);
  }
  return tails;
}

}  // namespace

void RowProducts(const float* x, const float* weight, float* out, int64_t rows, int64_t outs,
                 int64_t depth, bool accumulate) {
  if (rows == 0 || outs == 0) return;
  Operands product{x, weight, out, rows, outs, depth, accumulate, nullptr, nullptr};
  std::vector<float> x_tail, weight_tail;
  if (const int64_t count = depth % kLanes; count > 0) {
    x_tail = Tails(x, rows, depth, count);
    weight_tail = Tails(weight, outs, depth, count);
    product.x_tail = x_tail.data();
    product.weight_tail = weight_tail.data();
  }
  constexpr int64_t kOuts = 16;       // of the widest tile: threads share none
  constexpr int64_t kWork = 1 << 15;  // multiplications that are worth a thread
  const int64_t tiles = (outs + kOuts - 1) / kOuts;
  const int64_t grain = std::max<int64_t>(1, kWork / (kOuts * rows * std::max<int64_t>(depth, 1)));
  at::parallel_for(0, tiles, grain, [&](int64_t begin, int64_t end) {
    Compute(product, begin * kOuts, std::min(end * kOuts, outs));
  });
}

}  // namespace baton::engine
