// Tests of what a generator tells its drafter, asks of it and does with its trees.
#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/engine/drafter.h"
#include "tests/support/engine/generator_draft.h"

namespace baton::engine {
namespace {

using testing::AddNode;
using testing::AddPath;
using testing::AmongSiblings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OracleDrafter;
using testing::OtherToken;

// Writes down what it hears. Proposes what it is told to.
class RecordingDrafter : public Drafter {
 public:
  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override {
    Note("begin ", id, " prompt ", absl::StrJoin(prompt, ","), " resumed ",
         absl::StrJoin(resumed, ","));
  }
  void Append(uint64_t id, absl::Span<const int32_t> tokens, const DraftOutcome& outcome) override {
    Note("append ", id, " tokens ", tokens.size());
    if (outcome.computed.empty() && outcome.path.empty()) return;
    Note("computed ", absl::StrJoin(outcome.computed, ","), " path ",
         absl::StrJoin(outcome.path, ","));
  }
  bool WantsToDraft(int64_t decoding) override {
    this->decoding = decoding;
    return wants;
  }
  std::vector<DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override {
    Note("draft ", absl::StrJoin(ids, ","), " nodes ", max_nodes);
    return trees;
  }
  void PassDone(int64_t rows, double) override { this->rows += rows; }
  void End(uint64_t id) override { Note("end ", id); }

  std::vector<std::string> Heard() { return std::exchange(heard_, {}); }
  std::vector<DraftTree> trees;
  int64_t rows = 0, decoding = 0;
  bool wants = true;

 private:
  template <typename... Parts>
  void Note(const Parts&... parts) {
    heard_.push_back(absl::StrCat(parts...));
  }
  std::vector<std::string> heard_;
};

TEST(GeneratorDrafterTest, IsNotAskedForDraftsThatItDoesNotWant) {
  const auto model = MakeModel();
  const auto generator = MakeGenerator(model.get());
  RecordingDrafter drafter;
  drafter.wants = false;
  generator->SetDrafter(&drafter);
  ASSERT_TRUE(generator->Add(Request(1, {3, 4}, 5)).ok());
  ASSERT_TRUE(generator->Add(Request(2, {5}, 5)).ok());
  Responses responses;
  StepInto(*generator, &responses);
  StepInto(*generator, &responses);
  EXPECT_EQ(drafter.decoding, 2);
  EXPECT_THAT(drafter.Heard(), ::testing::Not(::testing::Contains(HasSubstr("draft"))));
  drafter.wants = true;
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(), ::testing::Contains(HasSubstr("draft 1,2")));
}

TEST(GeneratorDrafterTest, NotifiesTheDrafterOfEachRequestUntilItsEnd) {
  const auto model = MakeModel();
  const auto generator = MakeGenerator(model.get());
  ASSERT_TRUE(generator->Add(Request(9, {7}, 5)).ok());  // before there is a drafter
  RecordingDrafter drafter;
  generator->SetDrafter(&drafter);
  GenerateRequest resumed = Request(1, {3, 4}, 5);
  resumed.resume = {6, 7};
  ASSERT_TRUE(generator->Add(resumed).ok());
  ASSERT_TRUE(generator->Add(Request(2, {5}, 9)).ok());
  GenerateRequest whole = Request(3, {5}, 1);
  whole.resume = {4};
  ASSERT_TRUE(generator->Add(whole).ok());
  EXPECT_FALSE(generator->Add(Request(4, {}, 9)).ok());
  EXPECT_THAT(drafter.Heard(),
              ElementsAre("begin 1 prompt 3,4 resumed 6,7", "begin 2 prompt 5 resumed "));
  Responses responses;
  StepInto(*generator, &responses);  // computes the prompts; no request decodes yet
  EXPECT_THAT(drafter.Heard(), ElementsAre("append 1 tokens 1", "append 2 tokens 1"));
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(),
              ElementsAre("draft 1,2 nodes 32", "append 1 tokens 1", "append 2 tokens 1"));
  // Request 1 gets its last token: nothing follows that.
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(),
              ElementsAre("draft 2 nodes 32", "append 1 tokens 1", "end 1", "append 2 tokens 1"));
  EXPECT_TRUE(generator->Cancel(2));
  EXPECT_THAT(drafter.Heard(), ElementsAre());
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(), ElementsAre("end 2"));
  ASSERT_TRUE(generator->Add(Request(2, {5}, 9)).ok());
  generator->SetDrafter(nullptr);
  EXPECT_THAT(drafter.Heard(), ElementsAre("begin 2 prompt 5 resumed ", "end 2"));
  Finish(*generator);
  EXPECT_THAT(drafter.Heard(), ElementsAre());
}

TEST(GeneratorDrafterTest, AsksForDraftsOnceARequestsOwnDraftFailed) {
  const auto model = MakeModel();
  GenerateRequest request = Request(1, {3, 4}, 20);
  const std::vector<int32_t> tokens = RunAlone(model.get(), request, {}).tokens;
  request.draft = {tokens[0], tokens[1], tokens[2], OtherToken(tokens[3]), 5, 5, 5};
  GeneratorOptions options;
  options.prefill_chunk_tokens = 2;  // so that the draft takes some steps
  const auto generator = MakeGenerator(model.get(), options);
  RecordingDrafter drafter;
  generator->SetDrafter(&drafter);
  ASSERT_TRUE(generator->Add(request).ok());
  Responses responses;
  StepInto(*generator, &responses);  // the prompt, and one token
  StepInto(*generator, &responses);  // two of the draft, and one token: it differs
  EXPECT_EQ(responses[1].tokens.size(), 4u);
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(),
              ElementsAre("begin 1 prompt 3,4 resumed ", "append 1 tokens 1", "append 1 tokens 3",
                          "draft 1 nodes 32", "append 1 tokens 1"));
}

TEST(GeneratorDrafterTest, SharesTheNodeBudgetAmongAllRequests) {
  const auto model = MakeModel();
  std::mt19937 random(1);
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 0; id < 3; ++id) {
    requests.push_back(Request(id, RandomTokens(4, random), 20 + 40 * static_cast<int64_t>(id)));
  }
  const Responses plain = Generate(model.get(), requests, Roomy()).responses;
  for (const int64_t nodes : {0, 2, 11, 60}) {
    OracleDrafter drafter([](absl::Span<const int32_t> future, int64_t) {
      return AmongSiblings(future, 3);  // more than it may
    });
    for (const auto& [id, response] : plain) drafter.Know(id, response.tokens);
    GeneratorOptions options = Roomy();
    options.max_draft_nodes = nodes;
    const auto generator = MakeGenerator(model.get(), options);
    generator->SetDrafter(&drafter);
    for (const GenerateRequest& request : requests) ASSERT_TRUE(generator->Add(request).ok());
    Responses responses;
    StepInto(*generator, &responses);
    StepInto(*generator, &responses);
    EXPECT_EQ(drafter.asked_nodes(), nodes);
    EXPECT_EQ(generator->stats().drafts.rows, nodes);
    while (!generator->idle()) StepInto(*generator, &responses);
    EXPECT_EQ(responses, plain);
    EXPECT_EQ(drafter.calls() > 0, nodes > 0);
    EXPECT_EQ(drafter.rows(), generator->stats().drafts.pass_rows);
  }
  GeneratorOptions options;
  options.max_draft_nodes = -1;
  const auto refused = Generator::Create(model.get(), Decode, options);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("max_draft_nodes: -1 is negative"));
}

// Two requests of 2 blocks each fit the cache, or one of 4. A third one waits, and so memory may
// become short, until one of them has ended, however it did.
TEST(GeneratorDrafterTest, AsksForDraftsIfLiveRequestsFitTheCache) {
  const auto model = MakeModel();
  const auto generator = MakeGenerator(model.get(), WithBlocks(model.get(), 4));
  OracleDrafter drafter(
      [](absl::Span<const int32_t> future, int64_t) { return ChainDraft(future.subspan(0, 0)); });
  for (uint64_t id = 0; id < 9; ++id) drafter.Know(id, {});
  generator->SetDrafter(&drafter);
  Responses responses;
  const auto asked = [&] {
    const int64_t before = drafter.calls();
    StepInto(*generator, &responses);
    return drafter.calls() > before;
  };
  for (uint64_t id = 0; id < 2; ++id) {
    ASSERT_TRUE(generator->Add(Request(id, {3}, 17)).ok());
    StepInto(*generator, &responses);
  }
  EXPECT_TRUE(asked());
  ASSERT_TRUE(generator->Add(Request(2, {3}, 4)).ok());
  EXPECT_FALSE(asked());
  EXPECT_TRUE(generator->Cancel(0));
  EXPECT_TRUE(asked());
  EXPECT_TRUE(generator->Cancel(1));
  EXPECT_TRUE(asked());
  while (!generator->idle()) StepInto(*generator, &responses);
  // The request's prompt takes one block. Its response has 49 tokens; 48 are computed, which takes
  // three blocks.
  ASSERT_TRUE(generator->Add(Request(3, {3}, 49)).ok());
  StepInto(*generator, &responses);
  EXPECT_TRUE(asked());
  ASSERT_TRUE(generator->Add(Request(4, {3}, 2)).ok());
  EXPECT_FALSE(asked());
  EXPECT_TRUE(generator->Cancel(4));  // it waits, or runs
  EXPECT_TRUE(asked());
}

// Any number of requests may wait where those that run at once fit.
TEST(GeneratorDrafterTest, AsksForDraftsIfConcurrentRequestsFitTheCache) {
  const auto model = MakeModel();
  for (const int64_t running : {2, 3}) {
    GeneratorOptions options = WithBlocks(model.get(), 4);
    options.max_num_seqs = running;
    const auto generator = MakeGenerator(model.get(), options);
    OracleDrafter drafter(
        [](absl::Span<const int32_t> future, int64_t) { return ChainDraft(future.subspan(0, 0)); });
    for (uint64_t id = 0; id < 10; ++id) drafter.Know(id, {});
    generator->SetDrafter(&drafter);
    for (uint64_t id = 0; id < 10; ++id) {
      ASSERT_TRUE(generator->Add(Request(id, {3}, 17)).ok());
    }
    Responses responses;
    for (int step = 0; step < 20; ++step) StepInto(*generator, &responses);
    EXPECT_EQ(drafter.calls() > 0, running == 2);
    while (!generator->idle()) StepInto(*generator, &responses);
    EXPECT_GT(drafter.calls(), 0) << "the last ones fit";
  }
}

// One response and one tree, counted by hand.
TEST(GeneratorDrafterTest, CountsByHand) {
  const auto model = MakeModel();
  const GenerateRequest request = Request(1, {3, 4}, 20);
  const std::vector<int32_t> tokens = RunAlone(model.get(), request, {}).tokens;
  DraftTree tree;
  AddNode(tree, -1, OtherToken(tokens[1], 1));
  const int32_t right = AddNode(tree, -1, tokens[1]);
  AddPath(tree, AddNode(tree, -1, OtherToken(tokens[1], 2)), {tokens[2], tokens[3]});
  AddNode(tree, right, OtherToken(tokens[2]));
  AddNode(tree, AddNode(tree, right, tokens[2]), OtherToken(tokens[3]));
  ASSERT_EQ(tree.size(), 8);

  RecordingDrafter drafter;
  const auto generator = MakeGenerator(model.get());
  generator->SetDrafter(&drafter);
  ASSERT_TRUE(generator->Add(request).ok());
  Responses responses;
  StepInto(*generator, &responses);
  EXPECT_EQ(generator->stats().drafts.passes, 0);
  drafter.trees = {tree};
  drafter.Heard();
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(), ElementsAre("draft 1 nodes 32", "append 1 tokens 3",
                                           "computed 0,1,2,3,4,5,6,7 path 1,6"));
  drafter.trees.clear();  // fewer than asked for: no guess
  StepInto(*generator, &responses);
  EXPECT_EQ(responses[1].tokens.size(), 1u + 3 + 1);
  const DraftStats drafts = generator->stats().drafts;
  EXPECT_EQ(drafts.passes, 1);
  EXPECT_EQ(drafts.rows, 8);
  EXPECT_EQ(drafts.judged, 3 + 2 + 1);
  EXPECT_EQ(drafts.accepted, 2);
  EXPECT_EQ(drafts.bonus, 1);
  EXPECT_EQ(drafts.proposed_at, (std::array<int64_t, DraftStats::kDepths>{3, 3, 2}));
  EXPECT_EQ(drafts.accepted_at, (std::array<int64_t, DraftStats::kDepths>{1, 1}));
  EXPECT_GT(drafts.draft_seconds, 0);
  EXPECT_GT(drafts.verify_seconds, 0);
  EXPECT_EQ(generator->stats().generated_tokens, 5);
}

// Nodes are told by their places in the tree that was proposed, whatever was pruned from it.
TEST(GeneratorDrafterTest, ReportsNodesByTheirPlaceInTheProposedTree) {
  const auto model = MakeModel();
  const GenerateRequest request = Request(1, {3, 4}, 20);
  const std::vector<int32_t> tokens = RunAlone(model.get(), request, {}).tokens;
  GeneratorOptions options;
  options.prefill_chunk_tokens = 3;  // so that the third node that is left has no row
  const auto generator = MakeGenerator(model.get(), options);
  RecordingDrafter drafter;
  generator->SetDrafter(&drafter);
  ASSERT_TRUE(generator->Add(request).ok());
  Responses responses;
  StepInto(*generator, &responses);
  drafter.trees = {{{kVocab, OtherToken(tokens[1]), tokens[1], -1, tokens[2], tokens[3]},
                    {-1, -1, -1, 0, 2, 4}}};
  drafter.Heard();
  StepInto(*generator, &responses);
  EXPECT_THAT(drafter.Heard(),
              ElementsAre("draft 1 nodes 32", "append 1 tokens 3", "computed 1,2,4 path 2,4,5"));
}

// The chunk ends in the middle of a tree. The next node may be drawn, but not what follows it.
TEST(GeneratorDrafterTest, ANodeWithoutARowEndsTheDraft) {
  const auto model = MakeModel();
  const GenerateRequest request = Request(1, {3, 4}, 20);
  const std::vector<int32_t> tokens = RunAlone(model.get(), request, {}).tokens;
  GeneratorOptions options;
  options.prefill_chunk_tokens = 3;
  const auto generator = MakeGenerator(model.get(), options);
  ASSERT_TRUE(generator->Add(request).ok());
  Responses responses;
  StepInto(*generator, &responses);
  DraftTree tree;
  AddNode(tree, -1, OtherToken(tokens[1]));
  AddPath(tree, -1, absl::MakeConstSpan(tokens).subspan(1, 6));
  EXPECT_TRUE(generator->SetDraft(1, tree));
  EXPECT_FALSE(generator->SetDraft(2, tree));
  StepInto(*generator, &responses);
  EXPECT_EQ(responses[1].tokens.size(), 1u + 3);
  EXPECT_EQ(generator->stats().drafts.rows, 3);
  EXPECT_EQ(generator->stats().drafts.accepted, 3);
  EXPECT_EQ(generator->stats().drafts.bonus, 0);
  StepInto(*generator, &responses);  // the draft was for one step alone
  EXPECT_EQ(responses[1].tokens.size(), 1u + 3 + 1);
  while (!generator->idle()) StepInto(*generator, &responses);
  EXPECT_EQ(responses[1].tokens, tokens);
}

// The right tokens among wrong ones: a step yields the depth of the tree, and one token more.
TEST(GeneratorDrafterTest, AGoodTreeSavesSteps) {
  const auto model = MakeModel();
  std::mt19937 random(3);
  const GenerateRequest request = Request(1, RandomTokens(8, random), 100);
  const Outcome plain = Generate(model.get(), {request}, Roomy());
  OracleDrafter drafter([](absl::Span<const int32_t> future, int64_t) {
    return AmongSiblings(future.subspan(0, 8), 2);
  });
  drafter.Know(1, plain.responses.at(1).tokens);
  const auto generator = MakeGenerator(model.get(), Roomy());
  generator->SetDrafter(&drafter);
  ASSERT_TRUE(generator->Add(request).ok());
  Outcome outcome;
  while (!generator->idle()) ASSERT_NO_FATAL_FAILURE(StepIntoOutcome(*generator, &outcome));
  EXPECT_EQ(outcome.responses, plain.responses);
  EXPECT_EQ(outcome.stats.steps, 1 + 99 / 9);
  EXPECT_EQ(outcome.stats.drafts.accepted, 11 * 8);
  EXPECT_EQ(outcome.stats.drafts.accepted, drafter.predicted());
  EXPECT_EQ(outcome.stats.drafts.bonus, 11);
  EXPECT_EQ(outcome.accepted.at(1), 0) << "the request had no draft of its own";
}

// A draft for a request that gets no token in the step is forgotten.
TEST(GeneratorDrafterTest, ADraftForAWaitingRequestIsForgotten) {
  const auto model = MakeModel();
  GeneratorOptions options;
  options.max_num_seqs = 1;
  const auto generator = MakeGenerator(model.get(), options);
  ASSERT_TRUE(generator->Add(Request(1, {3}, 2)).ok());
  ASSERT_TRUE(generator->Add(Request(2, {3}, 2)).ok());
  EXPECT_TRUE(generator->SetDraft(2, ChainDraft({1, 2, 3})));
  Finish(*generator);
  EXPECT_EQ(generator->stats().drafts.judged, 0);
}

}  // namespace
}  // namespace baton::engine
