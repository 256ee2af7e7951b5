#include "workers/engine/model/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "workers/engine/kernels/packed_layout.h"
#include "workers/engine/model/sequence_attention.h"

namespace baton::engine {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// One bucket with its heads laid out for batched products: with B = batch * num_kv_heads and
/// G = num_heads / num_kv_heads, q is [B, G, L, D], k and v [B, L, D]. The G query heads that share
/// a key head are rows of one product.
struct Padded {
  Tensor q, k, v;
  int64_t batch, groups, length, dim;
};

/// Rows of x [N, heads, D] at `places`, [places, D].
Tensor Gather(const Tensor& x, const Tensor& places) {
  return x.reshape({-1, x.size(-1)}).index_select(0, places);
}

Padded Pad(const PackedLayout& layout, const PackedBucket& bucket, const Tensor& q, const Tensor& k,
           const Tensor& v) {
  Padded out;
  out.batch = bucket.batch * layout.num_kv_heads;
  out.groups = layout.num_heads / layout.num_kv_heads;
  out.length = bucket.length;
  out.dim = q.size(-1);
  out.q = Gather(q, bucket.q_places).view({out.batch, out.groups, out.length, out.dim});
  out.k = Gather(k, bucket.kv_places).view({out.batch, out.length, out.dim});
  out.v = Gather(v, bucket.kv_places).view({out.batch, out.length, out.dim});
  return out;
}

/// Queries [begin, end) of a bucket, which look at the keys [0, end).
struct QueryBlock {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

std::vector<QueryBlock> QueryBlocks(const Padded& p, int64_t max_elements) {
  const int64_t per_query = p.batch * p.groups * p.length;
  const int64_t step = std::max<int64_t>(1, std::min(p.length, max_elements / per_query));
  std::vector<QueryBlock> blocks;
  for (int64_t begin = 0; begin < p.length; begin += step) {
    blocks.push_back({begin, std::min(p.length, begin + step)});
  }
  return blocks;
}

/// x [B, G, L, D] -> its queries of the block as rows, [B, G * size, D].
Tensor QueriesOf(const Tensor& x, const QueryBlock& block) {
  return x.slice(2, block.begin, block.end).reshape({x.size(0), -1, x.size(3)});
}

/// 0 where a query of the block looks at a key, else minus infinity: [size, end].
Tensor MaskOf(const QueryBlock& block, int64_t window, const torch::TensorOptions& options) {
  const Tensor hidden =
      torch::full({block.size(), block.end}, -std::numeric_limits<double>::infinity(), options);
  const Tensor later = hidden.triu(block.begin + 1);
  return window > 0 ? later + hidden.tril(block.begin - window) : later;
}

/// softmax(scale q k^T + mask), [B, G * size, end].
Tensor Probabilities(const Padded& p, const Tensor& queries, const QueryBlock& block,
                     int64_t window) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(p.dim));
  const Tensor mask = MaskOf(block, window, queries.options()).repeat({p.groups, 1});
  const Tensor keys = p.k.slice(1, 0, block.end);
  const Tensor scores = torch::baddbmm(mask, queries, keys.transpose(1, 2), 1.0, scale);
  const bool half = scores.element_size() < 4;
  return half ? torch::softmax(scores, -1, torch::kFloat32).to(scores.scalar_type())
              : torch::softmax(scores, -1);
}

/// Places of every bucket one after the other -> rows [N, heads, D].
Tensor Collect(std::vector<Tensor>& parts, const Tensor& unpad, int64_t heads) {
  const int64_t dim = parts[0].size(-1);
  for (Tensor& part : parts) part = part.reshape({-1, dim});
  const Tensor all = parts.size() == 1 ? parts[0] : torch::cat(parts, 0);
  return all.index_select(0, unpad).view({-1, heads, dim});
}

struct Forwarded {
  Tensor out;           // [N, num_heads, D]
  variable_list saved;  // Probabilities of each bucket; undefined where they are too large to keep.
};

Forwarded AttendForward(const PackedLayout& layout, int64_t window, const Tensor& q,
                        const Tensor& k, const Tensor& v) {
  Forwarded result;
  std::vector<Tensor> outs;
  for (const PackedBucket& bucket : layout.buckets) {
    const Padded p = Pad(layout, bucket, q, k, v);
    const std::vector<QueryBlock> blocks = QueryBlocks(p, layout.max_saved_elements);
    result.saved.emplace_back();
    std::vector<Tensor> parts;
    for (const QueryBlock& block : blocks) {
      const Tensor probabilities = Probabilities(p, QueriesOf(p.q, block), block, window);
      parts.push_back(torch::bmm(probabilities, p.v.slice(1, 0, block.end))
                          .view({p.batch, p.groups, block.size(), p.dim}));
      if (blocks.size() == 1) result.saved.back() = probabilities;
    }
    outs.push_back(parts.size() == 1 ? parts[0] : torch::cat(parts, 2));
  }
  result.out = Collect(outs, layout.q_unpad, layout.num_heads);
  return result;
}

struct BucketGrads {
  Tensor q, k, v;
};

/// d out -> d q, d k, d v of one bucket. dout [B, G, L, D], zero at padding.
BucketGrads BackwardBucket(const Padded& p, const Tensor& dout, const Tensor& saved, int64_t window,
                           int64_t max_elements) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(p.dim));
  BucketGrads grads{torch::empty_like(p.q), torch::zeros_like(p.k), torch::zeros_like(p.v)};
  for (const QueryBlock& block : QueryBlocks(p, max_elements)) {
    const Tensor queries = QueriesOf(p.q, block), d = QueriesOf(dout, block);
    const Tensor keys = p.k.slice(1, 0, block.end), values = p.v.slice(1, 0, block.end);
    const Tensor probabilities = saved.defined() ? saved : Probabilities(p, queries, block, window);
    const Tensor dprobabilities = torch::bmm(d, values.transpose(1, 2));
    const Tensor dscores =
        at::_softmax_backward_data(dprobabilities, probabilities, -1, probabilities.scalar_type());
    grads.v.slice(1, 0, block.end).baddbmm_(probabilities.transpose(1, 2), d);
    grads.k.slice(1, 0, block.end).baddbmm_(dscores.transpose(1, 2), queries, 1.0, scale);
    grads.q.slice(2, block.begin, block.end)
        .copy_((torch::bmm(dscores, keys) * scale).view({p.batch, p.groups, block.size(), p.dim}));
  }
  return grads;
}

struct PackedAttentionFunction : torch::autograd::Function<PackedAttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::intrusive_ptr<PackedLayout>& layout, int64_t window) {
    Forwarded result = AttendForward(*layout, window, q, k, v);
    variable_list saved = {q, k, v};
    saved.insert(saved.end(), result.saved.begin(), result.saved.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["layout"] = c10::IValue::make_capsule(layout);
    ctx->saved_data["window"] = window;
    return result.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto capsule = ctx->saved_data["layout"].toCapsule();
    const auto& layout = static_cast<const PackedLayout&>(*capsule);
    const int64_t window = ctx->saved_data["window"].toInt();
    const variable_list saved = ctx->get_saved_variables();
    std::vector<Tensor> dq, dk, dv;
    for (size_t i = 0; i < layout.buckets.size(); ++i) {
      const PackedBucket& bucket = layout.buckets[i];
      const Padded p = Pad(layout, bucket, saved[0], saved[1], saved[2]);
      const Tensor dout =
          Gather(grads[0], bucket.q_places).index_fill_(0, bucket.q_padding, 0).view_as(p.q);
      BucketGrads part = BackwardBucket(p, dout, saved[3 + i], window, layout.max_saved_elements);
      dq.push_back(std::move(part.q));
      dk.push_back(std::move(part.k));
      dv.push_back(std::move(part.v));
    }
    return {Collect(dq, layout.q_unpad, layout.num_heads),
            Collect(dk, layout.kv_unpad, layout.num_kv_heads),
            Collect(dv, layout.kv_unpad, layout.num_kv_heads), Variable(), Variable()};
  }
};

}  // namespace

PackedCausalAttention::PackedCausalAttention(std::vector<int64_t> lengths,
                                             PackedAttentionOptions options)
    : lengths_(std::move(lengths)), options_(std::move(options)) {
  for (int64_t length : lengths_) {
    TORCH_CHECK(length >= 1, "a sequence of length ", length);
    num_rows_ += length;
  }
}

PackedCausalAttention::~PackedCausalAttention() = default;

torch::Tensor PackedCausalAttention::Attend(const AttentionLayer& layer, const Tensor& q,
                                            const Tensor& k, const Tensor& v) {
  TORCH_CHECK(q.dim() == 3 && q.size(0) == num_rows_ && k.size(0) == num_rows_ &&
                  v.sizes() == k.sizes() && q.size(1) % k.size(1) == 0,
              "attention over ", num_rows_, " rows: q ", q.sizes(), ", k ", k.sizes(), " and v ",
              v.sizes(), " do not fit");
  if (num_rows_ == 0) return torch::empty_like(q);
  if (HasSequenceKernel(q)) {
    return SequenceAttention(lengths_, layer.window, q, k, v, options_.prompt_lengths);
  }
  if (!layout_ || layout_->num_heads != q.size(1) || layout_->num_kv_heads != k.size(1) ||
      layout_->q_unpad.device() != q.device()) {
    layout_ =
        PackedLayout::Create(lengths_, q.size(1), k.size(1), options_.deterministic, q.device());
    layout_->max_saved_elements = options_.max_saved_elements;
  }
  if (!torch::GradMode::is_enabled()) return AttendForward(*layout_, layer.window, q, k, v).out;
  return PackedAttentionFunction::apply(q, k, v, layout_, layer.window);
}

torch::Tensor PackedCausalAttention::Positions() const {
  Tensor positions = torch::empty({num_rows_}, torch::kInt64);
  int64_t* out = positions.data_ptr<int64_t>();
  for (int64_t length : lengths_) {
    for (int64_t i = 0; i < length; ++i) *out++ = i;
  }
  return positions;
}

}  // namespace baton::engine
