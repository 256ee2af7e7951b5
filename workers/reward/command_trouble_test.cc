// What the author of a reward command is told of its misbehaviour. Real processes.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "sdk/common/base/test_folder.h"
#include "workers/reward/command_reward.h"

namespace baton::reward {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The messages to a command's author, in order.
class Troubles {
 public:
  void Hear(absl::string_view text) {
    absl::MutexLock lock(&mu_);
    texts_.emplace_back(text);
  }
  /// The first text of those so far, or of what comes within 5 s.
  std::string First() {
    absl::MutexLock lock(&mu_);
    const auto some = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !texts_.empty(); };
    mu_.AwaitWithTimeout(absl::Condition(&some), absl::Seconds(5));
    return texts_.empty() ? "nothing within 5 s" : texts_.front();
  }
  std::vector<std::string> all() {
    absl::MutexLock lock(&mu_);
    return texts_;
  }

 private:
  absl::Mutex mu_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mu_);
};

// Tests the messages about scripts that misbehave, which come within 5 s of its first request and
// with the time limits that a job has by default.
class MisbehavingTest : public testing::Test {
 protected:
  // The reward of a script of these lines.
  std::unique_ptr<RewardFunction> Create(const std::string& script) {
    dir_.Write("script.py", "import json, sys, time\n" + script);
    options_.command = "python3 script.py";
    options_.working_dir = dir_.path();
    options_.trouble_sink = [this](absl::string_view text) { troubles_.Hear(text); };
    auto reward = CreateCommandReward(options_);
    EXPECT_TRUE(reward.ok()) << reward.status();
    return *std::move(reward);
  }
  // Asks of `script` one response; what it is told first.
  std::string Told(const std::string& script) {
    const auto reward = Create(script);
    const auto cancelled = std::make_shared<std::atomic<bool>>(false);
    RewardInput input;
    input.cancelled = cancelled;
    std::thread scorer([&] { reward->Score(input).status().IgnoreError(); });
    std::string told = troubles_.First();
    *cancelled = true;
    reward->NoticeCancelled();
    scorer.join();
    return told;
  }

  const TestFolder dir_;
  CommandOptions options_;
  Troubles troubles_;
};

TEST_F(MisbehavingTest, ExplainsACommandThatNeverAnswers) {
  EXPECT_THAT(Told("time.sleep(1000)\n"),
              AllOf(HasSubstr("your command has not answered its first request for 4s"),
                    HasSubstr("it may take 30s"), HasSubstr("flush")));
}

TEST_F(MisbehavingTest, ExplainsACommandThatCrashesAtImport) {
  EXPECT_THAT(Told("import no_such_module\n"),
              AllOf(HasSubstr("your command exited with code 1 before it answered: "
                              "ModuleNotFoundError: No module named 'no_such_module' (restarted 1 "
                              "time)\nThe end of its stderr:\nTraceback"),
                    HasSubstr("script.py\", line 2")));
}

TEST_F(MisbehavingTest, ExplainsACommandThatPrintsToStdout) {
  EXPECT_THAT(Told("print('loading', flush=True)\ntime.sleep(1000)\n"),
              AllOf(HasSubstr("your command wrote a line to stdout that is no JSON object"),
                    HasSubstr("print to stderr"), HasSubstr(": loading")));
}

TEST_F(MisbehavingTest, ExplainsAnAnswerWithoutAnId) {
  EXPECT_THAT(
      Told("for line in sys.stdin: print(json.dumps({'reward': 1}), flush=True)\n"),
      AllOf(HasSubstr("your command answered without \"id\""), HasSubstr("{\"reward\": 1}")));
}

TEST_F(MisbehavingTest, ExplainsAnAnswerWithAnotherId) {
  EXPECT_THAT(Told("for line in sys.stdin: print('{\"id\": 77, \"reward\": 1}', flush=True)\n"),
              HasSubstr("your command answered an \"id\" that it was not asked"));
  EXPECT_THAT(Told("for line in sys.stdin: print('{\"id\": \"a\", \"reward\": 1}', flush=True)\n"),
              HasSubstr("\"id\""));
}

TEST_F(MisbehavingTest, ExplainsACommandThatAnswersTwice) {
  EXPECT_THAT(Told("for line in sys.stdin:\n"
                   "  reply = json.dumps({'id': json.loads(line)['id'], 'reward': 1})\n"
                   "  print(reply + '\\n' + reply, flush=True)\n"),
              HasSubstr("your command answered twice"));
}

// The script waits for a second request before it answers the first, but the second never comes.
TEST_F(MisbehavingTest, ExplainsACommandThatWaitsForMoreRequests) {
  EXPECT_THAT(Told("lines = [sys.stdin.readline(), sys.stdin.readline()]\n"),
              HasSubstr("your command has not answered its first request for 4s"));
}

TEST_F(MisbehavingTest, ReportsTheEndOfTroubleAfterGoodReplies) {
  options_.calm = absl::ZeroDuration();
  const auto reward = Create(
      "for line in sys.stdin:\n"
      "  asked = json.loads(line)\n"
      "  if asked['response'] == 'crash': sys.exit(3)\n"
      "  print(json.dumps({'id': asked['id'], 'reward': 1}), flush=True)\n");
  RewardInput bad;
  bad.response = "crash";
  EXPECT_NE(reward->Score(bad)->error, "");
  EXPECT_THAT(troubles_.First(), HasSubstr("exited with code 3"));
  EXPECT_EQ(reward->Score({})->error, "");
  EXPECT_EQ(troubles_.all().back(), "");
}

}  // namespace
}  // namespace baton::reward
