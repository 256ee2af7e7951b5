// Trees of a drafter change nothing in a response: neither tokens nor log-probs, bit for bit.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/engine/drafter.h"
#include "tests/support/engine/generator_draft.h"
#include "workers/engine/model/attention.h"

namespace baton::engine {
namespace {

using testing::AddNode;
using testing::AddPath;
using testing::AmongSiblings;
using testing::OracleDrafter;
using testing::OtherToken;
using testing::SomeTree;

OracleDrafter Knowing(const Responses& responses, OracleDrafter::Propose propose) {
  OracleDrafter drafter(std::move(propose));
  for (const auto& [id, response] : responses) drafter.Know(id, response.tokens);
  return drafter;
}

// Lets requests enter a few at a time. In one step of three it cancels a request, if it may. The
// drafter's drafts are set in every step, be memory short or not.
void Play(Generator& generator, OracleDrafter& drafter,
          const std::vector<GenerateRequest>& requests, bool cancels, std::mt19937 random,
          Outcome* outcome) {
  size_t next = 0;
  while (next < requests.size() || !generator.idle()) {
    for (int entering = random() % 5; entering > 0 && next < requests.size(); --entering) {
      const absl::Status status = generator.Add(requests[next++]);
      ASSERT_TRUE(status.ok()) << status;
    }
    if (cancels && random() % 3 == 0) generator.Cancel(random() % requests.size());
    drafter.SetDrafts(generator);
    ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(generator, outcome));
    ASSERT_LT(outcome->stats.steps, 5000);
  }
  EXPECT_EQ(outcome->stats.free_blocks, outcome->stats.total_blocks) << "blocks leaked";
}

// The main property holds for all trees, other requests, chunks and memory sizes.
TEST(GeneratorTreeTest, AnyTreeLeavesEveryResponseAsItIsBitwise) {
  const auto model = MakeModel(1);
  int64_t preemptions = 0, accepted = 0, refused = 0, deep = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests = MixedRequests(12, random);
    const Responses right = Generate(model.get(), requests, Roomy()).responses;
    OracleDrafter drafter = Knowing(
        right, [&](absl::Span<const int32_t> future, int64_t) { return SomeTree(future, random); });
    for (GenerateRequest& request : requests) {
      // Some begin with a draft of their own, which is wrong soon.
      if (random() % 5 > 0) continue;
      request.draft = Joined({right.at(request.id).tokens[0]}, RandomTokens(5, random));
    }
    // The longest request alone needs 2 + 4 blocks.
    const int64_t blocks = std::vector<int64_t>{6, 9, 14, 1000}[seed % 4];
    const int64_t chunk = std::vector<int64_t>{1, 3, 17, 64, 512}[seed % 5];
    GeneratorOptions options = WithBlocks(model.get(), blocks, chunk);
    options.max_num_seqs = 1 + static_cast<int64_t>(random() % 12);
    options.max_draft_nodes = std::vector<int64_t>{7, 40, 400}[seed % 3];
    const auto generator = MakeGenerator(model.get(), options);
    generator->SetDrafter(&drafter);
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(
        Play(*generator, drafter, requests, false, std::mt19937(seed), &outcome));
    EXPECT_EQ(outcome.responses, right);
    EXPECT_EQ(drafter.live(), 0u);
    preemptions += outcome.stats.preemptions;
    accepted += outcome.stats.drafts.accepted;
    refused += outcome.stats.drafts.judged - outcome.stats.drafts.accepted;
    deep += outcome.stats.drafts.accepted_at[DraftStats::kDepths - 1];
  }
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(accepted, 5000);
  EXPECT_GT(refused, 5000);
  EXPECT_GT(deep, 100);
}

// The distance of a random number from the point where the cumulative distribution of `logits`
// separates two tokens.
double Margin(const torch::Tensor& logits, double uniform, int32_t a, int32_t b) {
  const auto below = torch::softmax(logits.to(torch::kFloat64), -1).cumsum(-1).flatten();
  double margin = 1;
  for (int32_t token = std::min(a, b); token < std::max(a, b); ++token) {
    margin = std::min(margin, std::abs(below[token].item<double>() - uniform));
  }
  return margin;
}

// The places where responses first differ from those that are `right`.
struct Divergences {
  int64_t responses = 0, tokens = 0;
  std::vector<double> margins;
};

void Compare(CausalLM* model, const std::vector<GenerateRequest>& requests, const Responses& right,
             const Responses& others, Divergences* out) {
  for (const GenerateRequest& request : requests) {
    const auto& a = right.at(request.id).tokens;
    const auto& b = others.at(request.id).tokens;
    ++out->responses;
    out->tokens += static_cast<int64_t>(a.size());
    const auto at = static_cast<size_t>(CommonPrefix(a, b));
    if (at == a.size()) continue;
    std::vector<int64_t> before(request.prompt.begin(), request.prompt.end());
    before.insert(before.end(), a.begin(), a.begin() + static_cast<std::ptrdiff_t>(at));
    const double uniform = UniformStream(request.key).At(static_cast<uint32_t>(at));
    out->margins.push_back(Margin(NextLogits(model, before), uniform, a[at], b[at]));
  }
}

// Narrower types than float32 are rounded from it, and so are as exact. In float64 the sums of
// libtorch's operators may depend on the rows beside, so a response may go on differently where its
// random number falls next to a boundary of the distribution.
TEST(GeneratorTreeTest, OtherTypesDoNotDiverge) {
  for (const torch::Dtype dtype : {torch::kFloat64, torch::kBFloat16, torch::kHalf}) {
    SCOPED_TRACE(torch::toString(dtype));
    const auto model = MakeModel(1, dtype);
    Divergences drafted, alone;
    int64_t accepted = 0;
    for (unsigned seed = 0; seed < 6; ++seed) {
      std::mt19937 random(seed);
      std::vector<GenerateRequest> requests;
      for (uint64_t id = 0; id < 12; ++id) {
        requests.push_back(Request(id, RandomTokens(1 + random() % 30, random), 60));
        requests.back().key.job_seed = random();
      }
      const Responses right = Generate(model.get(), requests, GeneratorOptions()).responses;
      // The drafter knows the response as long as it goes on as predicted.
      OracleDrafter drafter = Knowing(right, [&](absl::Span<const int32_t> future, int64_t) {
        return AmongSiblings(future.subspan(0, 1 + random() % 12), 2);
      });
      const auto generator = MakeGenerator(model.get(), GeneratorOptions());
      generator->SetDrafter(&drafter);
      Outcome outcome;
      ASSERT_NO_FATAL_FAILURE(
          Play(*generator, drafter, requests, false, std::mt19937(seed), &outcome));
      accepted += outcome.stats.drafts.accepted;
      if (dtype != torch::kFloat64) EXPECT_EQ(outcome.responses, right);
      Compare(model.get(), requests, right, outcome.responses, &drafted);
      Responses apart;
      for (const GenerateRequest& request : requests) {
        apart[request.id] = RunAlone(model.get(), request, GeneratorOptions());
      }
      if (dtype != torch::kFloat64) EXPECT_EQ(apart, right);
      Compare(model.get(), requests, right, apart, &alone);
    }
    for (Divergences* those : {&drafted, &alone}) {
      std::sort(those->margins.begin(), those->margins.end());
      const size_t n = those->margins.size();
      std::cout << torch::toString(dtype) << (those == &drafted ? ", drafted" : ", alone") << ": "
                << n << " of " << those->responses << " responses (" << those->tokens
                << " tokens) diverge";
      if (n > 0) {
        std::cout << "; margins: median " << those->margins[n / 2] << ", largest "
                  << those->margins[n - 1];
      }
      std::cout << std::endl;
    }
    EXPECT_GT(accepted, drafted.tokens / 4);
    for (const Divergences* those : {&drafted, &alone}) {
      EXPECT_LT(those->margins.empty() ? 0 : those->margins.back(), 1e-5);
    }
  }
}

TEST(GeneratorTreeTest, ACancelledRequestDisturbsNobody) {
  const auto model = MakeModel();
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<GenerateRequest> requests = MixedRequests(10, random);
    const Responses right = Generate(model.get(), requests, Roomy()).responses;
    OracleDrafter drafter = Knowing(
        right, [&](absl::Span<const int32_t> future, int64_t) { return SomeTree(future, random); });
    const auto generator =
        MakeGenerator(model.get(), WithBlocks(model.get(), 9 + seed % 3 * 20, 1 + seed % 9));
    generator->SetDrafter(&drafter);
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(
        Play(*generator, drafter, requests, true, std::mt19937(seed), &outcome));
    EXPECT_EQ(drafter.live(), 0u);
    int cancelled = 0;
    for (const auto& [id, response] : outcome.responses) {
      if (response.finish_reason != "cancelled") {
        EXPECT_EQ(response, right.at(id)) << id;
        continue;
      }
      ++cancelled;
      Response begun = right.at(id);
      ASSERT_LE(response.tokens.size(), begun.tokens.size());
      begun.tokens.resize(response.tokens.size());
      begun.log_probs.resize(response.tokens.size());
      begun.sampling_log_probs.resize(response.tokens.size());
      begun.finish_reason = "cancelled";
      EXPECT_EQ(response, begun) << id;
    }
    EXPECT_GT(cancelled, 0);
  }
}

// Step by step, a generator with useless trees does what one without does, memory being short.
TEST(GeneratorTreeTest, WrongTreesLeaveNoTrace) {
  const auto model = MakeModel();
  int64_t preemptions = 0, rows = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < 10; ++i) {
      requests.push_back(Request(i, RandomTokens(4 + random() % 20, random), 20 + random() % 40));
    }
    const Responses right = Generate(model.get(), requests, Roomy()).responses;
    // Every token but the right one, and what follows it.
    OracleDrafter drafter = Knowing(right, [&](absl::Span<const int32_t> future, int64_t) {
      DraftTree tree;
      for (int32_t more = 1; more < 8; ++more) {
        AddPath(tree, AddNode(tree, -1, OtherToken(future[0], more)), RandomTokens(2, random));
      }
      return tree;
    });
    GeneratorOptions options =
        WithBlocks(model.get(), 8 + seed % 7, std::vector<int64_t>{9, 64, 512}[seed % 3]);
    options.max_draft_nodes = 200;
    const auto plain = MakeGenerator(model.get(), options);
    const auto drafted = MakeGenerator(model.get(), options);
    drafted->SetDrafter(&drafter);
    for (const GenerateRequest& request : requests) {
      ASSERT_TRUE(plain->Add(request).ok());
      ASSERT_TRUE(drafted->Add(request).ok());
    }
    Outcome a, b;
    while (!plain->idle()) {
      drafter.SetDrafts(*drafted);
      ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*plain, &a));
      ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*drafted, &b));
      ASSERT_EQ(b.responses, a.responses);
      ASSERT_EQ(b.stats.preemptions, a.stats.preemptions);
      ASSERT_EQ(b.stats.running, a.stats.running);
      ASSERT_EQ(b.stats.free_blocks, a.stats.free_blocks);
      ASSERT_EQ(b.stats.prefilled_tokens, a.stats.prefilled_tokens);
    }
    EXPECT_TRUE(drafted->idle());
    EXPECT_EQ(b.stats.drafts.accepted, 0);
    preemptions += a.stats.preemptions;
    rows += b.stats.drafts.rows;
  }
  EXPECT_GT(preemptions, 20) << "memory should be short";
  EXPECT_GT(rows, 3000);
}

// A response that runs ahead would hold memory earlier, and give it back earlier. So none does
// while memory is short; the last ones get drafts.
TEST(GeneratorTreeTest, ADrafterChangesNoPreemption) {
  const auto model = MakeModel();
  int64_t preemptions = 0, accepted = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < 12; ++i) {
      requests.push_back(Request(i, RandomTokens(4 + random() % 20, random), 20 + random() % 60));
    }
    GeneratorOptions options = WithBlocks(model.get(), 8 + seed % 14);
    options.max_num_seqs = 1 + static_cast<int64_t>(random() % 12);
    const Outcome plain = Generate(model.get(), requests, options);
    OracleDrafter drafter = Knowing(plain.responses, [](absl::Span<const int32_t> future, int64_t) {
      return AmongSiblings(future.subspan(0, 8), 1);
    });
    const auto generator = MakeGenerator(model.get(), options);
    generator->SetDrafter(&drafter);
    for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
    Outcome outcome;
    while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
    EXPECT_EQ(outcome.responses, plain.responses);
    EXPECT_LE(outcome.stats.steps, plain.stats.steps);
    EXPECT_EQ(outcome.stats.preemptions, plain.stats.preemptions);
    preemptions += plain.stats.preemptions;
    accepted += outcome.stats.drafts.accepted;
    EXPECT_GE(outcome.stats.drafts.short_passes, outcome.stats.preemptions > 0 ? 1 : 0);
  }
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(accepted, 1000);
}

// The ends of a response: a stop token, a stop string and the limit, each reached inside a tree.
TEST(GeneratorTreeTest, AResponseEndsInsideATree) {
  const auto model = MakeModel();
  std::mt19937 random(12);
  GenerateRequest request = Request(1, RandomTokens(8, random), 40);
  const std::vector<int32_t> tokens =
      Generate(model.get(), {request}, Roomy()).responses.at(1).tokens;
  std::vector<GenerateRequest> requests(4, request);
  requests[0].params.stop_token_ids = {tokens[5]};
  requests[1].params.stop_strings = {Piece(tokens[5]) + Piece(tokens[6])};
  requests[2].params.max_new_tokens = 6;
  requests[3].params.stop_token_ids = {tokens[2]};
  requests[3].params.min_new_tokens = 10;  // it draws something else instead
  for (GenerateRequest& ending : requests) {
    const Outcome plain = Generate(model.get(), {ending}, Roomy());
    OracleDrafter drafter(
        [&](absl::Span<const int32_t>, int64_t) { return AmongSiblings(tokens, 2); });
    drafter.Know(1, tokens);
    GeneratorOptions options = Roomy();
    options.max_draft_nodes = 200;
    const auto generator = MakeGenerator(model.get(), options);
    // The prompt is known, and so the first step has the tree.
    ASSERT_TRUE(generator->Add(Request(2, request.prompt, 1)).ok());
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
    generator->SetDrafter(&drafter);
    ASSERT_TRUE(generator->Add(ending).ok());
    ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
    if (ending.params.min_new_tokens == 0) {
      EXPECT_TRUE(generator->idle()) << "one step is enough";
    }
    generator->SetDrafter(nullptr);
    while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
    EXPECT_EQ(outcome.responses.at(1), plain.responses.at(1));
  }
}

// A sibling of NaN spoils no other row, with one thread and several, with the kernel and without.
TEST(GeneratorTreeTest, ABadNodeIsBadOnlyWhereItIsDrawn) {
  constexpr int32_t kBad = 31;
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    const auto model = MakeModel(1, dtype);
    SetEmbedding(*model, kBad, std::nan(""));
    std::mt19937 random(9);
    std::vector<GenerateRequest> requests;
    for (uint64_t id = 0; id < 16; ++id) {
      requests.push_back(Request(id, RandomTokens(1 + id % 5, random), 40, id % 3 == 0 ? 0.7 : 1));
      std::replace(requests.back().prompt.begin(), requests.back().prompt.end(), kBad, 0);
    }
    const Outcome plain = Generate(model.get(), requests, GeneratorOptions());
    EXPECT_GT(plain.errors.size(), 4u);
    const int threads = at::get_num_threads();
    for (const int more : {0, 2}) {
      OracleDrafter drafter =
          Knowing(plain.responses, [&](absl::Span<const int32_t> future, int64_t) {
            DraftTree tree;
            AddPath(tree, -1, {kBad, kBad, 1});
            int32_t node = -1;
            for (const int32_t token : future.subspan(0, 5)) {
              AddNode(tree, node, kBad);
              node = AddNode(tree, node, token);
            }
            return tree;
          });
      GeneratorOptions options;
      options.max_draft_nodes = 200;
      const auto generator = MakeGenerator(model.get(), options);
      generator->SetDrafter(&drafter);
      Outcome drafted;
      at::set_num_threads(threads + more);
      Play(*generator, drafter, requests, false, std::mt19937(more), &drafted);
      at::set_num_threads(threads);
      EXPECT_EQ(drafted.errors, plain.errors);
      EXPECT_GT(drafted.stats.drafts.accepted, 100);
      for (const auto& [id, response] : plain.responses) {
        const Response& same = drafted.responses.at(id);
        if (dtype != torch::kFloat64) {
          EXPECT_EQ(same, response) << id;
        } else {
          EXPECT_EQ(same.tokens, response.tokens) << id;
          EXPECT_EQ(same.finish_reason, response.finish_reason) << id;
        }
      }
    }
  }
}

// exp(log_softmax) of the logits after `tokens`, in double precision, by the trainer's attention.
std::vector<double> NextProbabilities(CausalLM& model, const std::vector<int32_t>& tokens) {
  const torch::NoGradGuard no_grad;
  const auto length = static_cast<int64_t>(tokens.size());
  PackedCausalAttention attention({length});
  const torch::Tensor hidden =
      model.Hidden(torch::tensor(tokens).to(torch::kInt64), torch::arange(length), attention);
  const torch::Tensor shares =
      torch::softmax(model.Logits(hidden)[length - 1].to(torch::kFloat64), 0).contiguous();
  return {shares.data_ptr<double>(), shares.data_ptr<double>() + shares.numel()};
}

// Pearson's statistic. Cells that expect fewer than five draws count as one.
double ChiSquare(const std::vector<int64_t>& counts, const std::vector<double>& shares) {
  double total = 0, sum = 0, rare = 0, rare_expected = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * shares[i], count = static_cast<double>(counts[i]);
    if (expected < 5) {
      rare += count;
      rare_expected += expected;
    } else {
      sum += (count - expected) * (count - expected) / expected;
    }
  }
  if (rare_expected > 0) sum += (rare - rare_expected) * (rare - rare_expected) / rare_expected;
  return sum;
}

// 20,000 samples of one prompt, all with a tree of likely tokens: the first tokens have the
// policy's distribution, and so have those that follow the likeliest one.
TEST(GeneratorTreeTest, SamplesHaveThePolicysDistribution) {
  const auto model = MakeModel();
  const std::vector<int32_t> prompt = {4, 8, 15, 16, 23};
  const std::vector<double> first = NextProbabilities(*model, prompt);
  const auto best =
      static_cast<int32_t>(std::max_element(first.begin(), first.end()) - first.begin());
  const std::vector<double> second = NextProbabilities(*model, Joined(prompt, {best}));
  OracleDrafter drafter([&](absl::Span<const int32_t>, int64_t) {
    DraftTree tree;
    for (int32_t token = 0; token < 6; ++token) AddNode(tree, -1, OtherToken(best, 3 + token));
    const int32_t node = AddNode(tree, -1, best);
    for (int32_t token = 0; token < 6; ++token) AddNode(tree, node, token);
    return tree;
  });
  GeneratorOptions options;
  options.max_draft_nodes = options.max_num_seqs * 16;
  options.prefill_chunk_tokens = options.max_draft_nodes;
  const auto generator = MakeGenerator(model.get(), options);
  ASSERT_TRUE(generator->Add(Request(0, prompt, 1)).ok());  // computes the prompt
  ASSERT_TRUE(generator->Step().ok());
  generator->SetDrafter(&drafter);
  constexpr uint32_t kSamples = 20000;
  for (uint32_t sample = 1; sample <= kSamples; ++sample) {
    GenerateRequest request = Request(sample, prompt, 3);
    request.key = {7, 1, 5, 2, sample};
    drafter.Know(sample, {0, 0, 0});
    ASSERT_TRUE(generator->Add(std::move(request)).ok());
  }
  std::vector<int64_t> firsts(kVocab), seconds(kVocab);
  for (const auto& [id, response] : Finish(*generator)) {
    ++firsts[response.tokens[0]];
    if (response.tokens[0] == best) ++seconds[response.tokens[1]];
  }
  // The 0.999 quantile of 31 degrees of freedom; there may be fewer.
  EXPECT_LT(ChiSquare(firsts, first), 61.1);
  EXPECT_LT(ChiSquare(seconds, second), 61.1);
  EXPECT_GT(generator->stats().drafts.accepted_at[0], kSamples / 4);
  EXPECT_GT(generator->stats().drafts.accepted_at[1], 100);
}

}  // namespace
}  // namespace baton::engine
