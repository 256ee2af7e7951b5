#include "workers/rollout/speculation/history_fetcher.h"

#include <functional>
#include <numeric>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Fetched = absl::StatusOr<std::vector<HistoryResponse>>;

// The tests' view of a source that the fetcher owns. A Fetch waits until it is let go on.
struct Log {
  absl::Mutex mu;
  std::vector<std::vector<uint64_t>> fetches ABSL_GUARDED_BY(mu);  // prompt ids
  int allowed ABSL_GUARDED_BY(mu) = 0;                             // fetches that may end
  bool cancelled ABSL_GUARDED_BY(mu) = false;
  std::function<Fetched(absl::Span<const HistoryPrompt>)> answer;

  void Allow(int fetches_more) {
    absl::MutexLock lock(&mu);
    allowed += fetches_more;
  }
  std::vector<std::vector<uint64_t>> WaitFor(size_t count) {
    absl::MutexLock lock(&mu);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu) { return fetches.size() >= count; };
    EXPECT_TRUE(mu.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    return fetches;
  }
};

class FakeSource : public HistorySource {
 public:
  explicit FakeSource(std::shared_ptr<Log> log) : log_(std::move(log)) {}

  Fetched Fetch(absl::Span<const HistoryPrompt> prompts) override {
    std::vector<uint64_t> ids;
    for (const HistoryPrompt& prompt : prompts) ids.push_back(prompt.prompt_id);
    Log& log = *log_;
    absl::MutexLock lock(&log.mu);
    log.fetches.push_back(ids);
    const auto may_end = [&log]() ABSL_SHARED_LOCKS_REQUIRED(log.mu) {
      return log.allowed > 0 || log.cancelled;
    };
    log.mu.Await(absl::Condition(&may_end));
    if (log.cancelled) return absl::CancelledError("it stops");
    --log.allowed;
    return log.answer(prompts);
  }
  void Cancel() override {
    absl::MutexLock lock(&log_->mu);
    log_->cancelled = true;
  }

 private:
  const std::shared_ptr<Log> log_;
};

std::vector<int32_t> PromptOf(uint64_t id) { return {1, static_cast<int32_t>(id)}; }

class HistoryFetcherTest : public ::testing::Test {
 protected:
  HistoryFetcherTest() {
    log_->answer = [](absl::Span<const HistoryPrompt> prompts) {
      std::vector<HistoryResponse> history;
      for (const HistoryPrompt& prompt : prompts) history.push_back({prompt.tokens, {5, 6, 7}, 3});
      return history;
    };
    options_.rest = options_.longest_rest = absl::Milliseconds(1);
  }
  void Start() {
    fetcher_ =
        std::make_unique<HistoryFetcher>(std::make_unique<FakeSource>(log_), &drafter_, options_);
  }
  void Ask(uint64_t id, bool of_evaluation = false) {
    fetcher_->Ask({of_evaluation, id, PromptOf(id)});
  }
  // Waits until that many tokens of the prompt are in its tree.
  bool Holds(uint64_t id, int64_t tokens) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (drafter_.cache().StoredTokens(PromptOf(id)) < tokens) {
      if (absl::Now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::shared_ptr<Log> log_ = std::make_shared<Log>();
  TreeDrafter drafter_{TreeCache::Create({}).value()};
  HistoryFetcherOptions options_;
  std::unique_ptr<HistoryFetcher> fetcher_;
};

TEST_F(HistoryFetcherTest, EachPromptIsAskedForOnceAndSeveralAtATime) {
  Start();
  Ask(10);
  log_->WaitFor(1);  // and holds it, while the others come
  for (int sample = 0; sample < 3; ++sample) {
    for (uint64_t id : {10, 11, 12}) Ask(id);
  }
  Ask(11, /*of_evaluation=*/true);
  log_->Allow(2);
  EXPECT_THAT(log_->WaitFor(2), ElementsAre(ElementsAre(10), ElementsAre(11, 12, 11)));
  ASSERT_TRUE(Holds(12, 3));
  Ask(10);
  Ask(13);
  EXPECT_THAT(log_->WaitFor(3).back(), ElementsAre(13));
  EXPECT_EQ(fetcher_->TakeTokens(), 12) << "all that came before";
}

TEST_F(HistoryFetcherTest, DoesNotFetchKnownPrompts) {
  ASSERT_TRUE(drafter_.AddEarlier(PromptOf(10), std::vector<int32_t>{1, 2}, 1).ok());
  Start();
  Ask(10);
  Ask(11);
  log_->Allow(1);
  EXPECT_THAT(log_->WaitFor(1), ElementsAre(ElementsAre(11)));
  ASSERT_TRUE(Holds(11, 3));
  EXPECT_EQ(drafter_.cache().StoredTokens(PromptOf(10)), 2);
}

TEST_F(HistoryFetcherTest, AnAnswerIsOfAsManyPromptsAsAreAllowed) {
  options_.most_at_once = 2;
  options_.most_waiting = 3;
  Start();
  Ask(1);
  log_->WaitFor(1);
  for (uint64_t id : {2, 3, 4, 5}) Ask(id);  // one too many
  log_->Allow(3);
  log_->WaitFor(3);
  ASSERT_TRUE(Holds(4, 3));
  Ask(5);  // it was not asked for, so it may be later
  log_->Allow(1);
  EXPECT_THAT(log_->WaitFor(4),
              ElementsAre(ElementsAre(1), ElementsAre(2, 3), ElementsAre(4), ElementsAre(5)));
}

// The data changed: the id is of another prompt now, and nobody asks for the old one.
TEST_F(HistoryFetcherTest, ResponsesToAnotherPromptAreDropped) {
  log_->answer = [](absl::Span<const HistoryPrompt>) -> Fetched {
    // Responses are added from the last one on.
    return std::vector<HistoryResponse>{{PromptOf(10), {7}, 3}, {PromptOf(99), {5, 6}, 3}};
  };
  Start();
  Ask(10);
  log_->Allow(1);
  ASSERT_TRUE(Holds(10, 1));
  fetcher_->Stop();
  EXPECT_EQ(drafter_.cache().stats().prompts, 1);
  EXPECT_EQ(fetcher_->TakeTokens(), 1);
  EXPECT_EQ(fetcher_->TakeTokens(), 0);
}

TEST_F(HistoryFetcherTest, RetriesAFailedFetchAFewTimes) {
  options_.most_tries = 3;
  int failures = 2;
  const auto whole = log_->answer;
  log_->answer = [&](absl::Span<const HistoryPrompt> prompts) -> Fetched {
    if (failures-- > 0) return absl::UnavailableError("gone");
    return whole(prompts);
  };
  Start();
  Ask(10);
  log_->Allow(3);
  ASSERT_TRUE(Holds(10, 3));
  log_->WaitFor(3);
  {
    absl::MutexLock lock(&log_->mu);
    failures = 100;
  }
  Ask(11);
  log_->Allow(3);
  log_->WaitFor(6);
  Ask(12);  // 11 is given up
  log_->Allow(1);
  EXPECT_THAT(log_->WaitFor(7).back(), ElementsAre(12));
}

// A controller that is busy with others is no reason to give a prompt up.
TEST_F(HistoryFetcherTest, ABusyControllerIsAskedUntilItAnswers) {
  options_.most_tries = 2;
  int busy = 6;
  const auto whole = log_->answer;
  log_->answer = [&](absl::Span<const HistoryPrompt> prompts) -> Fetched {
    if (busy-- > 0) return absl::ResourceExhaustedError("busy");
    return whole(prompts);
  };
  Start();
  Ask(10);
  log_->Allow(7);
  EXPECT_TRUE(Holds(10, 3));
}

// The rest after an error has no end here, so a fetcher that does not rest would fetch again.
TEST_F(HistoryFetcherTest, RestsAfterAnErrorAndStopsAtOnce) {
  options_.rest = options_.longest_rest = absl::InfiniteDuration();
  log_->answer = [](absl::Span<const HistoryPrompt>) -> Fetched {
    return absl::UnavailableError("away");
  };
  Start();
  Ask(10);
  log_->Allow(1000);
  log_->WaitFor(1);
  for (uint64_t id = 11; id < 20; ++id) Ask(id);
  const absl::Time end = absl::Now() + absl::Milliseconds(200);
  while (absl::Now() < end) std::this_thread::yield();
  EXPECT_EQ(log_->WaitFor(1).size(), 1u);
  fetcher_->Stop();
}

TEST_F(HistoryFetcherTest, AFetchThatHangsIsCancelledByTheStop) {
  Start();
  Ask(10);
  log_->WaitFor(1);
  fetcher_->Stop();
  fetcher_->Stop();
  Ask(11);
  EXPECT_EQ(log_->WaitFor(1).size(), 1u);
  EXPECT_EQ(drafter_.cache().stats().prompts, 0);
}

TEST_F(HistoryFetcherTest, AControllerThatDoesNotServeItIsAskedOnce) {
  log_->answer = [](absl::Span<const HistoryPrompt>) -> Fetched {
    return absl::UnimplementedError("what is that?");
  };
  Start();
  Ask(10);
  log_->Allow(1000);
  log_->WaitFor(1);
  const absl::Time end = absl::Now() + absl::Milliseconds(100);
  for (uint64_t id = 11; absl::Now() < end; ++id) Ask(id);
  EXPECT_EQ(log_->WaitFor(1).size(), 1u);
}

}  // namespace
}  // namespace baton::rollout
