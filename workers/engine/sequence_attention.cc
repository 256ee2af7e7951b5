#include "workers/engine/sequence_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "workers/engine/packed_attention_kernel.h"

namespace baton::engine {
namespace {

using kernels::AttentionShape;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

AttentionShape ShapeOf(const Tensor& q, const Tensor& k) {
  return {q.size(1), k.size(1), q.size(2),
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.size(2))))};
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

/// Calls f(first row, length, scratch) for every sequence.
template <typename F>
void ForSequences(const std::vector<int64_t>& lengths, const AttentionShape& shape, const F& f) {
  std::vector<int64_t> first_rows(lengths.size());
  int64_t row = 0, longest = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    first_rows[i] = row;
    row += lengths[i];
    longest = std::max(longest, lengths[i]);
  }
  const int64_t count = static_cast<int64_t>(lengths.size());
  at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(
        static_cast<size_t>(kernels::AttentionScratchFloats(shape, longest)));
    for (int64_t i = begin; i < end; ++i) {
      f(first_rows[static_cast<size_t>(i)], lengths[static_cast<size_t>(i)], scratch.data());
    }
  });
}

struct Attended {
  Tensor out;  // [N, heads, dim]
  Tensor lse;  // [N, heads]
};

Attended Forward(const std::vector<int64_t>& lengths, const Tensor& q, const Tensor& k,
                 const Tensor& v) {
  const AttentionShape shape = ShapeOf(q, k);
  Attended result{torch::empty({q.size(0), q.size(1), q.size(2)}, q.options()),
                  torch::empty({q.size(0), q.size(1)}, q.options())};
  ForSequences(lengths, shape, [&](int64_t row, int64_t length, float* scratch) {
    kernels::AttendSequence(
        shape,
        {length, RowsFrom(q, row), RowsFrom(k, row), RowsFrom(v, row),
         MutableRowsFrom(result.out, row), result.lse.data_ptr<float>() + row * shape.heads},
        scratch);
  });
  return result;
}

struct SequenceAttentionFunction : torch::autograd::Function<SequenceAttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::vector<int64_t>& lengths) {
    const Attended result = Forward(lengths, q, k, v);
    ctx->save_for_backward({q, k, v, result.out, result.lse});
    ctx->saved_data["lengths"] = lengths;
    return result.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const Tensor dout = WithAdjacentHeads(grads[0]);
    const AttentionShape shape = ShapeOf(q, k);
    Tensor dq = torch::empty(q.sizes(), q.options());
    Tensor dk = torch::empty(k.sizes(), k.options());
    Tensor dv = torch::empty(v.sizes(), v.options());
    ForSequences(
        ctx->saved_data["lengths"].toIntVector(), shape,
        [&](int64_t row, int64_t length, float* scratch) {
          kernels::AttendSequenceBackward(
              shape,
              {length, RowsFrom(q, row), RowsFrom(k, row), RowsFrom(v, row), RowsFrom(out, row),
               RowsFrom(dout, row), lse.data_ptr<float>() + row * shape.heads,
               MutableRowsFrom(dq, row), MutableRowsFrom(dk, row), MutableRowsFrom(dv, row)},
              scratch);
        });
    return {dq, dk, dv, Variable()};
  }
};

}  // namespace

bool HasSequenceKernel(const Tensor& q) {
  return q.device().is_cpu() && q.scalar_type() == torch::kFloat32;
}

Tensor SequenceAttention(const std::vector<int64_t>& lengths, const Tensor& q, const Tensor& k,
                         const Tensor& v) {
  TORCH_CHECK(HasSequenceKernel(q) && HasSequenceKernel(k) && HasSequenceKernel(v) &&
                  k.size(2) == q.size(2) && v.sizes() == k.sizes(),
              "SequenceAttention: q ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
              " do not fit or are not float32 on a CPU");
  const Tensor rows_q = WithAdjacentHeads(q), rows_k = WithAdjacentHeads(k),
               rows_v = WithAdjacentHeads(v);
  if (!torch::GradMode::is_enabled()) return Forward(lengths, rows_q, rows_k, rows_v).out;
  return SequenceAttentionFunction::apply(rows_q, rows_k, rows_v, lengths);
}

}  // namespace baton::engine
