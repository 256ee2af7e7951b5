#include "sdk/cli/state_file.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

class StateFileTest : public ::testing::Test {
 protected:
  StateFileTest() {
    char folder[] = "/tmp/baton-state-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~StateFileTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(StateFileTest, WhatIsWrittenIsRead) {
  EXPECT_TRUE(absl::IsNotFound(ReadStateFile(folder_).status()));
  ClusterState state;
  state.supervisor = 7;
  state.controller = "127.0.0.1:1";
  state.ready = true;
  state.processes = {{"actor-0", 8, 1, 1000, "/logs/actor-0.log"}};
  ASSERT_TRUE(WriteStateFile(folder_, state).ok());
  const auto read = ReadStateFile(folder_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->controller, state.controller);
  ASSERT_EQ(read->processes.size(), 1u);
  EXPECT_EQ(read->processes[0].log, "/logs/actor-0.log");
}

TEST_F(StateFileTest, AValueOfAnotherTypeIsAnErrorThatNamesTheFile) {
  for (const char* text : {R"({"supervisor": "7"})", R"({"processes": [1]})",
                           R"({"processes": {"name": 1}})", "[]", "{"}) {
    std::ofstream(folder_ + "/state.json") << text;
    const absl::Status read = ReadStateFile(folder_).status();
    EXPECT_TRUE(absl::IsDataLoss(read)) << text << ": " << read;
    EXPECT_THAT(std::string(read.message()), ::testing::HasSubstr(folder_)) << text;
  }
}

// The state file of a supervisor that was killed names a pid that may be anybody's by now.
TEST_F(StateFileTest, TheLockEndsWithItsHolderAndNotWithAPid) {
  EXPECT_FALSE(IsUp(folder_));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    const auto lock = StateLock::Take(folder_);
    if (!lock.ok() || write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(IsUp(folder_));
  EXPECT_EQ(StateLock::Take(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
  ClusterState state;
  state.supervisor = getpid();  // alive, and no supervisor
  ASSERT_TRUE(WriteStateFile(folder_, state).ok());
  kill(supervisor, SIGKILL);
  waitpid(supervisor, nullptr, 0);
  EXPECT_FALSE(IsUp(folder_));
  EXPECT_TRUE(StateLock::Take(folder_).ok());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace baton::cli
