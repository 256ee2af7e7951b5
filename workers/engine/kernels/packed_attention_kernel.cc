#include "workers/engine/kernels/packed_attention_kernel.h"

#include <algorithm>
#include <cmath>

#include "workers/engine/kernels/vector_math.h"

namespace baton::engine::kernels {
namespace {

using simd::Floats;
using simd::kLanes;

constexpr int kQueries = 8;  // Computed together: each key loaded serves all of them.

BATON_ALWAYS_INLINE int64_t RoundUp(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Rows of one head, [count, width] with zeros beyond `dim` and beyond `real` rows.
BATON_ALWAYS_INLINE void CopyHead(const ConstRows& from, int64_t head, int64_t dim, int64_t real,
                                  int64_t count, int64_t width, float* to) {
  for (int64_t n = 0; n < count; ++n, to += width) {
    const int64_t filled = n < real ? dim : 0;
    const float* row = from.data + n * from.stride + head * dim;
    for (int64_t d = 0; d < filled; ++d) to[d] = row[d];
    for (int64_t d = filled; d < width; ++d) to[d] = 0;
  }
}

/// One head transposed, [dim, padded length], zeros beyond the length.
BATON_ALWAYS_INLINE void TransposeHead(const ConstRows& from, int64_t head, int64_t dim,
                                       int64_t length, int64_t padded, float* to) {
  for (int64_t n = 0; n < padded; ++n) {
    const float* row = from.data + n * from.stride + head * dim;
    for (int64_t d = 0; d < dim; ++d) to[d * padded + n] = n < length ? row[d] : 0.0f;
  }
}

/// out[r, j] = sum over d of rows[r, d] * columns[d, j] for kQueries rows and `blocks` * 16
/// columns.
BATON_ALWAYS_INLINE void Products(const float* rows, int64_t width, const float* columns,
                                  int64_t padded, int64_t dim, int64_t blocks, float* out) {
  for (int64_t b = 0; b < blocks; ++b) {
    Floats sums[kQueries] = {};
    for (int64_t d = 0; d < dim; ++d) {
      Floats lanes;
      simd::Load(columns + d * padded + b * kLanes, lanes);
      for (int r = 0; r < kQueries; ++r) sums[r] += lanes * rows[r * width + d];
    }
    for (int r = 0; r < kQueries; ++r) simd::Store(sums[r], out + r * padded + b * kLanes);
  }
}

/// out[r, c] = sum over j < count of weights[r, j] * rows[j, c].
BATON_ALWAYS_INLINE void WeightedSums(const float* weights, int64_t padded, const float* rows,
                                      int64_t width, int64_t count, float* out) {
  for (int64_t c = 0; c < width; c += kLanes) {
    Floats sums[kQueries] = {};
    for (int64_t j = 0; j < count; ++j) {
      Floats lanes;
      simd::Load(rows + j * width + c, lanes);
      for (int r = 0; r < kQueries; ++r) sums[r] += lanes * weights[r * padded + j];
    }
    for (int r = 0; r < kQueries; ++r) simd::Store(sums[r], out + r * width + c);
  }
}

/// to[j, c] += sum over r of weights[r, j] * rows[r, c] for j < count.
BATON_ALWAYS_INLINE void AddOuter(const float* weights, int64_t padded, const float* rows,
                                  int64_t width, int64_t count, float* to) {
  for (int64_t c = 0; c < width; c += kLanes) {
    Floats lanes[kQueries];
    for (int r = 0; r < kQueries; ++r) simd::Load(rows + r * width + c, lanes[r]);
    for (int64_t j = 0; j < count; ++j) {
      Floats sum;
      simd::Load(to + j * width + c, sum);
      for (int r = 0; r < kQueries; ++r) sum += lanes[r] * weights[r * padded + j];
      simd::Store(sum, to + j * width + c);
    }
  }
}

/// The keys that a query looks at, counted from where its scores begin.
struct KeyRange {
  int64_t begin, end;
};

/// The other places of `blocks` * 16 can never be looked at.
BATON_ALWAYS_INLINE void Mask(float* scores, const KeyRange& keys, int64_t blocks) {
  for (int64_t j = 0; j < keys.begin; ++j) scores[j] = -1e30f;
  for (int64_t j = keys.end; j < blocks * kLanes; ++j) scores[j] = -1e30f;
}

/// scores -> exp(scale * scores - highest), zero where masked. Returns their sum; `lse` is the log
/// of the sum of exp(scale * scores).
BATON_ALWAYS_INLINE float Exponentials(float* scores, const KeyRange& keys, int64_t blocks,
                                       float scale, float& lse) {
  Mask(scores, keys, blocks);
  Floats highest, x, sums = {};
  simd::Load(scores, highest);
  for (int64_t b = 1; b < blocks; ++b) {
    simd::Load(scores + b * kLanes, x);
    highest = x > highest ? x : highest;
  }
  const float top = simd::Max(highest) * scale;
  for (int64_t b = 0; b < blocks; ++b) {
    simd::Load(scores + b * kLanes, x);
    x = x * scale - top;
    simd::Exp(x);
    sums += x;
    simd::Store(x, scores + b * kLanes);
  }
  const float sum = static_cast<float>(simd::Sum(sums));
  lse = top + std::log(sum);
  return sum;
}

/// From scores and d probabilities: the probabilities, and d scores (in place of dprobabilities).
BATON_ALWAYS_INLINE void Gradients(float* scores, float* dprobabilities, const KeyRange& keys,
                                   int64_t blocks, float scale, float lse, float delta) {
  Mask(scores, keys, blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    Floats p, d;
    simd::Load(scores + b * kLanes, p);
    simd::Load(dprobabilities + b * kLanes, d);
    p = p * scale - lse;
    simd::Exp(p);
    simd::Store(p, scores + b * kLanes);
    simd::Store(p * (d - delta) * scale, dprobabilities + b * kLanes);
  }
}

/// The buffers of both passes for one key head, and of kQueries queries.
struct Scratch {
  int64_t padded, width;
  float *keys_t, *values_t;       // [dim, padded]
  float *keys, *values;           // [length, width]
  float *dkeys, *dvalues;         // [length, width]
  float *weights, *dweights;      // [kQueries, padded]
  float *queries, *douts, *sums;  // [kQueries, width]
};

BATON_ALWAYS_INLINE void Divide(const AttentionShape& shape, int64_t length, float* base,
                                Scratch& s) {
  s.padded = RoundUp(length);
  s.width = RoundUp(shape.dim);
  const auto take = [&](float*& part, int64_t floats) __attribute__((always_inline)) {
    part = base;
    base += floats;
  };
  take(s.keys_t, shape.dim * s.padded);
  take(s.values_t, shape.dim * s.padded);
  take(s.keys, length * s.width);
  take(s.values, length * s.width);
  take(s.dkeys, length * s.width);
  take(s.dvalues, length * s.width);
  take(s.weights, kQueries * s.padded);
  take(s.dweights, kQueries * s.padded);
  take(s.queries, kQueries * s.width);
  take(s.douts, kQueries * s.width);
  take(s.sums, kQueries * s.width);
}

BATON_ALWAYS_INLINE ConstRows Skip(const ConstRows& rows, int64_t tokens) {
  return {rows.data + tokens * rows.stride, rows.stride};
}

/// The first key that query `i` looks at.
BATON_ALWAYS_INLINE int64_t FirstKey(const AttentionShape& shape, int64_t i) {
  return shape.window > 0 ? std::max<int64_t>(0, i + 1 - shape.window) : 0;
}

/// Keys before it are looked at neither by query `i` nor by later ones: a multiple of 16.
BATON_ALWAYS_INLINE int64_t SkippedKeys(const AttentionShape& shape, int64_t i) {
  return FirstKey(shape, i) / kLanes * kLanes;
}

/// Queries [begin, begin + count) of one head, forward.
BATON_ALWAYS_INLINE void ForwardQueries(const AttentionShape& shape, const AttentionForward& pass,
                                        const Scratch& s, int64_t head, int64_t begin,
                                        int64_t count) {
  const int64_t skipped = SkippedKeys(shape, begin), keys = begin + count - skipped;
  const int64_t blocks = (keys + kLanes - 1) / kLanes;
  CopyHead(Skip(pass.q, begin), head, shape.dim, count, kQueries, s.width, s.queries);
  Products(s.queries, s.width, s.keys_t + skipped, s.padded, shape.dim, blocks, s.weights);
  float sum[kQueries];
  for (int64_t r = 0; r < count; ++r) {
    const KeyRange range = {FirstKey(shape, begin + r) - skipped, begin + r + 1 - skipped};
    sum[r] = Exponentials(s.weights + r * s.padded, range, blocks, shape.scale,
                          pass.lse[(begin + r) * shape.heads + head]);
  }
  WeightedSums(s.weights, s.padded, s.values + skipped * s.width, s.width, keys, s.sums);
  for (int64_t r = 0; r < count; ++r) {
    float* out = pass.out.data + (begin + r) * pass.out.stride + head * shape.dim;
    for (int64_t d = 0; d < shape.dim; ++d) out[d] = s.sums[r * s.width + d] / sum[r];
  }
}

BATON_ALWAYS_INLINE void BackwardQueries(const AttentionShape& shape, const AttentionBackward& pass,
                                         const Scratch& s, int64_t head, int64_t begin,
                                         int64_t count) {
  const int64_t skipped = SkippedKeys(shape, begin), keys = begin + count - skipped;
  const int64_t blocks = (keys + kLanes - 1) / kLanes;
  CopyHead(Skip(pass.q, begin), head, shape.dim, count, kQueries, s.width, s.queries);
  CopyHead(Skip(pass.dout, begin), head, shape.dim, count, kQueries, s.width, s.douts);
  Products(s.queries, s.width, s.keys_t + skipped, s.padded, shape.dim, blocks, s.weights);
  Products(s.douts, s.width, s.values_t + skipped, s.padded, shape.dim, blocks, s.dweights);
  for (int64_t r = 0; r < kQueries; ++r) {
    float delta = 0, lse = 0;
    KeyRange range = {0, 0};
    if (r < count) {
      range = {FirstKey(shape, begin + r) - skipped, begin + r + 1 - skipped};
      const float* out = pass.out.data + (begin + r) * pass.out.stride + head * shape.dim;
      for (int64_t d = 0; d < shape.dim; ++d) delta += out[d] * s.douts[r * s.width + d];
      lse = pass.lse[(begin + r) * shape.heads + head];
    }
    // A row beyond the count looks at no key, so all its weights become zero.
    Gradients(s.weights + r * s.padded, s.dweights + r * s.padded, range, blocks, shape.scale, lse,
              delta);
  }
  WeightedSums(s.dweights, s.padded, s.keys + skipped * s.width, s.width, keys, s.sums);
  for (int64_t r = 0; r < count; ++r) {
    float* dq = pass.dq.data + (begin + r) * pass.dq.stride + head * shape.dim;
    for (int64_t d = 0; d < shape.dim; ++d) dq[d] = s.sums[r * s.width + d];
  }
  AddOuter(s.dweights, s.padded, s.queries, s.width, keys, s.dkeys + skipped * s.width);
  AddOuter(s.weights, s.padded, s.douts, s.width, keys, s.dvalues + skipped * s.width);
}

BATON_ALWAYS_INLINE void ForwardBody(const AttentionShape& shape, const AttentionForward& pass,
                                     float* base) {
  Scratch s;
  Divide(shape, pass.length, base, s);
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    TransposeHead(pass.k, kv, shape.dim, pass.length, s.padded, s.keys_t);
    CopyHead(pass.v, kv, shape.dim, pass.length, pass.length, s.width, s.values);
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      for (int64_t i = 0; i < pass.length; i += kQueries) {
        ForwardQueries(shape, pass, s, head, i, std::min<int64_t>(kQueries, pass.length - i));
      }
    }
  }
}

BATON_ALWAYS_INLINE void BackwardBody(const AttentionShape& shape, const AttentionBackward& pass,
                                      float* base) {
  Scratch s;
  Divide(shape, pass.length, base, s);
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    TransposeHead(pass.k, kv, shape.dim, pass.length, s.padded, s.keys_t);
    TransposeHead(pass.v, kv, shape.dim, pass.length, s.padded, s.values_t);
    CopyHead(pass.k, kv, shape.dim, pass.length, pass.length, s.width, s.keys);
    std::fill(s.dkeys, s.dkeys + pass.length * s.width, 0.0f);
    std::fill(s.dvalues, s.dvalues + pass.length * s.width, 0.0f);
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      for (int64_t i = 0; i < pass.length; i += kQueries) {
        BackwardQueries(shape, pass, s, head, i, std::min<int64_t>(kQueries, pass.length - i));
      }
    }
    for (int64_t n = 0; n < pass.length; ++n) {
      for (int64_t d = 0; d < shape.dim; ++d) {
        pass.dk.data[n * pass.dk.stride + kv * shape.dim + d] = s.dkeys[n * s.width + d];
        pass.dv.data[n * pass.dv.stride + kv * shape.dim + d] = s.dvalues[n * s.width + d];
      }
    }
  }
}

// clang-format off
BATON_SIMD(Forward, (const AttentionShape& shape, const AttentionForward& pass, float* scratch),
           (shape, pass, scratch))
BATON_SIMD(Backward, (const AttentionShape& shape, const AttentionBackward& pass, float* scratch),
           (shape, pass, scratch))
// clang-format on

}  // namespace

int64_t AttentionScratchFloats(const AttentionShape& shape, int64_t length) {
  const int64_t padded = RoundUp(length), width = RoundUp(shape.dim);
  return 2 * (shape.dim + kQueries) * padded + (4 * length + 3 * kQueries) * width;
}

void AttendSequence(const AttentionShape& shape, const AttentionForward& pass, float* scratch) {
  Forward(shape, pass, scratch);
}

void AttendSequenceBackward(const AttentionShape& shape, const AttentionBackward& pass,
                            float* scratch) {
  Backward(shape, pass, scratch);
}

}  // namespace baton::engine::kernels
