#include "workers/engine/model/layers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "workers/engine/kernels/kernel_dispatch.h"
#include "workers/engine/kernels/row_kernels.h"
#include "workers/engine/kernels/row_products.h"
#include "workers/engine/model/tensor_parallel.h"

namespace baton::engine {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

bool NeedsGrad(const Tensor& a, const Tensor& b = {}) {
  return torch::GradMode::is_enabled() && (a.requires_grad() || (b.defined() && b.requires_grad()));
}

// --- RMSNorm -------------------------------------------------------------------------------------

std::pair<Tensor, Tensor> RmsNormForward(const Tensor& x, const Tensor& weight, double eps) {
  Tensor y = torch::empty_like(x);
  Tensor scale = torch::empty({x.size(0)}, x.options());
  ForType(x, [&](auto zero) {
    using T = decltype(zero);
    kernels::RmsNorm(x.data_ptr<T>(), weight.data_ptr<T>(), y.data_ptr<T>(), scale.data_ptr<T>(),
                     x.size(0), x.size(1), eps);
  });
  return {y, scale};
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    auto [y, scale] = RmsNormForward(x, weight, eps);
    ctx->save_for_backward({x, weight, scale});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const Tensor dy = grads[0].contiguous();
    Tensor dx = torch::empty_like(x);
    Tensor dweight = torch::zeros_like(weight);
    ForType(x, [&](auto zero) {
      using T = decltype(zero);
      kernels::RmsNormBackward(dy.data_ptr<T>(), x.data_ptr<T>(), weight.data_ptr<T>(),
                               scale.data_ptr<T>(), dx.data_ptr<T>(), dweight.data_ptr<T>(),
                               x.size(0), x.size(1));
    });
    return {dx, dweight, Variable()};
  }
};

// --- gated linear units --------------------------------------------------------------------------

using Activation = ModelConfig::Activation;

kernels::Gate GateByName(Activation activation) {
  return activation == Activation::kSilu ? kernels::Gate::kSilu : kernels::Gate::kGeluTanh;
}

Tensor GatedUnitForward(const Tensor& gate_up, Activation activation) {
  Tensor y = torch::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
  ForType(gate_up, [&](auto zero) {
    using T = decltype(zero);
    kernels::GatedUnit(gate_up.data_ptr<T>(), y.data_ptr<T>(), y.size(0), y.size(1),
                       GateByName(activation));
  });
  return y;
}

struct GatedUnitFunction : torch::autograd::Function<GatedUnitFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up, Activation activation) {
    ctx->save_for_backward({gate_up});
    ctx->saved_data["activation"] = static_cast<int64_t>(activation);
    return GatedUnitForward(gate_up, activation);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor gate_up = ctx->get_saved_variables()[0];
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const Tensor dy = grads[0].contiguous();
    Tensor out = torch::empty_like(gate_up);
    ForType(gate_up, [&](auto zero) {
      using T = decltype(zero);
      kernels::GatedUnitBackward(dy.data_ptr<T>(), gate_up.data_ptr<T>(), out.data_ptr<T>(),
                                 dy.size(0), dy.size(1), GateByName(activation));
    });
    return {out, Variable()};
  }
};

// --- Linear --------------------------------------------------------------------------------------

/// y = x weight^T + bias, where the gradients of weight and bias go in slices to the leaves behind
/// them. Arguments: x, weight, bias (or none), kind, then leaves: weights, biases.
struct FusedLinearFunction : torch::autograd::Function<FusedLinearFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& bias, ProductKind kind,
                        at::TensorList leaves) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["has_bias"] = bias.has_value();
    std::vector<int64_t> outs;
    const size_t count = bias.has_value() ? leaves.size() / 2 : leaves.size();
    for (size_t i = 0; i < count; ++i) outs.push_back(leaves[i].size(0));
    ctx->saved_data["outs"] = outs;
    if (kind == ProductKind::kByRow) {
      const Tensor y = PlainProduct(x, weight);
      return bias.has_value() ? y.add_(*bias) : y;
    }
    return bias.has_value() ? torch::addmm(*bias, x, weight.t()) : torch::mm(x, weight.t());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = grads[0];
    const std::vector<int64_t> outs = ctx->saved_data["outs"].toIntVector();
    variable_list out = {torch::mm(dy, weight), Variable(), Variable(), Variable()};
    for (const Tensor& part : torch::mm(dy.t(), x).split_with_sizes(outs)) out.push_back(part);
    if (ctx->saved_data["has_bias"].toBool()) {
      for (const Tensor& part : dy.sum(0).split_with_sizes(outs)) out.push_back(part);
    }
    return out;
  }
};

}  // namespace

Tensor RmsNorm(const Tensor& x, const Tensor& weight, double eps, ModelConfig::NormFactor factor) {
  using Factor = ModelConfig::NormFactor;
  if (!HasKernel(x)) {
    const Tensor wide = x.to(torch::kFloat32);
    const Tensor normed =
        HasWideKernel(x) && !NeedsGrad(x, weight)
            ? RmsNormForward(wide.contiguous(), torch::ones({x.size(-1)}, wide.options()), eps)
                  .first
            : wide * torch::rsqrt(wide.pow(2).mean(-1, true) + eps);
    if (factor == Factor::kWeight) return normed.to(x.scalar_type()) * weight;
    const Tensor wide_weight = weight.to(torch::kFloat32);
    const Tensor factors = factor == Factor::kOnePlus ? wide_weight + 1 : wide_weight;
    return (normed * factors).to(x.scalar_type());
  }
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && weight.size(0) == x.size(1) &&
                  weight.scalar_type() == x.scalar_type(),
              "RmsNorm: x ", x.sizes(), " and weight ", weight.sizes(), " do not fit");
  const Tensor factors = factor == Factor::kOnePlus ? weight + 1 : weight;
  if (!NeedsGrad(x, factors)) return RmsNormForward(x.contiguous(), factors, eps).first;
  return RmsNormFunction::apply(x.contiguous(), factors, eps);
}

Tensor NormalizeHeads(const Tensor& qkv, const Tensor& q_norm, const Tensor& k_norm,
                      const ModelConfig& config) {
  const int64_t rows = qkv.size(0), dim = config.head_dim;
  const bool together = config.head_norms() == ModelConfig::HeadNorms::kAllHeads;
  const auto normalized = [&](int64_t begin, int64_t heads, const Tensor& weight) {
    const int64_t width = together ? heads * dim : dim;
    const Tensor part = qkv.narrow(1, begin * dim, heads * dim).reshape({-1, width});
    return RmsNorm(part, weight, config.rms_norm_eps, config.norm_factor())
        .reshape({rows, heads * dim});
  };
  const int64_t q = config.num_attention_heads, kv = config.num_key_value_heads;
  return torch::cat({normalized(0, q, q_norm), normalized(q, kv, k_norm),
                     qkv.narrow(1, (q + kv) * dim, kv * dim)},
                    1);
}

Tensor SquaresOfHeads(const Tensor& qkv, const ModelConfig& config, ProductKind kind) {
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  const Tensor wide = qkv.element_size() < 4 ? qkv.to(torch::kFloat32) : qkv;
  const auto sum = [&](int64_t begin, int64_t width) {
    return Product(wide.narrow(1, begin, width).square(), torch::ones({1, width}, wide.options()),
                   kind);
  };
  return torch::cat({sum(0, q), sum(q, kv)}, 1);
}

Tensor NormalizeHeadsBy(const Tensor& squares, const Tensor& qkv, const Tensor& q_norm,
                        const Tensor& k_norm, const ModelConfig& config, const ModelConfig& whole) {
  const int64_t dim = config.head_dim;
  const auto type = squares.scalar_type();
  const auto normalized = [&](int64_t begin, int64_t heads, int64_t all_heads, int64_t column,
                              const Tensor& weight) {
    const Tensor mean = squares.narrow(1, column, 1) / static_cast<double>(all_heads * dim);
    const Tensor part = qkv.narrow(1, begin * dim, heads * dim).to(type);
    return (part * torch::rsqrt(mean + config.rms_norm_eps) * weight.to(type))
        .to(qkv.scalar_type());
  };
  const int64_t q = config.num_attention_heads, kv = config.num_key_value_heads;
  return torch::cat({normalized(0, q, whole.num_attention_heads, 0, q_norm),
                     normalized(q, kv, whole.num_key_value_heads, 1, k_norm),
                     qkv.narrow(1, (q + kv) * dim, kv * dim)},
                    1);
}

AttentionHeads SplitHeads(const Tensor& qkv, const ModelConfig& config) {
  const int64_t q = config.num_attention_heads, kv = config.num_key_value_heads;
  const Tensor heads = qkv.view({qkv.size(0), q + 2 * kv, config.head_dim});
  return {heads.narrow(1, 0, q), heads.narrow(1, q, kv), heads.narrow(1, q + kv, kv)};
}

Tensor GatedUnit(const Tensor& gate_up, ModelConfig::Activation activation) {
  if (HasWideKernel(gate_up) && !NeedsGrad(gate_up)) {
    return GatedUnit(gate_up.to(torch::kFloat32), activation).to(gate_up.scalar_type());
  }
  if (!HasKernel(gate_up)) {
    const std::vector<Tensor> parts = gate_up.chunk(2, -1);
    const Tensor gate =
        activation == Activation::kSilu ? torch::silu(parts[0]) : torch::gelu(parts[0], "tanh");
    return gate * parts[1];
  }
  TORCH_CHECK(gate_up.dim() == 2 && gate_up.size(1) % 2 == 0, "GatedUnit: bad shape ",
              gate_up.sizes());
  if (!NeedsGrad(gate_up)) return GatedUnitForward(gate_up.contiguous(), activation);
  return GatedUnitFunction::apply(gate_up.contiguous(), activation);
}

Tensor PlainProduct(const Tensor& x, const Tensor& weight, Tensor base) {
  const bool add = base.defined();
  if (HasWideKernel(x)) {
    const auto wide = [](const Tensor& t) { return t.to(torch::kFloat32); };
    const Tensor sums = PlainProduct(wide(x), wide(weight), add ? wide(base) : Tensor());
    return add ? base.copy_(sums) : sums.to(x.scalar_type());
  }
  if (!x.device().is_cpu() || x.scalar_type() != torch::kFloat32) {
    return add ? base.addmm_(x, weight.t()) : torch::mm(x, weight.t());
  }
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                  weight.scalar_type() == torch::kFloat32 && weight.is_contiguous() &&
                  (!add || (base.is_contiguous() && base.size(0) == x.size(0) &&
                            base.size(1) == weight.size(0))),
              "PlainProduct: x ", x.sizes(), " and weight ", weight.sizes(), " do not fit");
  if (!add) base = torch::empty({x.size(0), weight.size(0)}, x.options());
  const Tensor rows = x.contiguous();
  RowProducts(rows.data_ptr<float>(), weight.data_ptr<float>(), base.data_ptr<float>(), x.size(0),
              weight.size(0), x.size(1), add);
  return base;
}

FusedLinear FusedLinear::Create(const std::vector<int64_t>& outs, int64_t in, bool has_bias,
                                const torch::TensorOptions& options) {
  int64_t total = 0;
  for (int64_t out : outs) total += out;
  FusedLinear linear;
  linear.weight = torch::zeros({total, in}, options);
  if (has_bias) linear.bias = torch::zeros({total}, options);
  int64_t row = 0;
  for (int64_t out : outs) {
    linear.weights.push_back(linear.weight.narrow(0, row, out).detach());
    if (has_bias) linear.biases.push_back(linear.bias.narrow(0, row, out).detach());
    row += out;
  }
  return linear;
}

Tensor Product(const Tensor& x, const Tensor& weight, ProductKind kind) {
  if (!NeedsGrad(x, weight)) return PlainProduct(x, weight);
  if (kind == ProductKind::kBlas) return torch::mm(x, weight.t());
  return FusedLinearFunction::apply(x, weight.detach(), c10::optional<Tensor>(), kind,
                                    at::TensorList(weight));
}

Tensor FusedLinear::Forward(const Tensor& x, ProductKind kind) const {
  if (!NeedsGrad(x, weights[0])) {
    const Tensor y = PlainProduct(x, weight);
    return bias.defined() ? y.add_(bias) : y;
  }
  std::vector<Tensor> leaves = weights;
  leaves.insert(leaves.end(), biases.begin(), biases.end());
  // libtorch 1.13 takes no undefined tensor here.
  const c10::optional<Tensor> some_bias =
      bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt;
  return FusedLinearFunction::apply(x, weight, some_bias, kind, at::TensorList(leaves));
}

Tensor FusedLinear::AddTo(Tensor base, const Tensor& x, Communicator* group,
                          ProductKind kind) const {
  if (group != nullptr) {
    const Tensor sum = base + LeaveParallel(Product(x, weights[0], kind), group);
    return bias.defined() ? sum + biases[0] : sum;
  }
  if (!NeedsGrad(x, weights[0]) && !NeedsGrad(base)) {
    base = PlainProduct(x, weight, std::move(base));
    return bias.defined() ? base.add_(bias) : base;
  }
  const Tensor sum = kind == ProductKind::kByRow ? base + Product(x, weights[0], kind)
                                                 : torch::addmm(base, x, weights[0].t());
  return bias.defined() ? sum + biases[0] : sum;
}

}  // namespace baton::engine
