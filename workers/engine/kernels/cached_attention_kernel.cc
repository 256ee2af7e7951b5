#include "workers/engine/kernels/cached_attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "workers/engine/kernels/kv_cache.h"
#include "workers/engine/kernels/vector_math.h"

namespace baton::engine {
namespace {

using simd::Floats;
using simd::kLanes;
static_assert(KvCache::kBlockTokens == kLanes, "a block's scores are one vector");

// The blocks of a row, prompt first. Scattered tokens are the last ones, and count as blocks too.
struct BlockWalk {
  const KernelRow& row;
  int64_t prompt_count;
  int64_t in_place;  // blocks of the cache
  int64_t count;
  int64_t first = 0;                       // the first block with a token in the window
  int64_t hidden = 0;                      // tokens of that block before it
  const float* gathered_keys = nullptr;    // of the blocks behind, laid out as in the cache
  const float* gathered_values = nullptr;  // likewise

  BATON_ALWAYS_INLINE BlockWalk(const KernelLayer& layer, const KernelRow& r)
      : row(r),
        prompt_count((r.prompt_tokens + kLanes - 1) / kLanes),
        in_place(prompt_count + (r.own_in_place + kLanes - 1) / kLanes),
        count(prompt_count + (r.own_tokens + kLanes - 1) / kLanes) {
    const int64_t before = r.prompt_tokens + r.own_tokens - layer.window;
    if (layer.window == 0 || before <= 0) return;
    const bool in_prompt = before < r.prompt_tokens;
    const int64_t token = in_prompt ? before : before - r.prompt_tokens;
    first = token / kLanes + (in_prompt ? 0 : prompt_count);
    hidden = token % kLanes;
  }
  BATON_ALWAYS_INLINE int64_t Block(int64_t i) const {
    return i < prompt_count ? row.prompt_blocks[i] : row.own_blocks[i - prompt_count];
  }
  // The first float of a head's keys, and of its values, in a block.
  BATON_ALWAYS_INLINE const float* Keys(const KernelLayer& layer, int64_t i, int64_t head) const {
    const int64_t floats = kLanes * layer.head_dim;
    return i < in_place ? layer.keys + (Block(i) * layer.num_kv_heads + head) * floats
                        : gathered_keys + ((i - in_place) * layer.num_kv_heads + head) * floats;
  }
  BATON_ALWAYS_INLINE const float* Values(const KernelLayer& layer, int64_t i, int64_t head) const {
    const int64_t floats = kLanes * layer.head_dim;
    return i < in_place ? layer.values + (Block(i) * layer.num_kv_heads + head) * floats
                        : gathered_values + ((i - in_place) * layer.num_kv_heads + head) * floats;
  }
  BATON_ALWAYS_INLINE int64_t Tokens(int64_t i) const {
    const int64_t left = i < prompt_count ? row.prompt_tokens - i * kLanes
                                          : row.own_tokens - (i - prompt_count) * kLanes;
    return std::min<int64_t>(left, kLanes);
  }
  // Tokens at the beginning of a block that are not attended to.
  BATON_ALWAYS_INLINE int64_t Hidden(int64_t i) const { return i == first ? hidden : 0; }
};

// sums = query . keys for the 16 tokens of a block, keys [head_dim, 16].
BATON_ALWAYS_INLINE void Scores(const float* query, const float* keys, int64_t head_dim,
                                Floats& sums) {
  Floats partial[4] = {};  // four chains hide the latency of the additions
  Floats lanes;
  int64_t d = 0;
  for (; d + 4 <= head_dim; d += 4) {
    for (int chain = 0; chain < 4; ++chain) {
      simd::Load(keys + (d + chain) * kLanes, lanes);
      partial[chain] += lanes * query[d + chain];
    }
  }
  for (; d < head_dim; ++d) {
    simd::Load(keys + d * kLanes, lanes);
    partial[0] += lanes * query[d];
  }
  sums = (partial[0] + partial[1]) + (partial[2] + partial[3]);
}

// Turns the scores of all blocks into exp(score - maximum), 0 beyond a block's tokens and before
// the window; returns their sum.
BATON_ALWAYS_INLINE float Normalise(const BlockWalk& walk, float* scores, float& maximum) {
  Floats highest, x;
  simd::Fill(-std::numeric_limits<float>::infinity(), highest);
  simd::Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  for (int64_t i = walk.first; i < walk.count; ++i) {
    simd::Load(scores + i * kLanes, x);
    const simd::Ints valid = (lane < static_cast<int32_t>(walk.Tokens(i))) &
                             (lane >= static_cast<int32_t>(walk.Hidden(i)));
    x = valid ? x : Floats{} - std::numeric_limits<float>::infinity();
    highest = x > highest ? x : highest;
    simd::Store(x, scores + i * kLanes);
  }
  maximum = simd::Max(highest);
  Floats sum{};
  for (int64_t i = walk.first; i < walk.count; ++i) {
    simd::Load(scores + i * kLanes, x);
    x -= maximum;
    simd::Exp(x);
    sum += x;
    simd::Store(x, scores + i * kLanes);
  }
  return static_cast<float>(simd::Sum(sum));
}

typedef float Channels __attribute__((vector_size(32)));  // eight neighbouring channels of a value
constexpr int64_t kChannels = 8;

// Channels [first, first + N * 8) of the weighted sum of values; they stay in registers.
template <int N>
BATON_ALWAYS_INLINE void WeighStrip(const KernelLayer& layer, const BlockWalk& walk,
                                    int64_t kv_head, const float* weights, float inverse,
                                    int64_t first, float* out) {
  Channels sums[N] = {};
  for (int64_t i = walk.first; i < walk.count; ++i) {
    const int64_t hidden = walk.Hidden(i), tokens = walk.Tokens(i);
    const float* values = walk.Values(layer, i, kv_head) + first + hidden * layer.head_dim;
    for (int64_t t = hidden; t < tokens; ++t, values += layer.head_dim) {
      for (int n = 0; n < N; ++n) {
        Channels value;
        std::memcpy(&value, values + n * kChannels, sizeof(value));
        sums[n] += value * weights[i * kLanes + t];
      }
    }
  }
  for (int n = 0; n < N; ++n) sums[n] *= inverse;
  std::memcpy(out + first, sums, sizeof(sums));
}

BATON_ALWAYS_INLINE float WeighChannel(const KernelLayer& layer, const BlockWalk& walk,
                                       int64_t kv_head, const float* weights, int64_t channel) {
  float sum = 0;
  for (int64_t i = walk.first; i < walk.count; ++i) {
    const float* values = walk.Values(layer, i, kv_head) + channel;
    const int64_t tokens = walk.Tokens(i);
    for (int64_t t = walk.Hidden(i); t < tokens; ++t)
      sum += values[t * layer.head_dim] * weights[i * kLanes + t];
  }
  return sum;
}

BATON_ALWAYS_INLINE void Weigh(const KernelLayer& layer, const BlockWalk& walk, int64_t kv_head,
                               const float* weights, float inverse, float* out) {
  int64_t d = 0;
  for (; d + 4 * kChannels <= layer.head_dim; d += 4 * kChannels) {
    WeighStrip<4>(layer, walk, kv_head, weights, inverse, d, out);
  }
  switch ((layer.head_dim - d) / kChannels) {
    case 3:
      WeighStrip<3>(layer, walk, kv_head, weights, inverse, d, out);
      d += 3 * kChannels;
      break;
    case 2:
      WeighStrip<2>(layer, walk, kv_head, weights, inverse, d, out);
      d += 2 * kChannels;
      break;
    case 1:
      WeighStrip<1>(layer, walk, kv_head, weights, inverse, d, out);
      d += kChannels;
      break;
    default:
      break;
  }
  for (; d < layer.head_dim; ++d) {
    out[d] = WeighChannel(layer, walk, kv_head, weights, d) * inverse;
  }
}

// Copies the scattered tokens of a row to its scratch, behind the scores, as blocks.
void GatherScattered(const KernelLayer& layer, BlockWalk& walk) {
  const int64_t head_floats = kLanes * layer.head_dim;
  const int64_t block_floats = layer.num_kv_heads * head_floats;
  float* keys = walk.row.scratch + walk.count * kLanes;
  float* values = keys + (walk.count - walk.in_place) * block_floats;
  walk.gathered_keys = keys;
  walk.gathered_values = values;
  const int64_t count = walk.row.own_tokens - walk.row.own_in_place;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t slot = walk.row.scattered[i];
    for (int64_t head = 0; head < layer.num_kv_heads; ++head) {
      const int64_t source = slot / kLanes * block_floats + head * head_floats;
      const int64_t target = i / kLanes * block_floats + head * head_floats;
      const float* from = layer.keys + source + slot % kLanes;
      float* to = keys + target + i % kLanes;
      for (int64_t d = 0; d < layer.head_dim; ++d) to[d * kLanes] = from[d * kLanes];
      std::copy_n(layer.values + source + slot % kLanes * layer.head_dim, layer.head_dim,
                  values + target + i % kLanes * layer.head_dim);
    }
  }
}

BATON_ALWAYS_INLINE void AttendRowBody(const KernelLayer& layer, const KernelRow& row) {
  BlockWalk walk(layer, row);
  if (walk.in_place < walk.count) GatherScattered(layer, walk);
  const int64_t head_dim = layer.head_dim;
  const int64_t group = layer.num_heads / layer.num_kv_heads;
  float* scores = row.scratch;
  for (int64_t head = 0; head < layer.num_heads; ++head) {
    const int64_t kv_head = head / group;
    const float* query = row.query + head * row.query_stride;
    for (int64_t i = walk.first; i < walk.count; ++i) {
      Floats sums;
      Scores(query, walk.Keys(layer, i, kv_head), head_dim, sums);
      sums *= layer.scale;
      simd::Store(sums, scores + i * kLanes);
    }
    float maximum = 0;
    const float sum = Normalise(walk, scores, maximum);
    if (row.lse != nullptr) row.lse[head] = maximum + std::log(sum);
    Weigh(layer, walk, kv_head, scores, 1.0f / sum, row.out + head * head_dim);
  }
}

}  // namespace

int64_t ScratchFloats(const KernelLayer& layer, const KernelRow& row) {
  const BlockWalk walk(layer, row);
  const int64_t gathered = 2 * (walk.count - walk.in_place) * layer.num_kv_heads * layer.head_dim;
  return kLanes * (walk.count + gathered);
}

void StoreRow(const KernelLayer& layer, const KernelRow& row) {
  const int64_t head_dim = layer.head_dim;
  for (int64_t head = 0; head < layer.num_kv_heads; ++head) {
    const int64_t base = (int64_t{row.block} * layer.num_kv_heads + head) * kLanes * head_dim;
    const float* key = row.key + head * row.key_stride;
    float* keys = layer.keys + base + row.offset;
    for (int64_t d = 0; d < head_dim; ++d) keys[d * kLanes] = key[d];
    std::copy_n(row.value + head * row.value_stride, head_dim,
                layer.values + base + row.offset * head_dim);
  }
}

void PrefetchRow(const KernelLayer& layer, const KernelRow& row) {
  constexpr int64_t kLineFloats = 16;
  constexpr int64_t kMostFloats = 16384;  // a small part of a core's own cache
  const BlockWalk walk(layer, row);
  const int64_t head_floats = kLanes * layer.head_dim;
  const int64_t block_floats = layer.num_kv_heads * head_floats;
  const int64_t count = std::min(walk.in_place, walk.first + 1 + kMostFloats / (2 * block_floats));
  for (int64_t i = walk.first; i < count; ++i) {
    const float* keys = layer.keys + walk.Block(i) * block_floats;
    for (int64_t at = 0; at < block_floats; at += kLineFloats) __builtin_prefetch(keys + at);
    const float* values = layer.values + walk.Block(i) * block_floats;
    const int64_t used = walk.Tokens(i) * layer.head_dim;
    for (int64_t head = 0; head < block_floats; head += head_floats) {
      for (int64_t at = 0; at < used; at += kLineFloats) __builtin_prefetch(values + head + at);
    }
  }
}

BATON_SIMD(AttendRow, (const KernelLayer& layer, const KernelRow& row), (layer, row))

}  // namespace baton::engine
