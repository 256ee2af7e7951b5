// Real processes: small scripts made in the test's own directory.
#include "workers/reward/command_reward.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "sdk/common/base/test_folder.h"

namespace baton::reward {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The script does what the response says; anything else is compared with the answer.
constexpr char kScript[] = R"(
import json, os, signal, sys, time
for line in sys.stdin:
    r = json.loads(line)
    x = r["response"]
    reply = {"id": r["id"], "reward": float(x == r["answer"]), "accuracy": x == r["answer"]}
    if x == "crash":
        print("about to crash", file=sys.stderr)
        os._exit(3)
    if x == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if x == "hang":
        time.sleep(1000)
    if x == "garbage":
        print("hello, I am no JSON")
        continue
    if x == "wrong id":
        reply["id"] = 987654321
    if x == "nan":
        reply["reward"] = float("nan")
    if x == "infinite":
        reply["reward"] = float("-inf")
    if x == "large":
        sys.stdout.write('{"id": %d, "reward": 1e999}\n' % r["id"])
        sys.stdout.flush()
        continue
    if x == "dict":
        print(reply, flush=True)
        continue
    if x == "list":
        print(json.dumps([reply]), flush=True)
        continue
    if x == "text":
        reply["reward"] = "one"
    if x == "none":
        del reply["reward"]
    if x == "error":
        reply["error"] = "cannot judge this"
    if x == "down":
        reply = {"id": r["id"], "error": "the sandbox is down", "infra_failed": True}
    if x == "partial":
        sys.stdout.write('{"id": 1, "rew')
        sys.stdout.flush()
        os._exit(0)
    if x == "huge":
        print("[" + "1," * 1000000 + "1]")
        continue
    if x == "fields":
        reply["reward"] = 0.5
        reply["prompt_length"] = len(r["prompt"])
        reply["extra_k"] = r["extra"]["k"]
        reply["source_is_s"] = r["source"] == "s"
    if x == "prompt":
        reply["is_text"] = r["prompt"] == "1+2="
        reply["begun"] = r["prompt_suffix"] == "<think>"
        reply["is_list"] = r["prompt"] == [{"role": "system", "content": "Add."},
                                           {"role": "user", "content": "1+2="}]
    if x.startswith("long"):
        reply["length"] = len(x)
    print(json.dumps(reply))
)";

class CommandRewardTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("reward.py", kScript);
    options_.command = "python3 reward.py";
    options_.working_dir = dir_.path();
  }

  void Write(const std::string& name, const std::string& text) { dir_.Write(name, text); }

  std::string Read(const std::string& name) { return dir_.Read(name); }

  std::unique_ptr<RewardFunction> Create() {
    auto reward = CreateCommandReward(options_);
    EXPECT_TRUE(reward.ok()) << reward.status();
    return *std::move(reward);
  }

  // `count` responses, every one correct but those that `bad` puts in their place.
  static std::vector<RewardInput> Inputs(int count, const std::map<int, std::string>& bad = {}) {
    std::vector<RewardInput> inputs(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      inputs[i].response = inputs[i].answer = absl::StrCat("r", i);
    }
    for (const auto& [place, response] : bad) inputs[place].response = response;
    return inputs;
  }

  // Scores `bad` among good ones; the good ones must not notice. Returns the bad one's error.
  std::string ErrorAmongGood(const std::string& bad, bool infra_failed = true) {
    auto reward = Create();
    const auto results = reward->ScoreBatch(Inputs(12, {{5, bad}}));
    EXPECT_TRUE(results.ok()) << results.status();
    for (int i = 0; i < 12; ++i) {
      if (i == 5) continue;
      EXPECT_EQ((*results)[i].error, "") << i;
      EXPECT_EQ((*results)[i].reward, 1) << i;
    }
    EXPECT_EQ((*results)[5].infra_failed, infra_failed) << bad;
    return (*results)[5].error;
  }

  const TestFolder dir_;
  CommandOptions options_;
};

TEST_F(CommandRewardTest, APromptIsTextOrAListAsInTheData) {
  auto reward = Create();
  RewardInput input;
  input.response = "prompt";
  input.prompt = "1+2=";
  const RewardResult text = reward->Score(input).value();
  EXPECT_EQ(text.scores.at("is_text"), 1);
  EXPECT_EQ(text.scores.at("is_list"), 0);
  EXPECT_EQ(text.scores.at("begun"), 0);
  input.prompt_suffix = "<think>";
  EXPECT_EQ(reward->Score(input)->scores.at("begun"), 1);
  input.prompt = "system: Add.\nuser: 1+2=";
  input.messages = {{"system", "Add."}, {"user", "1+2="}};
  const RewardResult list = reward->Score(input).value();
  EXPECT_EQ(list.scores.at("is_text"), 0);
  EXPECT_EQ(list.scores.at("is_list"), 1);
}

TEST_F(CommandRewardTest, ScoresInOrderOnSeveralProcesses) {
  options_.processes = 2;
  auto reward = Create();
  const auto results = reward->ScoreBatch(Inputs(300, {{7, "wrong"}, {200, ""}}));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 300u);
  for (int i = 0; i < 300; ++i) {
    const double expected = i == 7 || i == 200 ? 0 : 1;
    EXPECT_EQ((*results)[i].error, "");
    EXPECT_EQ((*results)[i].reward, expected) << i;
    EXPECT_EQ((*results)[i].scores.at("accuracy"), expected);
  }
  EXPECT_TRUE(reward->ScoreBatch({})->empty());
}

TEST_F(CommandRewardTest, AnswersFromWithinASandbox) {
  SandboxOptions sandbox;
  sandbox.kind = SandboxOptions::Kind::kBubblewrap;
  auto made = CommandSandbox::Create(sandbox);
  if (!made.ok()) GTEST_SKIP() << made.status();
  options_.sandbox = *std::move(made);
  options_.processes = 2;
  const auto results = Create()->ScoreBatch(Inputs(40, {{7, "wrong"}, {20, "crash"}}));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[6].reward, 1);
  EXPECT_EQ((*results)[7].reward, 0);
  EXPECT_THAT((*results)[20].error,
              AllOf(HasSubstr("exited with code 3"), HasSubstr("about to crash")));
}

TEST_F(CommandRewardTest, PassesEveryFieldAndKeepsEveryNumber) {
  RewardInput input;
  input.prompt = "h\xC3\xA9!\n";
  input.response = "fields";
  input.source = "s";
  input.extra = R"({"k": 2.5})";
  auto reward = Create();
  const auto result = reward->Score(input);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->reward, 0.5);
  EXPECT_EQ(result->scores,
            (std::map<std::string, double>{
                {"accuracy", 0}, {"prompt_length", 4}, {"extra_k", 2.5}, {"source_is_s", 1}}));
  input.extra = "{";
  EXPECT_EQ(reward->Score(input)->error, "extra: it is not JSON");
  EXPECT_EQ(reward->Score({"", "\xFF", "", "\xEF\xBF\xBD"})->reward, 1);
}

TEST_F(CommandRewardTest, TakesRepliesOutOfOrder) {
  Write("reversed.py", R"(
import json, sys
while True:
    lines = [sys.stdin.readline() for _ in range(4)]
    if not lines[-1]:
        break
    for line in reversed(lines):
        r = json.loads(line)
        print(json.dumps({"id": r["id"], "reward": float(r["response"][1:])}))
)");
  options_.command = "python3 reversed.py";
  options_.window = 4;
  const auto results = Create()->ScoreBatch(Inputs(8));
  ASSERT_TRUE(results.ok()) << results.status();
  for (int i = 0; i < 8; ++i) EXPECT_EQ((*results)[i].reward, i) << (*results)[i].error;
}

TEST_F(CommandRewardTest, CrashIsAnErrorOfThatResponseOnly) {
  EXPECT_THAT(ErrorAmongGood("crash"),
              AllOf(HasSubstr("exited with code 3"), HasSubstr("about to crash")));
  EXPECT_THAT(ErrorAmongGood("segv"), HasSubstr("killed by signal 11"));
  options_.command = "python3 'reward.py'; exit $?";
  EXPECT_THAT(ErrorAmongGood("segv"), HasSubstr("exited with code 139 (Segmentation fault)"));
}

TEST_F(CommandRewardTest, HangIsAnErrorOfThatResponseOnly) {
  options_.timeout = absl::Seconds(2);
  options_.processes = 2;
  const absl::Time begin = absl::Now();
  EXPECT_THAT(ErrorAmongGood("hang"), HasSubstr("no reply within 2s (reward.timeout_seconds)"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(60));
}

TEST_F(CommandRewardTest, NonsenseIsAnErrorOfThatResponseWithItsText) {
  EXPECT_THAT(ErrorAmongGood("garbage"),
              AllOf(HasSubstr("hello, I am no JSON"), HasSubstr("print to stderr")));
  EXPECT_THAT(ErrorAmongGood("wrong id"),
              AllOf(HasSubstr("it was not asked"), HasSubstr("987654321")));
  EXPECT_THAT(ErrorAmongGood("text"), AllOf(HasSubstr("\"reward\""), HasSubstr("\"one\"")));
  EXPECT_THAT(ErrorAmongGood("none"), HasSubstr("no \"reward\""));
  EXPECT_EQ(ErrorAmongGood("error", /*infra_failed=*/false),
            "your command says: cannot judge this");
  EXPECT_EQ(ErrorAmongGood("down"), "your command says: the sandbox is down");
  EXPECT_THAT(ErrorAmongGood("partial"), HasSubstr(R"({"id": 1, "rew)"));
}

// Python's json writes NaN, Infinity and 1e999: no JSON, but what was meant is plain.
TEST_F(CommandRewardTest, ANumberThatIsNotFiniteFailsItsResponseAndNoProcess) {
  std::vector<std::string> troubles;
  absl::Mutex mu;
  options_.trouble_sink = [&](absl::string_view text) {
    absl::MutexLock lock(&mu);
    troubles.emplace_back(text);
  };
  for (const char* bad : {"nan", "infinite", "large"}) {
    EXPECT_THAT(ErrorAmongGood(bad),
                HasSubstr("your command's reply has a \"reward\" that is not a finite number: {"));
  }
  absl::MutexLock lock(&mu);
  EXPECT_TRUE(troubles.empty()) << troubles.front();
}

TEST_F(CommandRewardTest, TheAdviceFitsTheTextThatCausedIt) {
  EXPECT_THAT(ErrorAmongGood("dict"), AllOf(HasSubstr("is no JSON object (write a reply with "
                                                      "json.dumps"),
                                            HasSubstr("{'id'")));
  EXPECT_THAT(ErrorAmongGood("list"), HasSubstr("(a reply is one object"));
}

TEST_F(CommandRewardTest, ExtraGoesWithItsNumbersAsWritten) {
  options_.command = "python3 texts.py";
  Write("texts.py", R"(
import json, sys
for line in sys.stdin:
    r = json.loads(line, parse_float=str)
    print(json.dumps({"id": r["id"], "reward": float(r["extra"] == {"a": "1.10", "b": ["1e3"],
                      "c": 2**64})}), flush=True)
)");
  RewardInput input;
  input.extra = R"({"a":1.10,"b":[1e3],"c":18446744073709551616})";
  const auto result = Create()->Score(input);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->error, "");
  EXPECT_EQ(result->reward, 1);
}

TEST_F(CommandRewardTest, TooLongALineIsAnErrorOfThatResponse) {
  options_.max_line_bytes = 100000;
  EXPECT_THAT(ErrorAmongGood("huge"),
              AllOf(HasSubstr("longer than 100000 bytes"), HasSubstr("[1,1,1")));
}

TEST_F(CommandRewardTest, ManyFaultsAmongGoodOnesLoseNothing) {
  options_.processes = 2;
  std::map<int, std::string> bad;
  const char* const kinds[] = {"crash", "garbage", "partial", "wrong id", "nan"};
  for (int i = 0; i < 10; ++i) bad[i * 7 + 3] = kinds[i % 5];
  const auto results = Create()->ScoreBatch(Inputs(80, bad));
  ASSERT_TRUE(results.ok()) << results.status();
  for (int i = 0; i < 80; ++i) {
    EXPECT_EQ((*results)[i].error.empty(), bad.count(i) == 0) << i << (*results)[i].error;
    if (bad.count(i) == 0) EXPECT_EQ((*results)[i].reward, 1);
  }
}

TEST_F(CommandRewardTest, LongRequestsAndRepliesPassWhole) {
  options_.processes = 1;
  std::vector<RewardInput> inputs(6);
  for (auto& input : inputs) input.response = "long" + std::string(1 << 20, 'x');
  const auto results = Create()->ScoreBatch(inputs);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const auto& result : *results) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.scores.at("length"), (1 << 20) + 4);
  }
}

TEST_F(CommandRewardTest, CommandThatNeverReadsTimesOut) {
  options_.command = "sleep 1000";
  options_.timeout = absl::Milliseconds(200);
  std::vector<RewardInput> inputs(2);
  for (auto& input : inputs) input.response = std::string(1 << 20, 'x');  // more than a pipe holds
  const auto results = Create()->ScoreBatch(inputs);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const auto& result : *results) EXPECT_THAT(result.error, HasSubstr("no reply within"));
}

TEST_F(CommandRewardTest, CommandThatAlwaysFailsIsGivenUp) {
  options_.command = "no-such-command-here";
  options_.max_faults = 4;
  auto reward = Create();
  const auto results = reward->ScoreBatch(Inputs(50));
  EXPECT_EQ(results.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(results.status().message()),
      AllOf(HasSubstr("no-such-command-here"), HasSubstr("4 times in a row, never answered"),
            HasSubstr("exited with code 127"), HasSubstr("not found")));
  EXPECT_EQ(reward->Score({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CommandRewardTest, TimeoutSecondsHoldForTheFirstReplyToo) {
  options_.command = "sleep 1000";
  options_.timeout = absl::Milliseconds(300);
  auto reward = Create();
  const absl::Time begin = absl::Now();
  EXPECT_THAT(reward->Score({})->error,
              AllOf(HasSubstr("no reply within 300ms (reward.timeout_seconds) of its start"),
                    HasSubstr("reward.startup_seconds")));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(290));
}

TEST_F(CommandRewardTest, StartupSecondsComeOnTop) {
  Write("late.py", "import time\ntime.sleep(1.5)\n" + std::string(kScript));
  options_.command = "python3 late.py";
  options_.timeout = absl::Seconds(1);
  RewardInput input;
  input.response = input.answer = "same";
  EXPECT_THAT(Create()->Score(input)->error, HasSubstr("no reply within 1s"));
  options_.startup = absl::Seconds(60);
  EXPECT_EQ(Create()->Score(input)->reward, 1);
}

// The command hangs; the caller goes away; the process is not waited for.
TEST_F(CommandRewardTest, ACancelledRequestIsNotWaitedFor) {
  options_.command = "read line; echo asked >&2; exec sleep 1000";
  absl::Notification asked;
  options_.stderr_sink = [&asked](absl::string_view) { asked.Notify(); };
  auto reward = Create();
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::vector<RewardInput> inputs(10);  // more than the process takes at once
  for (auto& input : inputs) input.cancelled = cancelled;
  absl::Status status;
  std::thread scorer([&] { status = reward->ScoreBatch(inputs).status(); });
  ASSERT_TRUE(asked.WaitForNotificationWithTimeout(absl::Seconds(30)));
  *cancelled = true;
  reward->NoticeCancelled();
  scorer.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

// The reply to a cancelled request is no nonsense, and the next request is served.
TEST_F(CommandRewardTest, TheReplyToACancelledRequestIsDropped) {
  Write("slow.py", R"(
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["response"] == "slow":
        print("asked", file=sys.stderr, flush=True)
        open("go").read()  # until the test says so
    print(json.dumps({"id": request["id"], "reward": 1}), flush=True)
)");
  options_.command = "python3 slow.py";
  const std::string go = options_.working_dir + "/go";
  ASSERT_EQ(mkfifo(go.c_str(), 0600), 0);
  absl::Notification asked;
  options_.stderr_sink = [&asked](absl::string_view) { asked.Notify(); };
  auto reward = Create();
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  RewardInput slow;
  slow.response = "slow";
  slow.cancelled = cancelled;
  std::thread canceller([&] {
    EXPECT_TRUE(asked.WaitForNotificationWithTimeout(absl::Seconds(30)));
    *cancelled = true;
    reward->NoticeCancelled();
  });
  EXPECT_EQ(reward->Score(slow).status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  std::ofstream(go) << "go";
  const auto next = reward->Score({});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->error, "");
  EXPECT_EQ(next->reward, 1);
}

TEST_F(CommandRewardTest, CommandThatEndsAfterEachReplyIsStartedAgain) {
  Write("once.sh", R"(read line; id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
echo "{\"id\": $id, \"reward\": 1}"
)");
  options_.command = "sh once.sh";
  options_.window = 1;
  options_.max_faults = 3;
  const auto results = Create()->ScoreBatch(Inputs(12));
  ASSERT_TRUE(results.ok()) << results.status();
  for (const auto& result : *results) EXPECT_EQ(result.error, "");
}

TEST_F(CommandRewardTest, ManyThreadsMayScore) {
  options_.processes = 2;
  auto reward = Create();
  std::vector<std::thread> threads;
  std::vector<double> sums(6, 0);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string text = absl::StrCat(t, " ", i);
        sums[t] += reward->Score({"", text, "", i % 2 ? text : "other"})->reward;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, 10);
}

// True when there is no such process, or only its entry is left.
bool IsGone(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const size_t paren = text.rfind(')');
  return paren == std::string::npos || text[paren + 2] == 'Z' || text[paren + 2] == 'X';
}

TEST_F(CommandRewardTest, KillsTheCommandAndItsChildren) {
  // A command that ignores the end of its input and has a child of its own.
  Write("stay.sh",
        R"(sleep 1000 & echo "$$ $!" > pids.tmp && mv pids.tmp pids; cat > /dev/null; sleep 1000
)");
  options_.command = "sh stay.sh";
  auto reward = Create();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (Read("pids").empty() && absl::Now() < deadline) std::this_thread::yield();
  std::string command, child;
  std::stringstream(Read("pids")) >> command >> child;
  ASSERT_FALSE(child.empty());
  EXPECT_FALSE(IsGone(command));
  EXPECT_FALSE(IsGone(child));
  reward.reset();
  while (!(IsGone(command) && IsGone(child)) && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(IsGone(command));
  EXPECT_TRUE(IsGone(child));
}

TEST_F(CommandRewardTest, CommandMayFinishItsWorkAtTheEnd) {
  options_.command = "cat > /dev/null; echo done > finished";
  Create().reset();
  EXPECT_EQ(Read("finished"), "done\n");
}

TEST_F(CommandRewardTest, StderrGoesToTheSinkLineByLine) {
  absl::Mutex mu;
  std::vector<std::string> lines;
  options_.stderr_sink = [&](absl::string_view line) {
    absl::MutexLock lock(&mu);
    lines.emplace_back(line);
  };
  options_.command = "echo one >&2; echo two >&2; exec python3 reward.py";
  auto reward = Create();
  EXPECT_EQ(reward->Score({"", "a", "", "a"})->reward, 1);
  reward.reset();
  EXPECT_THAT(lines, testing::ElementsAre("one", "two"));
}

TEST_F(CommandRewardTest, BadOptionsAreNamed) {
  const auto message = [&] {
    const auto status = CreateCommandReward(options_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  options_.working_dir = dir_.path("nowhere");
  EXPECT_THAT(message(), HasSubstr("working_dir: "));
  options_.processes = 0;
  EXPECT_THAT(message(), HasSubstr("command_processes: 0 is not in [1, 64]"));
  options_.command = " ";
  EXPECT_THAT(message(), HasSubstr("command: it is empty"));
}

}  // namespace
}  // namespace baton::reward
