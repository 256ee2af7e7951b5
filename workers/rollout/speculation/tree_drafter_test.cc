#include "workers/rollout/speculation/tree_drafter.h"

#include <algorithm>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;

constexpr int32_t kPrompt[] = {7, 8, 9};

class TreeDrafterTest : public ::testing::Test {
 protected:
  // Passes that cost 10 ms and 0.1 ms for each row: drafts pay.
  void LetDraftsPay() {
    for (int64_t rows = 1; rows <= 20; ++rows) {
      PassOf(rows, 10e-3 + 0.1e-3 * static_cast<double>(rows));
    }
    drafter_.WantsToDraft(1);  // The last one is over.
  }
  // A plain pass, of responses that the drafter does not know.
  void PassOf(int64_t rows, double seconds) {
    drafter_.WantsToDraft(rows);
    drafter_.PassDone(rows, seconds);
  }
  // A response goes on. The first nodes of its draft were computed, and the first ones of these
  // drawn.
  void Append(uint64_t id, const std::vector<int32_t>& tokens, int64_t computed = 0,
              int64_t drawn = 0) {
    const std::vector<int32_t> nodes = Count(0, static_cast<int32_t>(std::max(computed, drawn)));
    const auto first = [&](int64_t n) {
      return absl::MakeConstSpan(nodes).subspan(0, static_cast<size_t>(n));
    };
    drafter_.Append(id, tokens, {first(computed), first(drawn)});
  }
  // A response that is over.
  void Remember(const std::vector<int32_t>& tokens) {
    drafter_.Begin(1000, kPrompt, {});
    Append(1000, tokens);
    drafter_.End(1000);
  }
  static std::vector<int32_t> Count(int32_t from, int32_t size) {
    std::vector<int32_t> tokens(static_cast<size_t>(size));
    std::iota(tokens.begin(), tokens.end(), from);
    return tokens;
  }

  TreeDrafter drafter_{TreeCache::Create({}).value()};
};

TEST_F(TreeDrafterTest, DraftsFromEarlierResponsesToThePrompt) {
  LetDraftsPay();
  Remember(Count(100, 30));
  drafter_.Begin(1, kPrompt, {});
  Append(1, Count(100, 5));
  const auto trees = drafter_.Draft(std::vector<uint64_t>{1}, 8);
  ASSERT_EQ(trees.size(), 1u);
  EXPECT_EQ(trees[0].tokens, Count(105, static_cast<int32_t>(trees[0].tokens.size())));
  EXPECT_THAT(trees[0].tokens.size(), Gt(3u));
  EXPECT_LE(trees[0].tokens.size(), 8u);
}

TEST_F(TreeDrafterTest, ResumedTokensCountAndAnotherPromptDoesNot) {
  LetDraftsPay();
  Remember(Count(100, 30));
  const std::vector<int32_t> resumed = Count(100, 5);
  drafter_.Begin(1, kPrompt, resumed);
  drafter_.Begin(2, std::vector<int32_t>{7, 8}, resumed);
  const auto trees = drafter_.Draft(std::vector<uint64_t>{2, 1, 99}, 8);
  ASSERT_EQ(trees.size(), 3u);
  EXPECT_TRUE(trees[0].tokens.empty());
  EXPECT_FALSE(trees[1].tokens.empty());
  EXPECT_TRUE(trees[2].tokens.empty()) << "there is no such response";
}

TEST_F(TreeDrafterTest, DraftsFromResponsesThatStillRun) {
  LetDraftsPay();
  drafter_.Begin(1, kPrompt, {});
  drafter_.Begin(2, kPrompt, {});
  Append(1, Count(50, 20));
  Append(2, Count(50, 4));
  const auto trees = drafter_.Draft(std::vector<uint64_t>{1, 2}, 8);
  EXPECT_TRUE(trees[0].tokens.empty());
  EXPECT_FALSE(trees[1].tokens.empty());
}

// The plain speed that drafts are compared with is measured again, however well drafts do.
TEST_F(TreeDrafterTest, RunsOnePassOfManyWithoutDrafts) {
  LetDraftsPay();
  Remember(Count(100, 6000));
  drafter_.Begin(1, kPrompt, {});
  std::vector<int64_t> plain;
  for (int32_t pass = 0, next = 100; pass < 200; ++pass) {
    int32_t drafted = 0;
    if (drafter_.WantsToDraft(1)) {
      drafted = static_cast<int32_t>(drafter_.Draft(std::vector<uint64_t>{1}, 8)[0].tokens.size());
    } else {
      plain.push_back(pass);
    }
    drafter_.PassDone(1 + drafted, 10e-3 + 0.1e-3 * (1 + drafted));
    Append(1, Count(next, 1 + drafted), drafted, drafted);
    next += 1 + drafted;
  }
  EXPECT_THAT(plain, ::testing::ElementsAre(63, 128, 193));
}

TEST_F(TreeDrafterTest, CountsWhatCameOfIt) {
  LetDraftsPay();
  Remember(Count(100, 30));
  drafter_.Begin(1, kPrompt, {});
  Append(1, Count(100, 5));
  const auto tree = drafter_.Draft(std::vector<uint64_t>{1}, 6)[0];
  ASSERT_EQ(tree.tokens.size(), 6u);
  // Four of six nodes got a row; three were drawn, and then another token.
  Append(1, {105, 106, 107, 5}, 4, 3);
  EXPECT_EQ(drafter_.stats().proposed, 6);
  EXPECT_EQ(drafter_.stats().verified, 4);
  EXPECT_EQ(drafter_.stats().accepted, 3);
  // The draft is over: what is appended next is not judged by it.
  Append(1, {105});
  EXPECT_EQ(drafter_.stats().verified, 4);
}

// The history says that the first token is followed by any of ten, and each of these by its own
// tokens. The first guess is never right, so nothing is learned of what follows it.
TEST_F(TreeDrafterTest, DoesNotJudgeNodesThatWereNotReached) {
  LetDraftsPay();
  for (int32_t i = 0; i < 10; ++i) Remember({50, 60 + i, 70 + i, 80 + i, 90 + i, 100 + i});
  const auto nodes_after = [&](int32_t token) {
    drafter_.Begin(1, kPrompt, std::vector<int32_t>{50, token});
    const int64_t nodes = drafter_.Draft(std::vector<uint64_t>{1}, 64)[0].size();
    drafter_.End(1);
    return nodes;
  };
  const int64_t before = nodes_after(65);
  EXPECT_GE(before, 3);
  for (uint64_t id = 2; id < 40; ++id) {
    drafter_.Begin(id, kPrompt, std::vector<int32_t>{50});
    const auto tree = drafter_.Draft(std::vector<uint64_t>{id}, 64)[0];
    Append(id, {static_cast<int32_t>(1000 + id)}, tree.size());
    drafter_.PassDone(1 + tree.size(), 10e-3 + 0.1e-3 * static_cast<double>(1 + tree.size()));
    drafter_.End(id);
  }
  EXPECT_EQ(drafter_.stats().accepted, 0);
  EXPECT_GT(drafter_.stats().verified, 100);
  EXPECT_GE(nodes_after(65), before);
}

// History that is always wrong is believed less and less, until it costs nothing.
TEST_F(TreeDrafterTest, DraftsLessFromMisleadingHistory) {
  LetDraftsPay();
  Remember(Count(100, 2000));
  drafter_.Begin(1, kPrompt, {});
  int64_t early = 0, late = 0;
  for (int step = 0; step < 600; ++step) {
    // A known token, and then one that never followed it.
    Append(1, {100 + step % 300 * 5});
    const auto tree = drafter_.Draft(std::vector<uint64_t>{1}, 64)[0];
    const auto nodes = static_cast<int64_t>(tree.tokens.size());
    (step < 20 ? early : late) += step < 20 || step >= 500 ? nodes : 0;
    Append(1, {10000 + step}, nodes);
    drafter_.PassDone(1 + nodes, 10e-3 + 1e-3 * static_cast<double>(1 + nodes));
  }
  EXPECT_GT(early, 20);
  EXPECT_LT(late, early);
  EXPECT_EQ(drafter_.stats().accepted, 0);
}

// Nothing goes into the trees before a draft needs it, or there is time.
TEST_F(TreeDrafterTest, EndedResponsesAreFollowedWhenThereIsTime) {
  for (int32_t prompt = 0; prompt < 10; ++prompt) {
    drafter_.Begin(1, std::vector<int32_t>{prompt}, {});
    Append(1, Count(100, 30));
    drafter_.End(1);
  }
  EXPECT_EQ(drafter_.cache().stats().tokens, 0);
  EXPECT_TRUE(drafter_.CatchUp(100));
  EXPECT_GE(drafter_.cache().stats().tokens, 90);
  EXPECT_LT(drafter_.cache().stats().tokens, 200);
  while (drafter_.CatchUp(100)) {
  }
  EXPECT_EQ(drafter_.cache().stats().tokens, 300);
  EXPECT_EQ(drafter_.cache().stats().running_responses, 0);
  EXPECT_FALSE(drafter_.CatchUp(100));
}

TEST_F(TreeDrafterTest, LongResponsesDoNotWaitForEver) {
  drafter_.Begin(1, kPrompt, {});
  for (int i = 0; i < 5000; ++i) Append(1, {i});
  EXPECT_GT(drafter_.cache().stats().tokens, 2500);
}

// Two million tokens of one prompt.
TEST_F(TreeDrafterTest, KeepsTheNewestResponsesOfAPrompt) {
  for (int32_t i = 0; i < 20000; ++i) Remember(Count(i, 100));
  while (drafter_.CatchUp(1 << 16)) {
  }
  EXPECT_LT(drafter_.cache().stats().tokens, 1100000);
  LetDraftsPay();
  const auto knows = [&](int32_t first) {
    drafter_.Begin(1, kPrompt, Count(first, 5));
    const bool drafts = drafter_.Draft(std::vector<uint64_t>{1}, 8)[0].size() > 0;
    drafter_.End(1);
    return drafts;
  };
  EXPECT_TRUE(knows(19999));
  EXPECT_FALSE(knows(0));
}

// Two million tokens of 20,000 prompts, one after the other.
TEST_F(TreeDrafterTest, ForgetsTheOldestOfManyEndedResponses) {
  constexpr int32_t kPrompts = 20000;
  for (int32_t i = 0; i < kPrompts; ++i) {
    drafter_.Begin(2, std::vector<int32_t>{i}, {});
    Append(2, Count(i, 100));
    drafter_.End(2);
  }
  const auto followed = [&] { return drafter_.cache().stats().tokens; };
  EXPECT_EQ(followed(), 0);
  while (drafter_.CatchUp(1 << 16)) {
  }
  EXPECT_GT(followed(), 1000000);
  EXPECT_LT(followed(), 1100000);
  EXPECT_TRUE(drafter_.Knows(std::vector<int32_t>{kPrompts - 1}));
  EXPECT_FALSE(drafter_.Knows(std::vector<int32_t>{0}));
}

// A cursor would hold the tree in memory.
TEST_F(TreeDrafterTest, AddsADraftedResponseToTheTreeWhenItEnds) {
  LetDraftsPay();
  drafter_.Begin(1, kPrompt, {});
  Append(1, Count(100, 5));
  drafter_.Draft(std::vector<uint64_t>{1}, 8);
  Append(1, Count(105, 5));
  EXPECT_EQ(drafter_.cache().stats().running_responses, 1);
  drafter_.End(1);
  EXPECT_EQ(drafter_.cache().stats().running_responses, 0);
  EXPECT_EQ(drafter_.cache().stats().tokens, 10);
}

// 100 responses to a prompt ended while nothing was drafted. They do not all enter the tree in one
// pass, for the pass would wait for that.
TEST_F(TreeDrafterTest, APassFollowsOnlySomeOfWhatEnded) {
  LetDraftsPay();
  for (int i = 0; i < 100; ++i) Remember(Count(100, 1000));
  drafter_.Begin(1, kPrompt, Count(100, 5));
  int64_t before = 0;
  for (int pass = 0; pass < 20; ++pass) {
    drafter_.WantsToDraft(1);
    drafter_.Draft(std::vector<uint64_t>{1}, 8);
    drafter_.PassDone(1, 10e-3);
    const int64_t followed = drafter_.cache().stats().tokens;
    EXPECT_LT(followed - before, 10000);
    before = followed;
  }
  EXPECT_EQ(before, 100 * 1000 + 5);
}

// As many rows in each pass: what one costs does not show.
TEST_F(TreeDrafterTest, TriesDraftsLessOftenIfNothingCanBeLearned) {
  int drafted = 0, late = 0;
  for (int pass = 0; pass < 20000; ++pass) {
    const bool wants = drafter_.WantsToDraft(256);
    drafted += wants ? 1 : 0;
    late += wants && pass >= 10000 ? 1 : 0;
    drafter_.PassDone(256, 10e-3);
  }
  EXPECT_THAT(drafted, Gt(60));
  EXPECT_LT(drafted, 400);
  EXPECT_THAT(late, Gt(0)) << "batches may change";
}

// The drafter makes a draft for one of twelve responses in a pass. The drafts of the others come
// from the controller.
TEST_F(TreeDrafterTest, IgnoresPassesWithDraftsOfOthers) {
  LetDraftsPay();
  Remember(Count(100, 300));
  drafter_.Begin(1, kPrompt, Count(100, 5));
  int asked = 0;
  for (int pass = 0; pass < 400; ++pass) {
    const bool wants = drafter_.WantsToDraft(12);
    asked += wants ? 1 : 0;
    if (wants) drafter_.Draft(std::vector<uint64_t>{1}, 64);
    Append(1, {5});
    drafter_.PassDone(60, 30e-3);  // far slower than plain passes
  }
  EXPECT_THAT(asked, Gt(300));
}

// Repeated in earlier responses, and never verified.
TEST_F(TreeDrafterTest, TheFirstDraftsAreSmall) {
  LetDraftsPay();
  Remember(Count(100, 300));
  std::vector<uint64_t> ids;
  for (uint64_t id = 1; id <= 8; ++id) {
    drafter_.Begin(id, kPrompt, {});
    Append(id, Count(100 + static_cast<int32_t>(id), 5));
    ids.push_back(id);
  }
  const auto nodes = [&] {
    int64_t sum = 0;
    for (const auto& tree : drafter_.Draft(ids, 200)) sum += tree.size();
    return sum;
  };
  EXPECT_GT(nodes(), 8);
  EXPECT_LE(nodes(), 18);
}

// Eight of 64 responses try whether drafts pay. Once that is known, all get them.
TEST_F(TreeDrafterTest, DraftsForAFewResponsesOfAFullBatchFirst) {
  const auto seconds = [](int64_t rows) { return 1e-3 + 1e-6 * static_cast<double>(rows); };
  for (int64_t rows = 1; rows <= 100; ++rows) PassOf(rows, seconds(rows));
  Remember(Count(100, 2000));
  std::vector<uint64_t> ids;
  for (uint64_t id = 1; id <= 64; ++id) {
    ids.push_back(id);
    drafter_.Begin(id, kPrompt, Count(100, 5));
  }
  drafter_.Draft({&ids[0], 1}, 512);  // The drafter now knows how many nodes there may be.
  std::vector<int32_t> next(ids.size(), 105);
  std::vector<int64_t> drafted;  // responses, by pass
  for (int pass = 0; pass < 40; ++pass) {
    std::vector<engine::DraftTree> trees(ids.size());
    if (drafter_.WantsToDraft(64)) {
      trees = drafter_.Draft(ids, 512);
      drafted.push_back(0);
    }
    int64_t nodes = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      nodes += trees[i].size();
      if (!trees[i].tokens.empty()) ++drafted.back();
      // All guesses are right.
      const auto size = static_cast<int32_t>(trees[i].size() + 1);
      Append(ids[i], Count(next[i], size), trees[i].size(), trees[i].size());
      next[i] += size;
    }
    if (!drafted.empty() && drafted.size() <= 10) {
      EXPECT_EQ(drafter_.cache().stats().running_responses, 8);
    }
    drafter_.PassDone(64 + nodes, seconds(64 + nodes));
  }
  ASSERT_THAT(drafted.size(), Gt(20u));
  EXPECT_EQ(*std::max_element(drafted.begin(), drafted.begin() + 10), 8);
  EXPECT_THAT(drafted.back(), Gt(8));
}

// After a loss beside many responses, one response alone is drafted nevertheless.
TEST_F(TreeDrafterTest, ALossInALargeBatchDoesNotStopDraftsForOneResponse) {
  LetDraftsPay();
  Remember(Count(100, 30));
  drafter_.Begin(1, kPrompt, {});
  Append(1, Count(100, 5));
  std::vector<uint64_t> many(12, 999);
  many[0] = 1;
  const auto drafts_of = [&](const std::vector<uint64_t>& ids) {
    if (!drafter_.WantsToDraft(static_cast<int64_t>(ids.size()))) return int64_t{0};
    return drafter_.Draft(ids, 8)[0].size();
  };
  int passes = 0;
  for (; passes < 200; ++passes) {
    const int64_t nodes = drafts_of(many);
    if (nodes == 0) break;
    drafter_.PassDone(12 + nodes, 30e-3);  // far slower than plain passes
  }
  ASSERT_LT(passes, 200) << "it never rests";
  EXPECT_EQ(drafts_of(many), 0);
  EXPECT_GT(drafts_of({1}), 0);
  // Beside many, a draft seldom pays: this rest is long.
  for (int pass = 0; pass < 2000; ++pass) ASSERT_EQ(drafts_of(many), 0) << pass;
}

// The same losses say nothing while all responses are run ahead, for prompts that were never asked.
TEST_F(TreeDrafterTest, RunAheadLossesDoNotStopDrafts) {
  LetDraftsPay();
  Remember(Count(100, 30));
  drafter_.Begin(1, kPrompt, {});
  Append(1, Count(100, 5));
  std::vector<uint64_t> many(12, 999);
  many[0] = 1;
  drafter_.SetAhead(true);
  for (int pass = 0; pass < 200; ++pass) {
    int64_t nodes = 0;
    if (drafter_.WantsToDraft(12)) nodes = drafter_.Draft(many, 8)[0].size();
    drafter_.PassDone(12 + nodes, 30e-3);  // far slower than plain passes
  }
  drafter_.SetAhead(false);
  EXPECT_TRUE(drafter_.WantsToDraft(12));
}

// 100 updates were lost. Their responses must not outweigh the following ones.
TEST_F(TreeDrafterTest, AnActorThatGoesBackIsBelievedAtOnce) {
  const auto say = [&](int64_t updates, int32_t token, int times) {
    drafter_.SetActorUpdates(updates);
    for (int i = 0; i < times; ++i) Remember({50, token});
  };
  LetDraftsPay();
  say(1000, 60, 1);
  say(1500, 61, 2);
  say(1000, 62, 1);
  drafter_.Begin(1, kPrompt, std::vector<int32_t>{50});
  const auto tree = drafter_.Draft(std::vector<uint64_t>{1}, 8)[0];
  ASSERT_FALSE(tree.tokens.empty());
  EXPECT_EQ(tree.tokens[0], 62);
}

TEST_F(TreeDrafterTest, NonsenseTokensGetNoDrafts) {
  LetDraftsPay();
  drafter_.Begin(1, kPrompt, std::vector<int32_t>{-4});
  Append(1, Count(1, 3));
  EXPECT_TRUE(drafter_.Draft(std::vector<uint64_t>{1}, 8)[0].tokens.empty());
  drafter_.End(1);
  drafter_.End(1);
}

// A response of the weights of now outweighs three that are four half-lives old; equally old ones
// would be outnumbered.
TEST_F(TreeDrafterTest, HistoryCountsByTheUpdatesBetween) {
  const std::vector<int32_t> old = {1, 2, 3, 40, 41, 42}, recent = {1, 2, 3, 50, 51, 52};
  for (const bool rolled_back : {false, true}) {
    for (const uint64_t version : {uint64_t{44}, uint64_t{0}}) {
      TreeDrafter drafter(TreeCache::Create({}).value());
      drafter.SetActorUpdates(300);
      if (rolled_back) drafter.SetActorUpdates(250);
      const uint64_t now = rolled_back ? 250 : 300;
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(drafter.AddEarlier(kPrompt, old, version == 0 ? 0 : now - 256 + 6).ok());
      }
      ASSERT_TRUE(drafter.AddEarlier(kPrompt, recent, now).ok());
      EXPECT_TRUE(drafter.Knows(kPrompt));
      // The draft of a tree with the same counts.
      drafter.Begin(1, kPrompt, std::vector<int32_t>{1, 2, 3});
      for (int64_t rows = 1; rows <= 20; ++rows) {
        drafter.WantsToDraft(rows);
        drafter.PassDone(rows, 10e-3 + 0.1e-3 * static_cast<double>(rows));
      }
      drafter.WantsToDraft(1);
      const auto trees = drafter.Draft(std::vector<uint64_t>{1}, 8);
      ASSERT_FALSE(trees[0].tokens.empty());
      EXPECT_EQ(trees[0].tokens[0], 50) << "after a rollback: " << rolled_back;
    }
  }
}

}  // namespace
}  // namespace baton::rollout
