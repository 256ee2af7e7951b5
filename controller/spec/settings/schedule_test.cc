#include "controller/spec/settings/schedule.h"

#include "controller/spec/dataflow/replay.h"
#include "controller/spec/job_spec/change_spec.h"
#include "controller/spec/job_spec/presets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::JobSpec Async() {
  v1::JobSpec spec = ExampleSpec("grpo");
  spec.clear_dataflow();
  spec.clear_resources();
  spec.mutable_algorithm()->set_mode("async");
  return spec;
}

TEST(ScheduleTest, DefaultsAreFilledInForAsyncAlone) {
  const CheckedSpec async = CheckSpec(Async());
  EXPECT_THAT(async.violations, IsEmpty());
  EXPECT_EQ(async.effective.schedule().max_staleness(), 1);
  EXPECT_EQ(async.effective.schedule().sampler(), "fifo");
  EXPECT_TRUE(IsAsync(async.effective, async.dataflow));
  EXPECT_EQ(ScheduleOf(async.effective).max_staleness, 1u);
  EXPECT_FALSE(ScheduleOf(async.effective).in_order);

  v1::JobSpec sync = Async();
  sync.mutable_algorithm()->clear_mode();
  const CheckedSpec checked = CheckSpec(sync);
  EXPECT_THAT(checked.violations, IsEmpty());
  EXPECT_EQ(checked.effective.algorithm().mode(), "sync");
  EXPECT_FALSE(checked.effective.has_schedule()) << "the effective spec stays what it was";
  EXPECT_FALSE(IsAsync(checked.effective, checked.dataflow));
}

TEST(ScheduleTest, BoundsAndNames) {
  v1::JobSpec spec = Async();
  spec.mutable_schedule()->set_max_staleness(0);
  spec.mutable_schedule()->set_sampler("in_order");
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_TRUE(ScheduleOf(CheckSpec(spec).effective).in_order);
  spec.mutable_schedule()->set_max_staleness(33);
  spec.mutable_schedule()->set_sampler("lifo");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.schedule.max_staleness", "33 is not in [0, 32]"),
                          Pair("spec.schedule.sampler", "'lifo' is not one of: fifo, in_order")));
  spec = Async();
  spec.mutable_schedule()->set_max_staleness(-1);
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.schedule.max_staleness", HasSubstr("-1"))));
  spec = Async();
  spec.mutable_algorithm()->set_mode("asynk");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.algorithm.mode", HasSubstr("sync, async"))));
}

TEST(ScheduleTest, AGroupMayGoOnWithoutItsStragglers) {
  v1::JobSpec spec = Async();
  spec.mutable_rollout()->set_n(5);
  EXPECT_EQ(ScheduleOf(CheckSpec(spec).effective).group_timeout, absl::InfiniteDuration());
  spec.mutable_schedule()->set_group_timeout_seconds(2.5);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  EXPECT_EQ(ScheduleOf(checked.effective).group_timeout, absl::Milliseconds(2500));
  EXPECT_EQ(ScheduleOf(checked.effective).min_group_size, 3u) << "half of them";
  spec.mutable_schedule()->set_min_group_size(1);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.schedule.min_group_size",
                               AllOf(HasSubstr("1 is not in [2, 5]"), HasSubstr("compared")))));
  spec.mutable_schedule()->set_min_group_size(6);
  spec.mutable_schedule()->set_group_timeout_seconds(0);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.schedule.group_timeout_seconds", "0 is not in [0.001, 86400]"),
                          Pair("spec.schedule.min_group_size", HasSubstr("6 is not in [2, 5]"))));
  spec.mutable_schedule()->clear_group_timeout_seconds();
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.schedule.min_group_size",
                                               HasSubstr("needs schedule.group_timeout_seconds"))));
}

TEST(ScheduleTest, ChecksThePace) {
  v1::JobSpec spec = Async();
  EXPECT_EQ(CheckSpec(spec).effective.schedule().pace(), "auto");
  EXPECT_TRUE(ScheduleOf(CheckSpec(spec).effective).paced);
  spec.mutable_schedule()->set_pace("off");
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_FALSE(ScheduleOf(CheckSpec(spec).effective).paced);
  spec.mutable_schedule()->set_pace("slow");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.schedule.pace", "'slow' is not one of: auto, off")));
}

TEST(ScheduleTest, ChecksTheBeginOrder) {
  v1::JobSpec spec = Async();
  EXPECT_EQ(CheckSpec(spec).effective.schedule().begin_order(), "data_order");
  spec.mutable_schedule()->set_begin_order("longest_first");
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_TRUE(ScheduleOf(CheckSpec(spec).effective).longest_first);
  spec.mutable_schedule()->set_sampler("in_order");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.schedule.begin_order", HasSubstr("sampler fifo"))));
  spec.mutable_schedule()->set_begin_order("random");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.schedule.begin_order",
                               "'random' is not one of: data_order, longest_first")));
}

TEST(ScheduleTest, AScheduleOfAnotherModeIsRefused) {
  v1::JobSpec spec = Async();
  spec.mutable_algorithm()->clear_mode();
  spec.mutable_schedule();
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.schedule", HasSubstr("mode: async"))));
}

TEST(ScheduleTest, RolloutsThatShareWorkersAreRefusedWithTheRemedy) {
  v1::JobSpec spec = Async();
  AddPool(&spec, {"rollout", "actor"});
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.algorithm.mode",
                               AllOf(HasSubstr("rollout, actor"), HasSubstr("pool of its own")))));
  spec = Async();
  AddPool(&spec, {"rollout", "reward"});
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.algorithm.mode", HasSubstr("rollout, reward"))));
  spec = Async();
  AddPool(&spec, {"actor", "reward"});
  AddPool(&spec, {"rollout"});
  EXPECT_THAT(Problems(spec), IsEmpty()) << "these may share: rollouts wait for neither";
}

TEST(ScheduleTest, RefusesAsyncForSft) {
  v1::JobSpec sft = ExampleSpec("sft");
  sft.mutable_algorithm()->set_mode("async");
  EXPECT_THAT(Problems(sft), ElementsAre(Pair("spec.algorithm.mode", HasSubstr("kind rl"))));
}

TEST(ScheduleTest, AReplayOfAnAsyncJobGeneratesNothing) {
  const CheckedSpec checked = CheckSpec(Async());
  store::v1::JobRow row;
  *row.mutable_job()->mutable_effective_spec() = checked.effective;
  *row.mutable_job()->mutable_dataflow() = checked.dataflow;
  MakeReplay(3, &row);
  EXPECT_FALSE(IsAsync(row.job().effective_spec(), row.job().dataflow()));
}

TEST(ScheduleTest, TheModeOfACheckpointStays) {
  EXPECT_THAT(WhyFixed("algorithm.mode"), HasSubstr("prompt cursor"));
  EXPECT_EQ(WhyFixed("schedule.max_staleness"), "");
}

}  // namespace
}  // namespace baton::controller
