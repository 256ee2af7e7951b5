#include "sdk/common/process/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "sdk/common/base/test_folder.h"
#include "sdk/common/process/test_process.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

SpawnOptions Shell(const std::string& script) {
  SpawnOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  return options;
}

// The exit code of a script; -1: it was killed, or did not start.
int ExitCode(const SpawnOptions& options) {
  const auto pid = Spawn(options);
  EXPECT_TRUE(pid.ok()) << pid.status();
  int status = 0;
  if (!pid.ok() || ::waitpid(*pid, &status, 0) != *pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(SpawnTest, TheStreamsAreThoseGivenElseNull) {
  const TestFolder folder;
  folder.Write("in", "seven");
  SpawnOptions options = Shell("cat; echo of error >&2");
  options.stdin_fd = ::open(folder.path("in").c_str(), O_RDONLY | O_CLOEXEC);
  options.stdout_fd = ::open(folder.path("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(ExitCode(options), 0);
  EXPECT_EQ(folder.Read("out"), "seven");
  ::close(options.stdin_fd);
  options.stdin_fd = -1;
  options.stderr_fd = options.stdout_fd;
  EXPECT_EQ(ExitCode(options), 0);
  EXPECT_EQ(folder.Read("out"), "sevenof error\n");
  ::close(options.stdout_fd);
}

// In a circle: the child's input is this process's output, and so on.
TEST(SpawnTest, StreamsMayBeExchanged) {
  SpawnOptions options = Shell(
      "set -- 0 1 1 2 2 0; while test $# -gt 0; do "
      "test $(readlink /proc/$$/fd/$1) = $(readlink /proc/$PPID/fd/$2) || exit 1; shift 2; done");
  options.stdin_fd = STDOUT_FILENO;
  options.stdout_fd = STDERR_FILENO;
  options.stderr_fd = STDIN_FILENO;
  EXPECT_EQ(ExitCode(options), 0);
}

TEST(SpawnTest, NoOtherFileReachesTheChild) {
  const TestFolder folder;
  const int leak = ::open(folder.path().c_str(), O_RDONLY);  // not closed by execve
  const int high = ::fcntl(leak, F_DUPFD, 200);
  EXPECT_EQ(ExitCode(Shell("test ! -e /proc/$$/fd/" + std::to_string(leak) +
                           " && test ! -e /proc/$$/fd/" + std::to_string(high))),
            0);
  ::close(leak);
  ::close(high);
}

TEST(SpawnTest, AFileIsPassedAndNoOtherBesideIt) {
  const TestFolder folder;
  folder.Write("passed", "seven");
  const int leak = ::open(folder.path().c_str(), O_RDONLY);
  SpawnOptions options = Shell(
      "test \"$(cat <&4)\" = seven && test ! -e /proc/$$/fd/5 && "
      "test ! -e /proc/$$/fd/200");
  const int high = ::fcntl(leak, F_DUPFD, 200);
  options.passed_fd = ::open(folder.path("passed").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(ExitCode(options), 0);
  ::close(options.passed_fd);
  ::close(leak);
  ::close(high);
}

TEST(SpawnTest, TheEnvironmentIsThisProcesssOrTheOneGiven) {
  ::setenv("BATON_SPAWN_TEST", "here", 1);
  SpawnOptions options = Shell("test \"$BATON_SPAWN_TEST\" = here");
  EXPECT_EQ(ExitCode(options), 0);
  options.environment = {"BATON_SPAWN_TEST=given"};
  options.arguments[2] = "test \"$BATON_SPAWN_TEST\" = given && test -z \"$HOME\"";
  EXPECT_EQ(ExitCode(options), 0);
  ::unsetenv("BATON_SPAWN_TEST");
}

// sh keeps a signal ignored that was ignored when it began.
TEST(SpawnTest, NoSignalIsBlockedOrIgnored) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  const auto mask = [](const std::string& line) {
    return "set -- $(grep " + line + ": /proc/self/status); test $2 = 0000000000000000";
  };
  EXPECT_EQ(ExitCode(Shell(mask("SigBlk"))), 0);
  EXPECT_EQ(ExitCode(Shell(mask("SigIgn"))), 0);
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, SIGTERM), 1) << "the caller's own mask stays";
  EXPECT_EQ(::signal(SIGPIPE, handler), SIG_IGN) << "and its handlers";
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(SpawnTest, AFailureNamesWhatIsMissing) {
  SpawnOptions options;
  options.arguments = {"/nowhere/program"};
  EXPECT_EQ(Spawn(options).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Spawn(options).status().message(),
              HasSubstr("cannot run /nowhere/program: No such file"));
  options = Shell("true");
  options.working_dir = "/nowhere/folder";
  EXPECT_EQ(Spawn(options).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Spawn(options).status().message(),
              HasSubstr("cannot enter the working directory /nowhere/folder"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

TEST(SpawnTest, HasItsLimitsAndItsFolder) {
  SpawnOptions options =
      Shell("test $(ulimit -t) = 7 && test $(ulimit -v) = 1048576 && test $(pwd) = /");
  options.cpu_seconds = 7;
  options.memory_bytes = uint64_t{1} << 30;
  options.working_dir = "/";
  EXPECT_EQ(ExitCode(options), 0);
}

TEST(SpawnTest, LeadsAGroupOfItsOwnIfAsked) {
  SpawnOptions options = Shell("set -- $(cat /proc/self/stat); test $5 = $$");
  EXPECT_NE(ExitCode(options), 0);
  options.own_group = true;
  EXPECT_EQ(ExitCode(options), 0);
}

TEST(SpawnTest, EndsWithTheThreadThatStartedIt) {
  pid_t pid = -1;
  std::thread([&] {
    SpawnOptions options = Shell("exec sleep 1000");
    options.death_signal = SIGKILL;
    const auto spawned = Spawn(options);
    EXPECT_TRUE(spawned.ok()) << spawned.status();
    pid = spawned.value_or(-1);
  }).join();
  ASSERT_GT(pid, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(TestProcessTest, ReportsItsLogAndItsExitCode) {
  const TestFolder folder;
  TestProcess process({"/bin/sh", "-c", "echo listening on port 70 now; read x; exit 3"},
                      folder.path("log"));
  EXPECT_EQ(process.WaitForLog("on port "), "70");
  EXPECT_EQ(process.Wait(), 3);
  EXPECT_FALSE(process.running());
  TestProcess killed({"/bin/sh", "-c", "exec sleep 1000"});
  EXPECT_EQ(killed.Wait(absl::ZeroDuration()), -1);
  killed.Signal(SIGTERM);
  EXPECT_EQ(killed.Wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace baton
