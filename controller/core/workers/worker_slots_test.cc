#include "controller/core/workers/worker_slots.h"

#include <optional>
#include <string>
#include <vector>

#include "controller/core/workers/slot_views.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const absl::Time kPlaced = absl::FromUnixSeconds(1000);

// An actor of two ranks, a critic and a reference that share a worker, a reward, two rollouts.
struct SlotsOfPpo {
  SlotsOfPpo()
      : job(SubmittedJob(R"(kind: JOB_KIND_RL actor { parallel { dp: 2 } }
          resources { rollout_workers: 2 reward_workers: 1
                      pools { roles: "critic" roles: "reference" } })")),
        slots(job->effective_spec(), job->dataflow(), options),
        groups(job->effective_spec(), job->dataflow()) {}

  std::vector<const RoleSlot*> Place(const std::string& worker, const std::string& roles) {
    WorkerGranted granted;
    granted.worker = worker;
    granted.roles = roles;
    return slots.Place(granted, out.now());
  }
  const RoleSlot& Assigned(const std::string& worker, const std::string& role) {
    const RoleSlot& slot = *slots.roster().Find(worker, role);
    slots.Assign(slot, {}, versions, out);
    return slot;
  }
  const RoleSlot& Ready(const std::string& worker, const std::string& role) {
    const RoleSlot& slot = Assigned(worker, role);
    slots.TookOn(slot, out.now());
    return slot;
  }
  std::optional<WorkerSlots::Loss> Lose(const std::string& worker) {
    return slots.Lose(worker, groups, versions, out.now());
  }
  // The kinds of the slots' waits.
  std::vector<std::string> Waits() const {
    v1::ExplainJobResponse why;
    WaitList waits(out.now(), &why);
    ExplainSlots(slots.roster(), versions, options, waits);
    std::vector<std::string> kinds;
    for (const v1::Wait& wait : why.waits()) kinds.push_back(wait.kind());
    return kinds;
  }

  JobCoreOptions options;
  std::shared_ptr<const v1::Job> job;
  EffectSink out = SinkAt(kPlaced);
  WorkerSlots slots;
  RankGroups groups;
  PolicyVersions versions;
};

TEST(WorkerSlotsTest, TheQueueIsToldWhatBlocksTheJobAndWhatMayNotMove) {
  SlotsOfPpo world;
  world.Place("a0", "actor");
  world.Place("r0", "rollout");
  world.out.Do(NeedOf(world.slots.roster(), world.groups));
  const NeedWorkers need = TakeAll<NeedWorkers>(world.out).at(0);
  EXPECT_THAT(need.missing, ElementsAre(Pair("actor", 1), Pair("critic+reference", 1),
                                        Pair("reward", 1), Pair("rollout", 1)));
  // A group needs its second rank; one of two rollouts is enough to go on with.
  EXPECT_THAT(need.hints.blocking, ElementsAre("actor", "critic+reference", "reward"));
  EXPECT_THAT(need.hints.anchored, ElementsAre("actor"));
}

TEST(WorkerSlotsTest, AWorkerIsPlacedInAllRolesOfItsWorkerSlotAndAWorkerSlotTakesOne) {
  SlotsOfPpo world;
  WorkerGranted granted;
  granted.worker = "c";
  granted.roles = "critic+reference";
  granted.credits["reference"] = 3;
  const std::vector<const RoleSlot*> worker_slot = world.slots.Place(granted, kPlaced);
  ASSERT_EQ(worker_slot.size(), 2u);
  for (const RoleSlot* slot : worker_slot) {
    EXPECT_EQ(slot->state, SlotState::kGathering);
    EXPECT_EQ(slot->credits, slot->role == "reference" ? 3 : 1) << slot->role;
  }
  EXPECT_TRUE(world.Place("d", "critic+reference").empty());
  EXPECT_FALSE(world.slots.roster().Has("d"));
}

TEST(WorkerSlotsTest, ASlotAwaitsTheAnswerOfItsNewestAttemptAlone) {
  SlotsOfPpo world;
  world.Place("w", "reward");
  const RoleSlot& slot = world.Assigned("w", "reward");
  const TaskRef first = slot.assigned;
  EXPECT_EQ(AwaitingSlot(world.slots.roster(), "w", first, world.versions), &slot);
  EXPECT_EQ(AwaitingSlot(world.slots.roster(), "other", first, world.versions), nullptr);
  world.slots.Assign(slot, {}, world.versions, world.out);
  EXPECT_EQ(AwaitingSlot(world.slots.roster(), "w", first, world.versions), nullptr)
      << "it was asked again";
  const TaskRef second = slot.assigned;
  world.slots.TookOn(slot, kPlaced);
  EXPECT_EQ(AwaitingSlot(world.slots.roster(), "w", second, world.versions), nullptr)
      << "it has answered";
}

TEST(WorkerSlotsTest, AWorkerGoesBackToTheQueueWithItsLastRole) {
  SlotsOfPpo world;
  world.Place("c", "critic+reference");
  const RoleSlot& critic = world.Ready("c", "critic");
  const RoleSlot& reference = world.Ready("c", "reference");
  world.slots.ReleaseAll(world.out);
  EXPECT_TRUE(world.slots.roster().AnyIn(SlotState::kReleasing));
  const std::vector<StartTask> told = TakeAll<StartTask>(world.out);
  ASSERT_EQ(told.size(), 4u) << "two assign_role, two release_role";
  EXPECT_EQ(told[2].ref.kind, TaskKind::kReleaseRole);
  world.slots.RepeatRelease(critic, world.out);
  EXPECT_EQ(TakeAll<StartTask>(world.out).at(0).ref, told[2].ref) << "either answer counts";
  world.slots.Leave(critic, world.versions, world.out);
  EXPECT_TRUE(TakeAll<ReturnWorker>(world.out).empty());
  world.slots.Leave(reference, world.versions, world.out);
  EXPECT_EQ(TakeAll<ReturnWorker>(world.out).at(0).worker, "c");
  EXPECT_FALSE(world.slots.roster().AnyIn(SlotState::kReleasing));
}

TEST(WorkerSlotsTest, ALossNamesTheRoleWhoseWeightsAreGone) {
  SlotsOfPpo world;
  world.Place("c", "critic+reference");
  world.Assigned("c", "critic");
  EXPECT_EQ(world.Lose("c")->trained, "") << "it had no weights yet";
  EXPECT_FALSE(world.Lose("c").has_value());
  world.Place("c", "critic+reference");
  world.Ready("c", "critic");
  world.Ready("c", "reference");
  const auto loss = world.Lose("c");
  EXPECT_EQ(loss->worker_slot, "critic+reference");
  EXPECT_THAT(loss->roles, ElementsAre("critic", "reference"));
  EXPECT_EQ(loss->trained, "critic");
  EXPECT_FALSE(loss->releasing);
}

// A group that broke because a rank is gone is not to blame.
TEST(WorkerSlotsTest, ALossExplainsWhyItsGroupBroke) {
  SlotsOfPpo world;
  world.Place("a0", "actor");
  TaskDone missed;
  missed.worker = "a1";
  missed.ref.kind = TaskKind::kUpdate;
  missed.status = absl::UnavailableError("rank 0 is gone");
  ASSERT_TRUE(world.groups.Break(world.groups.actor(), missed, world.options, world.out).ok());
  EXPECT_EQ(world.groups.actor().failures, 1u);
  world.Lose("a0");
  EXPECT_EQ(world.groups.actor().failures, 0u);
}

TEST(WorkerSlotsTest, EachWaitOfASlotHasItsDeadlineAndTimeLostCountsTowardsNone) {
  SlotsOfPpo world;
  world.Place("w", "reward");
  const RoleSlot& slot = world.Assigned("w", "reward");
  const absl::Time due = kPlaced + world.options.setup_deadline;
  EXPECT_FALSE(NextLate(world.slots.roster(), 0, world.versions, world.options, due).has_value());
  const auto late =
      NextLate(world.slots.roster(), 0, world.versions, world.options, due + absl::Seconds(1));
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->kind, TaskKind::kAssignRole);
  EXPECT_EQ(late->slot, world.slots.IndexOf(slot));
  EXPECT_FALSE(NextLate(world.slots.roster(), late->slot + 1, world.versions, world.options,
                        due + absl::Seconds(1))
                   .has_value());
  world.slots.Delay(absl::Minutes(1), due);
  EXPECT_FALSE(
      NextLate(world.slots.roster(), 0, world.versions, world.options, due + absl::Seconds(1))
          .has_value());
  world.slots.TookOn(slot, kPlaced);
  EXPECT_FALSE(
      NextLate(world.slots.roster(), 0, world.versions, world.options, absl::InfiniteFuture())
          .has_value());
  world.slots.ReleaseAll(world.out);
  const absl::Time gone = kPlaced + world.options.release_deadline + absl::Seconds(1);
  EXPECT_EQ(NextLate(world.slots.roster(), 0, world.versions, world.options, gone)->kind,
            TaskKind::kReleaseRole);
}

TEST(WorkerSlotsTest, ASlotSaysWhatItWaitsFor) {
  SlotsOfPpo world;
  EXPECT_TRUE(world.Waits().empty());
  world.Place("a0", "actor");
  EXPECT_THAT(world.Waits(), ElementsAre("gather"));
  const RoleSlot& slot = world.Assigned("a0", "actor");
  EXPECT_THAT(world.Waits(), ElementsAre("assign_role"));
  TakeAll<StopTask>(world.out);
  world.slots.Gather(slot, world.out);
  EXPECT_EQ(TakeAll<StopTask>(world.out).at(0).ref, slot.assigned) << "it is asked anew";
  world.slots.TookOn(slot, kPlaced);
  EXPECT_TRUE(world.Waits().empty());
  world.slots.ReleaseAll(world.out);
  EXPECT_THAT(world.Waits(), ElementsAre("release_role"));
}

TEST(WorkerSlotsTest, EmptyWorkerSlotsAreMissedSinceTheFirstOfThem) {
  SlotsOfPpo world;
  world.slots.Begin(kPlaced);
  for (const bool queued : {true, false}) {
    v1::ExplainJobResponse why;
    WaitList waits(kPlaced + absl::Seconds(30), &why);
    const absl::Time since = kPlaced + absl::Seconds(10);
    ExplainMissing(world.slots.roster(), "j1", queued ? std::optional(since) : std::nullopt, waits);
    ASSERT_EQ(why.waits_size(), 1);
    EXPECT_EQ(why.waits(0).since().seconds(), queued ? 20 : 30);
    EXPECT_EQ(why.waits(0).subject(), queued ? "job j1" : "a role");
    EXPECT_THAT(why.waits(0).cause(), HasSubstr("2 actor"));
  }
}

// A job that starts waits for one worker of every role; one that goes on for its ranks alone.
TEST(WorkerSlotsTest, AJobThatGoesOnNeedsTheRolesThatTrain) {
  SlotsOfPpo world;
  world.Place("a0", "actor");
  world.Place("a1", "actor");
  world.Place("c", "critic+reference");
  world.Ready("a0", "actor");
  world.Ready("c", "critic");
  EXPECT_FALSE(AreSetUp(world.slots.roster(), world.groups, /*goes_on=*/true))
      << "a rank is missing";
  world.Ready("a1", "actor");
  EXPECT_TRUE(AreSetUp(world.slots.roster(), world.groups, /*goes_on=*/true));
  EXPECT_FALSE(AreSetUp(world.slots.roster(), world.groups, /*goes_on=*/false));
  world.Ready("c", "reference");
  world.Place("w", "reward");
  world.Place("r0", "rollout");
  world.Ready("w", "reward");
  world.Ready("r0", "rollout");
  EXPECT_TRUE(AreSetUp(world.slots.roster(), world.groups, /*goes_on=*/false))
      << "one rollout is enough";
}

// The row does not say that a slot is releasing: that follows from the state of the job.
TEST(WorkerSlotsTest, ARestoredJobThatStopsReleasesItsWorkers) {
  SlotsOfPpo world;
  world.Place("a0", "actor");
  world.Place("w", "reward");
  world.Ready("w", "reward");
  const auto restored = [&](v1::Job::State state) {
    store::v1::JobRow row;
    world.slots.Save(&row);
    row.mutable_job()->set_state(state);
    SlotsOfPpo again;
    again.slots.Restore(row);
    EXPECT_EQ(again.slots.roster().Find("w", "reward")->present, false);
    return again.slots.roster().Find("w", "reward")->state;
  };
  EXPECT_EQ(restored(v1::Job::STATE_RUNNING), SlotState::kReady);
  EXPECT_EQ(restored(v1::Job::STATE_STOPPING), SlotState::kReleasing);
  EXPECT_EQ(restored(v1::Job::STATE_PAUSING), SlotState::kReleasing);
  world.Ready("a0", "actor");
  EXPECT_EQ(restored(v1::Job::STATE_PAUSING), SlotState::kReady) << "it saves a checkpoint first";
}

TEST(WorkerSlotsTest, ExplainsAWorkersTroubleUntilItIsOver) {
  SlotsOfPpo world;
  world.Place("w", "reward");
  EXPECT_FALSE(world.slots.NoteTrouble({"w", "actor", "no such role"}, kPlaced));
  EXPECT_TRUE(world.slots.NoteTrouble({"w", "reward", "it crashed"}, kPlaced));
  EXPECT_TRUE(world.slots.NoteTrouble({"w", "reward", "it hangs"}, kPlaced + absl::Seconds(5)));
  const auto shown = [&] {
    v1::ExplainJobResponse why;
    WaitList waits(kPlaced + absl::Seconds(8), &why);
    ExplainTrouble(world.slots.roster(), "", waits);
    return why;
  };
  ASSERT_EQ(shown().waits_size(), 1);
  EXPECT_THAT(shown().waits(0).cause(), HasSubstr("it hangs"));
  EXPECT_EQ(shown().waits(0).since().seconds(), 8) << "since the first of them";
  EXPECT_FALSE(world.slots.NoteTrouble({"w", "reward", ""}, kPlaced));
  EXPECT_EQ(shown().waits_size(), 0);
}

}  // namespace
}  // namespace baton::controller
