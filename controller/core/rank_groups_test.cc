#include "controller/core/rank_groups.h"

#include "controller/core/parts_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using Answer = RankGroups::Answer;

const absl::Time kThen = absl::FromUnixSeconds(1000);

// An actor of two ranks on workers "a0" and "a1", and a critic of one.
struct TwoRanks {
  TwoRanks() {
    const auto job = SubmittedJob(
        "kind: JOB_KIND_RL actor { parallel { dp: 2 } } resources { rollout_workers: 1 }");
    roster = Roster(job->effective_spec(), job->dataflow());
    groups = RankGroups(job->effective_spec(), job->dataflow());
    for (Slot& slot : roster.slots()) {
      slot.worker = slot.role == "actor" ? absl::StrCat("a", slot.rank) : slot.role;
      slot.state = SlotState::kReady;
      slot.present = true;
    }
  }
  const Group& actor() const { return groups.actor(); }
  std::vector<StartTask> Command(TaskKind kind) {
    groups.Issue(kind, actor(), out);
    for (const Slot& slot : roster.slots()) {
      if (slot.role == "actor") groups.Send(actor(), slot, {}, out);
    }
    return TakeAll<StartTask>(out);
  }
  Answer Reply(uint32_t rank, absl::Status status = absl::OkStatus()) {
    TaskDone done;
    done.worker = absl::StrCat("a", rank);
    done.ref = groups.RefOf(actor(), out);
    done.status = std::move(status);
    done.output.metrics["rank"] = rank;
    return groups.Take(actor(), rank, done);
  }
  EffectSink out = SinkAt(kThen);
  Roster roster;
  RankGroups groups;
  JobCoreOptions options;
};

TEST(RankGroupsTest, ACommandIsDoneOnceAllRanksHaveAnsweredAndIsAcknowledgedThen) {
  TwoRanks world;
  const std::vector<StartTask> sent = world.Command(TaskKind::kUpdate);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].args.rank, 1u);
  EXPECT_EQ(sent[0].args.sequence, 1u);
  EXPECT_EQ(world.Reply(1), Answer::kWaits);
  EXPECT_TRUE(TakeAll<AckResult>(world.out).empty());
  EXPECT_EQ(world.Reply(0), Answer::kDone);
  EXPECT_EQ(world.groups.Complete(world.actor(), world.out).at("rank"), 0) << "rank 0 reports";
  EXPECT_EQ(TakeAll<AckResult>(world.out).size(), 2u);
  EXPECT_FALSE(world.groups.Commanded());
  EXPECT_EQ(world.Command(TaskKind::kPublish)[0].args.sequence, 2u);
}

TEST(RankGroupsTest, AnAnswerMeansWhatItsStatusSays) {
  TwoRanks world;
  world.Command(TaskKind::kPublish);
  EXPECT_EQ(world.Reply(0, absl::ResourceExhaustedError("disk")), Answer::kNoRoom);
  EXPECT_EQ(world.Reply(0, absl::UnavailableError("rank 1 is gone")), Answer::kBreaks);
  EXPECT_EQ(world.Reply(0, absl::InvalidArgumentError("no")), Answer::kFails);
  world.Command(TaskKind::kUpdate);
  EXPECT_EQ(world.Reply(0, absl::ResourceExhaustedError("GPU")), Answer::kFails)
      << "memory of a GPU stays full";
  world.Command(TaskKind::kToGeneration);
  EXPECT_EQ(world.Reply(0, absl::ResourceExhaustedError("GPU")), Answer::kBreaks)
      << "the other rank gathered its part";
}

TEST(RankGroupsTest, ACommandWithoutRoomIsIssuedAgainUnderItsNumberAndAnotherAttempt) {
  TwoRanks world;
  const TaskRef first = world.Command(TaskKind::kSaveCheckpoint)[0].ref;
  TaskDone full;
  full.worker = "a0";
  full.ref = first;
  full.status = absl::ResourceExhaustedError("disk full");
  world.groups.TryLater(full, absl::Seconds(2), world.out);
  EXPECT_TRUE(world.groups.room().Waits(kThen));
  EXPECT_TRUE(world.groups.room().RetryDue(kThen + absl::Seconds(2)));
  const TaskRef second = world.Command(TaskKind::kSaveCheckpoint)[0].ref;
  EXPECT_EQ(second.subject, first.subject);
  EXPECT_EQ(second.attempt, first.attempt + 1);
}

TEST(RankGroupsTest, ANewGenerationCountsItsCommandsFromOneAndItsWeightsOn) {
  TwoRanks world;
  PolicyVersions versions;
  world.Command(TaskKind::kUpdate);
  world.groups.BeginGeneration(world.actor(), versions, world.out);
  EXPECT_EQ(world.actor().generation, 2u);
  EXPECT_FALSE(world.groups.Commanded());
  EXPECT_EQ(versions.newest(), 1u);
  EXPECT_EQ(world.Command(TaskKind::kPublish)[0].args.sequence, 1u);
  const Group& critic = world.groups.all()[1];
  world.groups.BeginGeneration(critic, versions, world.out);
  EXPECT_EQ(critic.VersionIn(versions), 1u);
  EXPECT_EQ(versions.newest(), 1u) << "the critic's weights are not the policy's";
}

TEST(RankGroupsTest, AGroupThatDoesNotGetPastAStepFailsTheJob) {
  TwoRanks world;
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
  TwoRanks world;
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

TEST(RankGroupsTest, TheRankThatOwesAnAnswerIsOverdueAndNoOther) {
  TwoRanks world;
  world.Command(TaskKind::kUpdate);
  ASSERT_EQ(world.Reply(0), Answer::kWaits);
  const absl::Duration limit = absl::Minutes(60);
  world.out.Begin(kThen + limit);
  EXPECT_FALSE(world.groups.FindOverdue(limit, world.roster, world.out).has_value());
  world.out.Begin(kThen + limit + absl::Seconds(1));
  EXPECT_EQ(world.groups.FindOverdue(limit, world.roster, world.out)->worker, "a1");
  // It was cut off and is back with the command: its hour begins anew.
  world.groups.Returned(*world.roster.Find("a1", "actor"), /*has_command=*/true, world.out);
  EXPECT_FALSE(world.groups.FindOverdue(limit, world.roster, world.out).has_value());
}

TEST(RankGroupsTest, ItsRowBringsACommandBackWithoutWhoHasIt) {
  TwoRanks world;
  world.Command(TaskKind::kUpdate);
  world.groups.Report("actor/loss", 0.5);
  store::v1::JobRow row;
  world.groups.Save(&row);
  TwoRanks again;
  again.groups.Restore(row);
  ASSERT_TRUE(again.groups.Commanded(TaskKind::kUpdate));
  EXPECT_EQ(again.actor().command->sequence, 1u);
  EXPECT_TRUE(again.actor().command->sent.empty());
  EXPECT_EQ(again.groups.TakeReports().at("actor/loss"), 0.5);
}

}  // namespace
}  // namespace baton::controller
