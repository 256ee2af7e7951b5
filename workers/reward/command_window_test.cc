// Tests of which process gets which request, how often, and when the time limit of each begins and
// ends.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/common/base/test_folder.h"
#include "workers/reward/command_reward.h"

namespace baton::reward {
namespace {

class CommandWindowTest : public testing::Test {
 protected:
  CommandWindowTest() { options_.working_dir = folder_.path(); }

  /// A shell script that does `work` for each request and answers it with `reward`.
  void WriteScript(const std::string& work, const std::string& reward) {
    folder_.Write("reward.sh", "while read line; do\n" + work + R"(
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  echo "{\"id\": $id, \"reward\": )" +
                                   reward + "}\"\ndone\n");
    options_.command = "sh reward.sh";
  }

  std::unique_ptr<RewardFunction> Create() {
    auto reward = CreateCommandReward(options_);
    EXPECT_TRUE(reward.ok()) << reward.status();
    return *std::move(reward);
  }

  const TestFolder folder_;
  CommandOptions options_;
};

// Five requests wait in one process. Each is answered 0.7 s after the one before: in time, though
// the last comes 3.5 s after it was sent.
TEST_F(CommandWindowTest, TheTimeOfARequestBeginsWhenItIsTheOldest) {
  WriteScript("  sleep 0.7", "1");
  options_.window = 5;
  options_.timeout = absl::Seconds(3);
  const auto results = Create()->ScoreBatch(std::vector<RewardInput>(5));
  ASSERT_TRUE(results.ok()) << results.status();
  for (const auto& result : *results) EXPECT_EQ(result.error, "");
}

// Requests that come after it do not give the oldest one more time.
TEST_F(CommandWindowTest, TheTimeOfTheOldestRequestGoesOnAsOthersCome) {
  options_.command = "sleep 1000";
  options_.window = 64;
  options_.timeout = absl::Seconds(1);
  options_.max_faults = 1;
  auto reward = Create();
  absl::Notification answered;
  std::thread oldest([&] {
    reward->Score({}).IgnoreError();
    answered.Notify();
  });
  std::vector<std::thread> others;
  while (others.size() < 40 && !answered.WaitForNotificationWithTimeout(absl::Milliseconds(300))) {
    others.emplace_back([&] { reward->Score({}).IgnoreError(); });
  }
  EXPECT_LT(others.size(), 40) << "12 s";
  for (std::thread& other : others) other.join();
  oldest.join();
}

// The process has answered once: `startup` was for its first reply.
TEST_F(CommandWindowTest, OnlyTheFirstReplyHasTimeToStart) {
  WriteScript("  [ -e asked ] && sleep 1000; touch asked", "1");
  options_.timeout = absl::Seconds(1);
  options_.startup = absl::Seconds(30);
  auto reward = Create();
  EXPECT_EQ(reward->Score({})->error, "");
  const absl::Time begin = absl::Now();
  EXPECT_THAT(reward->Score({})->error, testing::HasSubstr("no reply within 1s"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
}

TEST_F(CommandWindowTest, EachProcessGetsOneOfTwoRequests) {
  WriteScript("", "$$");  // the process's number
  options_.processes = 2;
  const auto results = Create()->ScoreBatch(std::vector<RewardInput>(2));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_NE((*results)[0].reward, (*results)[1].reward);
}

TEST_F(CommandWindowTest, ARequestIsSentOnce) {
  WriteScript("  echo x >> asked", "$(wc -l < asked)");
  auto reward = Create();
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(reward->Score({})->reward, i);
}

// The request was alone in a process that had answered nothing: there is no doubt.
TEST_F(CommandWindowTest, ARequestThatEndsANewProcessIsNotAskedAgain) {
  options_.command = "read line; echo x >> asked; exit 3";
  EXPECT_THAT(Create()->Score({})->error, testing::HasSubstr("exited with code 3"));
  EXPECT_EQ(folder_.Read("asked"), "x\n");
}

}  // namespace
}  // namespace baton::reward
