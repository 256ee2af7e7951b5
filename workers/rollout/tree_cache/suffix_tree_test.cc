#include "workers/rollout/tree_cache/suffix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/workers/slow_suffix_tree.h"

namespace baton::rollout {
namespace {

using Tokens = std::vector<int32_t>;

/// The tree and the slow one, given the same.
class TwoTrees {
 public:
  explicit TwoTrees(int depth) : tree_(depth), slow_(depth) {}

  /// The number of a new response.
  size_t Start(float weight = 1) {
    responses_.push_back({std::make_unique<GrowingText>(), slow_.Start(weight)});
    responses_.back().text->weight = weight;
    tree_.Start(responses_.back().text.get());
    return responses_.size() - 1;
  }
  void Append(size_t response, int32_t token) {
    tree_.Append(responses_[response].text.get(), token);
    slow_.Append(responses_[response].slow, token);
  }
  void End(size_t response) {
    tree_.End(responses_[response].text.get());
    slow_.End(responses_[response].slow);
    responses_[response].text = nullptr;
  }
  SuffixTree::Forgotten KeepNewest(int64_t tokens) {
    slow_.KeepNewest(tokens);
    return tree_.KeepNewest(tokens);
  }
  const SuffixTree& tree() const { return tree_; }
  bool running(size_t response) const { return responses_[response].text != nullptr; }

  void ExpectEqualDrafts(size_t response, int budget) {
    Draft draft, expected;
    tree_.ProposeDraft(responses_[response].text.get(), budget, &draft);
    slow_.ProposeDraft(*responses_[response].slow, budget, &expected);
    ASSERT_EQ(draft.match_length, expected.match_length);
    ASSERT_EQ(draft.tree.tokens, expected.tree.tokens);
    ASSERT_EQ(draft.tree.parents, expected.tree.parents);
    ASSERT_EQ(draft.scores, expected.scores);
    ASSERT_EQ(draft.seen, expected.seen);
    constexpr float kLeast = 0.363636f;
    const auto end = std::find_if(expected.scores.begin(), expected.scores.end(),
                                  [](float score) { return score < kLeast; });
    tree_.ProposeDraft(responses_[response].text.get(), budget, &draft, kLeast);
    ASSERT_EQ(draft.scores, std::vector<float>(expected.scores.begin(), end));
  }
  void ExpectEqualCounts() {
    for (const Tokens& tokens : slow_.Strings()) {
      if (tokens.back() == kEndToken) continue;
      const double expected = tokens.size() == 1 ? 1 : slow_.Count(tokens);
      ASSERT_EQ(tree_.Count(tokens), expected) << ::testing::PrintToString(tokens);
      Tokens other = tokens;
      other.back() += 1;
      ASSERT_EQ(tree_.Count(other) > 0, slow_.Count(other) > 0);
    }
  }

 private:
  struct Response {
    std::unique_ptr<GrowingText> text;
    SlowSuffixTree::Text* slow;
  };
  SuffixTree tree_;
  SlowSuffixTree slow_;
  std::vector<Response> responses_;
};

Tokens RandomTokens(std::mt19937& rng, size_t length, uint32_t alphabet) {
  Tokens tokens(length);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % alphabet);
  return tokens;
}

/// Every word of `order` symbols once, around a circle: the least Lyndon words in turn.
Tokens DeBruijn(int alphabet, int order) {
  Tokens out, word(static_cast<size_t>(order) + 1, 0);
  const auto extend = [&](auto& self, int t, int p) -> void {
    if (t > order) {
      if (order % p == 0) out.insert(out.end(), word.begin() + 1, word.begin() + 1 + p);
      return;
    }
    const auto at = static_cast<size_t>(t);
    word[at] = word[at - static_cast<size_t>(p)];
    self(self, t + 1, p);
    for (int symbol = word[at] + 1; symbol < alphabet; ++symbol) {
      word[at] = symbol;
      self(self, t + 1, t);
    }
  };
  extend(extend, 1, 1);
  return out;
}

Tokens Fibonacci(size_t length) {
  Tokens a = {0}, b = {0, 1};
  while (b.size() < length) {
    Tokens next = b;
    next.insert(next.end(), a.begin(), a.end());
    a = std::move(b);
    b = std::move(next);
  }
  b.resize(length);
  return b;
}

Tokens Periodic(const Tokens& period, size_t length) {
  Tokens out(length);
  for (size_t i = 0; i < length; ++i) out[i] = period[i % period.size()];
  return out;
}

std::map<std::string, Tokens> AdversarialTexts() {
  std::mt19937 rng(3);
  Tokens phrases;
  const Tokens phrase = RandomTokens(rng, 30, 1000);
  for (int i = 0; i < 10; ++i) {
    phrases.insert(phrases.end(), phrase.begin() + i, phrase.end());
    phrases.push_back(2000 + i % 3);
  }
  return {{"one_symbol", Tokens(300, 7)},
          {"fibonacci", Fibonacci(300)},
          {"de_bruijn", DeBruijn(2, 8)},
          {"de_bruijn_of_four", DeBruijn(4, 4)},
          {"period_two", Periodic({1, 2}, 200)},
          {"period_seven", Periodic({1, 1, 2, 1, 3, 1, 1}, 250)},
          {"binary", RandomTokens(rng, 300, 2)},
          {"wide", RandomTokens(rng, 300, 200)},
          {"phrases", phrases},
          {"empty", {}},
          {"one_token", {5}}};
}

class SuffixTreeOfOneText
    : public ::testing::TestWithParam<std::tuple<std::pair<const std::string, Tokens>, int>> {};

TEST_P(SuffixTreeOfOneText, AgreesWithTheSlowTree) {
  const auto& [text, depth] = GetParam();
  TwoTrees trees(depth);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const size_t response = trees.Start();
    int step = 0;
    for (const int32_t token : text.second) {
      trees.Append(response, token);
      trees.ExpectEqualDrafts(response, 1 + step++ % 11);
      ASSERT_FALSE(HasFatalFailure()) << "after " << step << " tokens";
      if (step % 64 == 0) trees.ExpectEqualCounts();
      ASSERT_FALSE(HasFatalFailure()) << "after " << step << " tokens";
    }
    trees.End(response);
    trees.ExpectEqualCounts();
  }
}

INSTANTIATE_TEST_SUITE_P(All, SuffixTreeOfOneText,
                         ::testing::Combine(::testing::ValuesIn(AdversarialTexts()),
                                            ::testing::Values(4, 7, 12, 64)),
                         [](const auto& info) {
                           return std::get<0>(info.param).first + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Responses of one prompt that grow in turn, in any order. Small alphabets make them equal for a
// while, so that they take over each other's leaves.
TEST(SuffixTreeTest, InterleavedResponsesAgreeWithTheSlowTree) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 rng(seed);
    const uint32_t alphabet = 1 + rng() % 5;
    TwoTrees trees(4 + static_cast<int>(rng() % 16));
    const bool equal_weights = rng() % 2 == 0;
    std::vector<size_t> running;
    const Tokens shared = RandomTokens(rng, 60, alphabet);
    std::vector<size_t> at;
    for (int step = 0; step < 150; ++step) {
      if (running.empty() || (running.size() < 5 && rng() % 12 == 0)) {
        const float weight = equal_weights ? 1.0F : static_cast<float>(1U << rng() % 4);
        running.push_back(trees.Start(weight));
        at.push_back(0);
      }
      const size_t i = rng() % running.size();
      const bool follows = rng() % 8 != 0 && at[i] < shared.size();
      trees.Append(running[i], follows ? shared[at[i]] : static_cast<int32_t>(rng() % alphabet));
      ++at[i];
      const size_t any = running[rng() % running.size()];
      trees.ExpectEqualDrafts(any, 1 + static_cast<int>(rng() % 12));
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << step;
      if (rng() % 25 == 0) {
        trees.End(running[i]);
        running.erase(running.begin() + static_cast<ptrdiff_t>(i));
        at.erase(at.begin() + static_cast<ptrdiff_t>(i));
      }
      if (step % 30 == 0) trees.ExpectEqualCounts();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << step;
    }
    for (const size_t response : running) trees.End(response);
    trees.ExpectEqualCounts();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
}

// Trees that lose their oldest texts now and then, while others grow. Some need several pages.
TEST(SuffixTreeTest, ATrimmedTreeAgreesWithTheSlowTree) {
  int64_t forgotten = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 rng(seed);
    const uint32_t alphabet = 1 + rng() % 5;
    TwoTrees trees(4 + static_cast<int>(rng() % 16));
    std::vector<size_t> running;
    for (int step = 0; step < 300; ++step) {
      if (running.empty() || (running.size() < 4 && rng() % 12 == 0)) {
        running.push_back(trees.Start(static_cast<float>(1U << rng() % 4)));
      }
      const size_t i = rng() % running.size();
      trees.Append(running[i], static_cast<int32_t>(rng() % alphabet));
      if (rng() % 40 == 0) {
        trees.End(running[i]);
        running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      }
      if (rng() % 50 == 0) {
        const int64_t before = trees.tree().ended_tokens(), growing = trees.tree().growing_tokens();
        const auto keep = static_cast<int64_t>(rng() % 200);
        const SuffixTree::Forgotten lost = trees.KeepNewest(keep);
        EXPECT_LE(trees.tree().ended_tokens(), keep);
        EXPECT_EQ(trees.tree().ended_tokens() + lost.tokens + lost.texts, before);
        EXPECT_EQ(trees.tree().growing_tokens(), growing);
        forgotten += lost.texts;
        trees.ExpectEqualCounts();
      }
      if (!running.empty()) trees.ExpectEqualDrafts(running[rng() % running.size()], 8);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
    for (const size_t response : running) trees.End(response);
    trees.ExpectEqualCounts();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(forgotten, 100);
}

// A copy overtakes the response that it copies, and the other way round.
TEST(SuffixTreeTest, HandlesEqualResponsesThatOvertakeEachOther) {
  for (const int depth : {4, 9, 64}) {
    std::mt19937 rng(5);
    const Tokens tokens = RandomTokens(rng, 120, 50);
    TwoTrees trees(depth);
    const std::vector<size_t> responses = {trees.Start(1), trees.Start(2), trees.Start(1)};
    std::vector<size_t> at(3, 0);
    for (int step = 0; step < 300; ++step) {
      const size_t i = rng() % 3;
      if (at[i] == tokens.size()) continue;
      trees.Append(responses[i], tokens[at[i]++]);
      for (const size_t response : responses) trees.ExpectEqualDrafts(response, 7);
      ASSERT_FALSE(HasFatalFailure()) << "depth " << depth << " step " << step;
    }
    for (const size_t response : responses) trees.End(response);
    trees.ExpectEqualCounts();
  }
}

// Once all responses have ended, a count is the number of occurrences, whatever the order was.
TEST(SuffixTreeTest, CountsAreOccurrencesOnceAllHaveEnded) {
  std::mt19937 rng(11);
  std::vector<Tokens> texts;
  for (int i = 0; i < 6; ++i) texts.push_back(RandomTokens(rng, 200, 3));
  texts[3] = texts[2];
  SuffixTree tree(20);
  std::vector<GrowingText> growing(texts.size());
  for (GrowingText& text : growing) tree.Start(&text);
  for (size_t left = 6 * 200; left > 0;) {
    const size_t i = rng() % texts.size();
    if (growing[i].length == texts[i].size()) continue;
    tree.Append(&growing[i], texts[i][growing[i].length]);
    --left;
  }
  for (GrowingText& text : growing) tree.End(&text);
  for (int trial = 0; trial < 2000; ++trial) {
    const Tokens& from = texts[rng() % texts.size()];
    const size_t length = 2 + rng() % 19, begin = rng() % (from.size() - length);
    const Tokens string(from.begin() + static_cast<ptrdiff_t>(begin),
                        from.begin() + static_cast<ptrdiff_t>(begin + length));
    double occurrences = 0;
    for (const Tokens& text : texts) {
      for (size_t i = 0; i + length <= text.size(); ++i) {
        occurrences +=
            std::equal(string.begin(), string.end(), text.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    ASSERT_EQ(tree.Count(string), occurrences);
  }
}

// 100,000 tokens: linear in space and time, and still exact.
TEST(SuffixTreeTest, LongTexts) {
  constexpr size_t kLength = 100'000;
  std::mt19937 rng(2);
  const std::map<std::string, Tokens> texts = {
      {"one symbol", Tokens(kLength, 1)},
      {"fibonacci", Fibonacci(kLength)},
      {"de Bruijn", DeBruijn(2, 16)},
      {"periodic", Periodic(RandomTokens(rng, 1000, 50'000), kLength)},
      {"random", RandomTokens(rng, kLength, 50'000)}};
  for (const auto& [name, tokens] : texts) {
    SuffixTree tree(64);
    GrowingText text;
    tree.Start(&text);
    for (const int32_t token : tokens) tree.Append(&text, token);
    tree.End(&text);
    EXPECT_LT(tree.node_count(), tokens.size()) << name;
    for (int trial = 0; trial < 20; ++trial) {
      const size_t length = 2 + rng() % 63, begin = rng() % (tokens.size() - length);
      const auto string = tokens.begin() + static_cast<ptrdiff_t>(begin);
      double occurrences = 0;
      for (size_t i = 0; i + length <= tokens.size(); ++i) {
        occurrences += std::equal(string, string + static_cast<ptrdiff_t>(length),
                                  tokens.begin() + static_cast<ptrdiff_t>(i));
      }
      EXPECT_EQ(tree.Count({&*string, length}), occurrences) << name;
    }
  }
}

TEST(SuffixTreeTest, DraftsFromATextThatStillGrows) {
  SuffixTree tree(16);
  GrowingText one, two;
  tree.Start(&one);
  tree.Start(&two);
  Draft draft;
  for (const int32_t token : {1, 2, 3, 4}) {
    EXPECT_FALSE(tree.Append(&one, token));
    if (token < 3) tree.Append(&two, token);
  }
  tree.ProposeDraft(&two, 8, &draft);
  EXPECT_EQ(draft.match_length, 2);
  EXPECT_EQ(draft.tree.tokens, Tokens({3, 4}));
  EXPECT_EQ(draft.tree.parents, Tokens({-1, 0}));
  EXPECT_TRUE(tree.Append(&two, 3));
  tree.ProposeDraft(&one, 8, &draft);  // knows of nothing that follows
  EXPECT_EQ(draft.match_length, 0);
  EXPECT_TRUE(draft.tree.tokens.empty());
}

// After "1 2": 3 twice, then 5 or 6; 4 once, then 7.
TEST(SuffixTreeTest, ADraftByHand) {
  SuffixTree tree(16);
  for (const Tokens& tokens : {Tokens{1, 2, 3, 5}, Tokens{1, 2, 3, 6}, Tokens{1, 2, 4, 7}}) {
    GrowingText text;
    tree.Start(&text);
    for (const int32_t token : tokens) tree.Append(&text, token);
    tree.End(&text);
  }
  GrowingText text;
  tree.Start(&text);
  for (const int32_t token : {9, 1, 2}) tree.Append(&text, token);
  Draft draft;
  tree.ProposeDraft(&text, 10, &draft);
  EXPECT_EQ(draft.match_length, 2);
  EXPECT_EQ(draft.tree.tokens, Tokens({3, 4, 5, 6, 7}));
  EXPECT_EQ(draft.tree.parents, Tokens({-1, -1, 0, 0, 1}));
  const std::vector<float> third(4, 1.0F / 3);
  EXPECT_FLOAT_EQ(draft.scores[0], 2.0F / 3);
  EXPECT_EQ(std::vector<float>(draft.scores.begin() + 1, draft.scores.end()), third);
  EXPECT_EQ(draft.seen, std::vector<float>({3, 3, 2, 2, 1}));
  for (int budget = 0; budget < 6; ++budget) {  // The first k nodes are the draft of budget k.
    Draft part;
    tree.ProposeDraft(&text, budget, &part);
    EXPECT_EQ(part.tree.tokens,
              Tokens(draft.tree.tokens.begin(), draft.tree.tokens.begin() + budget));
  }
}

TEST(SuffixTreeTest, ALongMatchLeavesRoomForADraft) {
  std::mt19937 rng(1);
  const Tokens tokens = RandomTokens(rng, 300, 1'000'000'000);
  SuffixTree tree(64);
  GrowingText one, two;
  tree.Start(&one);
  for (const int32_t token : tokens) tree.Append(&one, token);
  tree.End(&one);
  tree.Start(&two);
  Draft draft;
  for (size_t i = 0; i < 250; ++i) {
    tree.Append(&two, tokens[i]);
    tree.ProposeDraft(&two, 32, &draft);
    EXPECT_EQ(draft.match_length, std::min<int>(static_cast<int>(i) + 1, 63));
    EXPECT_EQ(draft.tree.tokens, Tokens(tokens.begin() + static_cast<ptrdiff_t>(i) + 1,
                                        tokens.begin() + static_cast<ptrdiff_t>(i) + 33));
  }
}

// Tokens that a draft would have won: the longest path of the draft that `tokens` follow.
size_t Accepted(const Draft& draft, absl::Span<const int32_t> tokens) {
  size_t accepted = 0;
  int32_t parent = -1;
  for (size_t i = 0; i < draft.tree.tokens.size() && accepted < tokens.size(); ++i) {
    if (draft.tree.parents[i] == parent && draft.tree.tokens[i] == tokens[accepted]) {
      parent = static_cast<int32_t>(i);
      ++accepted;
    }
  }
  return accepted;
}

// Each token is one of two, so a chain wins one token with 1/2, two with 1/4, ...: 1 on average. A
// tree of 14 nodes has both tokens at each of three levels.
TEST(SuffixTreeTest, ATreeWinsMoreThanAChainWhereHistorySplits) {
  std::mt19937 rng(4);
  const auto response = [&rng] {
    Tokens tokens = {100};
    for (int i = 1; i < 12; ++i) tokens.push_back(static_cast<int32_t>(2 * i + rng() % 2));
    return tokens;
  };
  SuffixTree tree(64);
  for (int i = 0; i < 3000; ++i) {
    GrowingText text;
    tree.Start(&text);
    for (const int32_t token : response()) tree.Append(&text, token);
    tree.End(&text);
  }
  size_t of_trees = 0, of_chains = 0;
  for (int i = 0; i < 300; ++i) {
    const Tokens tokens = response();
    GrowingText text;
    tree.Start(&text);
    tree.Append(&text, tokens[0]);
    Draft draft, chain;
    tree.ProposeDraft(&text, 14, &draft);
    // The best chain of as many nodes as there are levels: of each node its best child.
    Draft wide;
    tree.ProposeDraft(&text, 4000, &wide);
    int32_t parent = -1, last = -1;
    for (size_t k = 0; k < wide.tree.tokens.size(); ++k) {
      if (wide.tree.parents[k] != parent) continue;
      chain.tree.tokens.push_back(wide.tree.tokens[k]);
      chain.tree.parents.push_back(last++);
      parent = static_cast<int32_t>(k);
    }
    ASSERT_EQ(chain.tree.tokens.size(), 11u);
    of_trees += Accepted(draft, absl::MakeConstSpan(tokens).subspan(1));
    of_chains += Accepted(chain, absl::MakeConstSpan(tokens).subspan(1));
    tree.End(&text);
  }
  EXPECT_GE(static_cast<double>(of_trees), 1.8 * static_cast<double>(of_chains));
}

TEST(SuffixTreeTest, ScaledWeightsKeepTheirRatios) {
  SuffixTree tree(16);
  const auto add = [&tree](const Tokens& tokens, float weight) {
    GrowingText text;
    text.weight = weight;
    tree.Start(&text);
    for (const int32_t token : tokens) tree.Append(&text, token);
    tree.End(&text);
  };
  add({1, 2, 3}, 1);
  tree.Scale(0.25F);
  add({1, 2, 4}, 1);
  EXPECT_EQ(tree.Count({1, 2, 3}), 0.25);
  EXPECT_EQ(tree.Count({1, 2}), 1.25);
  tree.Scale(1e-35F);
  EXPECT_GT(tree.Count({1, 2, 3}), 0);
  GrowingText text;
  tree.Start(&text);
  tree.Append(&text, 1);
  tree.Append(&text, 2);
  Draft draft;
  tree.ProposeDraft(&text, 2, &draft);
  EXPECT_EQ(draft.tree.tokens.size(), 2u);
}

}  // namespace
}  // namespace baton::rollout
