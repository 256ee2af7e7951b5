// The set-up of the tests of drafts: requests of all kinds, and a generator's responses to them.
#ifndef BATON_TESTS_SUPPORT_ENGINE_GENERATOR_DRAFT_H_
#define BATON_TESTS_SUPPORT_ENGINE_GENERATOR_DRAFT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/engine/generator.h"

namespace baton::engine {

inline std::vector<int32_t> RandomTokens(int64_t n, std::mt19937& random) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(random() % kVocab));
  return tokens;
}

inline std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline int64_t CommonPrefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

inline GeneratorOptions Roomy(int64_t chunk = 512) {
  GeneratorOptions options = Deterministic();
  options.prefill_chunk_tokens = chunk;
  return options;
}

inline GeneratorOptions WithBlocks(CausalLM* model, int64_t blocks, int64_t chunk = 512) {
  GeneratorOptions options = Roomy(chunk);
  options.kv_cache_bytes = blocks * MakeGenerator(model)->stats().block_bytes;
  return options;
}

// A generator's responses to some requests.
struct Outcome {
  Responses responses;
  std::map<uint64_t, int64_t> accepted;  // draft tokens
  std::map<uint64_t, std::string> errors;
  GeneratorStats stats;
};

inline void StepIntoOutcome(Generator& generator, Outcome* outcome) {
  const auto updates = generator.Step();
  ASSERT_TRUE(updates.ok()) << updates.status();
  for (const GenerateUpdate& update : *updates) {
    Response& response = outcome->responses[update.id];
    ASSERT_EQ(response.finish_reason, "") << "an update after the last";
    ASSERT_EQ(update.new_tokens.size(), update.new_log_probs.size());
    ASSERT_EQ(update.new_tokens.size(), update.new_sampling_log_probs.size());
    ASSERT_LE(update.draft_accepted, static_cast<int64_t>(update.new_tokens.size()));
    response.tokens = Joined(response.tokens, update.new_tokens);
    for (float x : update.new_log_probs) response.log_probs.push_back(x);
    for (float x : update.new_sampling_log_probs) response.sampling_log_probs.push_back(x);
    response.finish_reason = update.finish_reason;
    outcome->accepted[update.id] += update.draft_accepted;
    if (!update.error.ok()) outcome->errors[update.id] = update.error.ToString();
  }
  outcome->stats = generator.stats();
}

inline Outcome Generate(CausalLM* model, const std::vector<GenerateRequest>& requests,
                        const GeneratorOptions& options) {
  Outcome outcome;
  const auto generator = MakeGenerator(model, options);
  for (const GenerateRequest& request : requests) {
    const absl::Status status = generator->Add(request);
    EXPECT_TRUE(status.ok()) << status;
  }
  while (!generator->idle() && !::testing::Test::HasFatalFailure()) {
    StepIntoOutcome(*generator, &outcome);
    if (outcome.stats.steps > 5000) {
      ADD_FAILURE() << "not idle after " << outcome.stats.steps << " steps";
      break;
    }
  }
  EXPECT_EQ(outcome.stats.free_blocks, outcome.stats.total_blocks) << "blocks leaked";
  return outcome;
}

// Temperatures, cuts, stops, limits and resumed tokens of all kinds; some prompts are equal.
inline std::vector<GenerateRequest> MixedRequests(int count, std::mt19937& random) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt = RandomTokens(1 + random() % 30, random);
    if (i > 0 && random() % 3 == 0) prompt = requests[random() % i].prompt;
    GenerateRequest request = Request(i, prompt, 1 + random() % 60);
    SamplingParams& params = request.params;
    params.temperature = std::vector<double>{0, 0.7, 1}[random() % 3];
    if (random() % 3 == 0) params.top_k = 1 + random() % 8;
    if (random() % 3 == 0) params.top_p = 0.75;
    if (random() % 4 == 0) params.stop_token_ids = {3, 9};
    if (random() % 4 == 0) params.stop_strings = {"ab", "AA", "q"};
    if (random() % 4 == 0) params.min_new_tokens = std::min<int64_t>(5, params.max_new_tokens);
    if (random() % 4 == 0) {
      // Token 20 is neither a stop token nor a part of a stop string.
      request.resume.assign(random() % params.max_new_tokens, 20);
    }
    request.key.job_seed = random();
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace baton::engine

#endif  // BATON_TESTS_SUPPORT_ENGINE_GENERATOR_DRAFT_H_
