#include "workers/rollout/tree_cache/tree_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/workers/slow_suffix_tree.h"

namespace baton::rollout {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

std::unique_ptr<TreeCache> MakeCache(const TreeCacheOptions& options = {}) {
  auto cache = TreeCache::Create(options);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

Tokens RandomResponse(std::mt19937& rng, size_t length, uint32_t alphabet) {
  Tokens tokens(length);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % alphabet);
  return tokens;
}

/// The draft of a response that began with `tokens`.
Draft DraftAfter(TreeCache& cache, const Tokens& prompt, const Tokens& tokens, int budget = 8,
                 int64_t actor_updates = 0) {
  const auto cursor = cache.Begin(prompt, actor_updates);
  EXPECT_TRUE(cursor->Append(tokens).ok());
  Draft draft;
  cursor->ProposeDraft(budget, &draft);
  return draft;
}

void ExpectEqual(const Draft& draft, const Draft& expected) {
  EXPECT_EQ(draft.match_length, expected.match_length);
  EXPECT_EQ(draft.tree.tokens, expected.tree.tokens);
  EXPECT_EQ(draft.tree.parents, expected.tree.parents);
  EXPECT_EQ(draft.scores, expected.scores);
}

TEST(TreeCacheTest, EveryWrongOptionIsNamed) {
  TreeCacheOptions options;
  options.depth = 3;
  options.half_life_updates = -1;
  options.max_bytes = 1000;
  const absl::Status status = TreeCache::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("depth: 3 is not in [4, 255]"), HasSubstr("half_life_updates: -1"),
                    HasSubstr("max_bytes: 1000 is less than 1048576")));
  options = {};
  options.half_life_updates = std::nan("");
  EXPECT_FALSE(TreeCache::Create(options).ok());
}

TEST(TreeCacheTest, OnlyEqualPromptsShareATree) {
  const auto cache = MakeCache();
  ASSERT_TRUE(cache->Add({1, 2}, {5, 6, 7}, 0).ok());
  EXPECT_EQ(DraftAfter(*cache, {1, 2}, {5}).tree.tokens, Tokens({6, 7}));
  for (const Tokens& other : {Tokens{1}, Tokens{2, 1}, Tokens{1, 2, 0}, Tokens{}}) {
    EXPECT_TRUE(DraftAfter(*cache, other, {5}).tree.tokens.empty());
    EXPECT_EQ(cache->StoredTokens(other), 1);
  }
  EXPECT_EQ(cache->StoredTokens({1, 2}), 4);
  EXPECT_EQ(cache->StoredTokens({9}), 0);
  EXPECT_EQ(cache->stats().prompts, 5);
}

TEST(TreeCacheTest, ARunningResponseIsKnownToOthersAtOnce) {
  const auto cache = MakeCache();
  const auto one = cache->Begin({1}, 0), two = cache->Begin({1}, 0);
  ASSERT_TRUE(one->Append({4, 5, 6}).ok());
  ASSERT_TRUE(two->Append({4}).ok());
  Draft draft;
  two->ProposeDraft(8, &draft);
  EXPECT_EQ(draft.tree.tokens, Tokens({5, 6}));
  EXPECT_EQ(draft.match_length, 2);  // the beginning, and the token
  EXPECT_EQ(cache->stats().running_responses, 2);
}

TEST(TreeCacheTest, DraftsTheFirstTokensOfAResponse) {
  const auto cache = MakeCache();
  EXPECT_TRUE(DraftAfter(*cache, {1}, {}).tree.tokens.empty());
  for (const Tokens& tokens : {Tokens{4, 5}, Tokens{4, 6}, Tokens{7, 4, 4}}) {
    ASSERT_TRUE(cache->Add({1}, tokens, 0).ok());
  }
  const Draft draft = DraftAfter(*cache, {1}, {});
  EXPECT_EQ(draft.tree.tokens, Tokens({4, 7, 5, 6, 4, 4}));
  EXPECT_EQ(draft.tree.parents, Tokens({-1, -1, 0, 0, 1, 4}));
}

TEST(TreeCacheTest, RefusesACallWithAnInvalidToken) {
  const auto cache = MakeCache();
  const auto cursor = cache->Begin({1}, 0);
  for (const int32_t token : {-1, kStartToken, kEndToken}) {
    const absl::Status status = cursor->Append({3, token});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokens[1]"));
  }
  EXPECT_EQ(cache->StoredTokens({1}), 0);
  EXPECT_FALSE(cache->Add({1}, {-7}, 0).ok());
}

// The half-life is 2 updates: what is 2 updates older weighs half.
TEST(TreeCacheTest, CountsFade) {
  TreeCacheOptions options;
  options.half_life_updates = 2;
  const auto cache = MakeCache(options);
  ASSERT_TRUE(cache->Add({1}, {5, 6, 3}, 10).ok());
  ASSERT_TRUE(cache->Add({1}, {5, 6, 4}, 12).ok());
  const Draft draft = DraftAfter(*cache, {1}, {5, 6}, 8, 12);
  EXPECT_EQ(draft.tree.tokens, Tokens({4, 3}));
  EXPECT_FLOAT_EQ(draft.scores[0], 2.0F / 3);
  EXPECT_FLOAT_EQ(draft.scores[1], 1.0F / 3);
  EXPECT_EQ(draft.seen, std::vector<float>({1.5, 1.5}));
  ASSERT_TRUE(cache->Add({1}, {5, 6, 9}, 6).ok());  // came late: a quarter of the first
  EXPECT_FLOAT_EQ(DraftAfter(*cache, {1}, {5, 6}, 8, 12).scores[2], 1.0F / 13);
}

TEST(TreeCacheTest, CountsDoNotFadeWithoutAHalfLife) {
  TreeCacheOptions options;
  options.half_life_updates = 0;
  const auto cache = MakeCache(options);
  ASSERT_TRUE(cache->Add({1}, {5, 6, 3}, 0).ok());
  ASSERT_TRUE(cache->Add({1}, {5, 6, 4}, 1'000'000).ok());
  EXPECT_EQ(DraftAfter(*cache, {1}, {5, 6}, 8, 1'000'000).scores, std::vector<float>({0.5, 0.5}));
}

// A response of a thousand half-lives ago is still a guess where there is no other.
TEST(TreeCacheTest, HandlesAgesBeyondTheRangeOfFloats) {
  TreeCacheOptions options;
  options.half_life_updates = 1;
  const auto cache = MakeCache(options);
  ASSERT_TRUE(cache->Add({1}, {5, 6, 3}, 0).ok());
  for (int64_t updates = 50; updates <= 1000; updates += 50) {
    ASSERT_TRUE(cache->Add({1}, {7, 8, 9}, updates).ok());
  }
  EXPECT_EQ(DraftAfter(*cache, {1}, {5, 6}, 8, 1000).tree.tokens, Tokens({3}));
  ASSERT_TRUE(cache->Add({1}, {5, 6, 2}, 1000).ok());
  const Draft draft = DraftAfter(*cache, {1}, {5, 6}, 8, 1000);
  EXPECT_EQ(draft.tree.tokens, Tokens({2, 3}));
  EXPECT_FLOAT_EQ(draft.scores[0], 1);
  ASSERT_TRUE(cache->Add({1}, {5, 6, 4}, -1'000'000).ok());
  for (const float score : DraftAfter(*cache, {1}, {5, 6}, 8, 1000).scores) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

// Both responses know the same, and the older one goes on: the record becomes its own, with its
// tiny weight.
TEST(TreeCacheTest, AnOldResponseTakesOverFromANewOne) {
  TreeCacheOptions options;
  options.half_life_updates = 1;
  const auto cache = MakeCache(options);
  const auto fresh = cache->Begin({1}, 60), old = cache->Begin({1}, 0);
  ASSERT_TRUE(fresh->Append({5, 6}).ok());
  ASSERT_TRUE(old->Append({5, 6, 7, 8}).ok());
  Draft draft;
  fresh->ProposeDraft(8, &draft);
  EXPECT_EQ(draft.tree.tokens, Tokens({7, 8}));
  EXPECT_EQ(draft.scores, std::vector<float>({1, 1}));
  ASSERT_TRUE(fresh->Append({9, 9}).ok());
  const Draft both = DraftAfter(*cache, {1}, {5, 6}, 1, 60);
  EXPECT_EQ(both.tree.tokens, Tokens({9}));
  EXPECT_EQ(both.scores, std::vector<float>({1}));
}

// Whole half-lives are powers of two, which the slow tree adds without rounding.
TEST(TreeCacheTest, FadedDraftsAgreeWithTheSlowTree) {
  std::mt19937 rng(8);
  TreeCacheOptions options;
  options.depth = 12;
  options.half_life_updates = 5;
  for (int round = 0; round < 20; ++round) {
    const auto cache = MakeCache(options);
    SlowSuffixTree slow(options.depth);
    std::vector<std::unique_ptr<ResponseCursor>> cursors;
    std::vector<SlowSuffixTree::Text*> texts;
    for (int i = 0; i < 4; ++i) {
      const int64_t age = i == 0 ? 0 : static_cast<int64_t>(rng() % 6);
      cursors.push_back(cache->Begin({1}, 100 + 5 * age));
      texts.push_back(slow.Start(std::exp2(static_cast<double>(age))));
      slow.Append(texts.back(), kStartToken);
    }
    Draft draft, expected;
    for (int step = 0; step < 200; ++step) {
      const size_t i = rng() % cursors.size();
      const auto token = static_cast<int32_t>(rng() % 3);
      ASSERT_TRUE(cursors[i]->Append({token}).ok());
      slow.Append(texts[i], token);
      cursors[i]->ProposeDraft(10, &draft);
      slow.ProposeDraft(*texts[i], 10, &expected);
      ExpectEqual(draft, expected);
      ASSERT_FALSE(HasFailure()) << "round " << round << " step " << step;
    }
  }
}

TEST(TreeCacheTest, TheLeastUsefulPromptsAreEvicted) {
  TreeCacheOptions options;
  options.max_bytes = int64_t{1} << 20;
  const auto cache = MakeCache(options);
  std::mt19937 rng(1);
  const Tokens repeated = RandomResponse(rng, 500, 30'000);
  ASSERT_TRUE(cache->Add({0}, repeated, 0).ok());
  ASSERT_TRUE(cache->Add({0}, repeated, 0).ok());  // the tree predicted all of it
  auto running = cache->Begin({1}, 0);
  ASSERT_TRUE(running->Append(RandomResponse(rng, 500, 1'000'000'000)).ok());
  for (int32_t prompt = 2; prompt < 400; ++prompt) {
    ASSERT_TRUE(cache->Add({prompt}, RandomResponse(rng, 500, 1'000'000'000), 0).ok());
    EXPECT_LE(cache->stats().bytes, options.max_bytes);
    EXPECT_EQ(cache->stats().bytes, cache->CountBytes());
    if (cache->StoredTokens({1}) != 500) {
      (void)running.release();  // The cursor must not look for its tree.
      FAIL() << "a running response lost its tree";
    }
  }
  EXPECT_EQ(cache->StoredTokens({0}), 1000);
  EXPECT_EQ(cache->StoredTokens({2}), 0);
  EXPECT_EQ(cache->StoredTokens({399}), 500);
  const TreeCacheStats stats = cache->stats();
  EXPECT_EQ(stats.prompts + stats.evicted_prompts, 400);
  EXPECT_GT(stats.bytes, options.max_bytes / 2);
  EXPECT_EQ(stats.stopped_responses, 0);
}

// As of one prompt that is sampled without end.
TEST(TreeCacheTest, ATreeThatTakesMoreThanItsShareKeepsTheNewestResponses) {
  TreeCacheOptions options;
  options.max_bytes = int64_t{4} << 20;
  const auto cache = MakeCache(options);
  std::mt19937 rng(1);
  ASSERT_TRUE(cache->Add({1}, RandomResponse(rng, 1000, 50), 0).ok());
  auto running = cache->Begin({0}, 0);
  const Tokens begun = RandomResponse(rng, 200, 1'000'000'000);
  ASSERT_TRUE(running->Append(begun).ok());
  int64_t added = 200, trims = 0, before = 0;
  Tokens last;
  for (int i = 0; i < 2000; ++i) {
    last = RandomResponse(rng, 100, 1'000'000'000);
    ASSERT_TRUE(cache->Add({0}, last, i).ok());
    added += 100;
    ASSERT_EQ(cache->stats().bytes, cache->CountBytes());
    ASSERT_LE(cache->stats().bytes, options.max_bytes / 4);
    const int64_t stored = cache->StoredTokens({0});
    ASSERT_EQ(stored % 100, 0);
    trims += stored < before ? 1 : 0;
    before = stored;
  }
  EXPECT_GT(trims, 3);
  EXPECT_GT(cache->StoredTokens({0}), added / 100);
  EXPECT_EQ(cache->StoredTokens({1}), 1000) << "another prompt paid for it";
  EXPECT_EQ(cache->stats().evicted_prompts, 0);
  EXPECT_EQ(DraftAfter(*cache, {0}, {last[40]}, 4, 2000).tree.tokens,
            Tokens(last.begin() + 41, last.begin() + 45));
  // The running response was not cut, and goes on.
  EXPECT_EQ(DraftAfter(*cache, {0}, {begun[3]}, 4, 2000).tree.tokens,
            Tokens(begun.begin() + 4, begun.begin() + 8));
  ASSERT_TRUE(running->Append({last[40]}).ok());
  Draft draft;
  running->ProposeDraft(4, &draft);
  EXPECT_EQ(draft.tree.tokens, Tokens(last.begin() + 41, last.begin() + 45));
}

// Running responses stay, whatever they take.
TEST(TreeCacheTest, ATreeOfRunningResponsesIsNotTrimmed) {
  TreeCacheOptions options;
  options.max_bytes = int64_t{1} << 20;
  const auto cache = MakeCache(options);
  std::mt19937 rng(1);
  const auto running = cache->Begin({0}, 0);
  ASSERT_TRUE(running->Append(RandomResponse(rng, 5'000, 1'000'000'000)).ok());
  EXPECT_GT(cache->stats().bytes, options.max_bytes / 8);
  EXPECT_EQ(cache->StoredTokens({0}), 5'000);
  EXPECT_FALSE(running->stopped());
}

TEST(TreeCacheTest, AResponseWithoutRoomStops) {
  TreeCacheOptions options;
  options.max_bytes = int64_t{1} << 20;
  const auto cache = MakeCache(options);
  std::mt19937 rng(1);
  Draft draft;
  {
    std::vector<std::unique_ptr<ResponseCursor>> cursors;
    for (int32_t prompt = 0; prompt < 8; ++prompt) cursors.push_back(cache->Begin({prompt}, 0));
    for (int step = 0; step < 20'000; ++step) {
      ASSERT_TRUE(cursors[rng() % 8]->Append(RandomResponse(rng, 1, 1'000)).ok());
      ASSERT_LE(cache->stats().bytes, options.max_bytes + (int64_t{128} << 10));
    }
    const int64_t stopped = cache->stats().stopped_responses;
    EXPECT_GT(stopped, 0);
    int64_t seen = 0;
    for (const auto& cursor : cursors) {
      cursor->ProposeDraft(8, &draft);
      if (!cursor->stopped()) continue;
      ++seen;
      EXPECT_TRUE(draft.tree.tokens.empty());
    }
    EXPECT_EQ(seen, stopped);
  }
  EXPECT_EQ(cache->stats().running_responses, 0);
  EXPECT_EQ(cache->stats().bytes, cache->CountBytes());
  ASSERT_TRUE(cache->Add({100}, {1, 2, 3}, 0).ok());
  EXPECT_EQ(DraftAfter(*cache, {100}, {1}).tree.tokens, Tokens({2, 3}));
  EXPECT_LE(cache->stats().bytes, options.max_bytes);
}

#if defined(__GLIBC__) && !defined(BATON_SANITIZED)
TEST(TreeCacheTest, BytesAreWhatTheProcessAllocated) {
  const auto used = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  std::mt19937 rng(1);
  std::vector<Tokens> responses;
  for (int i = 0; i < 8; ++i) responses.push_back(RandomResponse(rng, 20'000, 500));
  const double before = used();
  const auto cache = MakeCache();
  for (int32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(cache->Add({i}, responses[static_cast<size_t>(i)], 0).ok());
  }
  const double allocated = used() - before;
  EXPECT_EQ(cache->stats().bytes, cache->CountBytes());
  EXPECT_NEAR(static_cast<double>(cache->stats().bytes) / allocated, 1, 0.01);
}
#endif

TEST(TreeCacheTest, ABatchIsItsDrafts) {
  const auto cache = MakeCache();
  std::mt19937 rng(3);
  std::vector<std::unique_ptr<ResponseCursor>> cursors;
  for (int32_t i = 0; i < 12; ++i) {
    const Tokens tokens = RandomResponse(rng, 100, 4);
    ASSERT_TRUE(cache->Add({i % 5}, tokens, 0).ok());
    cursors.push_back(cache->Begin({i % 5}, 0));
    ASSERT_TRUE(cursors.back()->Append({tokens.data() + 20, 5}).ok());
  }
  std::vector<Draft> drafts(cursors.size());
  std::vector<DraftQuery> queries;
  for (size_t i = 0; i < cursors.size(); ++i) {
    queries.push_back({cursors[i].get(), static_cast<int>(i), &drafts[i]});
  }
  TreeCache::ProposeDrafts(queries);
  for (size_t i = 0; i < cursors.size(); ++i) {
    Draft expected;
    cursors[i]->ProposeDraft(static_cast<int>(i), &expected);
    ExpectEqual(drafts[i], expected);
    EXPECT_EQ(drafts[i].tree.tokens.size(), i);
  }
}

// The trees at the end do not depend on how the threads took turns.
TEST(TreeCacheTest, ThreadsThatShareATree) {
  constexpr int kThreads = 4, kPrompts = 3, kResponses = 6;
  const auto cache = MakeCache(), sequential = MakeCache();
  const auto response = [](int thread, int number) {
    std::mt19937 rng(static_cast<uint32_t>(thread * 100 + number % 4));
    return RandomResponse(rng, 150, 4);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Draft draft;
      for (int i = 0; i < kResponses; ++i) {
        const auto cursor = cache->Begin({i % kPrompts}, 0);
        for (const int32_t token : response(t, i)) {
          EXPECT_TRUE(cursor->Append({token}).ok());
          cursor->ProposeDraft(6, &draft);
          TreeCache::ProposeDrafts({{cursor.get(), 3, &draft}});
        }
        cache->stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kResponses; ++i) {
      ASSERT_TRUE(sequential->Add({i % kPrompts}, response(t, i), 0).ok());
    }
  }
  std::mt19937 rng(9);
  for (int trial = 0; trial < 100; ++trial) {
    const Tokens begin = RandomResponse(rng, 4, 4);
    const auto other = sequential->Begin({trial % kPrompts}, 0);
    ExpectEqual(DraftAfter(*cache, {trial % kPrompts}, begin, 20),
                DraftAfter(*sequential, {trial % kPrompts}, begin, 20));
  }
  EXPECT_EQ(cache->stats().bytes, cache->CountBytes());
}

TEST(TreeCacheTest, ThreadsThatEvictEachOthersPrompts) {
  TreeCacheOptions options;
  options.max_bytes = int64_t{1} << 20;
  const auto cache = MakeCache(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(static_cast<uint32_t>(t));
      Draft draft;
      for (int i = 0; i < 60; ++i) {
        const auto cursor = cache->Begin({static_cast<int32_t>(rng() % 50)}, i);
        for (int k = 0; k < 20; ++k) {
          EXPECT_TRUE(cursor->Append(RandomResponse(rng, 30, 200)).ok());
          cursor->ProposeDraft(8, &draft);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TreeCacheStats stats = cache->stats();
  EXPECT_GT(stats.evicted_prompts, 0);
  EXPECT_EQ(stats.running_responses, 0);
  EXPECT_EQ(stats.bytes, cache->CountBytes());
}

}  // namespace
}  // namespace baton::rollout
