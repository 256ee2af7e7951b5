#include "sdk/cli/cluster/supervisor.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/test_folder.h"

namespace baton::cli {
namespace {

class SupervisorTest : public ::testing::Test {
 protected:
  ChildSpec Shell(const std::string& name, const std::string& script) const {
    return {name, {"/bin/sh", "-c", script}, {"GREETING=hello"}, folder_.path(name + ".log"), {}};
  }
  static bool Eventually(const std::function<bool()>& done) {
    absl::Notification never;
    for (const absl::Time end = BootNow() + absl::Seconds(10); BootNow() < end;) {
      if (done()) return true;
      never.WaitForNotificationWithTimeout(absl::Milliseconds(5));
    }
    return done();
  }
  std::string Read(const std::string& name) const { return folder_.Read(name); }

  const TestFolder folder_;
};

TEST_F(SupervisorTest, AKilledChildIsStartedAgain) {
  Supervisor supervisor({Shell("a", "echo $GREETING; exec sleep 1000")});
  ASSERT_TRUE(supervisor.Start().ok());
  const int first = supervisor.States()[0].pid;
  ASSERT_TRUE(Eventually([&] { return Read("a.log") == "hello\n"; }));
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] {
    supervisor.Poll(BootNow());
    return supervisor.States()[0].pid != first && supervisor.States()[0].pid != 0;
  }));
  EXPECT_EQ(supervisor.States()[0].restarts, 1);
  EXPECT_TRUE(Eventually([&] { return Read("a.log") == "hello\nhello\n"; })) << Read("a.log");
}

TEST_F(SupervisorTest, AChildThatKeepsDyingIsStartedLessOften) {
  Supervisor supervisor({Shell("a", "exit 1")});
  ASSERT_TRUE(supervisor.Start().ok());
  const absl::Time begin = BootNow();
  ASSERT_TRUE(Eventually([&] {
    supervisor.Poll(BootNow());
    return supervisor.restarts() == 3;
  }));
  EXPECT_GE(BootNow() - begin, absl::Milliseconds(1400));  // 0 + 0.5 + 1 s
}

TEST_F(SupervisorTest, StopEndsTheWholeGroupOfEveryChild) {
  Supervisor supervisor(
      {Shell("a", absl::StrCat("trap '' TERM; sleep 1000 & echo $! > ", folder_.path(),
                               "/grandchild; wait; sleep 1000"))});
  ASSERT_TRUE(supervisor.Start().ok());
  ASSERT_TRUE(Eventually([&] { return !Read("grandchild").empty(); }));
  const int grandchild = std::stoi(Read("grandchild"));
  supervisor.Stop(absl::Milliseconds(100));
  EXPECT_EQ(supervisor.States()[0].pid, 0);
  // The process is gone, or a zombie that is not reaped yet.
  EXPECT_TRUE(Eventually([&] {
    if (kill(grandchild, 0) != 0) return true;
    std::ifstream in(absl::StrCat("/proc/", grandchild, "/stat"));
    const std::string stat{std::istreambuf_iterator<char>(in), {}};
    return stat.find(") Z") != std::string::npos;
  }));
}

TEST_F(SupervisorTest, CleansUpAfterAKilledChild) {
  ChildSpec child = Shell("a", absl::StrCat("touch ", folder_.path(), "/left; exec sleep 1000"));
  child.clean_up = {"/bin/rm", folder_.path("left")};
  Supervisor supervisor({child});
  ASSERT_TRUE(supervisor.Start().ok());
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_.path("left")); }));
  ASSERT_EQ(::kill(supervisor.States()[0].pid, SIGKILL), 0);
  supervisor.Stop(absl::Seconds(10));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("left")));
  EXPECT_EQ(supervisor.States()[0].pid, 0);
}

TEST_F(SupervisorTest, AProgramThatIsNotThereIsNamed) {
  ChildSpec missing = Shell("b", "");
  missing.command = {folder_.path("nothing-here")};
  Supervisor supervisor({Shell("a", "exec sleep 1000"), missing});
  const absl::Status status = supervisor.Start();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("nothing-here"));
  EXPECT_EQ(supervisor.States()[0].pid, 0);  // nothing is left running
}

TEST_F(SupervisorTest, TheStateFileSurvivesTheTrip) {
  ClusterState state;
  state.supervisor = 7;
  state.controller = "127.0.0.1:1";
  state.processes.push_back({"relay", 8, 2, 9, "x.log"});
  ASSERT_TRUE(WriteStateFile(folder_.path(), state).ok());
  auto read = ReadStateFile(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->controller, "127.0.0.1:1");
  ASSERT_EQ(read->processes.size(), 1u);
  EXPECT_EQ(read->processes[0].restarts, 2);
  RemoveStateFile(folder_.path());
  EXPECT_TRUE(absl::IsNotFound(ReadStateFile(folder_.path()).status()));
}

}  // namespace
}  // namespace baton::cli
