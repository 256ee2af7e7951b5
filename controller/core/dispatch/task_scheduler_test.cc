#include "controller/core/dispatch/task_scheduler.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

const absl::Time kNow = absl::UnixEpoch();

TEST(TaskSchedulerTest, GroupsStayTogetherAndLoadIsEven) {
  TaskScheduler tasks;
  for (const char* id : {"a", "b"}) {
    tasks.AddWorker(id, 100);
    tasks.SetEnabled(id, true);
  }
  for (uint64_t t = 0; t < 32; ++t) tasks.Enqueue(t, t / 8);
  std::map<uint64_t, std::map<std::string, int>> groups;
  while (auto assignment = tasks.Next(kNow)) {
    ++groups[assignment->trajectory / 8][assignment->worker];
  }
  EXPECT_EQ(tasks.load("a"), 16);
  EXPECT_EQ(tasks.load("b"), 16);
  for (const auto& [group, workers] : groups) EXPECT_EQ(workers.size(), 1u) << group;
}

// Over two epochs, a prompt comes back to the worker that had it, as long as that worker has room.
TEST(TaskSchedulerTest, APromptComesBackToTheWorkerThatHadIt) {
  TaskScheduler tasks(/*keeps_affinity=*/true);
  for (const char* id : {"a", "b"}) {
    tasks.AddWorker(id, 100);
    tasks.SetEnabled(id, true);
  }
  std::map<uint64_t, std::string> last_workers;
  const auto epoch = [&](std::vector<uint64_t> prompts) {
    int moved = 0;
    uint64_t trajectory = 0;
    for (const uint64_t prompt : prompts) {
      for (int sample = 0; sample < 4; ++sample) tasks.Enqueue(trajectory++, prompt);
    }
    while (auto assignment = tasks.Next(kNow)) {
      const uint64_t prompt = prompts[assignment->trajectory / 4];
      const auto [last, is_new] = last_workers.try_emplace(prompt, assignment->worker);
      moved += !is_new && last->second != assignment->worker;
    }
    EXPECT_EQ(tasks.load("a"), 4 * static_cast<int>(prompts.size()) / 2);
    tasks.Clear();
    return moved;
  };
  epoch({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(epoch({8, 3, 5, 1, 7, 2, 6, 4}), 0);
  // Only prompts of one worker: half of them go to the other worker, which would idle.
  std::vector<uint64_t> of_a;
  for (const auto& [prompt, worker] : last_workers) {
    if (worker == "a") of_a.push_back(prompt);
  }
  ASSERT_EQ(of_a.size(), 4u);
  EXPECT_EQ(epoch(of_a), 8);
  // The prompts of a worker that is gone go to the others.
  tasks.RemoveWorker("b");
  tasks.Enqueue(0, last_workers.begin()->first);
  EXPECT_EQ(tasks.Next(kNow)->worker, "a");
}

TEST(TaskSchedulerTest, LeavesTasksForWorkersThatAreNotReadyYet) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 100);
  tasks.AddWorker("b", 100);
  tasks.SetEnabled("a", true);  // b still loads its weights
  for (uint64_t t = 0; t < 20; ++t) tasks.Enqueue(t, t);
  while (tasks.Next(kNow)) {
  }
  EXPECT_EQ(tasks.load("a"), 10);
  tasks.SetEnabled("b", true);
  while (tasks.Next(kNow)) {
  }
  EXPECT_EQ(tasks.load("b"), 10);
}

TEST(TaskSchedulerTest, DispatchesPinnedTasksToTheirVersionWithoutBlockingOthers) {
  TaskScheduler tasks;
  for (const char* id : {"a", "b"}) tasks.AddWorker(id, 2);
  tasks.SetVersion("a", 7);
  tasks.SetEnabled("a", true);
  tasks.SetVersion("b", 6);  // it is not enabled: newer weights are there
  EXPECT_TRUE(tasks.HasRoom(6));
  EXPECT_FALSE(tasks.HasRoom(5));
  tasks.Enqueue(1, 1, "", /*pin=*/5);
  tasks.Enqueue(2, 2, "", /*pin=*/6);
  tasks.Enqueue(3, 3);
  EXPECT_EQ(tasks.PinnedVersion(), 5u);
  EXPECT_EQ(tasks.Next(kNow)->worker, "b");
  EXPECT_EQ(tasks.Next(kNow)->worker, "a") << "nobody can run the pinned one before it";
  EXPECT_FALSE(tasks.Next(kNow).has_value());
  tasks.SetVersion("b", 5);
  EXPECT_EQ(tasks.Next(kNow)->trajectory, 1u);
  EXPECT_EQ(tasks.PinnedVersion(), 0u);
}

TEST(TaskSchedulerTest, LimitsAWorkerToItsShareOfTheOpenTasks) {
  TaskScheduler tasks;
  for (const char* id : {"a", "b"}) tasks.AddWorker(id, 100);
  tasks.SetEnabled("a", true);  // b still runs what it began with older weights
  tasks.SetMostOpen(8);
  for (uint64_t t = 0; t < 10 && tasks.HasRoom(0); ++t) {
    tasks.Enqueue(t, t);
    ASSERT_EQ(tasks.Next(kNow)->worker, "a");
  }
  EXPECT_EQ(tasks.load("a"), 4) << "half of what may be open, however little is open now";
  EXPECT_TRUE(tasks.HasFreePlace()) << "its share is less than it can do";
}

TEST(TaskSchedulerTest, CreditsAreNeverExceeded) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 3);
  tasks.SetEnabled("a", true);
  for (uint64_t t = 0; t < 10; ++t) tasks.Enqueue(t, t);
  while (tasks.Next(kNow)) {
  }
  EXPECT_EQ(tasks.load("a"), 3);
  EXPECT_TRUE(tasks.Finish(0));
  EXPECT_FALSE(tasks.Finish(0));
  ASSERT_TRUE(tasks.Next(kNow).has_value());
  EXPECT_FALSE(tasks.Next(kNow).has_value());
}

TEST(TaskSchedulerTest, ALostWorkersTrajectoriesComeBackInOrder) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 10);
  tasks.SetEnabled("a", true);
  for (uint64_t t : {5, 3, 9}) tasks.Enqueue(t, t);
  while (tasks.Next(kNow)) {
  }
  EXPECT_EQ(tasks.RemoveWorker("a"), (std::vector<uint64_t>{3, 5, 9}));
  EXPECT_TRUE(tasks.running().empty());
  tasks.EnqueueFirst(3, 3);
  EXPECT_FALSE(tasks.Next(kNow).has_value());  // nobody is there
}

TEST(TaskSchedulerTest, AdoptingATaskRemovesItFromTheQueue) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 10);
  tasks.Enqueue(1, 1);
  tasks.Adopt(1, "a", kNow);
  tasks.Adopt(1, "a", kNow);
  EXPECT_EQ(tasks.queued(), 0u);
  EXPECT_EQ(tasks.load("a"), 1);
}

TEST(TaskSchedulerTest, ReportsOnlyTasksWithoutProgressAsStalled) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 10);
  tasks.SetEnabled("a", true);
  tasks.Enqueue(1, 1);
  tasks.Enqueue(2, 2);
  while (tasks.Next(kNow)) {
  }
  tasks.watch().Progressed(1, kNow);
  tasks.watch().Progressed(2, kNow + absl::Seconds(5));
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(1)), std::vector<uint64_t>{1});
}

// A worker with trajectories 1 to `count`, in the order of their assignment at kNow.
TaskScheduler OneWorker(uint64_t count) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 100);
  tasks.SetEnabled("a", true);
  for (uint64_t t = 1; t <= count; ++t) tasks.Enqueue(t, t);
  while (tasks.Next(kNow)) {
  }
  return tasks;
}

TEST(TaskSchedulerTest, WaitingAtAWorkerThatProgressesIsNoStall) {
  TaskScheduler tasks = OneWorker(3);  // it runs one at a time
  tasks.watch().Progressed(1, kNow + absl::Seconds(5));
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(5)).empty());
  tasks.watch().Progressed(1, kNow + absl::Seconds(9));
  tasks.Finish(1);
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(9)).empty());
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(10)), (std::vector<uint64_t>{2, 3}))
      << "the worker itself is still since second 9";
}

TEST(TaskSchedulerTest, ReportsAStoppedTaskAsStalledWhileItsWorkerProgresses) {
  TaskScheduler tasks = OneWorker(3);
  tasks.watch().Progressed(1, kNow + absl::Seconds(1));
  tasks.watch().Progressed(2, kNow + absl::Seconds(9));
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(5)), std::vector<uint64_t>{1});
}

TEST(TaskSchedulerTest, CountsAnOvertakenTaskAsStalledSinceItWasOvertaken) {
  TaskScheduler tasks = OneWorker(4);
  tasks.watch().Progressed(1, kNow + absl::Seconds(1));
  tasks.watch().Progressed(3, kNow + absl::Seconds(4));  // 2 hangs, and 4 waits
  for (const int second : {6, 8, 10}) {
    tasks.watch().Progressed(1, kNow + absl::Seconds(second));
    tasks.watch().Progressed(3, kNow + absl::Seconds(second));
  }
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(4)).empty());
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(5)), std::vector<uint64_t>{2});
  tasks.watch().Progressed(2, kNow + absl::Seconds(11));  // it was only late
  tasks.watch().Progressed(1, kNow + absl::Seconds(11));
  tasks.watch().Progressed(3, kNow + absl::Seconds(11));
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(11)).empty());
}

TEST(TaskSchedulerTest, AssumesNoQueueOrderAmongAdoptedTasks) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 100);
  tasks.SetEnabled("a", true);
  ASSERT_TRUE(tasks.Adopt(1, "a", kNow));
  ASSERT_TRUE(tasks.Adopt(2, "a", kNow));
  tasks.watch().Progressed(2, kNow + absl::Seconds(2));
  tasks.watch().Progressed(2, kNow + absl::Seconds(9));
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(9)).empty());
  tasks.Enqueue(3, 3);  // but this one comes after both
  ASSERT_TRUE(tasks.Next(kNow + absl::Seconds(9)).has_value());
  tasks.watch().Progressed(3, kNow + absl::Seconds(10));
  for (const uint64_t t : {2, 3}) tasks.watch().Progressed(t, kNow + absl::Seconds(20));
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(11)), std::vector<uint64_t>{1});
}

TEST(TaskSchedulerTest, ARetryStallsByThePaceOfItsNewWorker) {
  TaskScheduler tasks = OneWorker(3);
  tasks.watch().Progressed(2, kNow + absl::Seconds(1));  // 1 is overtaken
  tasks.Finish(1);
  tasks.AddWorker("b", 100);
  tasks.SetEnabled("b", true);
  tasks.Enqueue(1, 1, "a");
  ASSERT_EQ(tasks.Next(kNow + absl::Seconds(5))->worker, "b");
  tasks.Enqueue(4, 4, "a");
  ASSERT_EQ(tasks.Next(kNow + absl::Seconds(5))->worker, "b");
  for (const int second : {6, 9}) {
    for (const uint64_t t : {2, 3}) tasks.watch().Progressed(t, kNow + absl::Seconds(second));
  }
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(5)).empty());
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(6)), (std::vector<uint64_t>{1, 4}))
      << "that a moves says nothing of b";
}

TEST(TaskSchedulerTest, LostTimeDoesNotCountTowardsAQueuedTasksStall) {
  TaskScheduler tasks = OneWorker(3);
  tasks.watch().Progressed(2, kNow + absl::Seconds(1));
  tasks.watch().Delay(absl::Seconds(60), kNow + absl::Seconds(61));
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(60)).empty());
  EXPECT_EQ(tasks.watch().StalledSince(kNow + absl::Seconds(62)), (std::vector<uint64_t>{1, 2, 3}));
}

TEST(TaskSchedulerTest, RetriesOnAnotherWorkerIfThereIsOne) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 10);
  tasks.SetEnabled("a", true);
  tasks.Enqueue(1, 1, "a");
  EXPECT_EQ(tasks.Next(kNow)->worker, "a");  // nobody else
  tasks.Finish(1);
  tasks.AddWorker("b", 10);
  tasks.SetEnabled("b", true);
  tasks.Enqueue(1, 1, "a");
  EXPECT_EQ(tasks.Next(kNow)->worker, "b");  // the load is equal, and a had its group last
  tasks.Finish(1);
  tasks.Enqueue(1, 1, "b");
  EXPECT_EQ(tasks.Next(kNow)->worker, "a");
}

TEST(TaskSchedulerTest, AWorkerIsSilentWhenItHasAnsweredNothingOfWhatItRuns) {
  TaskScheduler tasks;
  for (const char* id : {"a", "b"}) {
    tasks.AddWorker(id, 10);
    tasks.SetEnabled(id, true);
  }
  for (uint64_t t = 0; t < 4; ++t) tasks.Enqueue(t, t);  // 0 and 2 on a, 1 and 3 on b
  while (tasks.Next(kNow)) {
  }
  const absl::Time later = kNow + absl::Seconds(3);
  tasks.Finish(1);
  tasks.watch().Heard("b", kNow + absl::Seconds(1));
  EXPECT_EQ(tasks.watch().StalledSince(later), (std::vector<uint64_t>{0, 2, 3}));
  EXPECT_EQ(tasks.watch().SilentSince(later), std::vector<std::string>{"a"});
  tasks.watch().Delay(absl::Seconds(2),
                      later);  // nothing is older for it, and nothing from the future
  EXPECT_TRUE(tasks.watch().StalledSince(kNow + absl::Seconds(2)).empty());
  tasks.watch().Delay(absl::Seconds(2), later);
  EXPECT_TRUE(tasks.watch().StalledSince(later).empty());
  tasks.watch().Progressed(2, kNow + absl::Seconds(9));
  EXPECT_TRUE(tasks.watch().SilentSince(kNow + absl::Seconds(5)).empty());
}

TEST(TaskSchedulerTest, RemovesAWithdrawnTaskFromItsQueueOrWorker) {
  TaskScheduler tasks;
  tasks.AddWorker("a", 1);
  tasks.SetEnabled("a", true);
  tasks.Enqueue(1, 0);
  tasks.Enqueue(2, 0);
  tasks.Enqueue(3, 0);
  ASSERT_EQ(tasks.Next(absl::UnixEpoch())->trajectory, 1u);
  tasks.Withdraw(2);
  tasks.Withdraw(1);
  tasks.Withdraw(9);
  EXPECT_TRUE(tasks.running().empty());
  EXPECT_EQ(tasks.load("a"), 0);
  EXPECT_EQ(tasks.queued(), 1u);
  EXPECT_EQ(tasks.Next(absl::UnixEpoch())->trajectory, 3u);
}

// The ranks of a group join together, and one of them may be at work already.
TEST(TaskSchedulerTest, AWorkerThatIsAddedAgainKeepsItsLoad) {
  TaskScheduler scheduler;
  for (int times = 0; times < 2; ++times) {
    scheduler.AddWorker("a", 2);
    scheduler.SetEnabled("a", true);
    for (uint64_t i = 0; i < 3; ++i) scheduler.Enqueue(10 * times + i, i);
    while (scheduler.Next(absl::UnixEpoch()).has_value()) {
    }
    EXPECT_EQ(scheduler.load("a"), 2);
  }
  EXPECT_EQ(scheduler.running().size(), 2u);
}

}  // namespace
}  // namespace baton::controller
