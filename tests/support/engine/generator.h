// The set-up of the tests of the generator: a small random model, requests, and responses collected
// update by update. One thread.
#ifndef BATON_TESTS_SUPPORT_ENGINE_GENERATOR_H_
#define BATON_TESTS_SUPPORT_ENGINE_GENERATOR_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "workers/engine/generation/generator.h"
#include "workers/engine/loss/micro_batch.h"

namespace baton::engine {

inline constexpr int64_t kVocab = 32;

inline std::unique_ptr<CausalLM> MakeModel(uint64_t seed = 1,
                                           torch::Dtype dtype = torch::kFloat32) {
  ModelConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.max_position_embeddings = 128;
  config.initializer_range = 0.3;  // logits far enough apart to notice a mistake
  auto model = CausalLM::Create(config, dtype, torch::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  (*model)->InitializeRandom(seed);
  return *std::move(model);
}

// Tokens whose embedding is NaN make rows of NaN, of their requests alone.
inline void SetEmbedding(CausalLM& model, int32_t token, double value) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, weight] : model.parameters()) {
    if (name == "model.embed_tokens.weight") torch::Tensor(weight)[token].fill_(value);
  }
}

// "a" to "z", then six of two letters.
inline std::string Piece(int32_t token) {
  if (token < 26) return std::string(1, static_cast<char>('a' + token));
  return std::string("A") + static_cast<char>('A' + token - 26);
}

inline std::string Decode(absl::Span<const int32_t> tokens) {
  std::string text;
  for (int32_t token : tokens) text += Piece(token);
  return text;
}

// Attention over one whole sequence, by definition.
class WholeSequenceAttention : public AttentionContext {
 public:
  torch::Tensor Attend(const AttentionLayer& layer, const torch::Tensor& q, const torch::Tensor& k,
                       const torch::Tensor& v) override {
    const int64_t n = q.size(0), group = q.size(1) / k.size(1);
    const auto keys = k.repeat_interleave(group, 1), values = v.repeat_interleave(group, 1);
    const auto scores = torch::einsum("ihd,jhd->hij", {q, keys}) / std::sqrt(q.size(2));
    auto hidden = torch::ones({n, n}, torch::kBool).triu(1);
    if (layer.window > 0) hidden |= torch::ones({n, n}, torch::kBool).tril(-layer.window);
    const auto weights =
        torch::softmax(scores.masked_fill(hidden, -std::numeric_limits<float>::infinity()), -1);
    return torch::einsum("hij,jhd->ihd", {weights, values});
  }
};

// Logits of the token that follows `sequence`: [1, kVocab], without a cache.
inline torch::Tensor NextLogits(CausalLM* model, const std::vector<int64_t>& sequence) {
  const torch::NoGradGuard no_grad;
  WholeSequenceAttention attention;
  const auto tokens = torch::tensor(sequence, torch::kInt64);
  const auto positions = torch::arange(static_cast<int64_t>(sequence.size()), torch::kInt64);
  const auto hidden = model->Hidden(tokens, positions, attention);
  return model->Logits(hidden.narrow(0, hidden.size(0) - 1, 1));
}

inline std::unique_ptr<Generator> MakeGenerator(CausalLM* model, GeneratorOptions options = {}) {
  auto generator = Generator::Create(model, Decode, options);
  EXPECT_TRUE(generator.ok()) << generator.status();
  return *std::move(generator);
}

inline GeneratorOptions Deterministic() {
  GeneratorOptions options;
  options.deterministic = true;
  return options;
}

inline GenerateRequest Request(uint64_t id, std::vector<int32_t> prompt, int64_t max_new_tokens,
                               double temperature = 1) {
  GenerateRequest request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.params.max_new_tokens = max_new_tokens;
  request.params.temperature = temperature;
  request.key = {77, 1, id, 2, 3};
  return request;
}

struct Response {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
  std::vector<float> sampling_log_probs;
  std::string finish_reason;
  friend bool operator==(const Response& a, const Response& b) {
    return a.tokens == b.tokens && a.log_probs == b.log_probs &&
           a.sampling_log_probs == b.sampling_log_probs && a.finish_reason == b.finish_reason;
  }
  friend bool operator!=(const Response& a, const Response& b) { return !(a == b); }
};

inline void PrintTo(const Response& r, std::ostream* os) {
  *os << ::testing::PrintToString(r.tokens) << " " << ::testing::PrintToString(r.log_probs) << " "
      << r.finish_reason;
}

using Responses = std::map<uint64_t, Response>;

inline void StepInto(Generator& generator, Responses* responses) {
  const auto updates = generator.Step();
  ASSERT_TRUE(updates.ok()) << updates.status();
  for (const GenerateUpdate& update : *updates) {
    Response& response = (*responses)[update.id];
    EXPECT_EQ(response.finish_reason, "") << "an update after the last";
    EXPECT_EQ(update.new_tokens.size(), update.new_log_probs.size());
    EXPECT_EQ(update.new_tokens.size(), update.new_sampling_log_probs.size());
    EXPECT_EQ(update.finished, !update.finish_reason.empty());
    response.tokens.insert(response.tokens.end(), update.new_tokens.begin(),
                           update.new_tokens.end());
    response.log_probs.insert(response.log_probs.end(), update.new_log_probs.begin(),
                              update.new_log_probs.end());
    response.sampling_log_probs.insert(response.sampling_log_probs.end(),
                                       update.new_sampling_log_probs.begin(),
                                       update.new_sampling_log_probs.end());
    response.finish_reason = update.finish_reason;
  }
}

inline Responses Finish(Generator& generator, int max_steps = 2000) {
  Responses responses;
  for (int step = 0; !generator.idle(); ++step) {
    if (step == max_steps || ::testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << "not idle after " << step << " steps";
      break;
    }
    StepInto(generator, &responses);
  }
  return responses;
}

inline Responses RunAll(CausalLM* model, const std::vector<GenerateRequest>& requests,
                        const GeneratorOptions& options) {
  const auto generator = MakeGenerator(model, options);
  for (const GenerateRequest& request : requests) {
    const absl::Status status = generator->Add(request);
    EXPECT_TRUE(status.ok()) << status;
  }
  return Finish(*generator);
}

inline Response RunAlone(CausalLM* model, const GenerateRequest& request,
                         const GeneratorOptions& options) {
  return RunAll(model, {request}, options)[request.id];
}

/// A response as a sequence to train on, with one advantage for all of its tokens.
inline TrainSequence ToTrainOn(const GenerateRequest& request, const Response& response,
                               float advantage) {
  TrainSequence s;
  s.tokens = request.prompt;
  s.prompt_length = static_cast<int64_t>(s.tokens.size());
  s.tokens.insert(s.tokens.end(), response.tokens.begin(), response.tokens.end());
  s.old_log_probs = response.log_probs;
  s.behaviour_log_probs = response.sampling_log_probs;
  s.advantages = {advantage};
  return s;
}

}  // namespace baton::engine

#endif  // BATON_TESTS_SUPPORT_ENGINE_GENERATOR_H_
