#include "workers/engine/model/sequence_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workers/engine/kernels/cached_attention_kernel.h"
#include "workers/engine/kernels/kv_cache.h"
#include "workers/engine/kernels/packed_attention_kernel.h"

namespace baton::engine {
namespace {

using kernels::AttentionShape;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

AttentionShape ShapeOf(const Tensor& q, const Tensor& k, int64_t window) {
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.size(2))));
  return {q.size(1), k.size(1), q.size(2), scale, window};
}

/// Heads side by side in each row; rows may be apart.
Tensor WithAdjacentHeads(const Tensor& x) {
  const bool adjacent = x.stride(2) == 1 && (x.stride(1) == x.size(2) || x.size(1) == 1);
  return adjacent ? x : x.contiguous();
}

kernels::ConstRows RowsFrom(const Tensor& x, int64_t row) {
  return {x.data_ptr<float>() + row * x.stride(0), x.stride(0)};
}
kernels::Rows MutableRowsFrom(Tensor& x, int64_t row) {
  return {x.data_ptr<float>() + row * x.stride(0), x.stride(0)};
}

/// Calls f(sequence, first row, scratch) for every sequence, with `floats`(longest length) of
/// scratch.
template <typename Floats, typename F>
void ForSequences(const std::vector<int64_t>& lengths, const Floats& floats, const F& f) {
  std::vector<int64_t> first_rows(lengths.size());
  int64_t row = 0, longest = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    first_rows[i] = row;
    row += lengths[i];
    longest = std::max(longest, lengths[i]);
  }
  const int64_t count = static_cast<int64_t>(lengths.size());
  at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(static_cast<size_t>(floats(longest)));
    for (int64_t i = begin; i < end; ++i) {
      f(static_cast<size_t>(i), first_rows[static_cast<size_t>(i)], scratch.data());
    }
  });
}

struct Attended {
  Tensor out;  // [N, heads, dim]
  Tensor lse;  // [N, heads]
};

/// Most blocks of a sequence of this length: the last block of its prompt may not be full.
int64_t MostBlocks(int64_t length) { return KvCache::BlocksFor(length) + 1; }

/// Attends row by row with the kernel of cached attention. `scratch` has the blocks: first those of
/// the prompt, then those of the tokens after it.
void AttendAsCached(const AttentionShape& shape, const kernels::AttentionForward& pass,
                    int64_t prompt_length, float* scratch) {
  const int64_t prompt = std::min(prompt_length, pass.length);
  std::vector<int32_t> blocks(static_cast<size_t>(MostBlocks(pass.length)));
  std::iota(blocks.begin(), blocks.end(), 0);
  const int64_t floats = MostBlocks(pass.length) * KvCache::kBlockTokens * shape.kv_heads *
                         shape.dim;  // of all keys, and of all values
  const KernelLayer layer{shape.heads,  shape.kv_heads, shape.dim,       shape.scale,
                          shape.window, scratch,        scratch + floats};
  KernelRow row;
  row.prompt_blocks = blocks.data();
  row.own_blocks = blocks.data() + KvCache::BlocksFor(prompt);
  row.query_stride = row.key_stride = row.value_stride = shape.dim;
  row.scratch = scratch + 2 * floats;
  for (int64_t i = 0; i < pass.length; ++i) {
    row.prompt_tokens = std::min(i + 1, prompt);
    row.own_tokens = row.own_in_place = i + 1 - row.prompt_tokens;
    const int64_t place = i < prompt ? i : i - prompt;
    row.block = (i < prompt ? row.prompt_blocks : row.own_blocks)[place / KvCache::kBlockTokens];
    row.offset = place % KvCache::kBlockTokens;
    row.query = pass.q.data + i * pass.q.stride;
    row.key = pass.k.data + i * pass.k.stride;
    row.value = pass.v.data + i * pass.v.stride;
    row.out = pass.out.data + i * pass.out.stride;
    row.lse = pass.lse + i * shape.heads;
    StoreRow(layer, row);
    AttendRow(layer, row);
  }
}

/// Scratch of AttendAsCached: keys, values, and the scores of a row.
int64_t CachedScratchFloats(const AttentionShape& shape, int64_t length) {
  return MostBlocks(length) * KvCache::kBlockTokens * (2 * shape.kv_heads * shape.dim + 1);
}

Attended Forward(const std::vector<int64_t>& lengths, const std::vector<int64_t>& prompt_lengths,
                 int64_t window, const Tensor& q, const Tensor& k, const Tensor& v) {
  const AttentionShape shape = ShapeOf(q, k, window);
  Attended result{torch::empty({q.size(0), q.size(1), q.size(2)}, q.options()),
                  torch::empty({q.size(0), q.size(1)}, q.options())};
  const bool as_cached = !prompt_lengths.empty();
  const auto floats = [&](int64_t longest) {
    return as_cached ? CachedScratchFloats(shape, longest)
                     : kernels::AttentionScratchFloats(shape, longest);
  };
  ForSequences(lengths, floats, [&](size_t i, int64_t row, float* scratch) {
    const kernels::AttentionForward pass = {lengths[i],
                                            RowsFrom(q, row),
                                            RowsFrom(k, row),
                                            RowsFrom(v, row),
                                            MutableRowsFrom(result.out, row),
                                            result.lse.data_ptr<float>() + row * shape.heads};
    if (as_cached) {
      AttendAsCached(shape, pass, prompt_lengths[i], scratch);
    } else {
      kernels::AttendSequence(shape, pass, scratch);
    }
  });
  return result;
}

struct SequenceAttentionFunction : torch::autograd::Function<SequenceAttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::vector<int64_t>& lengths,
                        const std::vector<int64_t>& prompt_lengths, int64_t window) {
    const Attended result = Forward(lengths, prompt_lengths, window, q, k, v);
    ctx->save_for_backward({q, k, v, result.out, result.lse});
    ctx->saved_data["lengths"] = lengths;
    ctx->saved_data["window"] = window;
    return result.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const Tensor dout = WithAdjacentHeads(grads[0]);
    const int64_t window = ctx->saved_data["window"].toInt();
    const AttentionShape shape = ShapeOf(q, k, window);
    Tensor dq = torch::empty(q.sizes(), q.options());
    Tensor dk = torch::empty(k.sizes(), k.options());
    Tensor dv = torch::empty(v.sizes(), v.options());
    const std::vector<int64_t> lengths = ctx->saved_data["lengths"].toIntVector();
    const auto floats = [&](int64_t longest) {
      return kernels::AttentionScratchFloats(shape, longest);
    };
    ForSequences(lengths, floats, [&](size_t i, int64_t row, float* scratch) {
      kernels::AttendSequenceBackward(
          shape,
          {lengths[i], RowsFrom(q, row), RowsFrom(k, row), RowsFrom(v, row), RowsFrom(out, row),
           RowsFrom(dout, row), lse.data_ptr<float>() + row * shape.heads, MutableRowsFrom(dq, row),
           MutableRowsFrom(dk, row), MutableRowsFrom(dv, row)},
          scratch);
    });
    return {dq, dk, dv, Variable(), Variable(), Variable()};
  }
};

}  // namespace

bool HasSequenceKernel(const Tensor& q) {
  return q.device().is_cpu() && q.scalar_type() == torch::kFloat32;
}

Tensor SequenceAttention(const std::vector<int64_t>& lengths, int64_t window, const Tensor& q,
                         const Tensor& k, const Tensor& v,
                         const std::vector<int64_t>& prompt_lengths) {
  TORCH_CHECK(prompt_lengths.empty() || prompt_lengths.size() == lengths.size(),
              "SequenceAttention: ", prompt_lengths.size(), " prompts of ", lengths.size(),
              " sequences");
  TORCH_CHECK(HasSequenceKernel(q) && HasSequenceKernel(k) && HasSequenceKernel(v) &&
                  k.size(2) == q.size(2) && v.sizes() == k.sizes(),
              "SequenceAttention: q ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
              " do not fit or are not float32 on a CPU");
  const Tensor rows_q = WithAdjacentHeads(q), rows_k = WithAdjacentHeads(k),
               rows_v = WithAdjacentHeads(v);
  if (!torch::GradMode::is_enabled()) {
    return Forward(lengths, prompt_lengths, window, rows_q, rows_k, rows_v).out;
  }
  return SequenceAttentionFunction::apply(rows_q, rows_k, rows_v, lengths, prompt_lengths, window);
}

}  // namespace baton::engine
