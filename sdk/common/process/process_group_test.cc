#include "sdk/common/process/process_group.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/process/spawn.h"

namespace baton {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

pid_t StartShell(const std::string& script) {
  SpawnOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  options.own_group = true;
  return Spawn(options).value();
}

TEST(ProcessGroupTest, SaysHowItEnded) {
  ProcessGroup exits(StartShell("exit 7"));
  const auto code = exits.WaitFor(kLong);
  ASSERT_TRUE(code.has_value());
  EXPECT_FALSE(code->killed);
  EXPECT_EQ(code->number, 7);
  ProcessGroup dies(StartShell("kill -SEGV $$"));
  const auto signal = dies.WaitFor(kLong);
  ASSERT_TRUE(signal.has_value());
  EXPECT_TRUE(signal->killed);
  EXPECT_EQ(signal->number, SIGSEGV);
  dies.Kill();
  EXPECT_EQ(dies.WaitFor(kLong)->number, SIGSEGV) << "it is remembered";
}

TEST(ProcessGroupTest, ReportsNoExitOfAProcessThatItKilled) {
  ProcessGroup group(StartShell("exec sleep 1000"));
  EXPECT_FALSE(group.WaitFor(absl::Milliseconds(5)).has_value());
  group.Kill();
  EXPECT_FALSE(group.WaitFor(kLong).has_value());
  EXPECT_EQ(::waitpid(group.leader(), nullptr, WNOHANG), -1) << "it is not reaped";
  EXPECT_EQ(errno, ECHILD);
}

// The leader ends at once. The process that it started writes its own number, and sleeps.
TEST(ProcessGroupTest, KillsWhatTheLeaderLeftBehind) {
  const TestFolder folder;
  const std::string file = folder.path("pid");
  pid_t left = 0;
  {
    ProcessGroup group(StartShell("sleep 1000 & echo $! >" + file));
    ASSERT_TRUE(group.WaitFor(kLong).has_value());
    std::ifstream(file) >> left;
    ASSERT_GT(left, 0);
    EXPECT_EQ(::kill(left, 0), 0);
  }
  // The process that reaps it may do so later: until then it is a zombie, "NUMBER (NAME) Z …".
  const auto runs = [&] {
    std::string line;
    std::getline(std::ifstream("/proc/" + std::to_string(left) + "/stat"), line);
    return !line.empty() && line.find(") Z ") == std::string::npos;
  };
  for (const absl::Time end = BootNow() + kLong; runs() && BootNow() < end; ::usleep(1000)) {
  }
  EXPECT_FALSE(runs());
}

// A file that the leader leaves tells which signal it got.
TEST(ProcessGroupTest, DoesNotKillTheGroupOfALeaderReapedElsewhere) {
  const TestFolder folder;
  const std::string file = folder.path("pid");
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  ProcessGroup group(StartShell("sleep 1000 & echo $! >" + file));
  ASSERT_EQ(::waitpid(group.leader(), nullptr, 0), group.leader());
  pid_t left = 0;
  std::ifstream(file) >> left;
  ASSERT_GT(left, 0);
  const auto end = group.WaitFor(kLong);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->unknown);
  group.End(kLong);
  EXPECT_TRUE(group.WaitFor(kLong)->unknown) << "it is remembered";
  EXPECT_EQ(::kill(left, SIGTERM), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(left, &status, 0), left);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM) << "and not SIGKILL";
  EXPECT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST(ProcessGroupTest, EndsWithASignalThatItMayHandle) {
  ProcessGroup group(StartShell("trap 'exit 3' TERM; echo; while :; do sleep 0.01; done"));
  // The trap may not be set yet; then the signal itself ends it.
  group.End(kLong);
  const auto end = group.WaitFor(absl::ZeroDuration());
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->number, end->killed ? SIGTERM : 3);
  ProcessGroup deaf(StartShell("trap '' TERM; while :; do sleep 0.01; done"));
  deaf.End(absl::Milliseconds(50));
  EXPECT_EQ(::waitpid(deaf.leader(), nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace baton
