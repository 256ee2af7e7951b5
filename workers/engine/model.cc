#include "workers/engine/model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/layers.h"

namespace baton::engine {
namespace {

using torch::Tensor;

struct DecoderLayer {
  Tensor input_norm;           // [hidden]
  FusedLinear qkv;             // q, k, v
  FusedLinear output;          // o
  Tensor post_attention_norm;  // [hidden]
  FusedLinear gate_up;         // gate, up
  FusedLinear down;
};

DecoderLayer MakeLayer(const ModelConfig& c, const torch::TensorOptions& options) {
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  return {torch::ones({c.hidden_size}, options),
          FusedLinear::Create({q, kv, kv}, c.hidden_size, c.attention_bias, options),
          FusedLinear::Create({c.hidden_size}, q, c.attention_output_bias, options),
          torch::ones({c.hidden_size}, options),
          FusedLinear::Create({c.intermediate_size, c.intermediate_size}, c.hidden_size, c.mlp_bias,
                              options),
          FusedLinear::Create({c.hidden_size}, c.intermediate_size, c.mlp_bias, options)};
}

/// Rows after padding to a multiple of 8.
int64_t PaddedRows(int64_t rows) { return (rows + 7) / 8 * 8; }

/// `x` with rows of zeros up to `rows`.
Tensor PadRows(const Tensor& x, int64_t rows) {
  if (x.size(0) == rows) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = rows - x.size(0);
  return torch::cat({x, torch::zeros(shape, x.options().requires_grad(false))}, 0);
}

}  // namespace

struct CausalLM::Impl {
  ModelConfig config;
  Communicator* group;  // Null: no other rank.
  ModelConfig local;    // This rank's share of the sizes; `config` without a group.
  torch::TensorOptions options;
  Tensor embedding;  // [vocab, hidden]
  std::vector<DecoderLayer> layers;
  Tensor norm;          // [hidden]
  FusedLinear lm_head;  // Empty when tied.
  Rotary rotary;
  bool deterministic = false;
  std::vector<std::pair<std::string, Tensor>> parameters;
  std::vector<ParameterShard> shards;
  int64_t vocabulary_begin = 0;

  Impl(const ModelConfig& whole, const torch::TensorOptions& o, Communicator* tensor_group)
      : config(whole),
        group(tensor_group),
        local(LocalConfig(whole, rank(), ranks())),
        options(o),
        rotary(local) {
    const ModelConfig& c = local;
    embedding = torch::zeros({c.vocab_size, c.hidden_size}, o);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.push_back(MakeLayer(c, o));
    norm = torch::ones({c.hidden_size}, o);
    if (!c.tie_word_embeddings) {
      lm_head = FusedLinear::Create({c.vocab_size}, c.hidden_size, false, o);
    }
    NameParameters();
    for (const auto& [name, parameter] : parameters) {
      shards.push_back(ShardOf(config, name, parameter.sizes(), rank(), ranks()));
      if (name == "model.embed_tokens.weight") vocabulary_begin = shards.back().box.begin[0];
    }
  }

  int rank() const { return group == nullptr ? 0 : group->rank(); }
  int ranks() const { return group == nullptr ? 1 : group->size(); }

  void NameLinear(const std::string& prefix, const std::vector<std::string>& names,
                  const FusedLinear& linear) {
    for (size_t i = 0; i < names.size(); ++i) {
      parameters.emplace_back(absl::StrCat(prefix, names[i], ".weight"), linear.weights[i]);
      if (!linear.biases.empty()) {
        parameters.emplace_back(absl::StrCat(prefix, names[i], ".bias"), linear.biases[i]);
      }
    }
  }

  void NameParameters() {
    parameters.emplace_back("model.embed_tokens.weight", embedding);
    parameters.emplace_back("model.norm.weight", norm);
    if (!config.tie_word_embeddings) NameLinear("", {"lm_head"}, lm_head);
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string prefix = absl::StrCat("model.layers.", i, ".");
      const DecoderLayer& layer = layers[i];
      parameters.emplace_back(prefix + "input_layernorm.weight", layer.input_norm);
      parameters.emplace_back(prefix + "post_attention_layernorm.weight",
                              layer.post_attention_norm);
      NameLinear(prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"}, layer.qkv);
      NameLinear(prefix + "self_attn.", {"o_proj"}, layer.output);
      NameLinear(prefix + "mlp.", {"gate_proj", "up_proj"}, layer.gate_up);
      NameLinear(prefix + "mlp.", {"down_proj"}, layer.down);
    }
    std::sort(parameters.begin(), parameters.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  /// Attend on the real rows; the padding's are zero. Returns [padded, heads * head_dim].
  Tensor Attend(int64_t index, const Rotary::Heads& heads, int64_t rows,
                AttentionContext& attention) {
    const int64_t padded = heads.q.size(0);
    const Tensor mixed = attention.Attend(index, heads.q.narrow(0, 0, rows),
                                          heads.k.narrow(0, 0, rows), heads.v.narrow(0, 0, rows));
    return PadRows(mixed.reshape({rows, local.num_attention_heads * local.head_dim}), padded);
  }

  Tensor Layer(int64_t index, Tensor h, const Tensor& positions, int64_t rows,
               AttentionContext& attention) {
    const DecoderLayer& layer = layers[index];
    const Tensor qkv =
        layer.qkv.Forward(EnterParallel(RmsNorm(h, layer.input_norm, config.rms_norm_eps), group));
    h = layer.output.AddTo(h, Attend(index, rotary.Apply(qkv, positions), rows, attention), group);
    const Tensor gate_up = layer.gate_up.Forward(
        EnterParallel(RmsNorm(h, layer.post_attention_norm, config.rms_norm_eps), group));
    return layer.down.AddTo(h, SwiGlu(gate_up), group);
  }

  Tensor Embed(const Tensor& ids) const {
    if (group == nullptr) return torch::embedding(embedding, ids);
    return ParallelEmbedding(ids, embedding, vocabulary_begin, config.vocab_size, *group);
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

void CausalLM::InitializeRandom(uint64_t seed) {
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
      const bool is_norm = name.find("norm.weight") != std::string::npos;
      parameter.fill_(is_norm ? 1.0 : 0.0);
    }
  }
}

Tensor CausalLM::Hidden(const Tensor& tokens, const Tensor& positions,
                        AttentionContext& attention) {
  TORCH_CHECK(tokens.dim() == 1 && positions.sizes() == tokens.sizes(), "Hidden: tokens ",
              tokens.sizes(), " and positions ", positions.sizes(), " are not both [N]");
  const int64_t rows = tokens.size(0);
  const int64_t padded = impl_->deterministic ? PaddedRows(rows) : rows;
  const Tensor ids = PadRows(tokens.to(impl_->options.device()), padded);
  const Tensor places = PadRows(positions.to(impl_->options.device()), padded);
  Tensor h = impl_->Embed(ids);
  for (size_t i = 0; i < impl_->layers.size(); ++i) {
    h = impl_->Layer(static_cast<int64_t>(i), std::move(h), places, rows, attention);
  }
  return RmsNorm(h, impl_->norm, impl_->config.rms_norm_eps).narrow(0, 0, rows);
}

Tensor CausalLM::Logits(const Tensor& hidden) {
  if (impl_->group == nullptr) return LocalLogits(hidden);
  torch::NoGradGuard no_grad;
  return GatherColumns(LocalLogits(hidden), impl_->config.vocab_size, *impl_->group);
}

Tensor CausalLM::LocalLogits(const Tensor& hidden) {
  const int64_t rows = hidden.size(0);
  const Tensor whole = EnterParallel(hidden, impl_->group);
  const Tensor x = impl_->deterministic ? PadRows(whole, PaddedRows(rows)) : whole;
  const bool grad =
      torch::GradMode::is_enabled() && (x.requires_grad() || impl_->embedding.requires_grad());
  const Tensor logits = !impl_->config.tie_word_embeddings ? impl_->lm_head.Forward(x)
                        : grad                             ? torch::mm(x, impl_->embedding.t())
                                                           : PlainProduct(x, impl_->embedding);
  return logits.narrow(0, 0, rows);
}

VocabularyShard CausalLM::vocabulary_shard() const {
  return {impl_->group, impl_->vocabulary_begin};
}

const ModelConfig& CausalLM::config() const { return impl_->config; }
const ModelConfig& CausalLM::local_config() const { return impl_->local; }
Communicator* CausalLM::tensor_group() const { return impl_->group; }
torch::Dtype CausalLM::dtype() const { return impl_->embedding.scalar_type(); }
torch::Device CausalLM::device() const { return impl_->embedding.device(); }

const std::vector<std::pair<std::string, Tensor>>& CausalLM::parameters() const {
  return impl_->parameters;
}

const std::vector<ParameterShard>& CausalLM::shards() const { return impl_->shards; }

void CausalLM::SetRequiresGrad(bool requires_grad) {
  for (auto& [name, parameter] : impl_->parameters) parameter.set_requires_grad(requires_grad);
}

void CausalLM::SetDeterministic(bool deterministic) { impl_->deterministic = deterministic; }
bool CausalLM::deterministic() const { return impl_->deterministic; }

}  // namespace baton::engine
