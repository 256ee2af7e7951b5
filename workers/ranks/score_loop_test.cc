#include "workers/ranks/score_loop.h"

#include <string>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::ranks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

engine::TrainSequence Sequence(int length, int32_t token = 1) {
  engine::TrainSequence s;
  s.tokens.assign(static_cast<size_t>(length), token);
  s.prompt_length = 1;
  return s;
}

/// A "model" that answers a sequence's length and first token, tells the sizes of its batches, and
/// fails on token 13.
class ScoreLoopTest : public ::testing::Test {
 protected:
  std::unique_ptr<ScoreLoop> Start(int64_t budget) {
    auto loop = std::make_unique<ScoreLoop>();
    loop->Start(
        budget,
        [this](absl::Span<const engine::TrainSequence> batch)
            -> absl::StatusOr<std::vector<std::vector<float>>> {
          std::vector<std::vector<float>> out;
          absl::MutexLock lock(&mu_);
          batches_.push_back(batch.size());
          for (const auto& s : batch) {
            if (s.tokens[0] == 13) return absl::InvalidArgumentError("thirteen");
            out.push_back({static_cast<float>(s.tokens.size()), static_cast<float>(s.tokens[0])});
          }
          return out;
        });
    return loop;
  }
  ScoreRequest Request(engine::TrainSequence sequence, absl::BlockingCounter* counter,
                       absl::StatusOr<std::vector<float>>* answer,
                       std::function<bool()> cancelled = nullptr) {
    return {std::move(sequence), std::move(cancelled),
            [counter, answer](absl::StatusOr<std::vector<float>> scores) {
              *answer = std::move(scores);
              counter->DecrementCount();
            }};
  }
  std::vector<size_t> batches() {
    absl::MutexLock lock(&mu_);
    return batches_;
  }
  /// Holds the loop until the returned notification, so that requests pile up behind it.
  std::thread Hold(ScoreLoop& loop, absl::Notification& release) {
    absl::Notification held;
    std::thread holder([&] {
      EXPECT_TRUE(loop.RunAlone([&] {
                        held.Notify();
                        release.WaitForNotification();
                        return absl::OkStatus();
                      })
                      .ok());
    });
    held.WaitForNotification();
    return holder;
  }

  absl::Mutex mu_;
  std::vector<size_t> batches_;
};

TEST_F(ScoreLoopTest, GathersWhatWaitsWithinTheBudget) {
  const auto loop = Start(12);
  absl::Notification release;
  std::thread holder = Hold(*loop, release);
  absl::BlockingCounter all(7);
  std::vector<absl::StatusOr<std::vector<float>>> answers(7);
  // 3 x 4 = 12 | 2, then 5 makes 2 x 5 = 10, the next 3 x 5 = 15 is too much | 5, 1 | 20 alone
  const int lengths[] = {4, 3, 2, 5, 5, 1, 20};
  for (int i = 0; i < 7; ++i) {
    loop->Add(Request(Sequence(lengths[i], i), &all, &answers[i]));
  }
  release.Notify();
  holder.join();
  all.Wait();
  for (int i = 0; i < 7; ++i) {
    EXPECT_THAT(answers[i].value(), ElementsAre(lengths[i], i));
  }
  EXPECT_THAT(batches(), ElementsAre(3, 2, 1, 1));
  EXPECT_EQ(loop->stats().sequences, 7);
  EXPECT_EQ(loop->stats().batches, 4);
}

TEST_F(ScoreLoopTest, ABadSequenceFailsAlone) {
  const auto loop = Start(100);
  absl::Notification release;
  std::thread holder = Hold(*loop, release);
  absl::BlockingCounter all(3);
  std::vector<absl::StatusOr<std::vector<float>>> answers(3);
  for (int i = 0; i < 3; ++i) loop->Add(Request(Sequence(2, 12 + i), &all, &answers[i]));
  release.Notify();
  holder.join();
  all.Wait();
  EXPECT_THAT(answers[0].value(), ElementsAre(2, 12));
  EXPECT_THAT(std::string(answers[1].status().message()), HasSubstr("thirteen"));
  EXPECT_THAT(answers[2].value(), ElementsAre(2, 14));
}

TEST_F(ScoreLoopTest, CancelledRequestsAreNotComputed) {
  const auto loop = Start(100);
  absl::Notification release;
  std::thread holder = Hold(*loop, release);
  absl::BlockingCounter all(2);
  std::vector<absl::StatusOr<std::vector<float>>> answers(2);
  loop->Add(Request(Sequence(50, 13), &all, &answers[0], [] { return true; }));
  loop->Add(Request(Sequence(2, 5), &all, &answers[1], [] { return false; }));
  release.Notify();
  holder.join();
  all.Wait();
  EXPECT_TRUE(absl::IsCancelled(answers[0].status()));
  EXPECT_THAT(answers[1].value(), ElementsAre(2, 5));
  EXPECT_THAT(batches(), ElementsAre(1));
}

TEST_F(ScoreLoopTest, WorkRunsAloneAndInOrder) {
  const auto loop = Start(100);
  absl::BlockingCounter all(20);
  std::vector<absl::StatusOr<std::vector<float>>> answers(20);
  for (int i = 0; i < 20; ++i) loop->Add(Request(Sequence(3, i == 13 ? 0 : i), &all, &answers[i]));
  int answered = 0;
  const absl::Status status = loop->RunAlone([&] {
    for (const auto& answer : answers) answered += answer.ok() && !answer->empty() ? 1 : 0;
    return absl::AbortedError("as it is");
  });
  EXPECT_EQ(answered, 20);
  EXPECT_TRUE(absl::IsAborted(status));
}

TEST_F(ScoreLoopTest, AnEndAnswersWhatWaits) {
  auto loop = Start(100);
  absl::Notification release;
  std::thread holder = Hold(*loop, release);
  absl::BlockingCounter all(1);
  absl::StatusOr<std::vector<float>> answer;
  loop->Add(Request(Sequence(2), &all, &answer));
  std::thread ender([&] { loop.reset(); });
  // The loop is stopping or not yet: either way the request is answered.
  release.Notify();
  all.Wait();
  holder.join();
  ender.join();
  EXPECT_TRUE(answer.ok() || absl::IsCancelled(answer.status()));
}

}  // namespace
}  // namespace baton::ranks
