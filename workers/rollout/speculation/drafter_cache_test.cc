#include "workers/rollout/speculation/drafter_cache.h"

#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rollout {
namespace {

TEST(DrafterCacheTest, TheSameJobWithTheSameOptionsFindsItAgain) {
  DrafterCache kept;
  TreeCacheOptions options;
  auto drafter = kept.TakeOrMake("a", options).value();
  const TreeDrafter* const first = drafter.get();
  EXPECT_TRUE(kept.empty());
  kept.Keep("a", options, std::move(drafter));
  EXPECT_FALSE(kept.empty());
  drafter = kept.TakeOrMake("a", options).value();
  EXPECT_EQ(drafter.get(), first);
  EXPECT_TRUE(kept.empty()) << "it is lent once";
}

TEST(DrafterCacheTest, AnotherJobOrOtherOptionsDropIt) {
  DrafterCache kept;
  TreeCacheOptions options, smaller;
  smaller.max_bytes = int64_t{1} << 20;
  const auto said = [](const TreeDrafter& drafter) { return drafter.cache().stats().tokens; };
  const auto keep_one = [&] {
    auto drafter = kept.TakeOrMake("a", options).value();
    drafter->Begin(1, std::vector<int32_t>{1}, std::vector<int32_t>{2, 3});
    drafter->End(1);
    drafter->CatchUp(100);
    ASSERT_EQ(said(*drafter), 2);
    kept.Keep("a", options, std::move(drafter));
  };
  keep_one();
  EXPECT_EQ(said(*kept.TakeOrMake("b", options).value()), 0);
  EXPECT_EQ(said(*kept.TakeOrMake("a", options).value()), 0) << "it was dropped";
  keep_one();
  EXPECT_EQ(said(*kept.TakeOrMake("a", smaller).value()), 0);
  keep_one();
  kept.Drop();
  EXPECT_TRUE(kept.empty());
  kept.Keep("", options, kept.TakeOrMake("", options).value());
  EXPECT_TRUE(kept.empty()) << "a job without a uid may be any";
  smaller.max_bytes = 1;
  EXPECT_FALSE(kept.TakeOrMake("a", smaller).ok());
}

TEST(DrafterCacheTest, DropsTheDrafterAfterItsTime) {
  DrafterCache kept(absl::Milliseconds(1));
  kept.Keep("a", {}, kept.TakeOrMake("a", {}).value());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!kept.empty() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace baton::rollout
