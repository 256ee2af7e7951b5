#include "bench/engine/engine_loads.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "workers/engine/generation/generator.h"
#include "workers/engine/training/trainer.h"

namespace baton::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPrompt = 6, kTokens = 45;  // "47+85:" and its working

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "engine_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double HeadElements(const ModelConfig& c) {
  return static_cast<double>(c.vocab_size * c.hidden_size);
}

double BodyElements(const ModelConfig& c) {
  double elements = 0;
  for (const auto& [out, in] : ProductShapes(c)) elements += static_cast<double>(out * in);
  return elements - HeadElements(c);
}

double AttentionFlops(const ModelConfig& c) {
  return static_cast<double>(4 * c.num_hidden_layers * c.num_attention_heads * c.head_dim);
}

// Any token but <pad> and <eos>, a function of the arguments.
int32_t Character(int64_t sequence, int64_t position) {
  return static_cast<int32_t>(2 + (sequence * 31 + sequence / 13 + position * 7) % 15);
}

std::vector<int32_t> Characters(int64_t sequence, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(Character(sequence, i));
  return tokens;
}

// Keeps `running` requests in a generator.
class Stream {
 public:
  Stream(engine::CausalLM& model, int64_t running) {
    engine::GeneratorOptions options;
    auto created = engine::Generator::Create(&model, nullptr, options);
    Check(created.status());
    generator_ = *std::move(created);
    const int64_t response = kTokens - kPrompt;
    for (int64_t i = 0; i < running; ++i) Add(1 + response * (i + 1) / (running + 1));
    for (int64_t i = 0; i < response; ++i) Step();  // Until the first ones have gone.
  }

  void Step() {
    const auto updates = generator_->Step();
    Check(updates.status());
    for (const auto& update : *updates) {
      if (update.finished) Add(kTokens - kPrompt);
    }
  }

  engine::GeneratorStats stats() const { return generator_->stats(); }

 private:
  void Add(int64_t new_tokens) {
    engine::GenerateRequest request;
    request.id = next_++;
    request.prompt = Characters(static_cast<int64_t>(request.id), kPrompt);
    request.params.max_new_tokens = new_tokens;
    request.key.prompt_id = request.id;
    Check(generator_->Add(std::move(request)));
  }

  std::unique_ptr<engine::Generator> generator_;
  uint64_t next_ = 0;
};

std::vector<engine::TrainSequence> MakeBatch(int64_t sequences) {
  std::vector<engine::TrainSequence> batch(sequences);
  for (int64_t i = 0; i < sequences; ++i) {
    batch[i].tokens = Characters(i, kTokens - 15 + i * 7 % 31);  // 30 to 60
    batch[i].prompt_length = kPrompt;
    batch[i].advantages = {i % 2 == 0 ? 1.0f : -1.0f};
  }
  return batch;
}

double TrainFlops(const ModelConfig& config, const std::vector<engine::TrainSequence>& batch) {
  double flops = 0;
  for (const auto& sequence : batch) {
    const double rows = static_cast<double>(engine::InputLength(sequence));
    flops += rows * 2 * BodyElements(config) + AttentionFlops(config) * rows * (rows + 1) / 2 +
             2 * HeadElements(config) * static_cast<double>(sequence.response_length());
  }
  return 3 * flops;
}

}  // namespace

ModelConfig AdditionModel() {
  ModelConfig config;
  config.vocab_size = 17;
  config.hidden_size = 96;
  config.intermediate_size = 256;
  config.num_hidden_layers = 3;
  config.num_attention_heads = config.num_key_value_heads = 4;
  config.head_dim = 24;
  config.max_position_embeddings = 512;
  config.tie_word_embeddings = true;
  return config;
}

std::vector<std::pair<int64_t, int64_t>> ProductShapes(const ModelConfig& c) {
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    shapes.push_back({q + 2 * kv, c.hidden_size});
    shapes.push_back({c.hidden_size, q});
    shapes.push_back({2 * c.intermediate_size, c.hidden_size});
    shapes.push_back({c.hidden_size, c.intermediate_size});
  }
  shapes.push_back({c.vocab_size, c.hidden_size});
  return shapes;
}

Load Generate(engine::CausalLM& model, int64_t running, int64_t steps) {
  Stream stream(model, running);
  const engine::GeneratorStats before = stream.stats();
  const auto start = Clock::now();
  for (int64_t i = 0; i < steps; ++i) stream.Step();
  Load load;
  load.seconds = Since(start);
  const engine::GeneratorStats after = stream.stats();
  const ModelConfig& config = model.config();
  load.tokens = static_cast<double>(after.generated_tokens - before.generated_tokens);
  // A request's rows are its tokens but the last, and see 1, 2, ... positions: the mean is half of
  // its tokens. One row in (tokens - 1) / (response) gives no token.
  const double rows = load.tokens * (kTokens - 1) / (kTokens - kPrompt);
  const double positions = rows * kTokens / 2;
  load.flops = 2 * rows * BodyElements(config) + 2 * load.tokens * HeadElements(config) +
               AttentionFlops(config) * positions;
  const auto kv_row = config.num_hidden_layers * config.num_key_value_heads * config.head_dim;
  load.bytes = static_cast<double>(steps * config.NumParameters() * 4) +
               positions * static_cast<double>(2 * kv_row * 4);
  return load;
}

Load Train(engine::CausalLM& model, Training kind, int64_t updates) {
  OptimizerSpec optimizer;
  optimizer.lr = 1e-6;
  auto trainer = engine::Trainer::Create(&model, optimizer);
  Check(trainer.status());
  auto batch = MakeBatch(kind == Training::kSft ? 64 : 256);
  LossSpec loss;
  if (kind == Training::kRl) {
    loss.kind = LossSpec::kPpoClip;
    auto log_probs = (*trainer)->LogProbs(batch, loss.temperature);
    Check(log_probs.status());
    for (size_t i = 0; i < batch.size(); ++i) batch[i].behaviour_log_probs = (*log_probs)[i];
  }
  Check((*trainer)->Update(batch, loss, {}).status());
  Load load;
  const auto start = Clock::now();
  for (int64_t i = 0; i < updates; ++i) {
    const auto metrics = (*trainer)->Update(batch, loss, {});
    Check(metrics.status());
    load.tokens += metrics->at("perf/total_num_tokens");
  }
  load.seconds = Since(start);
  load.flops = static_cast<double>(updates) * TrainFlops(model.config(), batch);
  return load;
}

}  // namespace baton::bench
