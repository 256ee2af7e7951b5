#include "workers/engine/model/tensor_parallel.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::engine {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// [begin, end) of rank `rank`, in units of `unit`.
struct Range {
  int64_t begin, end;
};

Range PartOf(int64_t total, int rank, int size, int64_t unit = 1) {
  return {rank * total / size * unit, (rank + 1) * total / size * unit};
}

/// Along which dimension a parameter is cut, and what of; -1: not at all.
struct Cut {
  int dimension = -1;
  int64_t total = 0;  ///< Units along it.
  int64_t unit = 1;   ///< Elements that stay together.
};

Cut CutOf(const ModelConfig& c, absl::string_view name) {
  const auto in = [&](absl::string_view part) { return absl::StrContains(name, part); };
  const bool weight = absl::EndsWith(name, ".weight");
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return {0, c.vocab_size};
  if (in(".self_attn.q_proj.")) return {0, c.num_attention_heads, c.head_dim};
  if (in(".self_attn.k_proj.") || in(".self_attn.v_proj.")) {
    return {0, c.num_key_value_heads, c.head_dim};
  }
  if (c.head_norms() == ModelConfig::HeadNorms::kAllHeads) {
    if (in(".self_attn.q_norm.")) return {0, c.num_attention_heads, c.head_dim};
    if (in(".self_attn.k_norm.")) return {0, c.num_key_value_heads, c.head_dim};
  }
  if (in(".mlp.gate_proj.") || in(".mlp.up_proj.")) return {0, c.intermediate_size};
  if (in(".self_attn.o_proj.") && weight) return {1, c.num_attention_heads, c.head_dim};
  if (in(".mlp.down_proj.") && weight) return {1, c.intermediate_size};
  return {};
}

int64_t AsInteger(Communicator* group) { return reinterpret_cast<int64_t>(group); }
Communicator& FromInteger(const c10::IValue& value) {
  return *reinterpret_cast<Communicator*>(value.toInt());
}

struct EnterFunction : torch::autograd::Function<EnterFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t group) {
    ctx->saved_data["group"] = group;
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    // Another consumer may hold the same gradient: the sum goes into memory of its own.
    Tensor sum = grads[0].clone(at::MemoryFormat::Contiguous);
    FromInteger(ctx->saved_data["group"]).AllReduce(sum);
    return {sum, Variable()};
  }
};

struct LeaveFunction : torch::autograd::Function<LeaveFunction> {
  static Tensor forward(AutogradContext* ctx, Tensor x, int64_t group) {
    ctx->mark_dirty({x});
    FromInteger(c10::IValue(group)).AllReduce(x);
    return x;
  }
  static variable_list backward(AutogradContext* /*ctx*/, variable_list grads) {
    return {grads[0], Variable()};
  }
};

bool Records(const Tensor& x) { return torch::GradMode::is_enabled() && x.requires_grad(); }

}  // namespace

absl::Status CheckTensorParallel(const ModelConfig& config, int size) {
  if (size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("parallel.tp: ", size, " is below 1"));
  }
  std::vector<std::string> faults;
  const auto divides = [&](absl::string_view name, int64_t value) {
    if (value % size != 0) {
      faults.push_back(absl::StrCat("parallel.tp: ", size, " does not divide the model's ", name,
                                    " (", value, "); choose a divisor of it"));
    }
  };
  divides("num_attention_heads", config.num_attention_heads);
  divides("num_key_value_heads", config.num_key_value_heads);
  for (const auto& [name, value] : {std::make_pair("intermediate_size", config.intermediate_size),
                                    std::make_pair("vocab_size", config.vocab_size)}) {
    if (value < size) {
      faults.push_back(
          absl::StrCat("parallel.tp: ", size, " is above the model's ", name, " (", value, ")"));
    }
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
}

ModelConfig LocalConfig(const ModelConfig& config, int rank, int size) {
  const auto part = [&](int64_t total) {
    const Range range = PartOf(total, rank, size);
    return range.end - range.begin;
  };
  ModelConfig local = config;
  local.num_attention_heads = part(config.num_attention_heads);
  local.num_key_value_heads = part(config.num_key_value_heads);
  local.intermediate_size = part(config.intermediate_size);
  local.vocab_size = part(config.vocab_size);
  return local;
}

ParameterShard ShardOf(const ModelConfig& config, absl::string_view name,
                       absl::Span<const int64_t> local_shape, int rank, int size) {
  ParameterShard shard;
  shard.name = std::string(name);
  shard.shape.assign(local_shape.begin(), local_shape.end());
  const Cut cut = CutOf(config, name);
  if (cut.dimension >= 0) shard.shape[cut.dimension] = cut.total * cut.unit;
  shard.box = relay::Box::Full(shard.shape);
  if (cut.dimension >= 0) {
    const Range range = PartOf(cut.total, rank, size, cut.unit);
    shard.box.begin[cut.dimension] = range.begin;
    shard.box.end[cut.dimension] = range.end;
  }
  return shard;
}

Tensor SliceOf(const Tensor& whole, const relay::Box& box) {
  Tensor part = whole;
  for (size_t d = 0; d < box.rank(); ++d) {
    part = part.narrow(static_cast<int64_t>(d), box.begin[d], box.end[d] - box.begin[d]);
  }
  return part;
}

Tensor EnterParallel(const Tensor& x, Communicator* group) {
  return group == nullptr || !Records(x) ? x : EnterFunction::apply(x, AsInteger(group));
}

Tensor LeaveParallel(const Tensor& x, Communicator* group) {
  if (group == nullptr) return x;
  const Tensor sum = x.contiguous();
  if (Records(x)) return LeaveFunction::apply(sum, AsInteger(group));
  group->AllReduce(sum);
  return sum;
}

void CheckTokens(const Tensor& ids, int64_t vocab_size) {
  if (ids.numel() == 0) return;
  TORCH_CHECK(ids.min().item<int64_t>() >= 0 && ids.max().item<int64_t>() < vocab_size,
              "a token id is outside the vocabulary of ", vocab_size);
}

Tensor EmbeddingRows(const Tensor& ids, const Tensor& weight, int64_t begin) {
  const Tensor local = ids - begin;
  const Tensor elsewhere = (local < 0).logical_or(local >= weight.size(0));
  const Tensor rows = torch::embedding(weight, local.masked_fill(elsewhere, 0));
  return rows.masked_fill(elsewhere.unsqueeze(1), 0);
}

Tensor ParallelEmbedding(const Tensor& ids, const Tensor& weight, int64_t begin, int64_t vocab_size,
                         Communicator& group) {
  CheckTokens(ids, vocab_size);
  return LeaveParallel(EmbeddingRows(ids, weight, begin), &group);
}

Tensor GatherColumns(const Tensor& local, int64_t total, Communicator& group) {
  torch::NoGradGuard no_grad;
  const int64_t rows = local.size(0);
  const int64_t widest = (total + group.size() - 1) / group.size();
  Tensor mine = torch::zeros({rows, widest}, local.options());
  mine.narrow(1, 0, local.size(1)).copy_(local);
  Tensor all = torch::empty({group.size(), rows, widest}, local.options());
  group.AllGather(mine.view({-1}), all.view({-1}));
  std::vector<Tensor> parts;
  for (int r = 0; r < group.size(); ++r) {
    const Range range = PartOf(total, r, group.size());
    parts.push_back(all[r].narrow(1, 0, range.end - range.begin));
  }
  return torch::cat(parts, 1);
}

Tensor GatherWhole(const Tensor& local, const ParameterShard& shard, const ModelConfig& config,
                   Communicator& group) {
  torch::NoGradGuard no_grad;
  if (shard.whole()) return local.detach().clone();
  Tensor whole = torch::empty(shard.shape, local.options().requires_grad(false));
  const Cut cut = CutOf(config, shard.name);
  for (int r = 0; r < group.size(); ++r) {
    const Range range = PartOf(cut.total, r, group.size(), cut.unit);
    relay::Box box = shard.box;
    box.begin[cut.dimension] = range.begin;
    box.end[cut.dimension] = range.end;
    Tensor part = r == group.rank() ? local.detach().contiguous()
                                    : torch::empty(box.shape(), whole.options());
    group.Broadcast(part, r);
    SliceOf(whole, box).copy_(part);
  }
  return whole;
}

}  // namespace baton::engine
