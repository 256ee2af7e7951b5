#include "controller/core/rollout_manager.h"

#include <map>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

const absl::Time kNow = absl::UnixEpoch();

TEST(RolloutManagerTest, GroupsStayTogetherAndLoadIsEven) {
  RolloutManager manager;
  for (const char* id : {"a", "b"}) {
    manager.AddWorker(id, 100);
    manager.SetEnabled(id, true);
  }
  for (uint64_t t = 0; t < 32; ++t) manager.Enqueue(t, t / 8);
  std::map<uint64_t, std::map<std::string, int>> groups;
  while (auto assignment = manager.Next(kNow)) {
    ++groups[assignment->trajectory / 8][assignment->worker];
  }
  EXPECT_EQ(manager.load("a"), 16);
  EXPECT_EQ(manager.load("b"), 16);
  for (const auto& [group, workers] : groups) EXPECT_EQ(workers.size(), 1u) << group;
}

TEST(RolloutManagerTest, TheFirstToBeReadyDoesNotTakeEverything) {
  RolloutManager manager;
  manager.AddWorker("a", 100);
  manager.AddWorker("b", 100);
  manager.SetEnabled("a", true);  // b still loads its weights
  for (uint64_t t = 0; t < 20; ++t) manager.Enqueue(t, t);
  while (manager.Next(kNow)) {
  }
  EXPECT_EQ(manager.load("a"), 10);
  manager.SetEnabled("b", true);
  while (manager.Next(kNow)) {
  }
  EXPECT_EQ(manager.load("b"), 10);
}

TEST(RolloutManagerTest, CreditsAreNeverExceeded) {
  RolloutManager manager;
  manager.AddWorker("a", 3);
  manager.SetEnabled("a", true);
  for (uint64_t t = 0; t < 10; ++t) manager.Enqueue(t, t);
  while (manager.Next(kNow)) {
  }
  EXPECT_EQ(manager.load("a"), 3);
  EXPECT_TRUE(manager.Finish(0));
  EXPECT_FALSE(manager.Finish(0));
  ASSERT_TRUE(manager.Next(kNow).has_value());
  EXPECT_FALSE(manager.Next(kNow).has_value());
}

TEST(RolloutManagerTest, ALostWorkersTrajectoriesComeBackInOrder) {
  RolloutManager manager;
  manager.AddWorker("a", 10);
  manager.SetEnabled("a", true);
  for (uint64_t t : {5, 3, 9}) manager.Enqueue(t, t);
  while (manager.Next(kNow)) {
  }
  EXPECT_EQ(manager.RemoveWorker("a"), (std::vector<uint64_t>{3, 5, 9}));
  EXPECT_TRUE(manager.running().empty());
  manager.EnqueueFirst(3, 3);
  EXPECT_FALSE(manager.Next(kNow).has_value());  // nobody is there
}

TEST(RolloutManagerTest, AdoptingTakesItOutOfTheQueue) {
  RolloutManager manager;
  manager.AddWorker("a", 10);
  manager.Enqueue(1, 1);
  manager.Adopt(1, "a", kNow);
  manager.Adopt(1, "a", kNow);
  EXPECT_EQ(manager.queued(), 0u);
  EXPECT_EQ(manager.load("a"), 1);
}

TEST(RolloutManagerTest, OnlyWhatDoesNotMoveIsStalled) {
  RolloutManager manager;
  manager.AddWorker("a", 10);
  manager.SetEnabled("a", true);
  manager.Enqueue(1, 1);
  manager.Enqueue(2, 2);
  while (manager.Next(kNow)) {
  }
  manager.Progressed(2, kNow + absl::Seconds(5));
  EXPECT_EQ(manager.StalledSince(kNow + absl::Seconds(1)), std::vector<uint64_t>{1});
}

TEST(RolloutManagerTest, ARetryGoesElsewhereWhileThereIsAnElsewhere) {
  RolloutManager manager;
  manager.AddWorker("a", 10);
  manager.SetEnabled("a", true);
  manager.Enqueue(1, 1, "a");
  EXPECT_EQ(manager.Next(kNow)->worker, "a");  // nobody else
  manager.Finish(1);
  manager.AddWorker("b", 10);
  manager.SetEnabled("b", true);
  manager.Enqueue(1, 1, "a");
  EXPECT_EQ(manager.Next(kNow)->worker, "b");  // the load is equal, and a had its group last
  manager.Finish(1);
  manager.Enqueue(1, 1, "b");
  EXPECT_EQ(manager.Next(kNow)->worker, "a");
}

TEST(RolloutManagerTest, AWorkerIsSilentWhenItHasAnsweredNothingOfWhatItRuns) {
  RolloutManager manager;
  for (const char* id : {"a", "b"}) {
    manager.AddWorker(id, 10);
    manager.SetEnabled(id, true);
  }
  for (uint64_t t = 0; t < 4; ++t) manager.Enqueue(t, t);  // 0 and 2 on a, 1 and 3 on b
  while (manager.Next(kNow)) {
  }
  const absl::Time later = kNow + absl::Seconds(3);
  manager.Finish(1);
  manager.Heard("b", kNow + absl::Seconds(1));
  EXPECT_EQ(manager.StalledSince(later), (std::vector<uint64_t>{0, 2, 3}));
  EXPECT_EQ(manager.SilentSince(later), std::vector<std::string>{"a"});
  manager.Delay(absl::Seconds(2), later);  // nothing is older for it, and nothing from the future
  EXPECT_TRUE(manager.StalledSince(kNow + absl::Seconds(2)).empty());
  manager.Delay(absl::Seconds(2), later);
  EXPECT_TRUE(manager.StalledSince(later).empty());
  manager.Progressed(2, kNow + absl::Seconds(9));
  EXPECT_TRUE(manager.SilentSince(kNow + absl::Seconds(5)).empty());
}

TEST(RolloutManagerTest, WhatIsWithdrawnIsNeitherQueuedNorRunning) {
  RolloutManager manager;
  manager.AddWorker("a", 1);
  manager.SetEnabled("a", true);
  manager.Enqueue(1, 0);
  manager.Enqueue(2, 0);
  manager.Enqueue(3, 0);
  ASSERT_EQ(manager.Next(absl::UnixEpoch())->trajectory, 1u);
  manager.Withdraw(2);
  manager.Withdraw(1);
  manager.Withdraw(9);
  EXPECT_TRUE(manager.running().empty());
  EXPECT_EQ(manager.load("a"), 0);
  EXPECT_EQ(manager.queued(), 1u);
  EXPECT_EQ(manager.Next(absl::UnixEpoch())->trajectory, 3u);
}

}  // namespace
}  // namespace baton::controller
