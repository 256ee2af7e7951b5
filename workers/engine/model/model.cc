#include "workers/engine/model/model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/decoder_weights.h"
#include "workers/engine/model/layers.h"

namespace baton::engine {
namespace {

using torch::Tensor;

/// The config of rotary positions in layers with a sliding window, where they are others.
ModelConfig WithLocalRope(ModelConfig config) {
  config.rope = Rope();
  config.rope.theta = config.local_rope_theta;
  return config;
}

/// x times a factor; in place where no gradients are recorded.
Tensor Times(Tensor x, double factor) {
  if (factor == 1) return x;
  return torch::GradMode::is_enabled() ? x * factor : x.mul_(factor);
}

}  // namespace

struct CausalLM::Impl {
  const ModelConfig config;
  Communicator* const group;  // Null: no other rank.
  const ModelConfig local;    // This rank's share of the sizes; `config` without a group.
  const torch::TensorOptions options;
  // One slice, or the consecutive slices of a gathered model; `own` is not received from others.
  std::vector<std::shared_ptr<DecoderWeights>> slices;
  const size_t own;
  const bool gathered;
  Rotary rotary;        // For the heads of a slice.
  Rotary local_rotary;  // Gemma 3: in layers with a sliding window.
  bool deterministic = false;
  std::vector<std::pair<std::string, Tensor>> parameters;
  std::vector<ParameterShard> shards;

  Impl(const ModelConfig& whole, const torch::TensorOptions& o, Communicator* tensor_group)
      : config(whole),
        group(tensor_group),
        local(LocalConfig(whole, RankIn(tensor_group), SizeOf(tensor_group))),
        options(o),
        slices({DecoderWeights::Create(whole, RankIn(tensor_group), SizeOf(tensor_group), o)}),
        own(0),
        gathered(false),
        rotary(slices[0]->local),
        local_rotary(WithLocalRope(slices[0]->local)) {
    parameters = slices[0]->parameters;
    shards = slices[0]->shards;
  }

  /// Gathered: `mine` and new memory for its `count` - 1 neighbours.
  Impl(const Impl& mine, size_t place, int count, Communicator* tensor_group)
      : config(mine.config),
        group(tensor_group),
        local(LocalConfig(config, RankIn(tensor_group), SizeOf(tensor_group))),
        options(mine.options),
        own(place),
        gathered(true),
        rotary(mine.slices[0]->local),
        local_rotary(WithLocalRope(mine.slices[0]->local)),
        deterministic(mine.deterministic) {
    const std::shared_ptr<DecoderWeights>& weights = mine.slices[0];
    for (int s = 0; s < count; ++s) {
      slices.push_back(s == static_cast<int>(own)
                           ? weights
                           : DecoderWeights::Create(config, RankIn(group) * count + s,
                                                    SizeOf(group) * count, options, weights.get()));
    }
    for (size_t i = 0; i < weights->shards.size(); ++i) {
      for (size_t s = 0; s < slices.size(); ++s) {
        if (s != own && weights->shards[i].whole()) continue;
        parameters.push_back(slices[s]->parameters[i]);
        shards.push_back(slices[s]->shards[i]);
      }
    }
  }

  static int RankIn(Communicator* group) { return group == nullptr ? 0 : group->rank(); }
  static int SizeOf(Communicator* group) { return group == nullptr ? 1 : group->size(); }
  const DecoderWeights& weights() const { return *slices[own]; }
  ProductKind product() const { return deterministic ? ProductKind::kByRow : ProductKind::kBlas; }

  Tensor Normed(const Tensor& x, const Tensor& weight) const {
    return weight.defined() ? RmsNorm(x, weight, config.rms_norm_eps, config.norm_factor()) : x;
  }

  /// Normalises queries and keys in every slice's `qkv`.
  void NormalizeAll(int64_t index, std::vector<Tensor>& qkv) const {
    const bool together = config.head_norms() == ModelConfig::HeadNorms::kAllHeads;
    if (together && (slices.size() > 1 || group != nullptr)) return NormalizeTogether(index, qkv);
    for (size_t s = 0; s < slices.size(); ++s) {
      const DecoderLayer& layer = slices[s]->layers[index];
      if (!layer.q_norm.defined()) continue;
      // Each rank has the gradient of its own heads; the weights are everybody's.
      qkv[s] = NormalizeHeads(qkv[s], EnterParallel(layer.q_norm, group),
                              EnterParallel(layer.k_norm, group), slices[s]->local);
    }
  }

  /// The same where all heads count together, those of other slices and ranks, too. Every rank's
  /// heads depend on the sum, so its gradient is summed as well.
  void NormalizeTogether(int64_t index, std::vector<Tensor>& qkv) const {
    Tensor squares;
    for (size_t s = 0; s < slices.size(); ++s) {
      const Tensor own = SquaresOfHeads(qkv[s], slices[s]->local, product());
      squares = squares.defined() ? squares + own : own;
    }
    squares = EnterParallel(LeaveParallel(squares, group), group);
    for (size_t s = 0; s < slices.size(); ++s) {
      const DecoderLayer& layer = slices[s]->layers[index];
      qkv[s] =
          NormalizeHeadsBy(squares, qkv[s], layer.q_norm, layer.k_norm, slices[s]->local, config);
    }
  }

  /// One slice's heads.
  AttentionHeads HeadsOf(const DecoderWeights& slice, int64_t index, const Tensor& qkv,
                         const Tensor& positions) {
    const bool local_rope = config.family == ModelFamily::kGemma3 && config.layers.slides(index);
    AttentionHeads heads = !config.layers.rotates(index) ? SplitHeads(qkv, slice.local)
                           : local_rope                  ? local_rotary.Apply(qkv, positions)
                                                         : rotary.Apply(qkv, positions);
    heads.q = Times(std::move(heads.q), config.query_scale());
    return heads;
  }

  /// Every slice's heads side by side, of the rows `x`.
  AttentionHeads HeadsOf(int64_t index, const Tensor& x, const Tensor& positions) {
    std::vector<Tensor> qkv;
    for (const auto& slice : slices) qkv.push_back(slice->layers[index].qkv.Forward(x, product()));
    NormalizeAll(index, qkv);
    if (slices.size() == 1) return HeadsOf(weights(), index, qkv[0], positions);
    std::vector<Tensor> q, k, v;
    for (size_t s = 0; s < slices.size(); ++s) {
      const AttentionHeads heads = HeadsOf(*slices[s], index, qkv[s], positions);
      q.push_back(heads.q);
      k.push_back(heads.k);
      v.push_back(heads.v);
    }
    return {torch::cat(q, 1), torch::cat(k, 1), torch::cat(v, 1)};
  }

  /// h plus the maps of the slices' inputs, one after the other.
  Tensor AddTo(Tensor h, int64_t index, FusedLinear DecoderLayer::*map,
               const std::vector<Tensor>& inputs) const {
    const FusedLinear& mine = weights().layers[index].*map;
    if (inputs.size() == 1) return mine.AddTo(std::move(h), inputs[0], group, product());
    Tensor sum = group == nullptr ? h : torch::zeros_like(h);
    for (size_t s = 0; s < slices.size(); ++s) {
      sum = PlainProduct(inputs[s], (slices[s]->layers[index].*map).weight, std::move(sum));
    }
    if (group != nullptr) sum = h + LeaveParallel(sum, group);
    return mine.bias.defined() ? sum + mine.bias : sum;
  }

  /// h plus what one half of a layer makes of the slices' `inputs`, by its last map.
  Tensor Residual(Tensor h, int64_t index, FusedLinear DecoderLayer::*map,
                  const std::vector<Tensor>& inputs, const Tensor& output_norm) const {
    const double factor = config.residual_multiplier;
    if (!output_norm.defined() && factor == 1) return AddTo(std::move(h), index, map, inputs);
    const Tensor out = AddTo(torch::zeros_like(h), index, map, inputs);
    return h + Times(Normed(out, output_norm), factor);
  }

  Tensor Layer(int64_t index, Tensor h, const Tensor& positions, AttentionContext& attention) {
    const DecoderLayer& layer = weights().layers[index];
    Tensor x = EnterParallel(Normed(h, layer.attention_input_norm), group);
    const AttentionHeads heads = HeadsOf(index, x, positions);
    const int64_t window = config.layers.slides(index) ? *config.layers.sliding_window : 0;
    const Tensor mixed = attention.Attend({index, window}, heads.q, heads.k, heads.v).flatten(1);
    h = Residual(std::move(h), index, &DecoderLayer::output, Columns(mixed),
                 layer.attention_output_norm);
    x = EnterParallel(Normed(h, layer.mlp_input_norm), group);
    std::vector<Tensor> activations;
    for (const auto& slice : slices) {
      activations.push_back(
          GatedUnit(slice->layers[index].gate_up.Forward(x, product()), config.activation()));
    }
    return Residual(std::move(h), index, &DecoderLayer::down, activations, layer.mlp_output_norm);
  }

  /// Heads of all slices [N, heads * head_dim], cut into each slice's.
  std::vector<Tensor> Columns(const Tensor& mixed) const {
    if (slices.size() == 1) return {mixed};
    return mixed.chunk(static_cast<int64_t>(slices.size()), 1);
  }

  Tensor EmbeddingsOf(const Tensor& ids) const {
    if (slices.size() == 1 && group == nullptr) return torch::embedding(weights().embedding, ids);
    if (slices.size() == 1) {
      return ParallelEmbedding(ids, weights().embedding, weights().vocabulary_begin,
                               config.vocab_size, *group);
    }
    CheckTokens(ids, config.vocab_size);
    Tensor rows = torch::zeros({ids.size(0), config.hidden_size}, options);
    for (const auto& slice : slices) {
      rows += EmbeddingRows(ids, slice->embedding, slice->vocabulary_begin);
    }
    return LeaveParallel(rows, group);
  }

  /// Embeddings as the first layer takes them. The factor is rounded to their type, as transformers
  /// rounds Gemma 3's.
  Tensor Embed(const Tensor& ids) const {
    const double factor = config.embedding_scale();
    if (factor == 1) return EmbeddingsOf(ids);
    const Tensor rounded = torch::scalar_tensor(factor, options.device(torch::kCPU));
    return Times(EmbeddingsOf(ids), rounded.item<double>());
  }

  /// hidden [M, hidden_size] -> logits of all slices, side by side.
  Tensor HeadProducts(const Tensor& hidden) const {
    const double scaling = config.logits_scaling;
    const Tensor x = scaling == 1 ? hidden : hidden / scaling;
    std::vector<Tensor> logits;
    for (const auto& slice : slices) {
      logits.push_back(config.tie_word_embeddings ? Product(x, slice->embedding, product())
                                                  : slice->lm_head.Forward(x, product()));
    }
    return logits.size() == 1 ? logits[0] : torch::cat(logits, 1);
  }

  /// Checks that `mine`, rank r of t, is the right slice of rank g of t_g.
  absl::Status CheckGather(Communicator* slice_group, Communicator* tensor_group) const {
    const int count = SizeOf(slice_group), t = SizeOf(group), r = RankIn(group);
    if (gathered) return absl::InvalidArgumentError("a gathered model cannot be gathered again");
    if (count * SizeOf(tensor_group) != t ||
        r != RankIn(tensor_group) * count + RankIn(slice_group)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slice ", r, " of ", t, " cannot be slice ", RankIn(slice_group), " of ", count,
          " consecutive ones of rank ", RankIn(tensor_group), " of ", SizeOf(tensor_group)));
    }
    return absl::OkStatus();
  }
};

CausalLM::CausalLM(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CausalLM::~CausalLM() = default;

absl::StatusOr<std::unique_ptr<CausalLM>> CausalLM::Create(const ModelConfig& config,
                                                           torch::Dtype dtype, torch::Device device,
                                                           Communicator* tensor_group) {
  BATON_RETURN_IF_ERROR(config.Validate());
  if (tensor_group != nullptr && tensor_group->size() == 1) tensor_group = nullptr;
  if (tensor_group != nullptr) {
    BATON_RETURN_IF_ERROR(CheckTensorParallel(config, tensor_group->size()));
  }
  if (!torch::isFloatingType(dtype)) {
    return absl::InvalidArgumentError("a model's dtype must be a floating type");
  }
  try {
    const auto options = torch::TensorOptions().dtype(dtype).device(device);
    return std::unique_ptr<CausalLM>(
        new CausalLM(std::make_unique<Impl>(config, options, tensor_group)));
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot create a model of ", config.NumParameters(), " parameters on ",
                     device.str(), ": ", error.what_without_backtrace()));
  }
}

absl::StatusOr<std::unique_ptr<CausalLM>> CausalLM::Gather(const CausalLM& mine,
                                                           Communicator* slice_group,
                                                           Communicator* tensor_group) {
  if (slice_group != nullptr && slice_group->size() == 1) slice_group = nullptr;
  if (tensor_group != nullptr && tensor_group->size() == 1) tensor_group = nullptr;
  BATON_RETURN_IF_ERROR(mine.impl_->CheckGather(slice_group, tensor_group));
  try {
    torch::NoGradGuard no_grad;
    const int count = Impl::SizeOf(slice_group);
    auto impl = std::make_unique<Impl>(*mine.impl_, Impl::RankIn(slice_group), count, tensor_group);
    for (int s = 0; s < count && count > 1; ++s) {
      for (const Tensor& storage : impl->slices[s]->SliceStorages()) {
        slice_group->Broadcast(storage, s);
      }
    }
    return std::unique_ptr<CausalLM>(new CausalLM(std::move(impl)));
  } catch (const CollectiveError& error) {
    return Annotate(error.status(), "gathering the slices of a model");
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("gathering the slices of a model: ", error.what_without_backtrace()));
  }
}

void CausalLM::InitializeRandom(uint64_t seed) {
  TORCH_CHECK(!impl_->gathered, "a gathered model has the weights of its slices");
  torch::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  for (size_t i = 0; i < impl_->parameters.size(); ++i) {
    const auto& [name, parameter] = impl_->parameters[i];
    const ParameterShard& shard = impl_->shards[i];
    if (parameter.dim() == 2) {
      const Tensor values = torch::empty(shard.shape, torch::kFloat32);
      values.normal_(0.0, impl_->config.initializer_range, generator);
      parameter.copy_(SliceOf(values, shard.box));
    } else {
      const bool is_one = name.find("norm.weight") != std::string::npos &&
                          impl_->config.norm_factor() != ModelConfig::NormFactor::kOnePlus;
      parameter.fill_(is_one ? 1.0 : 0.0);
    }
  }
}

Tensor CausalLM::Hidden(const Tensor& tokens, const Tensor& positions,
                        AttentionContext& attention) {
  TORCH_CHECK(tokens.dim() == 1 && positions.sizes() == tokens.sizes(), "Hidden: tokens ",
              tokens.sizes(), " and positions ", positions.sizes(), " are not both [N]");
  const torch::AutoGradMode grad(torch::GradMode::is_enabled() && !impl_->gathered);
  const Tensor places = positions.to(impl_->options.device());
  Tensor h = impl_->Embed(tokens.to(impl_->options.device()));
  for (int64_t i = 0; i < impl_->config.num_hidden_layers; ++i) {
    h = impl_->Layer(i, std::move(h), places, attention);
  }
  return impl_->Normed(h, impl_->weights().norm);
}

Tensor CausalLM::Logits(const Tensor& hidden) {
  if (impl_->group == nullptr) return LocalLogits(hidden);
  torch::NoGradGuard no_grad;
  return GatherColumns(LocalLogits(hidden), impl_->config.vocab_size, *impl_->group);
}

Tensor CausalLM::LocalLogits(const Tensor& hidden) {
  const torch::AutoGradMode grad(torch::GradMode::is_enabled() && !impl_->gathered);
  return impl_->HeadProducts(EnterParallel(hidden, impl_->group));
}

VocabularyShard CausalLM::vocabulary_shard() const {
  return {impl_->group, impl_->slices[0]->vocabulary_begin};
}

const ModelConfig& CausalLM::config() const { return impl_->config; }
const ModelConfig& CausalLM::local_config() const { return impl_->local; }
Communicator* CausalLM::tensor_group() const { return impl_->group; }
int CausalLM::slices() const { return static_cast<int>(impl_->slices.size()); }
torch::Dtype CausalLM::dtype() const { return impl_->weights().embedding.scalar_type(); }
torch::Device CausalLM::device() const { return impl_->weights().embedding.device(); }

const std::vector<std::pair<std::string, Tensor>>& CausalLM::parameters() const {
  return impl_->parameters;
}

const std::vector<ParameterShard>& CausalLM::shards() const { return impl_->shards; }

void CausalLM::SetRequiresGrad(bool requires_grad) {
  TORCH_CHECK(!impl_->gathered, "a gathered model has no gradients");
  for (auto& [name, parameter] : impl_->parameters) parameter.set_requires_grad(requires_grad);
}

void CausalLM::SetDeterministic(bool deterministic) { impl_->deterministic = deterministic; }
bool CausalLM::deterministic() const { return impl_->deterministic; }

}  // namespace baton::engine
