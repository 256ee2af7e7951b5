// Simulated worlds whose jobs draw their prompts from several files.
#include "controller/spec/job_spec/spec.h"
#include "controller/spec/settings/train_mix.h"
#include "gtest/gtest.h"
#include "tests/simulation/parts/model.h"
#include "tests/simulation/runner.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {
namespace {

// A sanitizer takes ten times as long, and looks for other faults than broken rules.
#ifdef BATON_SANITIZED
constexpr uint64_t kMixStride = 5;
#else
constexpr uint64_t kMixStride = 1;
#endif

TEST(MixWorldTest, SomeJobsOfSomeWorldsMixFiles) {
  int mixed = 0, changing = 0, rl = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const JobPlan& plan : MakeScenario(seed).jobs) {
      rl += plan.sft ? 0 : 1;
      if (plan.mix.empty()) continue;
      const controller::CheckedSpec checked = controller::CheckSpec(SpecOf(plan));
      ASSERT_TRUE(checked.violations.empty()) << checked.violations[0].DebugString();
      EXPECT_EQ(PromptsOf(checked.effective).size(), kTrainSize);
      ++mixed;
      changing += controller::PhasesOf(checked.effective.data()).size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(mixed, rl / 4);
  EXPECT_LT(mixed, rl / 2);
  EXPECT_GT(changing, mixed / 4);
}

// Easy to hard, in every job that generates: nothing is skipped, and nothing is drawn twice.
// They wait, give their workers back after a while, and begin once there is room.
TEST(DataRoomTest, JobsWaitUntilThereIsRoomForTheirData) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults = {{FaultKind::kNoDataRoom, absl::ZeroDuration(), absl::Seconds(30), 0}};
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("data that found no room"), 100u);
}

TEST(MixWorldTest, JobsContinueDespiteFaults) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 60; seed += kMixStride) {
    Scenario scenario = MakeScenario(seed);
    for (JobPlan& plan : scenario.jobs) {
      if (plan.sft) continue;
      plan.steps = 5;
      plan.mix.assign(3, v1::FileMixSpec());
      plan.mix[0].set_to_step(2);
      plan.mix[1].set_from_step(2);
      plan.mix[1].set_weight(2.5);
      plan.mix[2].set_from_step(4);
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace baton::simulation
