#include "controller/runtime/job/feeds.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr auto kNoLine = std::nullopt;

struct Note {
  int64_t number = 0;  ///< 0: not kept.
  std::string text;
};
using NoteFeed = Feed<Note>;

/// Records what one subscriber saw.
struct Watcher {
  std::vector<std::string> seen;
  std::vector<absl::StatusCode> ends;
  bool alive = true;
  size_t capacity = 1000;

  NoteFeed::Handle Handle(int64_t after = 0, bool follow = true) {
    auto subscriber = std::make_shared<NoteFeed::Subscriber>();
    subscriber->number = [](const Note& note) { return note.number; };
    subscriber->deliver = [this](const Note& note) {
      if (seen.size() >= capacity) return false;
      seen.push_back(note.text);
      return true;
    };
    subscriber->end = [this](absl::Status status) { ends.push_back(status.code()); };
    subscriber->alive = [this] { return alive; };
    subscriber->last = after;
    subscriber->follow = follow;
    return subscriber;
  }
};

TEST(FeedTest, HistoryComesBeforeWhatArrivedMeanwhile) {
  NoteFeed feed;
  Watcher watcher;
  auto handle = watcher.Handle();
  feed.Add(handle);
  feed.Publish({2, "two"});  // the history is being read, and may or may not hold it
  feed.Publish({3, "three"});
  EXPECT_THAT(watcher.seen, IsEmpty());
  feed.CaughtUp(handle, {{1, "one"}, {2, "two"}}, false);
  EXPECT_THAT(watcher.seen, ElementsAre("one", "two", "three"));
  feed.Publish({4, "four"});
  EXPECT_THAT(watcher.seen, ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(watcher.ends, IsEmpty());
}

TEST(FeedTest, AHistoryMayComeInParts) {
  NoteFeed feed;
  Watcher watcher, slow, gone;
  auto handle = watcher.Handle(), cut = slow.Handle(), left = gone.Handle();
  for (const auto& each : {handle, cut, left}) feed.Add(each);
  slow.capacity = 1;
  gone.alive = false;
  const std::vector<Note> part = {{1, "one"}, {2, "two"}};
  EXPECT_TRUE(feed.CatchUp(handle, part));
  EXPECT_FALSE(feed.CatchUp(cut, part));
  EXPECT_FALSE(feed.CatchUp(left, part));
  EXPECT_THAT(slow.ends, ElementsAre(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(gone.ends, ElementsAre(absl::StatusCode::kCancelled));
  EXPECT_THAT(gone.seen, IsEmpty());
  feed.Publish({4, "four"});  // waits for its place
  EXPECT_THAT(watcher.seen, ElementsAre("one", "two"));
  feed.CaughtUp(handle, {{3, "three"}}, false);
  EXPECT_THAT(watcher.seen, ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(feed.size(), 1u);
}

TEST(FeedTest, DeliversNoEventTwiceAndNoOldEvent) {
  NoteFeed feed;
  Watcher watcher;
  auto handle = watcher.Handle(/*after=*/2);
  feed.Add(handle);
  feed.CaughtUp(handle, {{2, "two"}, {3, "three"}}, false);
  feed.Publish({3, "three"});
  feed.Publish({0, "progress"});  // not kept: only present listeners hear it
  feed.Publish({0, "progress"});
  EXPECT_THAT(watcher.seen, ElementsAre("three", "progress", "progress"));
}

TEST(FeedTest, EndsWithTheStream) {
  NoteFeed feed;
  Watcher live, reading, history;
  auto a = live.Handle(), b = reading.Handle(), c = history.Handle(0, /*follow=*/false);
  feed.Add(a);
  feed.Add(b);
  feed.Add(c);
  feed.CaughtUp(a, {}, false);
  feed.CaughtUp(c, {{1, "one"}}, false);
  EXPECT_THAT(history.seen, ElementsAre("one"));
  EXPECT_THAT(history.ends, ElementsAre(absl::StatusCode::kOk));
  feed.End(absl::OkStatus());
  EXPECT_THAT(live.ends, ElementsAre(absl::StatusCode::kOk));
  EXPECT_THAT(reading.ends, IsEmpty());  // still gets its history
  feed.CaughtUp(b, {{1, "one"}}, /*ended=*/true);
  EXPECT_THAT(reading.seen, ElementsAre("one"));
  EXPECT_THAT(reading.ends, ElementsAre(absl::StatusCode::kOk));
  EXPECT_EQ(feed.size(), 0u);
}

TEST(FeedTest, DisconnectsASlowListener) {
  NoteFeed feed;
  Watcher slow, good;
  slow.capacity = 1;
  auto a = slow.Handle(), b = good.Handle();
  feed.Add(a);
  feed.Add(b);
  feed.CaughtUp(a, {}, false);
  feed.CaughtUp(b, {}, false);
  for (int64_t i = 1; i <= 3; ++i) feed.Publish({i, "x"});
  EXPECT_THAT(slow.seen, ElementsAre("x"));
  EXPECT_THAT(slow.ends, ElementsAre(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(good.seen.size(), 3u);
  EXPECT_EQ(feed.size(), 1u);
}

TEST(FeedTest, DisconnectsAListenerTooSlowForTheHistory) {
  NoteFeed feed;
  Watcher slow;
  slow.capacity = 1;
  auto handle = slow.Handle();
  feed.Add(handle);
  feed.CaughtUp(handle, {{1, "one"}, {2, "two"}}, true);
  EXPECT_THAT(slow.seen, ElementsAre("one"));
  EXPECT_THAT(slow.ends, ElementsAre(absl::StatusCode::kResourceExhausted));
}

TEST(FeedTest, ForgetsListenersThatHaveGone) {
  NoteFeed feed;
  Watcher gone, failed;
  auto a = gone.Handle(), b = failed.Handle();
  feed.Add(a);
  feed.Add(b);
  feed.CaughtUp(a, {}, false);
  gone.alive = false;
  feed.Publish({1, "one"});
  EXPECT_THAT(gone.seen, IsEmpty());
  EXPECT_THAT(gone.ends, ElementsAre(absl::StatusCode::kCancelled));
  feed.Failed(b, absl::OutOfRangeError("compacted"));
  feed.Failed(b, absl::OutOfRangeError("compacted"));
  EXPECT_THAT(failed.ends, ElementsAre(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(feed.size(), 0u);
}

TEST(StepLogTest, OneStepASecondAtMostAndTheNextLineNamesTheOthers) {
  StepLog log;
  absl::Time now = absl::UnixEpoch();
  EXPECT_THAT(log.TakeStep(1, "step 1", now), Optional(std::string("step 1")));
  now += absl::Milliseconds(400);
  EXPECT_EQ(log.TakeStep(2, "step 2", now), kNoLine);
  now += absl::Milliseconds(599);
  EXPECT_EQ(log.TakeStep(3, "step 3", now), kNoLine);
  now += absl::Milliseconds(1);
  EXPECT_THAT(log.TakeStep(4, "step 4", now),
              Optional(std::string("step 4 (before it steps 2 to 3, without lines of their own)")));
  EXPECT_EQ(log.TakeOther("checkpoint"), "checkpoint");
  EXPECT_EQ(log.TakeStep(5, "step 5", now), kNoLine);
  EXPECT_EQ(log.TakeOther("state SUCCEEDED"),
            "state SUCCEEDED (before it step 5, without a line of its own)");
  EXPECT_EQ(log.TakeOther("more"), "more");
}

// Like a fast job that saves and evaluates after every step.
TEST(StepLogTest, OtherEventsBetweenThemDoNotLetMoreStepsThrough) {
  StepLog log;
  std::vector<absl::Time> steps;
  int64_t named = 0;
  for (int64_t step = 1; step <= 1000; ++step) {
    const absl::Time now = absl::UnixEpoch() + step * absl::Milliseconds(7);
    if (log.TakeStep(step, "step", now).has_value()) steps.push_back(now);
    named += log.TakeOther("checkpoint") == "checkpoint" ? 0 : 1;
  }
  ASSERT_EQ(steps.size(), 7u);  // in 7 s
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_GE(steps[i] - steps[i - 1], absl::Seconds(1));
  EXPECT_EQ(named, 1000 - 7);  // each other step is named
}

TEST(StepLogTest, LogsEveryStepIfStepsAreSlow) {
  StepLog log;
  for (int64_t step = 1; step <= 3; ++step) {
    const std::string line = std::to_string(step);
    EXPECT_THAT(log.TakeStep(step, line, absl::FromUnixSeconds(step)), Optional(line));
  }
}

}  // namespace
}  // namespace baton::controller
