#include "sdk/cli/cluster/up_children.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

UpFlags Flags() {
  UpFlags flags;
  flags.counts = {{"trainers", 1}, {"rollouts", 2}, {"rewards", 1}, {"scorers", 1}, {"workers", 1}};
  return flags;
}

std::vector<ChildSpec> Children(const UpFlags& flags) {
  ClusterState state;
  state.controller = "127.0.0.1:7077";
  state.relay = "127.0.0.1:7079";
  state.http = "127.0.0.1:7078";
  return UpChildren(flags, "/state", state);
}

// The value of an option in a process's command; "": it is not given.
std::string OptionOf(const ChildSpec& child, const std::string& option) {
  const auto found = std::find(child.command.begin(), child.command.end(), option);
  return found == child.command.end() ? "" : *(found + 1);
}

TEST(UpChildrenTest, TheRelayAndTheControllerComeBeforeTheWorkers) {
  std::vector<std::string> names;
  for (const ChildSpec& child : Children(Flags())) names.push_back(child.name);
  ASSERT_EQ(names.size(), 8u);
  names.resize(3);
  EXPECT_THAT(names, ElementsAre("relay", "controller", "actor-0"));
  EXPECT_EQ(OptionOf(Children(Flags())[1], "--up-workers"),
            "rewards=1,rollouts=2,scorers=1,trainers=1,workers=1");
}

TEST(UpChildrenTest, TrainersAndRolloutsGetTheirThreadsAndNoOtherProcess) {
  UpFlags flags = Flags();
  flags.threads = {{"trainers", 3}, {"rollouts", 2}};
  int trainers = 0, rollouts = 0;
  for (const ChildSpec& child : Children(flags)) {
    const std::string roles = OptionOf(child, "--roles");
    const bool trains = roles == "actor", generates = roles == "rollout";
    trainers += trains ? 1 : 0;
    rollouts += generates ? 1 : 0;
    EXPECT_EQ(OptionOf(child, "--threads"), trains ? "3" : generates ? "2" : "") << child.name;
  }
  EXPECT_EQ(trainers, 1);
  EXPECT_EQ(rollouts, 2);
}

TEST(UpChildrenTest, WorkersComputeWithOneThreadByDefault) {
  for (const ChildSpec& child : Children(Flags())) {
    const std::string threads = OptionOf(child, "--threads");
    EXPECT_TRUE(threads.empty() || threads == "1") << child.name;
  }
}

TEST(UpChildrenTest, AFakeWorkerHasNoThreadsAndRunsNoCommands) {
  UpFlags flags = Flags();
  flags.fake = true;
  for (const ChildSpec& child : Children(flags)) {
    EXPECT_EQ(OptionOf(child, "--threads"), "") << child.name;
    EXPECT_THAT(child.command, Not(Contains("--allow-commands"))) << child.name;
  }
}

}  // namespace
}  // namespace baton::cli
