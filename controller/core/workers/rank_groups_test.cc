#include "controller/core/workers/rank_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

const absl::Time kThen = absl::FromUnixSeconds(1000);

// An actor of two ranks, and a critic of one.
struct TwoGroups {
  const Group& actor() const { return groups.actor(); }
  EffectSink out = SinkAt(kThen);
  std::shared_ptr<const v1::Job> job = SubmittedJob(
      "kind: JOB_KIND_RL actor { parallel { dp: 2 } } resources { rollout_workers: 1 }");
  RankGroups groups{job->effective_spec(), job->dataflow()};
  JobCoreOptions options;
};

TEST(RankGroupsTest, WeightsOfANewGenerationAreANewVersion) {
  TwoGroups world;
  PolicyVersions versions;
  world.groups.BeginEpoch(world.actor(), versions, world.out);
  EXPECT_EQ(world.actor().group_epoch, 2u);
  EXPECT_EQ(versions.newest(), 1u);
  const Group& critic = world.groups.all()[1];
  EXPECT_EQ(critic.index, 1u);
  world.groups.BeginEpoch(critic, versions, world.out);
  EXPECT_EQ(critic.VersionIn(versions), 1u);
  EXPECT_EQ(versions.newest(), 1u) << "the critic's weights are not the policy's";
}

TEST(RankGroupsTest, AGroupThatDoesNotGetPastAStepFailsTheJob) {
  TwoGroups world;
  TaskDone lost;
  lost.worker = "a1";
  lost.ref.kind = TaskKind::kUpdate;
  lost.status = absl::UnavailableError("rank 0 is gone");
  for (uint32_t i = 1; i < world.options.max_attempts; ++i) {
    EXPECT_TRUE(world.groups.Break(world.actor(), lost, world.options, world.out).ok()) << i;
  }
  const absl::Status status = world.groups.Break(world.actor(), lost, world.options, world.out);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 is gone"));
}

TEST(RankGroupsTest, ABrokenGroupWaitsUntilTheLostRankMustBeKnown) {
  TwoGroups world;
  TaskDone lost;
  lost.worker = "a1";
  lost.ref.kind = TaskKind::kUpdate;
  lost.status = absl::UnavailableError("rank 0 is gone");
  ASSERT_TRUE(world.groups.Break(world.actor(), lost, world.options, world.out).ok());
  const absl::Duration delay = world.options.regroup_delay;
  EXPECT_FALSE(world.groups.TakeBroken(world.actor(), delay, kThen + delay).has_value());
  // Nothing could be written meanwhile: a lease cannot have ended either.
  world.groups.Delay(absl::Hours(1), kThen + absl::Hours(1));
  EXPECT_FALSE(world.groups.TakeBroken(world.actor(), delay, kThen + absl::Hours(1)).has_value());
  const absl::Time later = kThen + absl::Hours(1) + delay + absl::Seconds(1);
  EXPECT_THAT(world.groups.TakeBroken(world.actor(), delay, later).value(),
              HasSubstr("rank 0 is gone"));
  EXPECT_FALSE(world.actor().broken.has_value());
}

// The group broke in step 1 and got past it; in step 3 its failures count from zero.
TEST(RankGroupsTest, AnUpdateThatIsDoneEndsTheCountOfFailures) {
  TwoGroups world;
  TaskDone lost;
  lost.worker = "a1";
  lost.ref.kind = TaskKind::kUpdate;
  lost.status = absl::UnavailableError("rank 0 is gone");
  ASSERT_TRUE(world.groups.Break(world.actor(), lost, world.options, world.out).ok());
  EXPECT_EQ(world.actor().failures, 1u);
  world.groups.GotPast(world.actor(), /*step=*/-1);
  EXPECT_EQ(world.actor().failures, 1u) << "of an update before the one that broke";
  world.groups.GotPast(world.actor(), /*step=*/0);
  EXPECT_EQ(world.actor().failures, 0u);
}

}  // namespace
}  // namespace baton::controller
