#include "controller/runtime/submit/checker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/controller/checker.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckerProcessTest : public ::testing::Test {
 protected:
  CheckerProcessTest() { answer_.add_violations()->set_field("spec.model"); }
  // From here on the program runs `script`.
  void Use(const std::string& script) {
    process_ = std::make_unique<CheckerProcess>(WriteChecker(folder_.path(), script, answer_));
  }
  absl::StatusOr<v1::ValidateJobResponse> Check(absl::Duration limit = absl::Seconds(60)) const {
    CheckerProcess::Request request;
    request.spec.mutable_model()->set_path("/a/model");
    request.filtered_folder = "/a/folder";
    request.filtered_bytes = 1000;
    return process_->Check(request, limit, [this] {
      return stopped_ || (!stop_file_.empty() && !folder_.Read(stop_file_).empty());
    });
  }
  absl::StatusOr<v1::ValidateJobResponse> Run(const std::string& script,
                                              absl::Duration limit = absl::Seconds(60)) {
    Use(script);
    return Check(limit);
  }
  static std::string Message(const absl::StatusOr<v1::ValidateJobResponse>& answer) {
    return std::string(answer.status().message());
  }
  TestFolder folder_;
  v1::ValidateJobResponse answer_;
  std::unique_ptr<CheckerProcess> process_;
  bool stopped_ = false;
  std::string stop_file_;  // the scripts go on once it is not empty
};

TEST_F(CheckerProcessTest, TheSpecGoesInAndTheAnswerComesOut) {
  const auto answer =
      Run("[ \"$verb $seconds $room $filtered\" = 'check 90 1000 /a/folder' ] || exit 5");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->violations_size(), 1);
  v1::JobSpec spec;
  ASSERT_TRUE(spec.ParseFromString(folder_.Read("asked")));
  EXPECT_EQ(spec.model().path(), "/a/model");
}

TEST_F(CheckerProcessTest, OneProcessAnswersManyRequests) {
  Use("echo $$ >> pids");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Check().ok());
  const std::string pids = folder_.Read("pids");
  const std::string first = pids.substr(0, pids.find('\n') + 1);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += first;
  EXPECT_EQ(pids, expected);
  process_->End();
  EXPECT_FALSE(process_->running());
}

TEST_F(CheckerProcessTest, ReportsAFailedCheckAndKeepsTheProcess) {
  Use("[ -e served ] || { echo $$ > served; echo its words >&2;"
      " printf 'failed 13\\nwas too much!'; continue; }\n[ $$ = $(cat served) ] || exit 5");
  const auto failed = Check();
  EXPECT_TRUE(absl::IsInternal(failed.status()));
  EXPECT_EQ(Message(failed), "was too much!: its words");
  EXPECT_TRUE(Check().ok());  // by the same process
}

TEST_F(CheckerProcessTest, QuotesTheStderrOfAnEndedProgramAndRestartsIt) {
  Use("[ -e served ] && { echo other words; exit 0; } >&2\n"
      "touch served; echo it is broken >&2; exit 3");
  EXPECT_TRUE(absl::IsInternal(Check().status()));
  std::filesystem::remove(folder_.path("served"));
  const auto failed = Check();
  EXPECT_THAT(Message(failed), AllOf(HasSubstr("exit code 3"), HasSubstr("it is broken")));
  const auto later = Check();
  EXPECT_THAT(Message(later),
              AllOf(HasSubstr("exit code 0: other words"), Not(HasSubstr("it is broken"))));
  EXPECT_THAT(Message(Run("kill -9 $$")), HasSubstr("signal 9"));
}

TEST_F(CheckerProcessTest, AProgramThatDiedWhileItHadNothingToDoIsReplaced) {
  Use("echo $$ > pid");
  ASSERT_TRUE(Check().ok());
  const auto pid = static_cast<pid_t>(std::stoi(folder_.Read("pid")));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  siginfo_t ended = {};
  ::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
  EXPECT_TRUE(Check().ok());
}

TEST_F(CheckerProcessTest, RetriesARequestIfAReusedProcessDies) {
  Use("[ -e served ] && [ ! -e ended ] && { touch ended; kill -9 $$; }\ntouch served");
  ASSERT_TRUE(Check().ok());
  EXPECT_TRUE(Check().ok());
  EXPECT_TRUE(std::filesystem::exists(folder_.path("ended")));
}

TEST_F(CheckerProcessTest, ANewProcessIsAskedOnceAndNotWhenAnAnswerHasBegun) {
  Use("echo $$ >> asks; [ ! -e served ] || kill -9 $$; touch served");
  ASSERT_TRUE(Check().ok());
  EXPECT_THAT(Message(Check()), HasSubstr("signal 9"));
  const std::string asks = folder_.Read("asks");
  EXPECT_EQ(std::count(asks.begin(), asks.end(), '\n'), 3);
  Use("echo $$ >> begun; [ ! -e again ] || { printf f; kill -9 $$; }; touch again");
  ASSERT_TRUE(Check().ok());
  EXPECT_THAT(Message(Check()), HasSubstr("signal 9"));
  const std::string begun = folder_.Read("begun");
  EXPECT_EQ(std::count(begun.begin(), begun.end(), '\n'), 2);
}

TEST_F(CheckerProcessTest, ReportsAShortageOfTheMachineAsUnavailable) {
  const auto answer = Run("echo cannot begin a check: no processes >&2; exit 127");
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_THAT(Message(answer), HasSubstr("no processes"));
}

// So that no child is left to process 1.
TEST_F(CheckerProcessTest, LetsAStoppedProgramReapItsChildren) {
  Use("trap 'kill $!; wait; touch reaped; exit 0' TERM\nsleep 600 & echo $! > pid; wait");
  stop_file_ = "pid";
  EXPECT_TRUE(absl::IsCancelled(Check().status()));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("reaped")));
}

TEST_F(CheckerProcessTest, AnAnswerThatCannotBeReadIsAnError) {
  EXPECT_THAT(Message(Run("printf 'found 3\\n\\377\\377\\377'")), HasSubstr("cannot be read"));
  EXPECT_THAT(Message(Run("echo what?")), HasSubstr("cannot be read"));
  EXPECT_FALSE(process_->running());
  EXPECT_THAT(Message(Run("head -c 10000 /dev/zero")), HasSubstr("cannot be read"));
}

TEST_F(CheckerProcessTest, AProgramThatCannotBeStartedSaysSo) {
  process_ = std::make_unique<CheckerProcess>("/no/such/program");
  EXPECT_TRUE(absl::IsUnavailable(Check().status()));
  EXPECT_TRUE(absl::IsUnavailable(Run("exec /no/such/program").status()));
}

TEST_F(CheckerProcessTest, AProgramThatIsNotDoneInTimeIsKilled) {
  const auto answer = Run("exec sleep 600", absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
  EXPECT_FALSE(process_->running());
}

TEST_F(CheckerProcessTest, AProgramIsKilledWithWhatItStarted) {
  Use("trap '' TERM; sleep 600 & echo $! > pid; wait");
  stop_file_ = "pid";
  EXPECT_TRUE(absl::IsCancelled(Check().status()));
  const absl::Time start = absl::Now();
  EXPECT_FALSE(process_->running());
  const std::string pid = folder_.Read("pid");
  ASSERT_FALSE(pid.empty());
  // The system may still be ending the process.
  while (::kill(std::stoi(pid), 0) == 0 && absl::Now() < start + absl::Seconds(60)) {
    if (std::ifstream stat("/proc/" + std::to_string(std::stoi(pid)) + "/stat"); stat) {
      std::string number, name, state;
      stat >> number >> name >> state;
      if (state == "Z") break;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(60));
}

TEST_F(CheckerProcessTest, AProgramIsKilledWhenNobodyWaits) {
  stopped_ = true;
  EXPECT_TRUE(absl::IsCancelled(Run("exec sleep 600").status()));
  EXPECT_FALSE(process_->running());
}

TEST_F(CheckerProcessTest, BoundsTheProgramsOutput) {
  EXPECT_THAT(Message(Run("echo found 16777217; head -c 16777217 /dev/zero")),
              HasSubstr("answered 16777217 bytes, more than 16777216"));
  const auto failed = Run("head -c 5000 /dev/zero | tr '\\0' x >&2; echo END >&2; exit 3");
  EXPECT_THAT(Message(failed), HasSubstr("xEND"));
  EXPECT_LT(failed.status().message().size(), 1100u);
}

TEST_F(CheckerProcessTest, NoFileOfTheControllerIsOpenInIt) {
  folder_.Write("a-file-of-the-controller", "");
  const std::string path = folder_.path("a-file-of-the-controller");
  const int open_in_all = ::open(path.c_str(), O_RDONLY);  // by every program that is started
  ASSERT_GE(open_in_all, 0);
  const auto answer = Run("ls -l /proc/$$/fd | grep -c of-the-controller >&2; exit 1");
  EXPECT_THAT(Message(answer), HasSubstr("exit code 1: 0"));
  ::close(open_in_all);
}

}  // namespace
}  // namespace baton::controller
