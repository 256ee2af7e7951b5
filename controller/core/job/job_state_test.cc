#include "controller/core/job/job_state.h"

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

std::vector<Job::State> AllStates() {
  std::vector<Job::State> states;
  for (int i = 1; i < Job::State_ARRAYSIZE; ++i) states.push_back(static_cast<Job::State>(i));
  return states;
}

// The rows "| FROM | trigger | TO |" of docs/state-machines.md.
std::map<std::pair<std::string, std::string>, std::string> Documented() {
  std::ifstream in("docs/state-machines.md");
  std::map<std::pair<std::string, std::string>, std::string> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 5) continue;
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    if (cells[1] == "from" || cells[1].find("--") == 0) continue;
    rows[{cells[1], cells[2]}] = cells[3];
  }
  return rows;
}

TEST(JobStateTest, TransitionsMatchTheDocumentedTable) {
  const auto documented = Documented();
  size_t found = 0;
  for (Job::State state : AllStates()) {
    for (JobTrigger trigger : kAllJobTriggers) {
      const auto next = NextJobState(state, trigger, Job::STATE_UNSPECIFIED);
      const auto row =
          documented.find({std::string(StateName(state)), std::string(TriggerName(trigger))});
      ASSERT_EQ(next.has_value(), row != documented.end())
          << StateName(state) << " on " << TriggerName(trigger);
      if (!next.has_value()) continue;
      ++found;
      EXPECT_EQ(row->second, *next == Job::STATE_UNSPECIFIED ? "what it stops as"
                                                             : std::string(StateName(*next)));
    }
  }
  EXPECT_EQ(found, documented.size());
}

TEST(JobStateTest, OnlyAResumeLeavesATerminalStateAndNothingLeavesSuccess) {
  for (Job::State state : AllStates()) {
    if (!IsTerminal(state)) continue;
    for (JobTrigger trigger : kAllJobTriggers) {
      const bool goes_on = trigger == JobTrigger::kResume && state != Job::STATE_SUCCEEDED;
      EXPECT_EQ(NextJobState(state, trigger, Job::STATE_FAILED).has_value(), goes_on)
          << StateName(state) << " on " << TriggerName(trigger);
    }
  }
}

TEST(JobStateTest, EveryStateThatIsNotTerminalCanBeCancelled) {
  for (Job::State state : AllStates()) {
    if (IsTerminal(state) || state == Job::STATE_STOPPING) continue;
    EXPECT_TRUE(NextJobState(state, JobTrigger::kCancel, Job::STATE_CANCELLED).has_value())
        << StateName(state);
  }
}

}  // namespace
}  // namespace baton::controller
