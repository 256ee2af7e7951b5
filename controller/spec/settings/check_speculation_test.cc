#include "controller/spec/settings/check_speculation.h"

#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::JobSpec Grpo() {
  v1::JobSpec spec = ExampleSpec("grpo");
  spec.clear_dataflow();
  spec.clear_resources();
  return spec;
}

v1::SpeculationSpec* SpeculationOf(v1::JobSpec* spec) {
  return spec->mutable_rollout()->mutable_speculation();
}

TEST(CheckSpeculationTest, DefaultsAreFilledIn) {
  const CheckedSpec checked = CheckSpec(Grpo());
  EXPECT_THAT(checked.violations, IsEmpty());
  const v1::SpeculationSpec& speculation = checked.effective.rollout().speculation();
  EXPECT_EQ(speculation.mode(), "auto");
  EXPECT_EQ(speculation.max_draft_tokens(), 128);
  EXPECT_EQ(speculation.half_life_updates(), 64);
  EXPECT_EQ(speculation.cache_bytes(), int64_t{1} << 30);
  EXPECT_TRUE(speculation.has_run_ahead());
  EXPECT_FALSE(RunsAhead(checked.effective));
  EXPECT_FALSE(speculation.has_seed_from());
  EXPECT_EQ(SeedJob(checked.effective), "");
}

TEST(CheckSpeculationTest, BoundsAndNames) {
  v1::JobSpec spec = Grpo();
  SpeculationOf(&spec)->set_mode("on");
  SpeculationOf(&spec)->set_max_draft_tokens(0);
  SpeculationOf(&spec)->set_half_life_updates(-1);
  SpeculationOf(&spec)->set_cache_bytes(1);
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(
          Pair("spec.rollout.speculation.mode", "'on' is not one of: auto, off"),
          Pair("spec.rollout.speculation.max_draft_tokens", "0 is not in [1, 4096]"),
          Pair("spec.rollout.speculation.half_life_updates", "-1 is not in [0, 1000000000]"),
          Pair("spec.rollout.speculation.cache_bytes", "1 is not in [1048576, 1125899906842624]")));
}

TEST(CheckSpeculationTest, RunningAheadNeedsGuessesAndWorkersOfTheirOwn) {
  v1::JobSpec spec = Grpo();
  SpeculationOf(&spec)->set_run_ahead(true);
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_TRUE(RunsAhead(CheckSpec(spec).effective));
  SpeculationOf(&spec)->set_mode("off");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.rollout.speculation.run_ahead",
                                               HasSubstr("needs mode: auto"))));
  SpeculationOf(&spec)->clear_mode();
  spec.mutable_resources()->set_placement("colocate");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.rollout.speculation.run_ahead",
                                               HasSubstr("a pool of its own"))));
}

TEST(CheckSpeculationTest, ASeedIsAJob) {
  v1::JobSpec spec = Grpo();
  SpeculationOf(&spec)->set_seed_from("job:first");
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_EQ(SeedJob(CheckSpec(spec).effective), "first");
  for (const char* name : {"first", "job:", "job:first@best", "job:../first", ""}) {
    SpeculationOf(&spec)->set_seed_from(name);
    EXPECT_THAT(Problems(spec),
                ElementsAre(Pair("spec.rollout.speculation.seed_from",
                                 HasSubstr("is not the name of a job; write job:NAME"))))
        << name;
    EXPECT_EQ(SeedJob(CheckSpec(spec).effective), "") << "it is not looked up";
  }
  SpeculationOf(&spec)->set_seed_from("job:first");
  SpeculationOf(&spec)->set_mode("off");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.rollout.speculation.seed_from",
                                               HasSubstr("needs mode: auto"))));
}

}  // namespace
}  // namespace baton::controller
