#include "controller/core/workers/group_commands.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using Answer = GroupCommands::Answer;

const absl::Time kIssued = absl::FromUnixSeconds(1000);

// An actor of two ranks on workers "a0" and "a1", and a critic of one.
struct TwoRanks {
  TwoRanks() {
    const auto job = SubmittedJob(
        "kind: JOB_KIND_RL actor { parallel { dp: 2 } } resources { rollout_workers: 1 }");
    roster = Roster(job->effective_spec(), job->dataflow());
    groups = RankGroups(job->effective_spec(), job->dataflow());
    commands = GroupCommands(groups.all().size());
    for (RoleSlot& slot : roster.slots()) {
      slot.worker = slot.role == "actor" ? absl::StrCat("a", slot.rank) : slot.role;
      slot.state = SlotState::kReady;
      slot.present = true;
    }
  }
  const Group& actor() const { return groups.actor(); }
  std::vector<StartTask> Command(TaskKind kind) {
    commands.Issue(kind, actor(), out);
    for (const RoleSlot& slot : roster.slots()) {
      if (slot.role == "actor") commands.Send(actor(), slot, {}, out);
    }
    return TakeAll<StartTask>(out);
  }
  Answer Reply(uint32_t rank, absl::Status status = absl::OkStatus()) {
    TaskDone done;
    done.worker = absl::StrCat("a", rank);
    done.ref = commands.RefOf(actor(), out);
    done.status = std::move(status);
    done.output.metrics["rank"] = rank;
    return commands.Take(actor(), rank, done);
  }
  v1::Wait FirstWait() const {
    v1::ExplainJobResponse said;
    WaitList waits(kIssued, &said);
    commands.Explain(actor(), /*not_yet=*/"", kIssued, roster, absl::Minutes(60), /*step=*/1,
                     waits);
    return said.waits(0);
  }
  std::string WhatItWaitsFor() const { return FirstWait().cause(); }
  EffectSink out = SinkAt(kIssued);
  Roster roster;
  RankGroups groups;
  GroupCommands commands;
};

TEST(GroupCommandsTest, ACommandIsDoneOnceAllRanksHaveAnsweredAndIsAcknowledgedThen) {
  TwoRanks world;
  const std::vector<StartTask> sent = world.Command(TaskKind::kUpdate);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].args.rank, 1u);
  EXPECT_EQ(sent[0].args.sequence, 1u);
  EXPECT_EQ(world.Reply(1), Answer::kWaits);
  EXPECT_TRUE(TakeAll<AckResult>(world.out).empty());
  EXPECT_EQ(world.Reply(0), Answer::kDone);
  EXPECT_EQ(world.commands.Complete(world.actor(), world.out).at("rank"), 0) << "rank 0 reports";
  EXPECT_EQ(TakeAll<AckResult>(world.out).size(), 2u);
  EXPECT_FALSE(world.commands.Any());
  EXPECT_EQ(world.Command(TaskKind::kPublish)[0].args.sequence, 2u);
}

TEST(GroupCommandsTest, InterpretsAnAnswerByItsStatus) {
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

TEST(GroupCommandsTest, ACommandWithoutRoomIsIssuedAgainUnderItsNumberAndAnotherAttempt) {
  TwoRanks world;
  const TaskRef first = world.Command(TaskKind::kSaveCheckpoint)[0].ref;
  TaskDone full;
  full.worker = "a0";
  full.ref = first;
  full.status = absl::ResourceExhaustedError("disk full");
  world.commands.TryLater(full, absl::Seconds(2), world.out);
  EXPECT_TRUE(world.commands.room().Waits(kIssued));
  EXPECT_TRUE(world.commands.room().RetryDue(kIssued + absl::Seconds(2)));
  const TaskRef second = world.Command(TaskKind::kSaveCheckpoint)[0].ref;
  EXPECT_EQ(second.subject, first.subject);
  EXPECT_EQ(second.attempt, first.attempt + 1);
}

TEST(GroupCommandsTest, TheRankThatOwesAnAnswerIsOverdueAndNoOther) {
  TwoRanks world;
  world.Command(TaskKind::kUpdate);
  ASSERT_EQ(world.Reply(0), Answer::kWaits);
  const absl::Duration limit = absl::Minutes(60);
  world.out.Begin(kIssued + limit);
  EXPECT_FALSE(
      world.commands.FindOverdue(limit, world.groups, world.roster, world.out).has_value());
  world.out.Begin(kIssued + limit + absl::Seconds(1));
  EXPECT_EQ(world.commands.FindOverdue(limit, world.groups, world.roster, world.out)->worker, "a1");
  // The rank was cut off and is back with the command: its hour begins anew.
  world.commands.Returned(world.actor(), /*rank=*/1, /*has_command=*/true, world.out);
  EXPECT_FALSE(
      world.commands.FindOverdue(limit, world.groups, world.roster, world.out).has_value());
}

// One step is done.
TEST(GroupCommandsTest, AnUpdateIsOfTheNextStepAndACheckpointOfTheOneThatIsDone) {
  TwoRanks updates, publishes, saves;
  updates.Command(TaskKind::kUpdate);
  EXPECT_EQ(updates.FirstWait().subject(), "step 2");
  publishes.Command(TaskKind::kPublish);
  EXPECT_EQ(publishes.FirstWait().subject(), "step 1");
  saves.Command(TaskKind::kSaveCheckpoint);
  EXPECT_EQ(saves.FirstWait().subject(), "step 1");
}

TEST(GroupCommandsTest, RestoresACommandFromItsRowAsUnsent) {
  TwoRanks world;
  world.Command(TaskKind::kUpdate);
  store::v1::JobRow row;
  world.groups.Save(&row);
  world.commands.Save(&row);
  TwoRanks again;
  again.groups.Restore(row);
  again.commands.Restore(row, again.groups);
  ASSERT_TRUE(again.commands.Any(TaskKind::kUpdate));
  EXPECT_EQ(again.commands.Of(again.actor())->sequence, 1u);
  EXPECT_TRUE(again.commands.Of(again.actor())->sent.empty());
  // The command was never sent, so `why` names no worker that would have to answer it.
  EXPECT_EQ(again.WhatItWaitsFor(),
            "its batch, which is made again after a restart of the controller");
  again.commands.Returned(again.actor(), /*rank=*/1, /*has_command=*/true, again.out);
  EXPECT_EQ(again.WhatItWaitsFor(), "worker a0, a1 to finish update");
}

TEST(GroupCommandsTest, ANewGenerationCountsItsCommandsFromOneAndForgetsTheOldOne) {
  TwoRanks world;
  world.Command(TaskKind::kPublish);
  ASSERT_EQ(world.Reply(0), Answer::kWaits);
  ASSERT_EQ(world.Reply(1), Answer::kDone);
  world.commands.Complete(world.actor(), world.out);
  world.Command(TaskKind::kUpdate);
  ASSERT_EQ(world.Reply(0), Answer::kWaits);
  TakeAll<AckResult>(world.out);
  world.commands.Restart(world.actor(), world.out);
  EXPECT_EQ(TakeAll<AckResult>(world.out).size(), 1u) << "rank 0 need not answer again";
  EXPECT_FALSE(world.commands.Any());
  EXPECT_EQ(world.Command(TaskKind::kPublish)[0].args.sequence, 1u);
}

// Otherwise the late acknowledgement of an old answer could be taken for that of a new one.
TEST(GroupCommandsTest, NoTwoCommandsOfAGroupHaveOneName) {
  TwoRanks world;
  std::set<TaskRef> names;
  for (int group_epoch = 0; group_epoch < 3; ++group_epoch) {
    names.insert(world.Command(TaskKind::kPublish)[0].ref);
    ASSERT_EQ(world.Reply(0), Answer::kWaits);
    ASSERT_EQ(world.Reply(1), Answer::kDone);
    world.commands.Complete(world.actor(), world.out);
    names.insert(world.Command(TaskKind::kSaveCheckpoint)[0].ref);
    world.commands.Restart(world.actor(), world.out);
  }
  EXPECT_EQ(names.size(), 6u);
}

TEST(GroupCommandsTest, IgnoresAnswersOfABrokenGroup) {
  TwoRanks world;
  world.Command(TaskKind::kUpdate);
  ASSERT_EQ(world.Reply(0), Answer::kWaits);
  TaskDone lost;
  lost.worker = "a0";
  lost.ref.kind = TaskKind::kUpdate;
  lost.status = absl::UnavailableError("rank 1 is gone");
  ASSERT_TRUE(world.groups.Break(world.actor(), lost, JobCoreOptions(), world.out).ok());
  EXPECT_EQ(world.Reply(1), Answer::kWaits) << "its weights may differ from those of rank 0";
}

}  // namespace
}  // namespace baton::controller
