#include "workers/engine/kernels/kv_cache.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "workers/engine/generation/prompt_cache.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

ModelConfig Shape() {
  ModelConfig config;
  config.num_hidden_layers = 3;
  config.num_key_value_heads = 2;
  config.head_dim = 4;
  return config;
}

// Keys and values, 3 layers, 2 heads, 4 channels, 16 tokens, 4 bytes.
constexpr int64_t kBlockBytes = 2 * 3 * 2 * 4 * 16 * 4;

std::unique_ptr<KvCache> MakeCache(int64_t bytes) {
  auto cache = KvCache::Create(Shape(), torch::kFloat32, torch::kCPU, bytes);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

TEST(KvCacheTest, HoldsAsManyBlocksAsTheBudget) {
  const auto cache = MakeCache(5 * kBlockBytes + kBlockBytes - 1);
  EXPECT_EQ(cache->block_bytes(), kBlockBytes);
  EXPECT_EQ(cache->num_blocks(), 5);
  EXPECT_EQ(cache->num_free(), 5);
  EXPECT_EQ(cache->keys(2).sizes(), (std::vector<int64_t>{5, 2, 4, 16}));
  EXPECT_EQ(cache->values(2).sizes(), (std::vector<int64_t>{5, 2, 16, 4}));
}

TEST(KvCacheTest, HandsOutEachBlockOnce) {
  const auto cache = MakeCache(4 * kBlockBytes);
  std::vector<int32_t> blocks;
  for (int i = 0; i < 4; ++i) {
    const auto block = cache->Allocate();
    ASSERT_TRUE(block.has_value());
    blocks.push_back(*block);
  }
  EXPECT_EQ(std::set<int32_t>(blocks.begin(), blocks.end()), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_FALSE(cache->Allocate().has_value());
  std::vector<int32_t> some = {blocks[1], blocks[3]};
  cache->Free(some);
  EXPECT_TRUE(some.empty());
  EXPECT_EQ(cache->num_free(), 2);
  const std::set<int32_t> again = {*cache->Allocate(), *cache->Allocate()};
  EXPECT_EQ(again, (std::set<int32_t>{blocks[1], blocks[3]}));
  EXPECT_EQ(cache->num_free(), 0);
}

// The kernel reads all of a block's places. Tiny numbers there, of whatever used the memory before,
// would slow it down.
TEST(KvCacheTest, ABlockIsCleanWhenItIsFirstUsed) {
  const auto cache = MakeCache(2 * kBlockBytes);
  for (int64_t layer = 0; layer < 3; ++layer) {
    cache->keys(layer).fill_(1e-42);
    cache->values(layer).fill_(1e-42);
  }
  const int64_t block = *cache->Allocate();
  for (int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(cache->keys(layer)[block].count_nonzero().item<int64_t>(), 0);
    EXPECT_EQ(cache->values(layer)[block].count_nonzero().item<int64_t>(), 0);
  }
}

// Tokens move together, in every layer: what one move writes is not what another reads.
TEST(KvCacheTest, MovesTokens) {
  const auto cache = MakeCache(3 * kBlockBytes);
  // Each number of a token says where it was.
  const auto number = [](int64_t layer, int64_t block, int64_t head, int64_t channel, int64_t t) {
    return static_cast<float>((((layer * 3 + block) * 2 + head) * 4 + channel) * 16 + t);
  };
  for (int64_t layer = 0; layer < 3; ++layer) {
    const torch::Tensor numbers =
        torch::arange(3 * 2 * 4 * 16, torch::kFloat32).add(number(layer, 0, 0, 0, 0));
    cache->keys(layer).copy_(numbers.view({3, 2, 4, 16}));
    cache->values(layer).copy_(numbers.view({3, 2, 4, 16}).transpose(2, 3));
  }
  cache->MoveTokens({});
  const std::vector<KvCache::Move> moves = {
      {{1, 3}, {0, 15}}, {{1, 4}, {1, 3}}, {{1, 3}, {1, 4}}, {{2, 0}, {2, 1}}};
  cache->MoveTokens(moves);
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int64_t block = 0; block < 3; ++block) {
      for (int64_t t = 0; t < 16; ++t) {
        KvCache::Slot from{static_cast<int32_t>(block), t};
        for (const KvCache::Move& move : moves) {
          if (move.to.block == block && move.to.offset == t) from = move.from;
        }
        for (int64_t head = 0; head < 2; ++head) {
          for (int64_t channel = 0; channel < 4; ++channel) {
            const float expected = number(layer, from.block, head, channel, from.offset);
            EXPECT_EQ(cache->keys(layer)[block][head][channel][t].item<float>(), expected);
            EXPECT_EQ(cache->values(layer)[block][head][t][channel].item<float>(), expected);
          }
        }
      }
    }
  }
}

TEST(KvCacheTest, RefusesABudgetWithoutABlock) {
  const auto cache = KvCache::Create(Shape(), torch::kFloat32, torch::kCPU, kBlockBytes - 1);
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cache.status().message()), HasSubstr("kv_cache_bytes: 3071"));
}

TEST(KvCacheTest, RefusesABudgetThatCannotBeReserved) {
  const auto cache = KvCache::Create(Shape(), torch::kFloat32, torch::kCPU, int64_t{1} << 62);
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kResourceExhausted);
}

class PromptCacheTest : public ::testing::Test {
 protected:
  std::vector<int32_t> Blocks(int count) {
    std::vector<int32_t> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back(*cache_->Allocate());
    return blocks;
  }

  std::unique_ptr<KvCache> cache_ = MakeCache(6 * kBlockBytes);
  PromptCache prompts_{cache_.get()};
};

TEST_F(PromptCacheTest, SharesEqualPromptsOnly) {
  CachedPrompt* prompt = prompts_.Insert({1, 2, 3}, Blocks(1));
  EXPECT_EQ(prompts_.Acquire({1, 2, 3}), prompt);
  EXPECT_EQ(prompts_.Acquire({1, 2}), nullptr);
  EXPECT_EQ(prompts_.Acquire({1, 2, 3, 4}), nullptr);
  EXPECT_EQ(prompt->users, 2);
}

TEST_F(PromptCacheTest, FreesAnUnfinishedPromptWithItsLastUser) {
  CachedPrompt* prompt = prompts_.Insert({1, 2, 3}, Blocks(1));
  prompt->computed = 2;
  prompts_.Acquire({1, 2, 3});
  prompts_.Release(prompt);
  EXPECT_EQ(cache_->num_free(), 5);
  prompts_.Release(prompt);
  EXPECT_EQ(cache_->num_free(), 6);
  EXPECT_EQ(prompts_.Acquire({1, 2, 3}), nullptr);
  EXPECT_EQ(prompts_.unused_blocks(), 0);
}

TEST_F(PromptCacheTest, AFinishedPromptStaysUntilEvictedLeastRecentlyUsedFirst) {
  for (int32_t token : {1, 2, 3}) {
    CachedPrompt* prompt = prompts_.Insert({token}, Blocks(token));
    prompt->computed = 1;
    prompts_.Release(prompt);
  }
  EXPECT_EQ(cache_->num_free(), 0);
  EXPECT_EQ(prompts_.unused_blocks(), 6);
  CachedPrompt* first = prompts_.Acquire({1});  // now 2 is the least recently used
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(prompts_.unused_blocks(), 5);
  EXPECT_TRUE(prompts_.EvictOne());
  EXPECT_EQ(cache_->num_free(), 2);
  EXPECT_EQ(prompts_.Acquire({2}), nullptr);
  prompts_.EvictAll();
  EXPECT_EQ(cache_->num_free(), 5) << "a prompt in use stays";
  EXPECT_FALSE(prompts_.EvictOne());
  EXPECT_EQ(prompts_.Acquire({1}), first);
}

}  // namespace
}  // namespace baton::engine
