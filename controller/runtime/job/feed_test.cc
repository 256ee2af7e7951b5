#include "controller/runtime/job/feed.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Note {
  int64_t number = 0;  ///< 0: not kept.
  std::string text;
};
using NoteFeed = Feed<Note>;

/// What one subscriber saw.
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

TEST(FeedTest, NothingComesTwiceAndNothingOld) {
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

TEST(FeedTest, CutsOffWhoIsTooSlow) {
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

TEST(FeedTest, CutsOffWhoIsTooSlowForTheHistory) {
  NoteFeed feed;
  Watcher slow;
  slow.capacity = 1;
  auto handle = slow.Handle();
  feed.Add(handle);
  feed.CaughtUp(handle, {{1, "one"}, {2, "two"}}, true);
  EXPECT_THAT(slow.seen, ElementsAre("one"));
  EXPECT_THAT(slow.ends, ElementsAre(absl::StatusCode::kResourceExhausted));
}

TEST(FeedTest, ForgetsWhoHasGone) {
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

}  // namespace
}  // namespace baton::controller
