// Drafts change nothing in a response: neither tokens nor log-probs, bit for bit. They save steps.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/engine/generator_draft.h"

namespace baton::engine {
namespace {

// A draft for a request that answers `right` without one and `other` under other weights.
std::vector<int32_t> SomeDraft(const std::vector<int32_t>& right, const std::vector<int32_t>& other,
                               std::mt19937& random) {
  const auto different = [&](int32_t token) {
    return static_cast<int32_t>((token + 1 + random() % (kVocab - 1)) % kVocab);
  };
  std::vector<int32_t> draft = right;
  switch (random() % 8) {
    case 0:
      return {};
    case 1:
      return right;
    case 2:  // wrong in places
      for (int32_t& token : draft) token = random() % 12 == 0 ? different(token) : token;
      return draft;
    case 3:  // wrong at once
      draft[0] = different(draft[0]);
      return draft;
    case 4:
      return other;
    case 5:
      return RandomTokens(1 + random() % 40, random);
    case 6:  // on beyond the limit or the stop, and beyond the model's positions
      return Joined(right, RandomTokens(1 + random() % 150, random));
    default:  // the first tokens
      draft.resize(random() % draft.size());
      return draft;
  }
}

// Expects what `outcome` says of drafts to agree with what the responses are.
void ExpectCountsOfDrafts(const Outcome& outcome, const std::vector<GenerateRequest>& requests) {
  int64_t judged = 0, accepted = 0;
  for (const GenerateRequest& request : requests) {
    const auto& tokens = outcome.responses.at(request.id).tokens;
    const int64_t common = CommonPrefix(request.draft, tokens);
    EXPECT_EQ(outcome.accepted.at(request.id), common) << "request " << request.id;
    accepted += common;
    // The first difference was judged as well, if there is one.
    const auto both = static_cast<int64_t>(std::min(request.draft.size(), tokens.size()));
    judged += std::min(common + 1, both);
  }
  EXPECT_EQ(outcome.stats.drafts.accepted, accepted);
  EXPECT_EQ(outcome.stats.drafts.judged, judged);
}

// The main property holds for all drafts, other requests, chunks and memory sizes.
TEST(GeneratorDraftTest, AnyDraftLeavesEveryResponseAsItIsBitwise) {
  const auto model = MakeModel(1);
  const auto other_model = MakeModel(2);
  int64_t preemptions = 0, accepted = 0, refused = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests = MixedRequests(12, random);
    const Responses right = Generate(model.get(), requests, Roomy()).responses;
    const Responses other = Generate(other_model.get(), requests, Roomy()).responses;
    for (GenerateRequest& request : requests) {
      request.draft = SomeDraft(right.at(request.id).tokens, other.at(request.id).tokens, random);
    }
    // The longest request alone needs 2 + 4 blocks.
    const int64_t blocks = std::vector<int64_t>{6, 9, 14, 1000}[seed % 4];
    const int64_t chunk = std::vector<int64_t>{1, 3, 17, 64, 512}[seed % 5];
    GeneratorOptions options = WithBlocks(model.get(), blocks, chunk);
    options.max_num_seqs = 1 + static_cast<int64_t>(random() % 12);
    const auto generator = MakeGenerator(model.get(), options);
    Outcome outcome;
    size_t next = 0;
    while (next < requests.size() || !generator->idle()) {
      for (int entering = random() % 5; entering > 0 && next < requests.size(); --entering) {
        const absl::Status status = generator->Add(requests[next++]);
        ASSERT_TRUE(status.ok()) << status;
      }
      ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
      ASSERT_LT(outcome.stats.steps, 5000);
    }
    EXPECT_EQ(outcome.responses, right);
    EXPECT_EQ(outcome.stats.free_blocks, blocks) << "blocks leaked";
    ExpectCountsOfDrafts(outcome, requests);
    preemptions += outcome.stats.preemptions;
    accepted += outcome.stats.drafts.accepted;
    refused += outcome.stats.drafts.judged - outcome.stats.drafts.accepted;
  }
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(accepted, 3000);
  EXPECT_GT(refused, 200);
}

TEST(GeneratorDraftTest, ACancelledRequestDisturbsNobody) {
  const auto model = MakeModel();
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests = MixedRequests(10, random);
    const Responses right = Generate(model.get(), requests, Roomy()).responses;
    const auto generator =
        MakeGenerator(model.get(), WithBlocks(model.get(), 9 + seed % 3 * 20, 1 + seed % 9));
    for (GenerateRequest& request : requests) {
      const auto& tokens = right.at(request.id).tokens;
      request.draft = SomeDraft(tokens, tokens, random);
      ASSERT_TRUE(generator->Add(request).ok());
    }
    Outcome outcome;
    while (!generator->idle()) {
      if (random() % 3 == 0) generator->Cancel(random() % requests.size());
      ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
    }
    int cancelled = 0;
    for (const auto& [id, response] : outcome.responses) {
      if (response.finish_reason != "cancelled") {
        EXPECT_EQ(response, right.at(id)) << id;
        continue;
      }
      ++cancelled;
      ASSERT_LE(response.tokens.size(), right.at(id).tokens.size());
      Response begun = right.at(id);
      begun.tokens.resize(response.tokens.size());
      begun.log_probs.resize(response.tokens.size());
      begun.sampling_log_probs.resize(response.tokens.size());
      begun.finish_reason = "cancelled";
      EXPECT_EQ(response, begun) << id;
    }
    EXPECT_GT(cancelled, 0);
    EXPECT_EQ(outcome.stats.free_blocks, outcome.stats.total_blocks);
    ExpectCountsOfDrafts(outcome, requests);
  }
}

// A refresh: responses that were begun under older weights go on under new ones, with what the old
// ones drew as a draft, in part or from the beginning.
TEST(GeneratorDraftTest, ARefreshEqualsSamplingUnderTheNewWeights) {
  const auto old_model = MakeModel(1);
  const auto model = MakeModel(1);
  {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(5);
    for (auto& [name, weight] : model->parameters()) {
      torch::Tensor(weight).add_(torch::randn_like(weight), 0.003);  // a step of training
    }
  }
  int64_t accepted = 0, drafted = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests = MixedRequests(12, random);
    const Responses old = Generate(old_model.get(), requests, Roomy()).responses;
    for (GenerateRequest& request : requests) {
      const auto& tokens = old.at(request.id).tokens;
      const auto cut = tokens.begin() + static_cast<int64_t>(random() % 3 * tokens.size() / 3);
      request.resume.insert(request.resume.end(), tokens.begin(), cut);
      request.draft.assign(cut, tokens.end());
      drafted += static_cast<int64_t>(request.draft.size());
    }
    std::vector<GenerateRequest> without = requests;
    for (GenerateRequest& request : without) request.draft.clear();
    const Responses right = Generate(model.get(), without, Roomy()).responses;
    const Outcome outcome = Generate(model.get(), requests, Roomy(1 + seed * 9));
    EXPECT_EQ(outcome.responses, right);
    ExpectCountsOfDrafts(outcome, requests);
    accepted += outcome.stats.drafts.accepted;
  }
  EXPECT_GT(accepted, drafted / 4) << "the weights should be near";
  EXPECT_LT(accepted, drafted * 9 / 10) << "the weights should differ";
}

TEST(GeneratorDraftTest, AGoodDraftSavesSteps) {
  const auto model = MakeModel();
  std::mt19937 random(3);
  const std::vector<int32_t> prompt = RandomTokens(8, random);
  GenerateRequest request = Request(1, prompt, 100);
  const Outcome plain = Generate(model.get(), {request}, Roomy());
  EXPECT_EQ(plain.stats.steps, 100);
  EXPECT_EQ(plain.stats.drafts.judged, 0);
  request.draft = plain.responses.at(1).tokens;

  const Outcome whole = Generate(model.get(), {request}, Roomy());
  EXPECT_EQ(whole.responses, plain.responses);
  EXPECT_EQ(whole.stats.steps, 1) << "the prompt and its draft are computed together";
  EXPECT_EQ(whole.stats.drafts.judged, 100);
  EXPECT_EQ(whole.stats.drafts.accepted, 100);
  EXPECT_EQ(whole.stats.generated_tokens, 100);
  EXPECT_EQ(whole.stats.prefilled_tokens, 8);

  // 8 prompt and 8 draft tokens, then 1 and 16 a step.
  const Outcome chunks = Generate(model.get(), {request}, Roomy(16));
  EXPECT_EQ(chunks.responses, plain.responses);
  EXPECT_EQ(chunks.stats.steps, 1 + (100 - 9 + 16) / 17);
  EXPECT_EQ(chunks.stats.drafts.accepted, 100);

  // Wrong in the middle: from there on a token a step.
  request.draft[50] = (request.draft[50] + 1) % kVocab;
  const Outcome half = Generate(model.get(), {request}, Roomy());
  EXPECT_EQ(half.responses, plain.responses);
  EXPECT_EQ(half.stats.steps, 1 + 49);
  EXPECT_EQ(half.stats.drafts.judged, 51);
  EXPECT_EQ(half.stats.drafts.accepted, 50);
}

TEST(GeneratorDraftTest, SamplesOfOnePromptHaveDraftsOfTheirOwn) {
  const auto model = MakeModel();
  std::mt19937 random(4);
  const std::vector<int32_t> prompt = RandomTokens(21, random);
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 0; id < 8; ++id) requests.push_back(Request(id, prompt, 30));
  const Outcome plain = Generate(model.get(), requests, Roomy());
  for (GenerateRequest& request : requests) {
    request.draft = plain.responses.at(request.id).tokens;
  }
  const Outcome drafted = Generate(model.get(), requests, Roomy());
  EXPECT_EQ(drafted.responses, plain.responses);
  EXPECT_EQ(drafted.stats.prefilled_tokens, 21);
  EXPECT_EQ(drafted.stats.steps, 1);
  EXPECT_EQ(drafted.stats.drafts.accepted, 8 * 30);
}

// Drafts wait for prompts and resumed tokens, and never the other way round.
TEST(GeneratorDraftTest, DraftsUseOnlyTheRestOfThePrefillChunk) {
  const auto model = MakeModel();
  std::mt19937 random(5);
  std::vector<GenerateRequest> requests = {Request(1, RandomTokens(4, random), 60),
                                           Request(2, RandomTokens(40, random), 5)};
  const Outcome plain = Generate(model.get(), requests, Roomy());
  requests[0].draft = plain.responses.at(1).tokens;
  const auto generator = MakeGenerator(model.get(), Roomy(8));
  for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
  Outcome outcome;
  for (int step = 1; step <= 5; ++step) {
    ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
    EXPECT_EQ(outcome.responses[1].tokens.size(), static_cast<size_t>(step));
    EXPECT_EQ(outcome.stats.prefilled_tokens, 8 * step);
  }
  ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));  // 4 prompt tokens are left
  EXPECT_EQ(outcome.responses[1].tokens.size(), 5u + 1 + 4);
  while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
  EXPECT_EQ(outcome.responses, plain.responses);
}

// Step by step, a generator with useless drafts does what one without drafts does.
TEST(GeneratorDraftTest, AWrongDraftLeavesNoTrace) {
  const auto model = MakeModel();
  int64_t preemptions = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < 10; ++i) {
      requests.push_back(Request(i, RandomTokens(4 + random() % 20, random), 20 + random() % 40));
    }
    const Responses right = Generate(model.get(), requests, Roomy()).responses;
    const GeneratorOptions options =
        WithBlocks(model.get(), 8 + seed % 7, std::vector<int64_t>{9, 64, 512}[seed % 3]);
    const auto plain = MakeGenerator(model.get(), options);
    const auto drafted = MakeGenerator(model.get(), options);
    for (GenerateRequest& request : requests) {
      ASSERT_TRUE(plain->Add(request).ok());
      request.draft = RandomTokens(60, random);
      request.draft[0] = (right.at(request.id).tokens[0] + 1) % kVocab;
      ASSERT_TRUE(drafted->Add(request).ok());
    }
    Outcome a, b;
    while (!plain->idle()) {
      ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*plain, &a));
      ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*drafted, &b));
      ASSERT_EQ(b.responses, a.responses);
      ASSERT_EQ(b.stats.preemptions, a.stats.preemptions);
      ASSERT_EQ(b.stats.running, a.stats.running);
      ASSERT_EQ(b.stats.free_blocks, a.stats.free_blocks);
      ASSERT_EQ(b.stats.prefilled_tokens, a.stats.prefilled_tokens);
    }
    EXPECT_TRUE(drafted->idle());
    EXPECT_EQ(b.stats.drafts.judged, 10);
    EXPECT_EQ(b.stats.drafts.accepted, 0);
    preemptions += a.stats.preemptions;
  }
  EXPECT_GT(preemptions, 20) << "memory should be short";
}

// Six blocks: two prompts, one of the older response, up to four of the younger, which has a draft
// for all of these. It leaves two, so that the older one need not take a block from it.
TEST(GeneratorDraftTest, DraftsLeaveABlockForEachThatRuns) {
  const auto model = MakeModel();
  std::mt19937 random(6);
  std::vector<GenerateRequest> requests = {Request(1, RandomTokens(4, random), 16),
                                           Request(2, RandomTokens(4, random), 60)};
  const Outcome plain = Generate(model.get(), requests, WithBlocks(model.get(), 6));
  EXPECT_EQ(plain.stats.preemptions, 0);
  requests[1].draft = plain.responses.at(2).tokens;
  requests[1].draft.resize(50);
  const auto generator = MakeGenerator(model.get(), WithBlocks(model.get(), 6));
  for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
  EXPECT_EQ(outcome.stats.free_blocks, 2);
  EXPECT_EQ(outcome.responses[2].tokens.size(), 1u + 32);
  while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
  EXPECT_EQ(outcome.stats.preemptions, 0);
  EXPECT_EQ(outcome.responses, plain.responses);
}

// A request alone may use every block that it may ever need, and no more.
TEST(GeneratorDraftTest, ADraftFillsTheBlocksAndThePositions) {
  const auto model = MakeModel();
  std::mt19937 random(7);
  GenerateRequest request = Request(1, RandomTokens(95, random), 33);  // of 128 positions
  const GeneratorOptions options = WithBlocks(model.get(), 6 + 2);     // computes 32 of 33 tokens
  const Outcome plain = Generate(model.get(), {request}, options);
  request.draft = Joined(plain.responses.at(1).tokens, RandomTokens(300, random));
  const Outcome drafted = Generate(model.get(), {request}, options);
  EXPECT_EQ(drafted.responses, plain.responses);
  EXPECT_EQ(drafted.stats.steps, 1);
  EXPECT_EQ(drafted.stats.drafts.judged, 33);
}

// The cache keeps blocks of prompts that no request uses. A draft may take them.
TEST(GeneratorDraftTest, DraftsUseTheBlocksOfUnusedPrompts) {
  const auto model = MakeModel();
  std::mt19937 random(8);
  GenerateRequest request = Request(1, RandomTokens(4, random), 60);
  const Outcome plain = Generate(model.get(), {request}, Roomy());
  request.draft = plain.responses.at(1).tokens;
  const auto generator = MakeGenerator(model.get(), WithBlocks(model.get(), 5));
  Outcome outcome;
  for (uint64_t id = 2; id < 6; ++id) {
    ASSERT_TRUE(generator->Add(Request(id, RandomTokens(4, random), 1)).ok());
  }
  while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
  ASSERT_EQ(outcome.stats.cached_blocks, 4);
  const int64_t steps = outcome.stats.steps;
  ASSERT_TRUE(generator->Add(request).ok());
  while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
  EXPECT_EQ(outcome.stats.steps, steps + 1);
  EXPECT_EQ(outcome.responses.at(1), plain.responses.at(1));
}

// A draft's token of NaN spoils no row before it; a response's ends it as it would without a draft.
TEST(GeneratorDraftTest, ABadRowOfADraftIsBadOnlyWhereItIsDrawn) {
  constexpr int32_t kBad = 31;
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {  // kernel and operators
    const auto model = MakeModel(1, dtype);
    SetEmbedding(*model, kBad, std::nan(""));
    std::mt19937 random(9);
    std::vector<GenerateRequest> requests;
    for (uint64_t id = 0; id < 24; ++id) {
      requests.push_back(Request(id, RandomTokens(1 + id % 5, random), 40, id % 3 == 0 ? 0.7 : 1));
      std::replace(requests.back().prompt.begin(), requests.back().prompt.end(), kBad, 0);
    }
    requests.push_back(Request(24, {1, kBad, 3}, 10));  // no token of it can be drawn
    const Outcome plain = Generate(model.get(), requests, GeneratorOptions());
    EXPECT_GT(plain.errors.size(), 4u);
    EXPECT_LT(plain.errors.size(), 21u);
    for (GenerateRequest& request : requests) {
      const auto& tokens = plain.responses.at(request.id).tokens;
      request.draft = tokens;
      if (request.id % 4 == 1)
        request.draft.insert(request.draft.begin() + tokens.size() / 2, kBad);
      if (request.id % 4 == 2) request.draft = {kBad, kBad, 1};
      if (request.id % 4 == 3) request.draft.resize(tokens.size() + 20, 7);
      if (request.draft.empty()) request.draft = {1, 2};
    }
    const int threads = at::get_num_threads();
    for (const int more : {0, 2}) {
      at::set_num_threads(threads + more);
      const Outcome drafted = Generate(model.get(), requests, GeneratorOptions());
      at::set_num_threads(threads);
      EXPECT_EQ(drafted.errors, plain.errors);
      ASSERT_EQ(drafted.responses.size(), plain.responses.size());
      for (const auto& [id, response] : plain.responses) {
        const Response& same = drafted.responses.at(id);
        EXPECT_EQ(same.tokens, response.tokens) << id;
        EXPECT_EQ(same.finish_reason, response.finish_reason) << id;
        ASSERT_EQ(same.log_probs.size(), response.log_probs.size());
        for (size_t t = 0; t < response.log_probs.size(); ++t) {
          if (dtype == torch::kFloat32) {
            EXPECT_EQ(same.log_probs[t], response.log_probs[t]);
          } else {
            EXPECT_NEAR(same.log_probs[t], response.log_probs[t], 1e-5);
          }
        }
      }
      EXPECT_EQ(drafted.accepted.at(24), 0);
    }
  }
}

TEST(GeneratorDraftTest, OtherTypesTakeDraftsToo) {
  const auto model = MakeModel(1, torch::kFloat64);
  std::mt19937 random(10);
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 0; id < 6; ++id) {
    requests.push_back(Request(id, RandomTokens(3 + 9 * id, random), 40));
  }
  const Outcome plain = Generate(model.get(), requests, GeneratorOptions());
  for (GenerateRequest& request : requests) {
    request.draft = plain.responses.at(request.id).tokens;
    request.draft[5 * request.id] = 3;
  }
  const Outcome drafted = Generate(model.get(), requests, GeneratorOptions());
  for (const GenerateRequest& request : requests) {
    EXPECT_EQ(drafted.responses.at(request.id).tokens, plain.responses.at(request.id).tokens);
  }
  EXPECT_GT(drafted.stats.drafts.accepted, 6 * 10);
}

TEST(GeneratorDraftTest, ATokenOutsideTheVocabularyEndsTheDraft) {
  const auto model = MakeModel();
  GenerateRequest request = Request(8, {1}, 12);
  const std::vector<int32_t> tokens =
      Generate(model.get(), {request}, Roomy()).responses.at(8).tokens;
  ASSERT_GE(tokens.size(), 4u);
  for (const int32_t bad : {32, -1}) {
    request.draft = {tokens[0], tokens[1], bad, tokens[3]};
    const Outcome outcome = Generate(model.get(), {request}, Roomy());
    EXPECT_EQ(outcome.responses.at(8).tokens, tokens);
    EXPECT_EQ(outcome.stats.drafts.judged, 2);
  }
}

TEST(GeneratorDraftTest, AWholeResponseNeedsNoDraft) {
  const auto model = MakeModel();
  GenerateRequest request = Request(1, {1, 2}, 3);
  request.resume = {7, 8, 9};
  request.draft = {1, 2};
  const Outcome outcome = Generate(model.get(), {request}, Roomy());
  EXPECT_EQ(outcome.responses.at(1).finish_reason, "length");
  EXPECT_TRUE(outcome.responses.at(1).tokens.empty());
  EXPECT_EQ(outcome.stats.drafts.judged, 0);
}

}  // namespace
}  // namespace baton::engine
