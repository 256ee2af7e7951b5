#include "workers/engine/generation/generator.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/engine/generator.h"
#include "workers/engine/kernels/kv_cache.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Generation without a cache: the whole sequence again for every token.
Response SlowResponse(CausalLM* model, const GenerateRequest& request) {
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> sequence(request.prompt.begin(), request.prompt.end());
  Response response;
  Sampler sampler;
  const UniformStream uniforms(request.key);
  for (int64_t i = 0; i < request.params.max_new_tokens; ++i) {
    const auto logits = NextLogits(model, sequence).to(torch::kFloat32).contiguous();
    const auto sampled = sampler.Sample(absl::MakeConstSpan(logits.data_ptr<float>(), kVocab),
                                        request.params, {}, uniforms.At(i));
    sequence.push_back(sampled->token);
    response.tokens.push_back(sampled->token);
    response.log_probs.push_back(sampled->log_prob);
    response.sampling_log_probs.push_back(sampled->sampling_log_prob);
  }
  response.finish_reason = "length";
  return response;
}

void ExpectSameUpToRounding(const Response& a, const Response& b, double tolerance = 2e-4) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
  ASSERT_EQ(a.log_probs.size(), b.log_probs.size());
  for (size_t i = 0; i < a.log_probs.size(); ++i) {
    EXPECT_NEAR(a.log_probs[i], b.log_probs[i], tolerance) << "token " << i;
  }
}

std::vector<int32_t> RandomTokens(int64_t n, std::mt19937& random) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(random() % kVocab));
  return tokens;
}

// Prompts of many lengths, some equal; all kinds of sampling; stops of both kinds.
std::vector<GenerateRequest> MixedRequests(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt = RandomTokens(1 + random() % 50, random);
    if (i % 3 == 2) prompt = requests[random() % i].prompt;
    GenerateRequest request = Request(i, prompt, 1 + random() % 40, i % 4 == 0 ? 0.0 : 1.0);
    if (i % 4 == 1) request.params.top_k = 5;
    if (i % 4 == 2) request.params.top_p = 0.8;
    if (i % 5 == 0) request.params.stop_token_ids = {3, 9};
    if (i % 5 == 1) request.params.stop_strings = {"ab", "A"};
    if (i % 6 == 0) {
      request.params.min_new_tokens = std::min<int64_t>(4, request.params.max_new_tokens);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(GeneratorTest, EqualsUncachedGeneration) {
  const auto model = MakeModel();
  std::mt19937 random(3);
  GeneratorOptions options;
  options.prefill_chunk_tokens = 7;
  for (const int64_t length : {1, 2, 15, 16, 17, 40}) {
    for (const double temperature : {0.0, 1.0}) {
      const auto request = Request(length, RandomTokens(length, random), 36, temperature);
      ExpectSameUpToRounding(RunAlone(model.get(), request, options),
                             SlowResponse(model.get(), request));
    }
  }
}

TEST(GeneratorTest, Float64TakesTheOperators) {
  const auto model = MakeModel(1, torch::kFloat64);
  std::mt19937 random(4);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(Request(i, RandomTokens(3 + 9 * i, random), 20));
  }
  Responses together = RunAll(model.get(), requests, GeneratorOptions());
  for (const GenerateRequest& request : requests) {
    ExpectSameUpToRounding(together[request.id], SlowResponse(model.get(), request));
  }
}

// The model's weights and the values between its layers are rounded, so its logits are nearly those
// of the same weights in float32.
TEST(GeneratorTest, NarrowTypesAreFloat32Rounded) {
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kHalf}) {
    const auto narrow = MakeModel(1, dtype), wide = MakeModel(1, torch::kFloat32);
    {
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < wide->parameters().size(); ++i) {
        torch::Tensor(wide->parameters()[i].second).copy_(narrow->parameters()[i].second);
      }
    }
    std::mt19937 random(5);
    double worst = 0;
    for (int i = 0; i < 5; ++i) {
      const GenerateRequest request = Request(i, RandomTokens(3 + 9 * i, random), 20);
      const Response response = RunAlone(narrow.get(), request, GeneratorOptions());
      std::vector<int64_t> sequence(request.prompt.begin(), request.prompt.end());
      for (size_t t = 0; t < response.tokens.size(); ++t) {
        const auto right = torch::log_softmax(NextLogits(wide.get(), sequence), -1);
        const double difference =
            right[0][response.tokens[t]].item<double>() - response.log_probs[t];
        worst = std::max(worst, std::abs(difference));
        sequence.push_back(response.tokens[t]);
      }
    }
    EXPECT_LT(worst, dtype == torch::kHalf ? 0.02 : 0.16);
    EXPECT_GT(worst, 1e-5) << "nothing is rounded";
  }
}

// The main property: in deterministic mode neither other requests, nor the time of entry, nor
// chunks, nor shared prompts, nor preemption for memory change one bit.
TEST(GeneratorTest, ManyEqualOneByOneBitwise) {
  const auto model = MakeModel();
  const std::vector<GenerateRequest> requests = MixedRequests(60, 11);
  Responses alone;
  for (const GenerateRequest& request : requests) {
    alone[request.id] = RunAlone(model.get(), request, Deterministic());
  }
  int stops = 0;
  for (const auto& [id, response] : alone) stops += response.finish_reason == "stop";
  EXPECT_GT(stops, 5) << "the requests should exercise stops";

  const int64_t block_bytes = MakeGenerator(model.get())->stats().block_bytes;
  struct Setting {
    int64_t max_num_seqs, chunk, blocks;
  };
  for (const Setting& setting : {Setting{64, 512, 1000}, Setting{7, 5, 1000}, Setting{20, 16, 14},
                                 Setting{3, 1, 9}, Setting{13, 64, 40}}) {
    GeneratorOptions options = Deterministic();
    options.max_num_seqs = setting.max_num_seqs;
    options.prefill_chunk_tokens = setting.chunk;
    options.kv_cache_bytes = setting.blocks * block_bytes;
    const auto generator = MakeGenerator(model.get(), options);
    std::mt19937 random(static_cast<unsigned>(setting.blocks));
    std::vector<GenerateRequest> order = requests;
    std::shuffle(order.begin(), order.end(), random);
    Responses together;
    size_t next = 0;
    while (next < order.size() || !generator->idle()) {
      for (int entering = random() % 4; entering > 0 && next < order.size(); --entering) {
        ASSERT_TRUE(generator->Add(order[next++]).ok());
      }
      ASSERT_NO_FATAL_FAILURE(StepInto(*generator, &together));
      ASSERT_LT(generator->stats().steps, 20000);
      ASSERT_LE(generator->stats().running, setting.max_num_seqs);
    }
    for (const GenerateRequest& request : requests) {
      EXPECT_EQ(together[request.id], alone[request.id])
          << "request " << request.id << " with " << setting.blocks << " blocks";
    }
    EXPECT_EQ(generator->stats().free_blocks, setting.blocks) << "blocks leaked";
  }
}

TEST(GeneratorTest, ThreadsDoNotChangeABit) {
  const auto model = MakeModel();
  const std::vector<GenerateRequest> requests = MixedRequests(20, 31);
  const Responses one = RunAll(model.get(), requests, Deterministic());
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 2);
  const Responses several = RunAll(model.get(), requests, Deterministic());
  at::set_num_threads(threads);
  EXPECT_EQ(several, one);
}

TEST(GeneratorTest, BatchedEqualsUncached) {
  const auto model = MakeModel();
  std::mt19937 random(8);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(Request(i, RandomTokens(1 + random() % 30, random), 25));
  }
  Responses together = RunAll(model.get(), requests, GeneratorOptions());
  for (const GenerateRequest& request : requests) {
    ExpectSameUpToRounding(together[request.id], SlowResponse(model.get(), request));
  }
}

TEST(GeneratorTest, EqualPromptsAreComputedOnce) {
  const auto model = MakeModel();
  std::mt19937 random(5);
  const std::vector<int32_t> prompt = RandomTokens(37, random);
  std::vector<GenerateRequest> requests;
  for (uint32_t sample = 0; sample < 6; ++sample) {
    GenerateRequest request = Request(sample, prompt, 20);
    request.key = {1, 1, 1, 1, sample};
    requests.push_back(request);
  }
  GeneratorOptions options = Deterministic();
  options.prefill_chunk_tokens = 10;
  const auto generator = MakeGenerator(model.get(), options);
  for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
  Responses together = Finish(*generator);
  EXPECT_EQ(generator->stats().prefilled_tokens, 37);
  EXPECT_EQ(generator->stats().shared_prompt_tokens, 5 * 37);
  for (const GenerateRequest& request : requests) {
    EXPECT_EQ(together[request.id], RunAlone(model.get(), request, Deterministic()));
  }
  EXPECT_NE(together[0].tokens, together[1].tokens) << "samples should differ";

  // A latecomer finds the prompt still there, and starts from its last hidden state.
  GenerateRequest late = requests[4];
  late.id = 99;
  ASSERT_TRUE(generator->Add(late).ok());
  EXPECT_EQ(Finish(*generator)[99], together[4]);
  EXPECT_EQ(generator->stats().prefilled_tokens, 37);
}

TEST(GeneratorTest, SharedPromptTakesMemoryOnce) {
  const auto model = MakeModel();
  std::mt19937 random(6);
  const auto generator = MakeGenerator(model.get());
  const std::vector<int32_t> prompt = RandomTokens(48, random);  // three blocks
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(generator->Add(Request(i, prompt, 8)).ok());
  Responses responses;
  StepInto(*generator, &responses);
  StepInto(*generator, &responses);  // each has one token computed, in a block of its own
  const GeneratorStats stats = generator->stats();
  EXPECT_EQ(stats.running, 10);
  EXPECT_EQ(stats.total_blocks - stats.free_blocks, 3 + 10);
}

TEST(GeneratorTest, ResumedEqualsUndisturbed) {
  const auto model = MakeModel();
  std::mt19937 random(7);
  for (const bool stops : {false, true}) {
    GenerateRequest request = Request(5, RandomTokens(21, random), 34);
    if (stops) request.params.stop_strings = {"z", "b", "AA"};
    const Response whole = RunAlone(model.get(), request, Deterministic());
    ASSERT_EQ(whole.finish_reason, stops ? "stop" : "length");
    for (size_t cut = 0; cut <= whole.tokens.size(); ++cut) {
      GenerateRequest resumed = request;
      resumed.resume.assign(whole.tokens.begin(), whole.tokens.begin() + cut);
      const Response rest = RunAlone(model.get(), resumed, Deterministic());
      Response expected = whole;
      expected.tokens.erase(expected.tokens.begin(), expected.tokens.begin() + cut);
      for (auto* column : {&expected.log_probs, &expected.sampling_log_probs}) {
        column->erase(column->begin(), column->begin() + cut);
      }
      EXPECT_EQ(rest, expected) << "cut at " << cut;
    }
  }
}

TEST(GeneratorTest, TinyBudgetCompletesAllWithTheSameResponses) {
  const auto model = MakeModel();
  const std::vector<GenerateRequest> requests = MixedRequests(30, 23);
  Responses plenty = RunAll(model.get(), requests, Deterministic());
  GeneratorOptions options = Deterministic();
  const int64_t block_bytes = MakeGenerator(model.get())->stats().block_bytes;
  options.kv_cache_bytes = 7 * block_bytes;  // the longest request alone: 4 + 3 blocks
  const auto generator = MakeGenerator(model.get(), options);
  for (const GenerateRequest& request : requests) {
    const absl::Status status = generator->Add(request);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(Finish(*generator), plenty);
  EXPECT_EQ(generator->stats().free_blocks, 7);
}

TEST(GeneratorTest, OutgrowingTheBudgetPreemptsTheYoungest) {
  const auto model = MakeModel();
  const int64_t block_bytes = MakeGenerator(model.get())->stats().block_bytes;
  std::mt19937 random(9);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(Request(i, RandomTokens(4, random), 60));
  GeneratorOptions options = Deterministic();
  options.kv_cache_bytes = 10 * block_bytes;  // each grows to 1 + 4
  const auto generator = MakeGenerator(model.get(), options);
  for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
  Responses responses = Finish(*generator);
  EXPECT_GT(generator->stats().preemptions, 0);
  for (const GenerateRequest& request : requests) {
    EXPECT_EQ(responses[request.id], RunAlone(model.get(), request, Deterministic()));
  }
}

// Six blocks, requests of a prompt block and a response block each. Three are admitted, which have
// all they need; without the reserve six would be, and each would take another's blocks.
TEST(GeneratorTest, AdmissionLeavesABlockForEachThatRuns) {
  const auto model = MakeModel();
  const int64_t block_bytes = MakeGenerator(model.get())->stats().block_bytes;
  GeneratorOptions options = Deterministic();
  options.kv_cache_bytes = 6 * block_bytes;
  const auto generator = MakeGenerator(model.get(), options);
  std::mt19937 random(10);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(generator->Add(Request(i, RandomTokens(4, random), 16)).ok());
  }
  EXPECT_EQ(Finish(*generator).size(), 6u);
  EXPECT_EQ(generator->stats().preemptions, 0);
}

// Requests of one length: a preempted one goes on before those that have not begun, so they end in
// the order in which they came.
TEST(GeneratorTest, APreemptedRequestGoesOnBeforeThoseThatWait) {
  const auto model = MakeModel();
  GeneratorOptions options = Deterministic();
  options.kv_cache_bytes = 10 * MakeGenerator(model.get())->stats().block_bytes;
  const auto generator = MakeGenerator(model.get(), options);
  std::mt19937 random(11);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(generator->Add(Request(i, RandomTokens(4, random), 60)).ok());
  }
  std::vector<uint64_t> ended;
  while (!generator->idle()) {
    const auto updates = generator->Step();
    ASSERT_TRUE(updates.ok()) << updates.status();
    for (const GenerateUpdate& update : *updates) {
      if (update.finished) ended.push_back(update.id);
    }
  }
  EXPECT_GT(generator->stats().preemptions, 0);
  EXPECT_THAT(ended, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(GeneratorTest, RefusesWhatCanNeverFit) {
  const auto model = MakeModel();
  GeneratorOptions options;
  options.kv_cache_bytes = 4 * MakeGenerator(model.get())->stats().block_bytes;
  const auto generator = MakeGenerator(model.get(), options);
  // The last token is never computed: 33 new tokens need two blocks, 34 three.
  EXPECT_TRUE(generator->Add(Request(1, std::vector<int32_t>(32, 1), 33)).ok());
  const absl::Status status = generator->Add(Request(2, std::vector<int32_t>(32, 1), 34));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("request 2: prompt of 32 tokens"));
  EXPECT_EQ(Finish(*generator)[1].tokens.size(), 33u);
}

TEST(GeneratorTest, LongPromptsDoNotStallDecoding) {
  const auto model = MakeModel();
  GeneratorOptions options;
  options.prefill_chunk_tokens = 8;
  const auto generator = MakeGenerator(model.get(), options);
  std::mt19937 random(10);
  ASSERT_TRUE(generator->Add(Request(1, RandomTokens(4, random), 30)).ok());
  Responses responses;
  StepInto(*generator, &responses);
  ASSERT_TRUE(generator->Add(Request(2, RandomTokens(60, random), 5)).ok());
  for (int step = 1; step <= 9; ++step) {
    StepInto(*generator, &responses);
    EXPECT_EQ(responses[1].tokens.size(), static_cast<size_t>(step + 1));
    EXPECT_EQ(responses[2].tokens.size(), step < 8 ? 0u : step - 7u) << "60 tokens take 8 chunks";
  }
}

TEST(GeneratorTest, CancelFreesMemoryAndDisturbsNobody) {
  const auto model = MakeModel();
  std::mt19937 random(12);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(Request(i, RandomTokens(20, random), 30));
  GeneratorOptions options = Deterministic();
  options.max_num_seqs = 4;
  const auto generator = MakeGenerator(model.get(), options);
  for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
  Responses responses;
  for (int i = 0; i < 3; ++i) StepInto(*generator, &responses);
  const GeneratorStats before = generator->stats();
  EXPECT_EQ(before.running, 4);
  EXPECT_EQ(before.waiting, 1);
  EXPECT_TRUE(generator->Cancel(1));   // running: a prompt of two blocks, one of its own
  EXPECT_TRUE(generator->Cancel(4));   // waiting
  EXPECT_FALSE(generator->Cancel(1));  // not live any more
  EXPECT_FALSE(generator->Cancel(77));
  EXPECT_EQ(generator->stats().free_blocks, before.free_blocks + 3);
  EXPECT_EQ(generator->Add(Request(1, {1}, 1)).code(), absl::StatusCode::kAlreadyExists)
      << "its end is not reported yet";
  StepInto(*generator, &responses);
  EXPECT_EQ(responses[1].finish_reason, "cancelled");
  EXPECT_EQ(responses[1].tokens.size(), 3u);
  EXPECT_EQ(responses[4].finish_reason, "cancelled");
  EXPECT_THAT(responses[4].tokens, IsEmpty());
  while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepInto(*generator, &responses));
  for (int id : {0, 2, 3}) {
    EXPECT_EQ(responses[id], RunAlone(model.get(), requests[id], Deterministic()));
  }
  EXPECT_EQ(generator->stats().free_blocks, before.total_blocks);
  EXPECT_TRUE(generator->Add(Request(1, {1}, 1)).ok()) << "the id is free again";
}

TEST(GeneratorTest, CancelDuringThePromptHandsItToTheOthers) {
  const auto model = MakeModel();
  std::mt19937 random(13);
  const std::vector<int32_t> prompt = RandomTokens(40, random);
  GeneratorOptions options = Deterministic();
  options.prefill_chunk_tokens = 16;
  const auto generator = MakeGenerator(model.get(), options);
  const GenerateRequest first = Request(1, prompt, 5), second = Request(2, prompt, 5);
  ASSERT_TRUE(generator->Add(first).ok());
  ASSERT_TRUE(generator->Add(second).ok());
  Responses responses;
  StepInto(*generator, &responses);
  EXPECT_TRUE(generator->Cancel(1));
  EXPECT_EQ(Finish(*generator)[2], RunAlone(model.get(), second, Deterministic()));
  EXPECT_EQ(generator->stats().prefilled_tokens, 40);
  // Without others the unfinished prompt goes at once.
  ASSERT_TRUE(generator->Add(Request(3, RandomTokens(40, random), 5)).ok());
  StepInto(*generator, &responses);
  EXPECT_TRUE(generator->Cancel(3));
  const GeneratorStats stats = generator->stats();
  EXPECT_EQ(stats.free_blocks, stats.total_blocks);
  EXPECT_EQ(stats.cached_blocks, 3) << "only the first prompt";
}

TEST(GeneratorTest, EndsRequestsWithNothingLeftToGenerateAtOnce) {
  const auto model = MakeModel();
  const auto generator = MakeGenerator(model.get());
  GenerateRequest none = Request(1, {1, 2}, 0);
  GenerateRequest full = Request(2, {1, 2}, 3);
  full.resume = {7, 8, 9};
  GenerateRequest stopped = Request(3, {1, 2}, 5);
  stopped.resume = {7, 8};
  stopped.params.stop_token_ids = {8};
  GenerateRequest more = Request(4, {1, 2}, 3);  // resumed beyond its own limit
  more.resume = {7, 8, 9, 10};
  for (const auto& request : {none, full, stopped, more}) {
    ASSERT_TRUE(generator->Add(request).ok());
  }
  EXPECT_FALSE(generator->idle());
  EXPECT_FALSE(generator->Cancel(1)) << "already over";
  Responses responses;
  StepInto(*generator, &responses);
  EXPECT_TRUE(generator->idle());
  EXPECT_EQ(responses[1].finish_reason, "length");
  EXPECT_EQ(responses[2].finish_reason, "length");
  EXPECT_EQ(responses[3].finish_reason, "stop");
  EXPECT_EQ(responses[4].finish_reason, "length");
  for (const auto& [id, response] : responses) EXPECT_THAT(response.tokens, IsEmpty());
  const auto idle_step = generator->Step();
  ASSERT_TRUE(idle_step.ok());
  EXPECT_THAT(*idle_step, IsEmpty());
}

TEST(GeneratorTest, OneTokenPromptAndOneTokenResponse) {
  const auto model = MakeModel();
  const GenerateRequest request = Request(1, {31}, 1, 0.0);
  ExpectSameUpToRounding(RunAlone(model.get(), request, GeneratorOptions()),
                         SlowResponse(model.get(), request));
}

TEST(GeneratorTest, FillsTheModelsPositions) {
  const auto model = MakeModel();
  std::mt19937 random(14);
  const GenerateRequest request = Request(1, RandomTokens(100, random), 28);
  ExpectSameUpToRounding(RunAlone(model.get(), request, GeneratorOptions()),
                         SlowResponse(model.get(), request));
  const absl::Status status = MakeGenerator(model.get())->Add(Request(2, request.prompt, 29));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("128 positions"));
}

TEST(GeneratorTest, RefusesBadRequestsAndStaysUsable) {
  const auto model = MakeModel();
  const auto generator = MakeGenerator(model.get());
  const auto expect_refused = [&](const GenerateRequest& request, const char* text) {
    const absl::Status status = generator->Add(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  expect_refused(Request(8, {}, 5), "request 8: prompt: has no tokens");
  expect_refused(Request(8, {1, 32}, 5), "prompt[1]: token 32");
  expect_refused(Request(8, {-1}, 5), "prompt[0]: token -1");
  GenerateRequest resume = Request(8, {1}, 5);
  resume.resume = {1, 2, 99};
  expect_refused(resume, "resume[2]: token 99");
  resume.resume = {1, 2, 3};
  resume.params.stop_token_ids = {2};
  expect_refused(resume, "request 8: resume: goes on after token 2, where the response ends");
  GenerateRequest endless = Request(8, {1}, 5);
  endless.params.min_new_tokens = 1;
  for (int64_t id = 0; id < 32; ++id) endless.params.stop_token_ids.push_back(id);
  expect_refused(endless, "min_new_tokens: 1 cannot be had");
  expect_refused(Request(8, {1}, -1), "max_new_tokens: -1");
  expect_refused(Request(8, {1}, std::numeric_limits<int64_t>::max()), "positions");
  EXPECT_TRUE(generator->idle());
  const auto without_tokenizer = *Generator::Create(model.get(), nullptr, GeneratorOptions());
  GenerateRequest stop = Request(8, {1}, 5);
  stop.params.stop_strings = {"x"};
  EXPECT_THAT(std::string(without_tokenizer->Add(stop).message()), HasSubstr("no tokenizer"));
  ASSERT_TRUE(generator->Add(Request(8, {1}, 5)).ok());
  EXPECT_EQ(generator->Add(Request(8, {1}, 5)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Finish(*generator)[8].tokens.size(), 5u);
}

TEST(GeneratorTest, PromisesDeterminismOnlyWhereItHolds) {
  const auto model = MakeModel(1, torch::kFloat64);
  const absl::Status status = Generator::Create(model.get(), nullptr, Deterministic()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("deterministic: only a float32 model"));
}

TEST(GeneratorTest, RefusesBadOptionsAllAtOnce) {
  const auto model = MakeModel();
  GeneratorOptions options;
  options.max_num_seqs = 0;
  options.prefill_chunk_tokens = -1;
  options.kv_cache_bytes = 10;
  const absl::Status status = Generator::Create(model.get(), nullptr, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field : {"max_num_seqs: 0", "prefill_chunk_tokens: -1", "kv_cache_bytes: 10"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

void CopyParameters(const CausalLM& from, CausalLM* to) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < from.parameters().size(); ++i) {
    torch::Tensor target = to->parameters()[i].second;
    target.copy_(from.parameters()[i].second);
  }
}

TEST(GeneratorTest, NewWeightsForgetCachedPrompts) {
  const auto model = MakeModel(1);
  const auto other = MakeModel(2);
  const GenerateRequest request = Request(1, {3, 1, 4, 1, 5, 9, 2, 6}, 20);
  const Response with_other = RunAlone(other.get(), request, Deterministic());
  const auto generator = MakeGenerator(model.get(), Deterministic());
  ASSERT_TRUE(generator->Add(request).ok());
  Responses responses;
  StepInto(*generator, &responses);
  EXPECT_EQ(generator->OnWeightsChanged().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Finish(*generator)[1], with_other);
  CopyParameters(*other, model.get());
  ASSERT_TRUE(generator->OnWeightsChanged().ok());
  EXPECT_EQ(generator->stats().cached_blocks, 0);
  ASSERT_TRUE(generator->Add(request).ok());
  EXPECT_EQ(Finish(*generator)[1], with_other);
}

// A response comes from one version of the weights.
TEST(GeneratorTest, NewWeightsAreRefusedWhileAPreemptedRequestWaits) {
  const auto model = MakeModel();
  const int64_t block_bytes = MakeGenerator(model.get())->stats().block_bytes;
  std::mt19937 random(9);
  GeneratorOptions options = Deterministic();
  options.kv_cache_bytes = 5 * block_bytes;  // each of two grows to 1 + 4
  const auto generator = MakeGenerator(model.get(), options);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(generator->Add(Request(i, RandomTokens(4, random), 60)).ok());
  }
  Responses responses;
  while (generator->stats().preemptions == 0) StepInto(*generator, &responses);
  ASSERT_EQ(generator->stats().running, 1);
  ASSERT_TRUE(generator->Cancel(0));
  EXPECT_EQ(generator->stats().running, 0);
  EXPECT_EQ(generator->OnWeightsChanged().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(generator->Cancel(1));
  EXPECT_TRUE(generator->OnWeightsChanged().ok());
}

}  // namespace
}  // namespace baton::engine
