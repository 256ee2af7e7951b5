// Ranks that share a role's model: they meet, score together, are lost and meet anew.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

SimulatedJob OnRanks(uint64_t seed, int steps, int ranks) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = steps;
  options.actor_ranks = ranks;
  return SimulatedJob(options);
}

TEST(RanksTest, RanksTakeTheirRoleOnTogetherOrNotAtAll) {
  SimulatedJob world = OnRanks(1, 2, 2);
  world.Send(WorkerGranted{"a", "actor", {}});
  EXPECT_TRUE(world.UnderWay(TaskKind::kAssignRole).empty());
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  const auto gathers = std::find_if(why.waits().begin(), why.waits().end(),
                                    [](const auto& wait) { return wait.kind() == "gather"; });
  ASSERT_NE(gathers, why.waits().end()) << why.DebugString();
  EXPECT_THAT(gathers->cause(), ::testing::HasSubstr("rank 0 on worker a"));
}

// The controller does not know yet that a rank is lost when its peer reports that it is gone.
TEST(RanksTest, ABrokenGroupWaitsForTheLossAndGoesOnFromItsCheckpoint) {
  SimulatedJob world = OnRanks(3, 4, 2);
  const auto updates = [&] { return world.UnderWay(TaskKind::kUpdate); };
  while (world.core().step() < 3 || updates().size() < 2) ASSERT_TRUE(world.Step());
  TaskDone broken = updates()[1];
  world.Swallow(TaskKind::kUpdate);
  broken.status = absl::UnavailableError("rank 0 closed its connection");
  world.Send(broken);
  EXPECT_EQ(world.core().state(), Job::STATE_RUNNING);
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  EXPECT_THAT(why.DebugString(), ::testing::HasSubstr("rank 0 closed its connection"));
  world.Send(Tick{});
  EXPECT_EQ(world.core().incarnation(), 1u) << "too early";
  world.LoseOneOf("actor");
  EXPECT_EQ(world.core().incarnation(), 2u);
  EXPECT_EQ(world.core().step(), 2);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  SimulatedJob undisturbed = OnRanks(3, 4, 2);
  undisturbed.RunToEnd();
  EXPECT_EQ(world.FinalWeights(), undisturbed.FinalWeights());
}

// The other ranks would train on for nothing, and come late to the next meeting.
TEST(RanksTest, StopsTheOtherRanksUpdatesWhenARankIsLost) {
  SimulatedJob world = OnRanks(3, 4, 2);
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kUpdate).size() < 2) {
    ASSERT_TRUE(world.Step());
  }
  const std::vector<TaskDone> updates = world.UnderWay(TaskKind::kUpdate);
  world.Lose(updates[0].worker);
  ASSERT_FALSE(world.stopped().empty());
  const StopTask& stop = world.stopped().front();
  EXPECT_EQ(stop.worker, updates[1].worker);
  EXPECT_TRUE(stop.ref == updates[1].ref);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

// What workers tell of an update is shown, and changes nothing.
TEST(RanksTest, AnUpdateIsAsFarAsTheRankThatIsFurthestBehind) {
  SimulatedJob world = OnRanks(3, 4, 2);
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kUpdate).size() < 2) {
    ASSERT_TRUE(world.Step());
  }
  const std::vector<TaskDone> updates = world.UnderWay(TaskKind::kUpdate);
  ASSERT_EQ(world.core().Brief().phase(), "training");
  EXPECT_EQ(world.core().Brief().phase_total(), 0) << "no worker has told";
  const auto tell = [&](size_t i, uint32_t done, uint32_t total) {
    world.Send(UpdateProgressed{updates[i].worker, updates[i].ref, done, total});
  };
  tell(0, 5, 8);
  EXPECT_EQ(world.core().Brief().phase_done(), 5);
  EXPECT_EQ(world.core().Brief().phase_total(), 8);
  tell(1, 1, 2);  // a rank may have fewer micro-batches: 4 of 8
  tell(1, 3, 2);  // not taken
  tell(1, 0, 0);
  UpdateProgressed old{updates[0].worker, updates[0].ref, 8, 8};
  ++old.ref.attempt;
  world.Send(old);
  const Job job = world.core().Brief();
  EXPECT_EQ(job.phase_done(), 1);
  EXPECT_EQ(job.phase_total(), 2);
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  const auto node = std::find_if(why.nodes().begin(), why.nodes().end(),
                                 [](const auto& of) { return of.node() == "update actor"; });
  ASSERT_NE(node, why.nodes().end());
  EXPECT_EQ(node->state(), "running");
  EXPECT_EQ(node->done(), 1);
  EXPECT_EQ(node->total(), 2);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.core().Brief().phase_total(), 0);
  SimulatedJob untold = OnRanks(3, 4, 2);
  untold.RunToEnd();
  EXPECT_EQ(world.FinalWeights(), untold.FinalWeights());
}

// A rank may have other work to end before it comes.
TEST(RanksTest, RanksMayTakeTheTimeOfASetUpToMeet) {
  SimulatedJob world = OnRanks(1, 2, 2);
  const auto first_rank = [&]() -> std::optional<TaskDone> {
    for (const TaskDone& task : world.UnderWay(TaskKind::kAssignRole)) {
      if (world.core().RoleOf(task.ref) == "actor") return task;
    }
    return std::nullopt;
  };
  while (!first_rank().has_value()) ASSERT_TRUE(world.Step());
  const auto meet = [&] {
    std::optional<TaskDone> late = first_rank();
    ASSERT_TRUE(late.has_value());
    late->status = absl::DeadlineExceededError("no word of rank 1");
    world.Send(*late);
  };
  for (int i = 0; i < 7; ++i) {
    meet();
    world.Swallow(TaskKind::kAssignRole);
    world.Wait(absl::Seconds(75));
    world.Send(Tick{});
    ASSERT_EQ(world.core().state(), Job::STATE_STARTING) << i;
  }
  for (int i = 0; i < 5 && world.core().state() == Job::STATE_STARTING; ++i) {
    meet();
    world.Swallow(TaskKind::kAssignRole);
    world.Wait(absl::Seconds(100));
    if (world.core().state() == Job::STATE_STARTING) world.Send(Tick{});
  }
  EXPECT_NE(world.core().state(), Job::STATE_STARTING)
      << world.core().Explain(world.now()).DebugString();
}

TEST(RanksTest, AGroupThatBreaksAgainAndAgainFailsTheJobWithItsWords) {
  SimulatedJob world = OnRanks(3, 4, 2);
  for (int i = 0; i < 10 && !world.ended(); ++i) {
    while (world.UnderWay(TaskKind::kUpdate).size() < 2 && !world.ended()) {
      ASSERT_TRUE(world.Step());
    }
    if (world.ended()) break;
    TaskDone broken = world.UnderWay(TaskKind::kUpdate)[0];
    world.Swallow(TaskKind::kUpdate);
    broken.status = absl::DeadlineExceededError("rank 1 did not come");
    world.Send(broken);
    world.Wait(absl::Seconds(16));
    if (!world.ended()) world.Send(Tick{});
    if (world.core().state() == Job::STATE_STOPPING) world.RunToEnd();
  }
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(world.core().Brief().error().message(),
              ::testing::AllOf(::testing::HasSubstr("the actor group broke 4 times"),
                               ::testing::HasSubstr("rank 1 did not come")));
}

// ---- Ranks that score ---------------------------------------------------------------------

// Every model is held by two ranks together; the reference has two such copies.
SimulatedJob OnTensorRanks(int steps, uint64_t seed = 3) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = steps;
  options.preset = "ppo";
  options.recompute_log_prob = true;
  options.actor_tp = options.critic_tp = options.reference_tp = 2;
  options.actor_ranks = options.critic_ranks = 2;
  options.reference_ranks = 4;
  return SimulatedJob(options);
}

// Under way, and wanted.
std::vector<TaskDone> ScoresOf(SimulatedJob& world, const std::string& role) {
  std::vector<TaskDone> scores;
  for (const TaskDone& task : world.UnderWay(TaskKind::kScore)) {
    const bool wanted = world.core().Wants(task.worker, task.ref);
    if (wanted && world.core().RoleOf(task.ref) == role) scores.push_back(task);
  }
  return scores;
}

bool Regroups(SimulatedJob& world) {
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  return std::any_of(why.waits().begin(), why.waits().end(),
                     [](const auto& wait) { return wait.kind() == "regroup"; });
}

void RunUntilItScores(SimulatedJob& world, const std::string& role, int64_t step) {
  while (world.core().step() < step || ScoresOf(world, role).empty()) ASSERT_TRUE(world.Step());
}

uint64_t WeightsOfUndisturbed(int steps) {
  SimulatedJob world = OnTensorRanks(steps);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  return world.FinalWeights();
}

// One rank of each of the reference's two copies answers.
TEST(ScoringRanksTest, OneRankOfEachCopyAnswers) {
  SimulatedJob world = OnTensorRanks(3);
  std::set<std::string> answered;
  for (int i = 0; !world.ended() && i < 20000 && world.Step(); ++i) {
    for (const TaskDone& done : ScoresOf(world, "reference")) answered.insert(done.worker);
  }
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(answered.size(), 2u);
}

TEST(ScoringRanksTest, LosingOneScoringRankRedoesNoStep) {
  for (const bool answers : {true, false}) {
    SimulatedJob world = OnTensorRanks(4);
    ASSERT_NO_FATAL_FAILURE(RunUntilItScores(world, "reference", 3));
    std::set<std::string> leaders;
    for (const TaskDone& score : ScoresOf(world, "reference")) leaders.insert(score.worker);
    std::string lost;
    for (const auto& [worker, roles] : world.core().HeldWorkers()) {
      if (roles == "reference" && leaders.count(worker) == (answers ? 1u : 0u)) lost = worker;
    }
    ASSERT_FALSE(lost.empty());
    world.Lose(lost);
    EXPECT_EQ(world.core().state(), Job::STATE_RUNNING);
    EXPECT_EQ(world.core().step(), 3);
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
    EXPECT_EQ(world.core().incarnation(), 1u);
    EXPECT_EQ(world.FinalWeights(), WeightsOfUndisturbed(4));
  }
}

// The loss may not be known yet: nothing is asked of the group until it has met again.
TEST(ScoringRanksTest, AScoreThatMissesARankBreaksItsGroupAlone) {
  SimulatedJob world = OnTensorRanks(4);
  ASSERT_NO_FATAL_FAILURE(RunUntilItScores(world, "reference", 1));
  while (ScoresOf(world, "reference").size() < 2) ASSERT_TRUE(world.Step());
  const std::vector<TaskDone> scores = ScoresOf(world, "reference");
  TaskDone broken = scores.front();
  broken.status = absl::UnavailableError("rank 1 closed its connection");
  world.Send(broken);
  EXPECT_EQ(world.core().state(), Job::STATE_RUNNING);
  EXPECT_TRUE(ScoresOf(world, "reference").empty());
  for (size_t i = 1; i < scores.size(); ++i) {
    EXPECT_TRUE(
        std::any_of(world.stopped().begin(), world.stopped().end(), [&](const StopTask& stop) {
          return stop.worker == scores[i].worker && stop.ref == scores[i].ref;
        }));
  }
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  const auto regroup = std::find_if(why.waits().begin(), why.waits().end(),
                                    [](const auto& wait) { return wait.kind() == "regroup"; });
  ASSERT_NE(regroup, why.waits().end()) << why.DebugString();
  EXPECT_EQ(regroup->subject(), "role reference");
  EXPECT_EQ(regroup->action(), "the ranks form a new group");
  EXPECT_THAT(regroup->cause(), ::testing::HasSubstr("rank 1 closed its connection"));
  world.Wait(absl::Seconds(16));
  world.Send(Tick{});
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
      << world.core().Explain(world.now()).DebugString();
  EXPECT_EQ(world.core().incarnation(), 1u);
  EXPECT_EQ(world.FinalWeights(), WeightsOfUndisturbed(4));
}

// After a restart its leaders come back one by one.
TEST(ScoringRanksTest, SendsNoScoresToABrokenGroup) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SimulatedJob world = OnTensorRanks(4, seed);
    ASSERT_NO_FATAL_FAILURE(RunUntilItScores(world, "reference", 1));
    world.Restart(0);
    const auto asked = [&] {  // by this controller
      std::vector<TaskDone> scores = ScoresOf(world, "reference");
      scores.erase(
          std::remove_if(scores.begin(), scores.end(),
                         [](const TaskDone& done) { return done.ref.attempt < FirstAttempt(2); }),
          scores.end());
      return scores;
    };
    while (!world.core().knows_trajectories() || asked().empty()) ASSERT_TRUE(world.Step());
    TaskDone broken = asked().front();
    broken.status = absl::UnavailableError("rank 1 closed its connection");
    world.Send(broken);
    int waited = 0;
    for (; Regroups(world) && waited < 1000; ++waited) {
      ASSERT_TRUE(ScoresOf(world, "reference").empty()) << "seed " << seed << ", " << waited;
      ASSERT_TRUE(world.Step());
    }
    EXPECT_LT(waited, 1000);
  }
}

// A score that is late may have waited for others in the queue of its rank.
TEST(ScoringRanksTest, ALateScoreIsRetriedWithoutBreakingItsGroup) {
  SimulatedJob world = OnTensorRanks(4);
  ASSERT_NO_FATAL_FAILURE(RunUntilItScores(world, "actor", 1));
  const std::vector<TaskDone> late = ScoresOf(world, "actor");
  world.Wait(JobCoreOptions().score_deadline + absl::Seconds(1));
  world.Send(Tick{});
  for (const TaskDone& score : late) EXPECT_FALSE(world.core().Wants(score.worker, score.ref));
  EXPECT_FALSE(ScoresOf(world, "actor").empty()) << "they are asked again";
  EXPECT_FALSE(Regroups(world));
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.core().incarnation(), 1u);
}

// The actor's scores by several ranks concern the weights that it trains.
TEST(ScoringRanksTest, AScoreOfTheActorThatMissesARankTakesItBackToItsCheckpoint) {
  SimulatedJob world = OnTensorRanks(4);
  ASSERT_NO_FATAL_FAILURE(RunUntilItScores(world, "actor", 3));
  TaskDone broken = ScoresOf(world, "actor").front();
  broken.status = absl::DeadlineExceededError("no word of rank 1");
  world.Send(broken);
  world.Wait(absl::Seconds(16));
  world.Send(Tick{});
  EXPECT_EQ(world.core().incarnation(), 2u);
  EXPECT_EQ(world.core().step(), 2);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.FinalWeights(), WeightsOfUndisturbed(4));
}

TEST(ScoringRanksTest, AGroupThatBreaksAgainAndAgainFailsTheJobWithItsWords) {
  SimulatedJob world = OnTensorRanks(4);
  for (int i = 0; i < 10 && !world.ended(); ++i) {
    while (ScoresOf(world, "reference").empty() && !world.ended()) ASSERT_TRUE(world.Step());
    if (world.ended()) break;
    TaskDone broken = ScoresOf(world, "reference").front();
    broken.status = absl::UnavailableError("rank 1 did not come");
    world.Send(broken);
    world.Wait(absl::Seconds(16));
    if (!world.ended()) world.Send(Tick{});
    if (world.core().state() == Job::STATE_STOPPING) world.RunToEnd();
  }
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(world.core().Brief().error().message(),
              ::testing::AllOf(::testing::HasSubstr("the reference group broke 4 times"),
                               ::testing::HasSubstr("rank 1 did not come")));
}

}  // namespace
}  // namespace baton::controller
