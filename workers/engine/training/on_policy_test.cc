// In deterministic mode the trainer computes bitwise the log-probs that the generator reported when
// it sampled a response: for every model and temperature, with top_k, top_p and banned tokens, and
// however each of the two divides the sequences into batches.
#include <cmath>
#include <random>

#include "tests/support/engine/generator.h"
#include "tests/support/engine/trainer.h"

namespace baton::engine {
namespace {

using Family = ModelConfig::Family;

struct Preset {
  const char* name;
  ModelConfig config;
};

void PrintTo(const Preset& preset, std::ostream* os) { *os << preset.name; }

ModelConfig Config(Family family, int64_t vocab, int64_t heads, int64_t kv_heads, int64_t dim) {
  ModelConfig config;
  config.family = family;
  config.vocab_size = vocab;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_hidden_layers = 2;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = dim;
  config.max_position_embeddings = 256;
  config.attention_bias = family == Family::kQwen2;
  config.initializer_range = 0.2;
  return config;
}

std::vector<Preset> Presets() {
  std::vector<Preset> out = {{"LlamaGrouped", Config(Family::kLlama, 32, 4, 2, 6)},
                             {"Qwen3", Config(Family::kQwen3, 300, 4, 1, 16)},
                             {"LlamaWideHeads", Config(Family::kLlama, 50, 3, 3, 72)}};
  ModelConfig config = Config(Family::kQwen2, 70, 4, 2, 8);
  config.tie_word_embeddings = true;
  out.push_back({"Qwen2Tied", config});
  config = Config(Family::kLlama, 19, 2, 2, 10);
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  config.hidden_size = 36;
  config.rope.scaling = {RopeScaling::Type::kLlama3, 8.0, 1.0, 4.0, 24, {}, {}, 1.0};
  out.push_back({"AllBiases", config});
  config = Config(Family::kSmolLm3, 32, 4, 2, 6);
  config.layers.rotary = {true, false};
  out.push_back({"SmolLm3", config});
  config = Config(Family::kPhi3, 32, 4, 2, 8);
  config.rope.partial_rotary_factor = 0.5;
  out.push_back({"Phi3", config});
  out.push_back({"Olmo2", Config(Family::kOlmo2, 32, 4, 2, 6)});
  config = Config(Family::kGranite, 32, 4, 2, 6);
  config.embedding_multiplier = 3;
  config.residual_multiplier = 0.6;
  config.attention_multiplier = 0.35;
  config.logits_scaling = 1.5;
  out.push_back({"Granite", config});
  config = Config(Family::kGemma3, 32, 4, 2, 6);
  config.layers.sliding_window = 9;
  config.layers.sliding = {true, false};
  out.push_back({"Gemma3", config});
  config = Config(Family::kLlama, 1000, 4, 2, 32);
  config.hidden_size = 128;
  config.intermediate_size = 176;
  out.push_back({"LlamaLarger", config});
  return out;
}

// Random weights, biases and norms as well.
std::unique_ptr<CausalLM> ModelOf(const Preset& preset) {
  auto model = CausalLM::Create(preset.config, torch::kFloat32, torch::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  (*model)->InitializeRandom(5);
  (*model)->SetDeterministic(true);
  const torch::NoGradGuard no_grad;
  torch::manual_seed(6);
  for (const auto& [name, parameter] : (*model)->parameters()) {
    if (parameter.dim() == 1) parameter.add_(torch::randn_like(parameter) * 0.3);
  }
  return *std::move(model);
}

// Prompts of one token, of less and more than a block, and of whole blocks; two prompts have two
// requests each. Some requests have top_k, top_p or banned tokens.
std::vector<GenerateRequest> SomeRequests(int64_t vocab, double temperature) {
  std::mt19937 random(11);
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {1, 3, 16, 17, 40, 5, 70, 32, 9}) {
    std::vector<int32_t> prompt;
    for (int64_t i = 0; i < length; ++i) {
      prompt.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
    }
    for (int sample = 0; sample < (length == 17 || length == 5 ? 2 : 1); ++sample) {
      const uint64_t id = requests.size() + 1;
      const int64_t most = 1 + static_cast<int64_t>(random() % 45);
      requests.push_back(Request(id, prompt, most, temperature));
      SamplingParams& params = requests.back().params;
      if (id % 3 == 1) params.top_k = 10;
      if (id % 4 == 1) params.top_p = 0.8;
      if (id % 5 == 2) {
        params.stop_token_ids = {3, 7, 7};
        params.min_new_tokens = 1 + most / 2;
      }
    }
  }
  return requests;
}

std::vector<TrainSequence> BatchOf(const std::vector<GenerateRequest>& requests,
                                   const Responses& responses, float advantage) {
  std::vector<TrainSequence> batch;
  for (const GenerateRequest& request : requests) {
    batch.push_back(ToTrainOn(request, responses.at(request.id), advantage));
  }
  return batch;
}

Responses Sample(CausalLM* model, double temperature, int64_t max_num_seqs, int64_t chunk) {
  GeneratorOptions options = Deterministic();
  options.max_num_seqs = max_num_seqs;
  options.prefill_chunk_tokens = chunk;
  return RunAll(model, SomeRequests(model->config().vocab_size, temperature), options);
}

class OnPolicyTest : public ::testing::TestWithParam<Preset> {};

TEST_P(OnPolicyTest, TheTrainerScoresBitwiseWhatTheRolloutSaid) {
  const auto model = ModelOf(GetParam());
  const auto trainer = testing::MakeTrainer(*model, testing::Measuring());
  for (const double temperature : {0.0, 0.7, 1.0}) {
    const auto requests = SomeRequests(model->config().vocab_size, temperature);
    for (const auto& [max_num_seqs, chunk] : {std::pair<int64_t, int64_t>{128, 512}, {3, 7}}) {
      const Responses responses = Sample(model.get(), temperature, max_num_seqs, chunk);
      const auto batch = BatchOf(requests, responses, 1);
      for (const int64_t max_token_len : {0, 120, 300}) {  // packed together, and apart
        const auto scored =
            trainer->LogProbs(batch, temperature > 0 ? temperature : 1, max_token_len);
        ASSERT_TRUE(scored.ok()) << scored.status();
        for (size_t i = 0; i < batch.size(); ++i) {
          EXPECT_EQ((*scored)[i], batch[i].old_log_probs)
              << "sequence " << i << ", temperature " << temperature;
        }
      }
    }
  }
}

// The clip range is narrower than the distance from 1 to the next float, so every ratio but 1 is
// clipped: those above 1 where the advantage is positive, those below where it is negative.
TEST_P(OnPolicyTest, EveryRatioOfTheFirstUpdateIsExactlyOne) {
  const auto model = ModelOf(GetParam());
  const auto trainer = testing::MakeTrainer(*model, testing::Measuring());
  for (const double temperature : {0.0, 0.7, 1.0}) {
    const auto requests = SomeRequests(model->config().vocab_size, temperature);
    const Responses responses = Sample(model.get(), temperature, 5, 20);
    for (const float advantage : {1.0F, -1.0F}) {
      const auto batch = BatchOf(requests, responses, advantage);
      for (const auto kind : {LossSpec::kPpoClip, LossSpec::kGspo, LossSpec::kCispo}) {
        for (const double entropy_coeff : {0.0, 0.01}) {
          LossSpec loss;
          loss.kind = kind;
          loss.temperature = temperature > 0 ? temperature : 1;
          loss.clip_ratio_low = loss.clip_ratio_high = 1e-9;
          loss.entropy_coeff = entropy_coeff;
          UpdateOptions options;
          options.max_token_len = 130;
          const auto metrics = trainer->Update(batch, loss, options);
          ASSERT_TRUE(metrics.ok()) << metrics.status();
          EXPECT_EQ(metrics->at("actor/pg_clipfrac"), 0) << kind << " at " << temperature;
          EXPECT_EQ(metrics->at("actor/ppo_kl"), 0) << kind << " at " << temperature;
        }
      }
    }
  }
}

// The order of the sums changes the gradients by no more than rounding.
TEST_P(OnPolicyTest, GradientsAreThoseOfTheDefaultMode) {
  const auto model = ModelOf(GetParam());
  const auto trainer = testing::MakeTrainer(*model, testing::Measuring());
  const auto batch =
      BatchOf(SomeRequests(model->config().vocab_size, 0.7), Sample(model.get(), 0.7, 5, 20), 1);
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.temperature = 0.7;
  loss.entropy_coeff = 0.01;
  std::vector<torch::Tensor> grads[2];
  for (const bool deterministic : {false, true}) {
    model->SetDeterministic(deterministic);
    const auto metrics = trainer->Update(batch, loss, {});
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    for (const auto& named : model->parameters()) {
      grads[deterministic ? 1 : 0].push_back(named.second.grad().clone());
    }
  }
  for (size_t i = 0; i < grads[0].size(); ++i) {
    const double size = grads[0][i].abs().max().item<double>();
    EXPECT_GT(size, 0) << model->parameters()[i].first;
    EXPECT_LT((grads[1][i] - grads[0][i]).abs().max().item<double>(), 1e-4 * size + 1e-8)
        << model->parameters()[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnPolicyTest, ::testing::ValuesIn(Presets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::engine
