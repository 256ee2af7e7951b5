// Generation by ranks that share a model: every rank runs the same generator with the same
// requests, and draws the same tokens.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/engine/drafter.h"
#include "tests/support/engine/generator.h"
#include "tests/support/engine/generator_draft.h"
#include "tests/support/engine/thread_communicator.h"

namespace baton::engine {
namespace {

std::vector<GenerateRequest> Requests() {
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 1; id <= 6; ++id) {
    requests.push_back(Request(id, {static_cast<int32_t>(id), 3, 9}, 4 + 3 * id, 0.8));
  }
  return requests;
}

std::unique_ptr<CausalLM> SharedModel(Communicator& group) {
  auto model = CausalLM::Create(MakeModel()->config(), torch::kFloat32, torch::kCPU, &group);
  EXPECT_TRUE(model.ok()) << model.status();
  (*model)->InitializeRandom(1);
  return *std::move(model);
}

TEST(TensorParallelGeneratorTest, RanksGenerateWhatTheWholeModelDoes) {
  const auto whole_model = MakeModel();
  const Responses whole = RunAll(whole_model.get(), Requests(), {});
  testing::RunRanks(2, [&](Communicator& group) {
    const auto model = SharedModel(group);
    const Responses shared = RunAll(model.get(), Requests(), {});
    ASSERT_EQ(shared.size(), whole.size());
    for (const auto& [id, response] : whole) {
      EXPECT_EQ(shared.at(id).tokens, response.tokens);
      EXPECT_EQ(shared.at(id).finish_reason, response.finish_reason);
      for (size_t t = 0; t < response.log_probs.size(); ++t) {
        EXPECT_NEAR(shared.at(id).log_probs[t], response.log_probs[t], 1e-4);
      }
    }
  });
}

// The code of the group's error is the step's, so that the caller knows that a rank is missing.
TEST(TensorParallelGeneratorTest, ALostRankIsTheStepsError) {
  class Broken : public testing::ThreadCommunicator {
   public:
    using ThreadCommunicator::ThreadCommunicator;
    std::unique_ptr<PendingCollective> StartAllReduce(torch::Tensor, Reduction) override {
      throw CollectiveError(absl::DeadlineExceededError("rank 1 is late"));
    }
  };
  testing::MeetingPoint point(2);
  Broken group(0, 2, &point);
  const auto model = SharedModel(group);
  const auto generator = MakeGenerator(model.get());
  testing::OracleDrafter drafter([](absl::Span<const int32_t>, int64_t) { return DraftTree(); });
  generator->SetDrafter(&drafter);
  ASSERT_TRUE(generator->Add(Requests()[0]).ok());
  EXPECT_EQ(drafter.live(), 1u);
  const absl::Status status = generator->Step().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(generator->idle());
  EXPECT_EQ(drafter.live(), 0u);
}

// A rank has the keys and values of its own heads alone.
TEST(TensorParallelGeneratorTest, BlocksHoldARanksHeads) {
  const auto whole_model = MakeModel();
  const int64_t whole_bytes = MakeGenerator(whole_model.get())->stats().block_bytes;
  testing::RunRanks(2, [&](Communicator& group) {
    const auto model = SharedModel(group);
    EXPECT_EQ(MakeGenerator(model.get())->stats().block_bytes * 2, whole_bytes);
  });
}

// Adding up two ranks' rows keeps a row from depending on the batch.
TEST(TensorParallelGeneratorTest, ABatchEqualsOneByOneBitwise) {
  testing::RunRanks(2, [&](Communicator& group) {
    const auto model = SharedModel(group);
    model->SetDeterministic(true);
    const Responses together = RunAll(model.get(), Requests(), Deterministic());
    for (const GenerateRequest& request : Requests()) {
      EXPECT_EQ(RunAlone(model.get(), request, Deterministic()), together.at(request.id));
    }
  });
}

// Every rank judges the same drafts by the same draws: ranks that disagreed would add up rows of
// different tokens.
TEST(TensorParallelGeneratorTest, RanksJudgeDraftsAlike) {
  constexpr int kRanks = 2;
  std::vector<GeneratorStats> stats(kRanks);
  testing::RunRanks(kRanks, [&](Communicator& group) {
    const auto model = SharedModel(group);
    model->SetDeterministic(true);
    std::vector<GenerateRequest> requests = Requests();
    const Responses plain = RunAll(model.get(), requests, Deterministic());
    for (GenerateRequest& request : requests) {
      request.draft = plain.at(request.id).tokens;
      if (request.id % 2 == 0) request.draft[request.id] ^= 1;
      if (request.id == 3) request.draft.insert(request.draft.end(), 40, 7);
    }
    GeneratorOptions options = Deterministic();
    options.prefill_chunk_tokens = 9;
    const auto generator = MakeGenerator(model.get(), options);
    for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
    EXPECT_EQ(Finish(*generator), plain);
    stats[group.rank()] = generator->stats();
  });
  // Requests 1, 3 and 5 have 7, 13 and 19 tokens; 2, 4 and 6 differ at their token of that number.
  EXPECT_EQ(stats[0].drafts.accepted, 7 + 13 + 19 + 2 + 4 + 6);
  EXPECT_EQ(stats[0].drafts.judged, stats[0].drafts.accepted + 3);
  EXPECT_EQ(stats[1].drafts.accepted, stats[0].drafts.accepted);
  EXPECT_EQ(stats[1].drafts.judged, stats[0].drafts.judged);
  EXPECT_EQ(stats[1].steps, stats[0].steps);
}

// As above, for trees, with memory short and prompts in chunks. Each rank has a drafter of its own
// here, which proposes the same as the other's; hybrid/replica_test.cc has one for all.
TEST(TensorParallelGeneratorTest, RanksJudgeTreesAlike) {
  constexpr int kRanks = 2;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<GeneratorStats> stats(kRanks);
    testing::RunRanks(kRanks, [&](Communicator& group) {
      const auto model = SharedModel(group);
      model->SetDeterministic(true);
      std::mt19937 random(seed);
      const std::vector<GenerateRequest> requests = MixedRequests(8, random);
      const Responses plain = RunAll(model.get(), requests, Deterministic());
      testing::OracleDrafter drafter([&](absl::Span<const int32_t> future, int64_t) {
        return testing::SomeTree(future, random);
      });
      for (const auto& [id, response] : plain) drafter.Know(id, response.tokens);
      GeneratorOptions options = WithBlocks(model.get(), 9 + seed % 3 * 20, 9);
      const auto generator = MakeGenerator(model.get(), options);
      generator->SetDrafter(&drafter);
      for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
      Responses responses;
      while (!generator->idle()) {
        drafter.SetDrafts(*generator);
        ASSERT_NO_FATAL_FAILURE(StepInto(*generator, &responses));
      }
      EXPECT_EQ(responses, plain);
      stats[group.rank()] = generator->stats();
    });
    EXPECT_GT(stats[0].drafts.accepted, 20);
    EXPECT_EQ(stats[1].drafts.accepted, stats[0].drafts.accepted);
    EXPECT_EQ(stats[1].drafts.judged, stats[0].drafts.judged);
    EXPECT_EQ(stats[1].drafts.rows, stats[0].drafts.rows);
    EXPECT_EQ(stats[1].preemptions, stats[0].preemptions);
    EXPECT_EQ(stats[1].steps, stats[0].steps);
  }
}

}  // namespace
}  // namespace baton::engine
