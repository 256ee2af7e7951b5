#include "sdk/cli/shared/state_file.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::cli {
namespace {

class StateFileTest : public ::testing::Test {
 protected:
  const TestFolder folder_;
};

TEST_F(StateFileTest, ReadsBackWhatWasWritten) {
  EXPECT_TRUE(absl::IsNotFound(ReadStateFile(folder_.path()).status()));
  ClusterState state;
  state.supervisor = 7;
  state.controller = "127.0.0.1:1";
  state.ready = true;
  state.processes = {{"actor-0", 8, 1, 1000, "/logs/actor-0.log"}};
  ASSERT_TRUE(WriteStateFile(folder_.path(), state).ok());
  const auto read = ReadStateFile(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->controller, state.controller);
  ASSERT_EQ(read->processes.size(), 1u);
  EXPECT_EQ(read->processes[0].log, "/logs/actor-0.log");
}

TEST_F(StateFileTest, AValueOfAnotherTypeIsAnErrorThatNamesTheFile) {
  for (const char* text : {R"({"supervisor": "7"})", R"({"processes": [1]})",
                           R"({"processes": {"name": 1}})", "[]", "{"}) {
    folder_.Write("state.json", text);
    const absl::Status read = ReadStateFile(folder_.path()).status();
    EXPECT_TRUE(absl::IsDataLoss(read)) << text << ": " << read;
    EXPECT_THAT(std::string(read.message()), ::testing::HasSubstr(folder_.path())) << text;
  }
}

// The state file of a supervisor that was killed names a pid that may be anybody's by now.
TEST_F(StateFileTest, TheLockEndsWithItsHolderAndNotWithAPid) {
  EXPECT_FALSE(IsUp(folder_.path()));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    const auto lock = StateLock::Take(folder_.path());
    if (!lock.ok() || write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(IsUp(folder_.path()));
  EXPECT_EQ(StateLock::Take(folder_.path()).status().code(), absl::StatusCode::kFailedPrecondition);
  ClusterState state;
  state.supervisor = getpid();  // alive, and no supervisor
  ASSERT_TRUE(WriteStateFile(folder_.path(), state).ok());
  kill(supervisor, SIGKILL);
  waitpid(supervisor, nullptr, 0);
  EXPECT_FALSE(IsUp(folder_.path()));
  EXPECT_TRUE(StateLock::Take(folder_.path()).ok());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace baton::cli
