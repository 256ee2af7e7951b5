#include "controller/runtime/payloads/payload_cache.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

// A payload of exactly `bytes` bytes: a tag, a length of one byte, and the text.
PayloadCache::Payload OfBytes(uint64_t bytes) {
  v1::Trajectory payload;
  payload.set_response_text(std::string(bytes - 2, 'x'));
  auto packed = std::make_shared<const PackedPayload>(payload);
  EXPECT_EQ(packed->bytes(), bytes);
  EXPECT_EQ(packed->Unpack().response_text(), payload.response_text());
  return packed;
}

TEST(PayloadCacheTest, ThePayloadThatWasUsedLongestAgoGoesFirst) {
  const auto budget = std::make_shared<PayloadBudget>(1000);
  PayloadCache cache(budget, 100);
  cache.Put(1, OfBytes(40));
  cache.Put(2, OfBytes(40));
  EXPECT_NE(cache.Find(1), nullptr);
  cache.Put(3, OfBytes(40));
  EXPECT_NE(cache.Find(1), nullptr);
  EXPECT_EQ(cache.Find(2), nullptr);
  EXPECT_NE(cache.Find(3), nullptr);
  EXPECT_EQ(cache.cached(), 80u);
  cache.Put(4, OfBytes(101));
  EXPECT_EQ(cache.Find(4), nullptr) << "it never has room";
  EXPECT_EQ(cache.cached(), 0u);
}

TEST(PayloadCacheTest, APayloadInPlaceOfAnotherCountsOnce) {
  const auto budget = std::make_shared<PayloadBudget>(1000);
  PayloadCache cache(budget, 100);
  cache.Put(1, OfBytes(40));
  cache.Put(1, OfBytes(60));
  EXPECT_EQ(cache.cached(), 60u);
  EXPECT_EQ(budget->cached(), 60u);
  cache.Erase(1);
  cache.Erase(1);
  EXPECT_EQ(budget->cached(), 0u);
}

TEST(PayloadCacheTest, PendingWritesTakeRoomAndAreNeverEvicted) {
  const auto budget = std::make_shared<PayloadBudget>(1000);
  PayloadCache cache(budget, 100);
  cache.Put(1, OfBytes(60));
  cache.BeginWrite(41);
  EXPECT_EQ(cache.Find(1), nullptr);
  EXPECT_FALSE(cache.Full());
  cache.BeginWrite(59);
  EXPECT_FALSE(cache.Full()) << "exactly its budget";
  cache.BeginWrite(1);
  EXPECT_TRUE(cache.FullOfJob());
  cache.Put(2, OfBytes(10));
  EXPECT_EQ(cache.Find(2), nullptr);
  cache.EndWrite(59);
  EXPECT_FALSE(cache.Full());
  cache.Put(2, OfBytes(10));
  EXPECT_NE(cache.Find(2), nullptr);
}

TEST(PayloadCacheTest, ABatchTakesRoomAndStopsNothing) {
  const auto budget = std::make_shared<PayloadBudget>(1000);
  PayloadCache cache(budget, 100);
  cache.Put(1, OfBytes(60));
  cache.SetBatch(5000);
  EXPECT_EQ(cache.Find(1), nullptr);
  EXPECT_FALSE(cache.Full());
  EXPECT_EQ(budget->batches(), 5000u);
  cache.SetBatch(30);
  EXPECT_EQ(budget->batches(), 30u);
  cache.Put(1, OfBytes(70));
  EXPECT_NE(cache.Find(1), nullptr);
}

TEST(PayloadCacheTest, JobsShareTheBudgetOfTheController) {
  const auto budget = std::make_shared<PayloadBudget>(100);
  PayloadCache mine(budget, 1000);
  {
    PayloadCache others(budget, 1000);
    others.Put(1, OfBytes(70));
    mine.Put(1, OfBytes(40));
    EXPECT_EQ(mine.Find(1), nullptr) << "a job lets its own payloads go";
    EXPECT_NE(others.Find(1), nullptr);
    others.BeginWrite(101);
    EXPECT_TRUE(mine.Full());
    EXPECT_FALSE(mine.FullOfJob());
    others.SetBatch(7);
  }
  EXPECT_FALSE(mine.Full()) << "a cache that goes gives its bytes back";
  EXPECT_EQ(budget->cached() + budget->unwritten() + budget->batches(), 0u);
}

TEST(PayloadCacheTest, ACacheMayOutliveTheCreatorOfItsBudget) {
  auto budget = std::make_shared<PayloadBudget>(100);
  const std::weak_ptr<PayloadBudget> watched = budget;
  {
    PayloadCache cache(std::move(budget), 1000);
    cache.Put(1, OfBytes(70));
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

// Against a slow count of everything.
TEST(PayloadCacheTest, RandomCallsAreCountedExactly) {
  std::mt19937 random(1);
  const auto budget = std::make_shared<PayloadBudget>(700);
  PayloadCache cache(budget, 500);
  std::vector<std::pair<uint64_t, uint64_t>> kept;  // id, bytes; used longest ago first
  uint64_t unwritten = 0, batch = 0;
  const auto room = [&] {
    uint64_t bytes = unwritten + batch;
    for (const auto& one : kept) bytes += one.second;
    return bytes <= 500;
  };
  for (int i = 0; i < 5000; ++i) {
    const uint64_t id = random() % 8, bytes = 3 + random() % 90;
    const auto known =
        std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.first == id; });
    switch (random() % 6) {
      case 0:
      case 1:
        if (known != kept.end()) kept.erase(known);
        kept.emplace_back(id, bytes);
        cache.Put(id, OfBytes(bytes));
        break;
      case 2:
        EXPECT_EQ(cache.Find(id) != nullptr, known != kept.end());
        if (known != kept.end()) std::rotate(known, known + 1, kept.end());
        break;
      case 3:
        if (known != kept.end()) kept.erase(known);
        cache.Erase(id);
        break;
      case 4:
        if (unwritten > 0 && random() % 2 == 0) {
          cache.EndWrite(std::exchange(unwritten, 0));
        } else {
          unwritten += bytes;
          cache.BeginWrite(bytes);
        }
        break;
      default:
        batch = bytes;
        cache.SetBatch(bytes);
    }
    while (!kept.empty() && !room()) kept.erase(kept.begin());
    uint64_t expected = 0;
    for (const auto& one : kept) expected += one.second;
    ASSERT_EQ(cache.cached(), expected) << "call " << i;
    ASSERT_EQ(budget->cached(), expected);
    ASSERT_EQ(budget->unwritten(), unwritten);
    ASSERT_EQ(cache.Full(), unwritten > 500);
  }
}

}  // namespace
}  // namespace baton::controller
