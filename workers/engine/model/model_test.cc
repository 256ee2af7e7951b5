#include "workers/engine/model/model.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/engine/plain_model.h"
#include "workers/engine/model/attention.h"
#include "workers/engine/model/layers.h"

namespace baton::engine {
namespace {

using testing::PlainModel;
using torch::Tensor;
using Family = ModelConfig::Family;

struct Variant {
  const char* name;
  ModelConfig config;
};

ModelConfig Base(Family family) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 19;
  c.hidden_size = 24;
  c.intermediate_size = 20;  // Not a multiple of the kernels' lanes.
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 4;
  c.head_dim = 6;
  c.max_position_embeddings = 64;
  c.attention_bias = family == Family::kQwen2;
  c.initializer_range = 0.4;
  return c;
}

std::vector<Variant> Variants() {
  std::vector<Variant> out = {{"Llama", Base(Family::kLlama)}, {"Qwen2", Base(Family::kQwen2)}};
  ModelConfig c = Base(Family::kLlama);
  c.num_key_value_heads = 2;
  c.tie_word_embeddings = true;
  out.push_back({"GroupedTied", c});
  c = Base(Family::kQwen2);
  c.num_key_value_heads = 1;
  c.tie_word_embeddings = true;
  out.push_back({"Qwen2MultiQueryTied", c});
  c = Base(Family::kLlama);
  c.attention_bias = c.attention_output_bias = c.mlp_bias = true;
  c.head_dim = 10;  // Not hidden / heads.
  out.push_back({"AllBiases", c});
  c = Base(Family::kLlama);
  c.rope.scaling = {RopeScaling::Type::kLlama3, 8.0, 1.0, 4.0, 24, {}, {}, 1.0};
  c.rope.theta = 100;
  out.push_back({"Llama3Rope", c});
  c = Base(Family::kQwen2);
  c.rope.scaling.type = RopeScaling::Type::kLinear;
  c.rope.scaling.factor = 3;
  out.push_back({"LinearRope", c});
  return out;
}

/// Random weights, biases and norms as well (InitializeRandom leaves those at 0 and 1).
std::unique_ptr<CausalLM> RandomModel(const ModelConfig& config, torch::Dtype dtype) {
  auto model = CausalLM::Create(config, dtype, torch::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  (*model)->InitializeRandom(5);
  torch::NoGradGuard no_grad;
  torch::manual_seed(6);
  for (const auto& [name, parameter] : (*model)->parameters()) {
    if (parameter.dim() == 1) parameter.add_(torch::randn_like(parameter) * 0.3);
  }
  return *std::move(model);
}

struct Packed {
  std::vector<int64_t> lengths;
  Tensor tokens;

  std::vector<int64_t> Sequence(size_t index) const {
    int64_t begin = 0;
    for (size_t i = 0; i < index; ++i) begin += lengths[i];
    const int64_t* data = tokens.data_ptr<int64_t>() + begin;
    return {data, data + lengths[index]};
  }
};

Packed RandomPacked(const std::vector<int64_t>& lengths, int64_t vocab_size, unsigned seed = 9) {
  std::mt19937 random(seed);
  std::vector<int64_t> tokens;
  for (int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(vocab_size)));
    }
  }
  return {lengths, torch::tensor(tokens, torch::kInt64)};
}

Tensor LogitsOf(CausalLM& model, const Packed& packed, const PackedAttentionOptions& options = {}) {
  PackedCausalAttention attention(packed.lengths, options);
  return model.Logits(model.Hidden(packed.tokens, attention.Positions(), attention));
}

/// Largest difference from the plain model over all sequences.
double ErrorAgainstPlain(CausalLM& model, const Packed& packed, const Tensor& logits) {
  const PlainModel plain(model);
  const Tensor got = logits.to(torch::kFloat64);
  double worst = 0;
  int64_t row = 0;
  for (size_t s = 0; s < packed.lengths.size(); ++s) {
    for (const PlainModel::Vec& expected : plain.Logits(packed.Sequence(s))) {
      for (size_t v = 0; v < expected.size(); ++v) {
        worst = std::max(worst,
                         std::abs(expected[v] - got[row][static_cast<int64_t>(v)].item<double>()));
      }
      ++row;
    }
  }
  EXPECT_EQ(row, logits.size(0));
  return worst;
}

const std::vector<int64_t> kLengths = {7, 1, 23, 12, 11, 2};

class ModelTest : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Families, ModelTest, ::testing::ValuesIn(Variants()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ModelTest, LogitsEqualThePlainModels) {
  for (const torch::Dtype dtype : {torch::kFloat64, torch::kFloat32}) {
    const auto model = RandomModel(GetParam().config, dtype);
    const Packed packed = RandomPacked(kLengths, GetParam().config.vocab_size);
    const double tolerance = dtype == torch::kFloat64 ? 1e-5 : 2e-4;  // Angles are float32.
    {
      torch::NoGradGuard no_grad;
      EXPECT_LT(ErrorAgainstPlain(*model, packed, LogitsOf(*model, packed)), tolerance);
    }
    model->SetRequiresGrad(true);  // As above, with the operators of training.
    EXPECT_LT(ErrorAgainstPlain(*model, packed, LogitsOf(*model, packed)), tolerance);
    PackedAttentionOptions small;  // Blocks of few queries, probabilities computed twice.
    small.max_saved_elements = 200;
    EXPECT_LT(ErrorAgainstPlain(*model, packed, LogitsOf(*model, packed, small)), tolerance);
  }
}

// Without gradients the kernels of float32 compute; with them the composed operators, as on a GPU.
TEST_P(ModelTest, HalfTypesAreCloseToThePlainModel) {
  const auto model = RandomModel(GetParam().config, torch::kBFloat16);
  const Packed packed = RandomPacked({9, 4}, GetParam().config.vocab_size);
  for (const bool gradients : {false, true}) {
    model->SetRequiresGrad(gradients);
    const Tensor logits = LogitsOf(*model, packed);
    EXPECT_EQ(logits.requires_grad(), gradients);
    const torch::NoGradGuard no_grad;
    EXPECT_EQ(logits.scalar_type(), torch::kBFloat16);
    const double scale = logits.to(torch::kFloat64).abs().max().item<double>();
    EXPECT_LT(ErrorAgainstPlain(*model, packed, logits), 0.1 * scale);  // 8 bits of mantissa
  }
}

TEST_P(ModelTest, ABatchOfManyEqualsOneByOneBitwise) {
  torch::NoGradGuard no_grad;
  const auto model = RandomModel(GetParam().config, torch::kFloat32);
  model->SetDeterministic(true);
  PackedAttentionOptions options;
  options.deterministic = true;
  const Packed packed = RandomPacked({7, 1, 23, 12, 40, 11, 2, 23}, GetParam().config.vocab_size);
  const Tensor many = LogitsOf(*model, packed, options);
  int64_t row = 0;
  for (size_t s = 0; s < packed.lengths.size(); ++s) {
    const Packed one = {{packed.lengths[s]}, torch::tensor(packed.Sequence(s), torch::kInt64)};
    EXPECT_TRUE(
        torch::equal(LogitsOf(*model, one, options), many.narrow(0, row, packed.lengths[s])))
        << "sequence " << s;
    row += packed.lengths[s];
  }
}

TEST_P(ModelTest, GradientsEqualFiniteDifferences) {
  const auto model = RandomModel(GetParam().config, torch::kFloat64);
  const Packed packed = RandomPacked({6, 1, 9}, GetParam().config.vocab_size);
  torch::manual_seed(8);
  const Tensor weights = torch::randn({16, GetParam().config.vocab_size}, torch::kFloat64);
  // Different paths: one block with its probabilities kept, and several without.
  for (const int64_t max_saved : {int64_t{1} << 20, int64_t{40}}) {
    PackedAttentionOptions options;
    options.max_saved_elements = max_saved;
    const auto loss = [&] {
      return (torch::log_softmax(LogitsOf(*model, packed, options), -1) * weights).sum();
    };
    model->SetRequiresGrad(true);
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    loss().backward();
    std::mt19937 random(2);
    torch::NoGradGuard no_grad;
    for (const auto& [name, parameter] : model->parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
      const Tensor grad = parameter.grad().contiguous();
      double* value = parameter.data_ptr<double>();
      for (int check = 0; check < 3; ++check) {
        const int64_t i = static_cast<int64_t>(random() % static_cast<uint64_t>(grad.numel()));
        constexpr double kStep = 1e-5;
        const double kept = value[i];
        value[i] = kept + kStep;
        const double up = loss().item<double>();
        value[i] = kept - kStep;
        const double down = loss().item<double>();
        value[i] = kept;
        const double expected = (up - down) / (2 * kStep);
        EXPECT_NEAR(grad.data_ptr<double>()[i], expected, 1e-6 + 1e-5 * std::abs(expected))
            << name << " " << i;
      }
    }
  }
}

TEST_P(ModelTest, GradientsInFloat32EqualThoseInFloat64) {
  const Packed packed = RandomPacked(kLengths, GetParam().config.vocab_size);
  std::vector<std::vector<Tensor>> grads;
  for (const torch::Dtype dtype : {torch::kFloat64, torch::kFloat32}) {
    const auto model = RandomModel(GetParam().config, torch::kFloat32);
    const auto twin = RandomModel(GetParam().config, dtype);
    for (size_t i = 0; i < model->parameters().size(); ++i) {
      twin->parameters()[i].second.copy_(model->parameters()[i].second);
    }
    twin->SetRequiresGrad(true);
    torch::log_softmax(LogitsOf(*twin, packed), -1).select(1, 3).mean().backward();
    grads.emplace_back();
    for (const auto& [name, parameter] : twin->parameters()) {
      grads.back().push_back(parameter.grad().to(torch::kFloat64));
    }
  }
  for (size_t i = 0; i < grads[0].size(); ++i) {
    const double scale = grads[0][i].abs().max().item<double>();
    EXPECT_LT((grads[0][i] - grads[1][i]).abs().max().item<double>(), 1e-3 * scale + 1e-7) << i;
  }
}

TEST(CausalLM, ParametersHaveHuggingFaceNamesInOrder) {
  ModelConfig config = Base(Family::kQwen2);
  config.num_hidden_layers = 1;
  config.num_key_value_heads = 2;
  config.tie_word_embeddings = true;
  const auto model = RandomModel(config, torch::kFloat32);
  std::vector<std::string> names;
  int64_t count = 0;
  for (const auto& [name, parameter] : model->parameters()) {
    names.push_back(name);
    count += parameter.numel();
    EXPECT_TRUE(parameter.is_contiguous()) << name;
  }
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model.embed_tokens.weight", layer + "input_layernorm.weight",
                       layer + "mlp.down_proj.weight", layer + "mlp.gate_proj.weight",
                       layer + "mlp.up_proj.weight", layer + "post_attention_layernorm.weight",
                       layer + "self_attn.k_proj.bias", layer + "self_attn.k_proj.weight",
                       layer + "self_attn.o_proj.weight", layer + "self_attn.q_proj.bias",
                       layer + "self_attn.q_proj.weight", layer + "self_attn.v_proj.bias",
                       layer + "self_attn.v_proj.weight", "model.norm.weight"}));
  EXPECT_EQ(count, config.NumParameters());
}

TEST(CausalLM, InitializationDependsOnTheSeedAlone) {
  ModelConfig config = Base(Family::kQwen2);
  config.hidden_size = 96;
  config.initializer_range = 0.02;
  auto first = CausalLM::Create(config, torch::kFloat32, torch::kCPU);
  auto second = CausalLM::Create(config, torch::kFloat32, torch::kCPU);
  auto other = CausalLM::Create(config, torch::kFloat32, torch::kCPU);
  (*first)->InitializeRandom(1);
  (*second)->InitializeRandom(1);
  (*other)->InitializeRandom(2);
  for (size_t i = 0; i < (*first)->parameters().size(); ++i) {
    const auto& [name, value] = (*first)->parameters()[i];
    EXPECT_TRUE(torch::equal(value, (*second)->parameters()[i].second)) << name;
    if (value.dim() == 1) {
      EXPECT_TRUE((value == (name.find("bias") == std::string::npos ? 1 : 0)).all().item<bool>());
    } else {
      EXPECT_FALSE(torch::equal(value, (*other)->parameters()[i].second)) << name;
      EXPECT_NEAR(value.std().item<double>(), 0.02, 0.003) << name;
    }
  }
}

TEST(CausalLM, ChangingAParameterInPlaceChangesEveryPath) {
  // Fused buffers and leaves are one storage.
  const auto model = RandomModel(Base(Family::kQwen2), torch::kFloat32);
  const Packed packed = RandomPacked({5}, model->config().vocab_size);
  for (const auto& [name, parameter] : model->parameters()) {
    model->SetRequiresGrad(false);
    const Tensor before = LogitsOf(*model, packed);
    parameter.add_(torch::randn_like(parameter) * 0.5);
    const Tensor plain = LogitsOf(*model, packed);
    model->SetRequiresGrad(true);
    const Tensor training = LogitsOf(*model, packed).detach();
    // A bias on the keys moves every score of a query alike, so only rotation makes it visible.
    EXPECT_GT((plain - before).abs().max().item<double>(), 1e-6) << name;
    EXPECT_LT((plain - training).abs().max().item<double>(), 1e-3) << name;
  }
}

TEST(CausalLM, TrainsAfterItGeneratedInInferenceMode) {
  const auto model = RandomModel(Base(Family::kLlama), torch::kFloat32);
  const Packed packed = RandomPacked({5, 3}, model->config().vocab_size);
  {
    c10::InferenceMode inference;
    LogitsOf(*model, packed);
  }
  model->SetRequiresGrad(true);
  LogitsOf(*model, packed).sum().backward();
  EXPECT_TRUE(model->parameters()[0].second.grad().defined());
}

TEST(CausalLM, BadInputIsAnError) {
  ModelConfig config = Base(Family::kLlama);
  config.num_key_value_heads = 3;
  EXPECT_EQ(CausalLM::Create(config, torch::kFloat32, torch::kCPU).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CausalLM::Create(Base(Family::kLlama), torch::kInt64, torch::kCPU).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto model = RandomModel(Base(Family::kLlama), torch::kFloat32);
  const Packed outside = {{2}, torch::tensor({int64_t{0}, int64_t{19}}, torch::kInt64)};
  EXPECT_THROW(LogitsOf(*model, outside), c10::Error);
}

TEST(GatedUnit, EqualsLibtorchsActivations) {
  torch::manual_seed(3);
  using Activation = ModelConfig::Activation;
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      const torch::Tensor x = (torch::randn({5, 2 * 37}, dtype) * 6).requires_grad_(true);
      const torch::Tensor gate = x.narrow(1, 0, 37), up = x.narrow(1, 37, 37);
      const torch::Tensor wanted =
          (activation == Activation::kSilu ? torch::silu(gate) : torch::gelu(gate, "tanh")) * up;
      const torch::Tensor weights = torch::arange(5 * 37, dtype).cos().view({5, 37});
      (wanted * weights).sum().backward();
      const torch::Tensor gradient = x.grad().clone();
      x.mutable_grad().zero_();
      const torch::Tensor ours = GatedUnit(x, activation);
      (ours * weights).sum().backward();
      const double most = dtype == torch::kFloat32 ? 1e-4 : 1e-10;
      EXPECT_TRUE(torch::allclose(ours, wanted, most, most));
      EXPECT_TRUE(torch::allclose(x.grad(), gradient, most, most));
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(torch::equal(GatedUnit(x, activation), ours));
    }
  }
}

}  // namespace
}  // namespace baton::engine
