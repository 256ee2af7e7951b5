#include <algorithm>
#include <cmath>
#include <utility>

#include "workers/engine/kernels/kernel_dispatch.h"
#include "workers/engine/kernels/row_kernels.h"
#include "workers/engine/model/layers.h"

namespace baton::engine {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct Shape {
  int64_t q, kv, dim, rotary;  // heads of q, heads of k and of v, channels of a head, and rotated
  int64_t width() const { return (q + 2 * kv) * dim; }
};

/// Rotates q and k of every row of `from` into `to`, and copies v. Strides are rows' widths.
struct SplitFunction : torch::autograd::Function<SplitFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& table,
                               const Tensor& positions, Shape shape) {
    const int64_t rows = qkv.size(0);
    Tensor q = torch::empty({rows, shape.q, shape.dim}, qkv.options());
    Tensor k = torch::empty({rows, shape.kv, shape.dim}, qkv.options());
    Tensor v = torch::empty({rows, shape.kv, shape.dim}, qkv.options());
    ForType(qkv, [&](auto zero) {
      using T = decltype(zero);
      const T* from = qkv.data_ptr<T>();
      const T* t = table.data_ptr<T>();
      const int64_t* p = positions.data_ptr<int64_t>();
      const int64_t w = shape.width(), wq = shape.q * shape.dim, wk = shape.kv * shape.dim;
      kernels::Rotate(from, q.data_ptr<T>(), t, p, {rows, shape.q, shape.dim, shape.rotary, w, wq},
                      false);
      kernels::Rotate(from + wq, k.data_ptr<T>(), t, p,
                      {rows, shape.kv, shape.dim, shape.rotary, w, wk}, false);
      T* to = v.data_ptr<T>();
      for (int64_t n = 0; n < rows; ++n) {
        std::copy_n(from + n * w + wq + wk, wk, to + n * wk);
      }
    });
    ctx->save_for_backward({table, positions});
    ctx->saved_data["shape"] = std::vector<int64_t>{shape.q, shape.kv, shape.dim, shape.rotary};
    return {q, k, v};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> dims = ctx->saved_data["shape"].toIntVector();
    const Shape shape{dims[0], dims[1], dims[2], dims[3]};
    const Tensor &table = saved[0], &positions = saved[1];
    const int64_t rows = positions.size(0);
    Tensor out = torch::empty({rows, shape.width()}, table.options());
    for (int i = 0; i < 3; ++i) {
      const int64_t heads = i == 0 ? shape.q : shape.kv;
      grads[i] = grads[i].defined() ? grads[i].contiguous()
                                    : torch::zeros({rows, heads, shape.dim}, table.options());
    }
    ForType(out, [&](auto zero) {
      using T = decltype(zero);
      T* to = out.data_ptr<T>();
      const T* t = table.data_ptr<T>();
      const int64_t* p = positions.data_ptr<int64_t>();
      const int64_t w = shape.width(), wq = shape.q * shape.dim, wk = shape.kv * shape.dim;
      kernels::Rotate(grads[0].data_ptr<T>(), to, t, p,
                      {rows, shape.q, shape.dim, shape.rotary, wq, w}, true);
      kernels::Rotate(grads[1].data_ptr<T>(), to + wq, t, p,
                      {rows, shape.kv, shape.dim, shape.rotary, wk, w}, true);
      const T* dv = grads[2].data_ptr<T>();
      for (int64_t n = 0; n < rows; ++n) {
        std::copy_n(dv + n * wk, wk, to + n * w + wq + wk);
      }
    });
    return {out, Variable(), Variable(), Variable()};
  }
};

/// As above, with libtorch's operators, for any device and dtype.
AttentionHeads ApplyWithOperators(const Tensor& qkv, const Tensor& table, const Tensor& positions,
                                  Shape shape) {
  const Tensor rows = table.index_select(0, positions).unsqueeze(1);
  const int64_t half = shape.rotary / 2;
  const Tensor cos = rows.slice(-1, 0, half), sin = rows.slice(-1, half);
  const auto rotate = [&](const Tensor& x) {
    const Tensor a = x.slice(-1, 0, half), b = x.slice(-1, half, 2 * half);
    return torch::cat({a * cos - b * sin, b * cos + a * sin, x.slice(-1, 2 * half)}, -1);
  };
  const Tensor heads = qkv.view({qkv.size(0), shape.q + 2 * shape.kv, shape.dim});
  return {rotate(heads.narrow(1, 0, shape.q)), rotate(heads.narrow(1, shape.q, shape.kv)),
          heads.narrow(1, shape.q + shape.kv, shape.kv)};
}

AttentionHeads ApplyInPlace(const Tensor& qkv, const Tensor& table, const Tensor& positions,
                            Shape shape) {
  const int64_t rows = qkv.size(0), w = shape.width();
  ForType(qkv, [&](auto zero) {
    using T = decltype(zero);
    // q's and k's heads stand side by side: one call rotates both.
    kernels::Rotate(qkv.data_ptr<T>(), qkv.data_ptr<T>(), table.data_ptr<T>(),
                    positions.data_ptr<int64_t>(),
                    {rows, shape.q + shape.kv, shape.dim, shape.rotary, w, w}, false);
  });
  const Tensor heads = qkv.view({rows, shape.q + 2 * shape.kv, shape.dim});
  return {heads.narrow(1, 0, shape.q), heads.narrow(1, shape.q, shape.kv),
          heads.narrow(1, shape.q + shape.kv, shape.kv)};
}

}  // namespace

Rotary::Rotary(const ModelConfig& config)
    : num_heads_(config.num_attention_heads),
      num_kv_heads_(config.num_key_value_heads),
      head_dim_(config.head_dim),
      rotary_dim_(config.rotary_dim()),
      max_positions_(config.max_position_embeddings),
      amplitude_(config.rope.scaling.type == RopeScaling::Type::kLongRope
                     ? config.rope.scaling.attention_factor
                     : 1.0),
      inverse_frequencies_(InverseFrequencies(config)) {}

std::vector<float> Rotary::InverseFrequencies(const ModelConfig& config) {
  constexpr double kPi = 3.14159265358979323846;
  const RopeScaling& scaling = config.rope.scaling;
  const int64_t dim = config.rotary_dim();
  std::vector<float> out;
  for (int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    const auto wavelength = static_cast<float>(std::pow(config.rope.theta, exponent));
    float frequency = 1.0f / wavelength;
    if (scaling.type == RopeScaling::Type::kLongRope) {
      const double factor = scaling.short_factor[static_cast<size_t>(i / 2)];
      frequency = 1.0f / (static_cast<float>(factor) * wavelength);
    } else if (scaling.type == RopeScaling::Type::kLinear) {
      frequency /= static_cast<float>(scaling.factor);
    } else if (scaling.type == RopeScaling::Type::kLlama3) {
      // Waves shorter than `high` turn often enough to stay; those longer than `low` are slowed by
      // the factor; between them a blend (transformers' modeling_rope_utils).
      const double length = static_cast<double>(scaling.original_max_position_embeddings);
      const double wave = 2 * kPi / frequency;
      const double slow = frequency / scaling.factor;
      if (wave > length / scaling.low_freq_factor) {
        frequency = static_cast<float>(slow);
      } else if (wave >= length / scaling.high_freq_factor) {
        const double smooth = (length / wave - scaling.low_freq_factor) /
                              (scaling.high_freq_factor - scaling.low_freq_factor);
        frequency = static_cast<float>((1 - smooth) * slow + smooth * frequency);
      }
    }
    out.push_back(frequency);
  }
  return out;
}

const Tensor& Rotary::Table(const Tensor& positions, const Tensor& like) {
  // On a GPU reading the largest position back would wait for it: the table is whole at once.
  int64_t needed = max_positions_;
  if (positions.device().is_cpu()) {
    needed = 1;
    const int64_t* p = positions.data_ptr<int64_t>();
    for (int64_t i = 0; i < positions.numel(); ++i) {
      TORCH_CHECK(p[i] >= 0, "negative position ", p[i]);
      needed = std::max(needed, p[i] + 1);
    }
  }
  if (table_.defined() && table_.size(0) >= needed && table_.scalar_type() == like.scalar_type() &&
      table_.device() == like.device()) {
    return table_;
  }
  const c10::InferenceMode off(false);  // Made while generating, the table serves training too.
  int64_t size = 256;
  while (size < needed) size *= 2;
  Tensor table = torch::empty({size, rotary_dim_}, torch::kFloat64);
  double* row = table.data_ptr<double>();
  const int64_t half = rotary_dim_ / 2;
  for (int64_t position = 0; position < size; ++position, row += rotary_dim_) {
    for (int64_t i = 0; i < half; ++i) {
      // The angle is rounded to float32, as transformers rounds it.
      const float angle = static_cast<float>(position) * inverse_frequencies_[i];
      row[i] = amplitude_ * std::cos(static_cast<double>(angle));
      row[half + i] = amplitude_ * std::sin(static_cast<double>(angle));
    }
  }
  table_ = table.to(like.device(), like.scalar_type());
  return table_;
}

AttentionHeads Rotary::Apply(const Tensor& qkv, const Tensor& positions) {
  const Shape shape{num_heads_, num_kv_heads_, head_dim_, rotary_dim_};
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(1) == shape.width() && positions.dim() == 1 &&
                  positions.size(0) == qkv.size(0) && positions.scalar_type() == torch::kInt64,
              "Rotary: qkv ", qkv.sizes(), " and positions ", positions.sizes(), " do not fit");
  const Tensor& table = Table(positions, qkv);
  if (!HasKernel(qkv)) return ApplyWithOperators(qkv, table, positions, shape);
  if (!torch::GradMode::is_enabled() || !qkv.requires_grad()) {
    return ApplyInPlace(qkv.contiguous(), table, positions.contiguous(), shape);
  }
  variable_list heads =
      SplitFunction::apply(qkv.contiguous(), table, positions.contiguous(), shape);
  return {heads[0], heads[1], heads[2]};
}

}  // namespace baton::engine
