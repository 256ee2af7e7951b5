#include "controller/core/workers/shared_pools.h"

#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

const absl::Time kMoment = absl::FromUnixSeconds(1000);

// A pool of one worker that plays rollout, reward and actor in turn.
struct OnePool {
  explicit OnePool(absl::Duration quantum = absl::InfiniteDuration())
      : queues({"reference", "reward"}, StragglerOptions()) {
    const auto job = SubmittedJob(R"(kind: JOB_KIND_RL
      resources { rollout_workers: 1 reward_workers: 1
                  pools { roles: "critic" roles: "reward" roles: "reference" } })");
    roster = Roster(job->effective_spec(), job->dataflow());
    groups = RankGroups(job->effective_spec(), job->dataflow());
    commands = GroupCommands(groups.all().size());
    pools = SharedPools(job->effective_spec(), job->dataflow(), quantum);
    for (RoleSlot& slot : roster.slots()) {
      slot.worker = pools.Of(slot.role) != nullptr ? "shared" : slot.role;
      slot.state = SlotState::kReady;
      slot.present = true;
      if (RoleQueue* queue = queues.Find(slot.role)) {
        queue->tasks.AddWorker(slot.worker, 1);
        queue->tasks.SetEnabled(slot.worker, true);
      }
    }
  }
  PoolView View() const {
    return {roster, groups, commands, queues, versions, updating, updating, unadopted};
  }
  void Turn(absl::Time now = kMoment) { pools.TakeTurns(View(), queues, now); }
  EffectSink out = SinkAt(kMoment);
  Roster roster;
  RankGroups groups;
  GroupCommands commands;
  SharedPools pools;
  RoleQueues queues;
  PolicyVersions versions;
  bool updating = false, unadopted = false;
};

TEST(SharedPoolsTest, ARoleWithWorkersOfItsOwnAlwaysHasItsTurn) {
  OnePool world;
  EXPECT_EQ(world.pools.Of("rollout"), nullptr);
  EXPECT_TRUE(world.pools.HasTurn("rollout", world.View()));
  EXPECT_EQ(world.pools.Of("reward"), world.pools.Of("critic"));
}

TEST(SharedPoolsTest, ARoleGoesOnUntilItHasNoWorkThenTheNextBegins) {
  OnePool world;
  world.queues.Of("reward").Enqueue(1, 0);
  world.queues.Of("reward").Enqueue(2, 0);
  world.Turn();
  world.queues.Of("reference").Enqueue(1, 0);
  world.Turn();
  EXPECT_TRUE(world.pools.HasTurn("reward", world.View()));
  EXPECT_FALSE(world.queues.Of("reference").Next(kMoment).has_value()) << "its queue is closed";
  for (uint64_t work : {1, 2}) {
    ASSERT_TRUE(world.queues.Of("reward").Next(kMoment).has_value());
    world.queues.Of("reward").Finish(work);
    world.Turn();
  }
  EXPECT_TRUE(world.pools.HasTurn("reference", world.View()));
  EXPECT_TRUE(world.queues.Of("reference").Next(kMoment).has_value());
}

// Work of the role comes all the time. After its quantum it begins no more while another role has
// work; that role begins when the running tasks have ended.
TEST(SharedPoolsTest, ARoleYieldsItsPoolAfterItsQuantum) {
  OnePool world(absl::Seconds(10));
  TaskScheduler& reward = world.queues.Of("reward");
  TaskScheduler& reference = world.queues.Of("reference");
  for (uint64_t work = 1; work <= 6; ++work) reward.Enqueue(work, 0);
  world.Turn();
  ASSERT_TRUE(reward.Next(kMoment).has_value());
  world.Turn(kMoment + absl::Seconds(20));
  EXPECT_TRUE(world.pools.HasTurn("reward", world.View())) << "nobody else has work";
  reference.Enqueue(1, 0);
  reference.Enqueue(2, 0);
  world.Turn(kMoment + absl::Seconds(20));
  EXPECT_FALSE(world.pools.HasTurn("reward", world.View()));
  EXPECT_FALSE(world.pools.HasTurn("reference", world.View())) << "a score still runs";
  reward.Finish(1);
  world.Turn(kMoment + absl::Seconds(21));
  EXPECT_TRUE(world.pools.HasTurn("reference", world.View()));
  // The second role gets its whole quantum.
  world.Turn(kMoment + absl::Seconds(30));
  EXPECT_TRUE(world.pools.HasTurn("reference", world.View()));
  world.Turn(kMoment + absl::Seconds(31));
  EXPECT_TRUE(world.pools.HasTurn("reward", world.View())) << "and then it is over";
}

TEST(SharedPoolsTest, ACommandGoesOutWhenWhatRunsHasEndedAndNothingNewBegins) {
  OnePool world;
  world.updating = true;
  world.queues.Of("reward").Enqueue(1, 0);
  world.Turn();
  ASSERT_TRUE(world.queues.Of("reward").Next(kMoment).has_value());
  world.queues.Of("reward").Enqueue(2, 0);
  const Group& critic = *world.groups.Find("critic");
  world.commands.Issue(TaskKind::kUpdate, critic, world.out);
  world.Turn();
  EXPECT_FALSE(world.pools.MayCommand(critic, world.View())) << "a score still runs";
  EXPECT_EQ(world.pools.AtWorkIn("critic", world.View()), "reward runs 1 task");
  world.queues.Of("reward").Finish(1);
  world.Turn();
  world.unadopted = true;
  EXPECT_FALSE(world.pools.MayCommand(critic, world.View())) << "something may still run";
  world.unadopted = false;
  EXPECT_TRUE(world.pools.MayCommand(critic, world.View()));
  EXPECT_FALSE(world.queues.Of("reward").Next(kMoment).has_value()) << "the command comes first";
}

// A restored update waits for its batch, which waits for scores on the same pool.
TEST(SharedPoolsTest, AnUpdateWithoutItsBatchDoesNotBlockThePool) {
  OnePool world;
  world.commands.Issue(TaskKind::kUpdate, *world.groups.Find("critic"), world.out);
  world.queues.Of("reward").Enqueue(1, 0);
  world.Turn();
  EXPECT_TRUE(world.pools.HasTurn("reward", world.View()));
}

TEST(SharedPoolsTest, StartsNoWorkWhileAWorkerMayReconnect) {
  OnePool world;
  world.roster.Find("shared", "reward")->present = false;
  world.roster.Find("shared", "reference")->present = true;
  world.queues.Of("reference").Enqueue(1, 0);
  world.Turn();
  EXPECT_FALSE(world.pools.HasTurn("reference", world.View())) << "it may be at work";
  world.roster.Find("shared", "reward")->present = true;
  world.Turn();
  EXPECT_TRUE(world.pools.HasTurn("reference", world.View()));
}

}  // namespace
}  // namespace baton::controller
