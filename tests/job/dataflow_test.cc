// Jobs of several roles: who trains beside the actor, nodes that score at the same time, greedy
// baselines, batches that are drawn until there is enough to learn. Against simulated workers in
// virtual time, with losses and restarts.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

// A node that compares the responses to a prompt, and one that reads what it makes.
constexpr char kOverGroup[] = R"(
  score { node: "rules" role: "reward" method: "compute_reward" out: "reward" }
  score { node: "mine" role: "mine" method: "compute_advantage" inputs: "reward" out: "advantage"
          over: "group" }
  score { node: "more" role: "mine" method: "look" inputs: "advantage" out: "seen" }
  advantage { estimator: "given" }
  update { role: "actor" method: "update" loss: "reinforce" })";

SimulatedJob World(uint64_t seed, const std::string& preset, int steps) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = steps;
  if (preset == "over_group") {
    options.dataflow = kOverGroup;
  } else if (preset == "ppo_on_ranks") {
    options.preset = "ppo";
    options.actor_ranks = 3;
    options.critic_ranks = 2;
  } else if (preset == "two_critics_share") {
    options.preset = "safe_rlhf";
    options.cost_critic = true;
    options.pools = {{"critic", "cost_critic", "cost"}, {"actor", "rollout", "reference"}};
    options.rollout_workers = 1;
  } else if (preset == "recomputed_colocated") {
    options.preset = "grpo";
    options.recompute_log_prob = true;
    options.pools = {{"actor", "reward", "rollout"}};
    options.rollout_workers = 1;
  } else if (preset == "ppo_colocated") {
    options.preset = "ppo";
    options.pools = {{"actor", "critic", "reference", "reward", "rollout"}};
    options.rollout_workers = 1;
  } else if (preset == "dapo_colocated") {
    options.preset = "dapo";
    options.pools = {{"actor", "reward", "rollout"}};
    options.rollout_workers = 1;
  } else if (preset == "ppo_split_on_ranks") {
    options.preset = "ppo";
    options.actor_ranks = 2;
    options.critic_ranks = 2;
    options.pools = {{"actor", "reference"}, {"critic", "reward"}};
  } else if (preset == "grpo_replicas") {
    options.preset = "grpo";
    options.actor_ranks = 4;
    options.actor_tp = options.generation_tp = 2;
    options.pools = {{"actor", "rollout"}};
  } else if (preset == "ppo_trainers_share") {
    options.preset = "ppo";
    options.critic_ranks = 2;
    options.pools = {{"actor", "critic"}, {"rollout"}, {"reference", "reward"}};
  } else if (preset == "ppo_rollouts_share") {
    options.preset = "ppo";
    options.pools = {{"rollout", "reference", "reward"}};
  } else if (preset == "ppo_tensor_ranks" || preset == "ppo_tensor_ranks_colocated") {
    const bool colocated = preset == "ppo_tensor_ranks_colocated";
    options.preset = "ppo";
    options.recompute_log_prob = true;
    options.actor_tp = options.critic_tp = options.reference_tp = 2;
    options.actor_ranks = options.critic_ranks = 2;
    options.reference_ranks = colocated ? 2 : 4;
    if (colocated) options.pools = {{"actor", "critic", "reference", "rollout"}};
  } else if (preset == "two_critics") {
    options.preset = "safe_rlhf";
    options.cost_critic = true;
  } else if (preset.rfind("failing_", 0) == 0) {
    options.failing_rewards = SimulatedJob::Options::Failing::kSome;
    if (preset == "failing_over_group") {
      options.dataflow = kOverGroup;
    } else {
      options.preset = preset.substr(8);
    }
  } else if (preset == "recomputed_on_ranks") {
    options.preset = "grpo";
    options.recompute_log_prob = true;
    options.actor_ranks = 2;
  } else {
    options.preset = preset;
  }
  return SimulatedJob(options);
}

class DataflowTest : public ::testing::TestWithParam<std::string> {
 protected:
  struct Outcome {
    std::map<int64_t, std::vector<uint64_t>> trained;
    uint64_t weights = 0;
    std::map<std::string, double> algorithm;  // what it carries from step to step
  };
  static Outcome OutcomeOf(SimulatedJob& world) {
    const store::v1::JobRow row = world.core().Row();
    return {
        world.trained(), world.FinalWeights(), {row.algorithm().begin(), row.algorithm().end()}};
  }
  static void ExpectSame(const Outcome& a, const Outcome& b) {
    EXPECT_EQ(a.trained, b.trained);
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.algorithm, b.algorithm);
  }
  Outcome Undisturbed(int steps) {
    SimulatedJob world = World(1, GetParam(), steps);
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
    return OutcomeOf(world);
  }
};

TEST_P(DataflowTest, RunsToItsEndWhateverTheOrder) {
  const Outcome expected = Undisturbed(5);
  ASSERT_EQ(expected.trained.size(), 5u);
  for (uint64_t seed = 0; seed < 15; seed += kStride) {
    SimulatedJob world = World(seed, GetParam(), 5);
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    ExpectSame(OutcomeOf(world), expected);
    EXPECT_TRUE(world.core().HeldWorkers().empty());
  }
}

TEST_P(DataflowTest, LossesChangeNothing) {
  const Outcome expected = Undisturbed(5);
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob world = World(seed, GetParam(), 5);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; !world.ended() && i < 30000; ++i) {
      if (i < 600 && random() % 50 == 0) world.LoseSomeWorker();
      if (i < 600 && random() % 50 == 0) world.BreakSomeStream();
      if (!world.Step()) break;
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
        << "seed " << seed << "\n"
        << world.core().Explain(world.now()).DebugString();
    ExpectSame(OutcomeOf(world), expected);
  }
}

TEST_P(DataflowTest, ARestartAtAnyEventChangesNothing) {
  const Outcome expected = Undisturbed(3);
  for (int dying : {0, 30}) {
    for (int at = dying == 0 ? 0 : 3; at < 260; at += 6 * kStride) {
      SimulatedJob world = World(static_cast<uint64_t>(at) % 7, GetParam(), 3);
      bool moved = true;
      for (int i = 0; !world.ended() && moved; ++i) {
        if (i == at) world.Restart(dying);
        moved = world.Step();
      }
      ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
          << "restart at " << at << ", " << dying << "% die\n"
          << world.core().Explain(world.now()).DebugString();
      ExpectSame(OutcomeOf(world), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Presets, DataflowTest,
    ::testing::Values("ppo", "remax", "dapo", "over_group", "ppo_on_ranks", "ppo_colocated",
                      "dapo_colocated", "ppo_split_on_ranks", "grpo_replicas", "ppo_trainers_share",
                      "ppo_rollouts_share", "two_critics", "recomputed_on_ranks",
                      "two_critics_share", "recomputed_colocated", "ppo_tensor_ranks",
                      "ppo_tensor_ranks_colocated", "failing_grpo", "failing_ppo", "failing_remax",
                      "failing_dapo", "failing_over_group"),
    [](const auto& preset) { return preset.param; });

// The prompt indices of the batches that trained, in order, with the number of responses of each.
std::map<int64_t, std::map<uint64_t, int>> TrainedPrompts(const SimulatedJob& world) {
  std::map<int64_t, std::map<uint64_t, int>> out;
  for (const auto& [step, ids] : world.trained()) {
    for (const uint64_t id : ids) ++out[step][(id & 0xffffff) / 2];
  }
  return out;
}

// Worked out by hand from FailsForGood: a step takes 3 prompts. Both responses of prompt index 3
// fail, and one of 1, 5 and 9.
TEST(InfraFailures, AGroupWithTooFewRewardsIsReplacedByTheNextPrompt) {
  using Counts = std::map<uint64_t, int>;
  SimulatedJob grpo = World(1, "failing_grpo", 2);  // compares: 2 responses at least
  grpo.RunToEnd();
  ASSERT_EQ(grpo.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(TrainedPrompts(grpo).at(1), (Counts{{0, 2}, {2, 2}, {4, 2}}));   // without 1 and 3
  EXPECT_EQ(TrainedPrompts(grpo).at(2), (Counts{{6, 2}, {8, 2}, {10, 2}}));  // 5, 7, 9 are lost
  EXPECT_EQ(grpo.metrics().at("train/groups_replaced"), 3);
  EXPECT_EQ(grpo.metrics().at("reward/infra_failed"), 4);  // of 5, 7, 7, 9
  EXPECT_EQ(grpo.metrics().at("critic/score/mean"), 0.5) << "of the batch: 6, 8, 10";

  SimulatedJob ppo = World(1, "failing_ppo", 2);  // compares nothing: 1 is enough
  ppo.RunToEnd();
  ASSERT_EQ(ppo.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(TrainedPrompts(ppo).at(1), (Counts{{0, 2}, {1, 1}, {2, 2}}));
  EXPECT_EQ(TrainedPrompts(ppo).at(2), (Counts{{4, 2}, {5, 1}, {6, 2}}));  // without 3

  SimulatedJob remax = World(1, "failing_remax", 1);  // prompt index 2 has no baseline
  remax.RunToEnd();
  ASSERT_EQ(remax.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(TrainedPrompts(remax).at(1), (Counts{{0, 2}, {1, 1}, {4, 2}}));  // without 2 and 3
}

TEST(InfraFailures, AreLeftOutOfAnEvaluation) {
  SimulatedJob world = World(1, "failing_grpo", 2);
  world.RunToEnd();
  EXPECT_EQ(world.metrics().at("val/infra_failed"), 1);
  EXPECT_EQ(world.metrics().at("val-core/all/mean@1"), 0);  // sample 0 is worth 0
  EXPECT_EQ(world.evaluated().size(), 2u);
}

TEST(InfraFailures, BecomeErrorRewardsIfConfigured) {
  SimulatedJob::Options options;
  options.steps = 1;
  options.preset = "grpo";
  options.failing_rewards = SimulatedJob::Options::Failing::kSome;
  options.error_reward = true;
  SimulatedJob world(options);
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(TrainedPrompts(world).at(1), (std::map<uint64_t, int>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(world.metrics().at("critic/score/min"), -1);
  EXPECT_EQ(world.metrics().at("reward/infra_failed"), 0);
  EXPECT_EQ(world.metrics().at("reward/errors"), 1);
}

TEST(InfraFailures, AJobWhoseRewardsAllFailEndsWithTheReason) {
  SimulatedJob::Options options;
  options.preset = "grpo";
  options.failing_rewards = SimulatedJob::Options::Failing::kAll;
  SimulatedJob world(options);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(world.core().Brief().error().message(),
              ::testing::AllOf(::testing::HasSubstr("the command ended"),
                               ::testing::HasSubstr(
                                   "15 groups of step 1 have fewer than 2 responses with a reward"),
                               ::testing::HasSubstr("reward.error_reward")));
  EXPECT_TRUE(world.trained().empty());
}

// Sharing workers changes the time that a job takes, and not what it learns.
TEST(PoolsTest, SharedWorkersTrainTheSame) {
  SimulatedJob apart = World(1, "ppo", 4);
  apart.RunToEnd();
  for (const char* shared :
       {"ppo_colocated", "ppo_split_on_ranks", "ppo_trainers_share", "ppo_rollouts_share"}) {
    SimulatedJob world = World(2, shared, 4);
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << shared;
    EXPECT_EQ(world.trained(), apart.trained()) << shared;
    EXPECT_EQ(world.FinalWeights(), apart.FinalWeights()) << shared;
  }
}

TEST(PoolsTest, AWorkerTakesAWorkerSlotWithAllItsRoles) {
  SimulatedJob world = World(1, "ppo_colocated", 2);
  EXPECT_TRUE(world.InQueue());
  world.Send(WorkerGranted{"other", "actor", {}});
  EXPECT_TRUE(world.core().HeldWorkers().empty()) << "no seat is for the actor alone";
  world.Step();
  const auto held = world.core().HeldWorkers();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held.begin()->second, "actor+critic+reference+reward+rollout");
  EXPECT_EQ(world.UnderWay(TaskKind::kAssignRole).size(), 5u);
}

// The replica of each copy of the model (two ranks) gets its tasks at the first rank.
TEST(PoolsTest, AReplicaSitsWithTheFirstOfItsRanks) {
  SimulatedJob world = World(1, "grpo_replicas", 2);
  while (world.UnderWay(TaskKind::kGenerate).empty()) ASSERT_TRUE(world.Step());
  std::map<std::string, int> worker_slots;
  for (const auto& [worker, roles] : world.core().HeldWorkers()) ++worker_slots[roles];
  EXPECT_EQ(worker_slots["actor+rollout"], 2);
  EXPECT_EQ(worker_slots["actor"], 2);
  const store::v1::JobRow row = world.core().Row();
  std::map<std::string, std::vector<std::string>> workers;  // by role, in order of rank
  for (const auto& slot : row.slots()) workers[slot.role()].push_back(slot.worker_id());
  EXPECT_EQ(workers["rollout"][0], workers["actor"][0]);
  EXPECT_EQ(workers["rollout"][1], workers["actor"][2]);
}

// A response fails at once when a rank of its replica dies, and the queue hears of it later.
TEST(PoolsTest, AReplicaThatLosesARankWaitsForTheLoss) {
  SimulatedJob world = World(1, "grpo_replicas", 3);
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kGenerate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  for (int i = 0; i < 20; ++i) {
    const auto running = world.UnderWay(TaskKind::kGenerate);
    if (running.empty()) break;
    TaskDone failed = running.front();
    failed.status = absl::UnavailableError("rank 1 closed its connection");
    world.Swallow(TaskKind::kGenerate);
    world.Send(failed);
  }
  ASSERT_EQ(world.core().state(), Job::STATE_RUNNING);
  EXPECT_TRUE(world.UnderWay(TaskKind::kGenerate).empty()) << "nothing new begins there";
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  SimulatedJob undisturbed = World(2, "grpo_replicas", 3);
  undisturbed.RunToEnd();
  EXPECT_EQ(world.FinalWeights(), undisturbed.FinalWeights());
}

// An update that a restarted controller finds waits for its batch, and this one for a score.
TEST(PoolsTest, ARestoredUpdateLeavesItsPoolOpen) {
  SimulatedJob world = World(3, "ppo_trainers_share", 3);
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kUpdate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  world.Swallow(TaskKind::kUpdate);
  ASSERT_FALSE(world.rows().empty());
  world.rows().erase(std::prev(world.rows().end()));
  world.Restart(0);
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
      << world.core().Explain(world.now()).DebugString();
}

// Many responses fail by one set of weights that cannot be used; it is gathered anew.
TEST(PoolsTest, WeightsThatCannotBeUsedAreGatheredAnew) {
  SimulatedJob::Options options;
  options.pools = {{"actor", "rollout"}};
  options.rollout_workers = 1;
  SimulatedJob world(options);
  while (world.UnderWay(TaskKind::kGenerate).size() < 4) ASSERT_TRUE(world.Step());
  const auto refused = world.UnderWay(TaskKind::kGenerate);
  world.Swallow(TaskKind::kGenerate);
  for (TaskDone done : refused) {
    done.status = absl::FailedPreconditionError("holds no version");
    world.Send(done);
  }
  ASSERT_EQ(world.core().state(), Job::STATE_RUNNING);
  EXPECT_EQ(world.UnderWay(TaskKind::kToGeneration).size(), 1u);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

TEST(PoolsTest, WhyTellsWhoHasTheTurn) {
  SimulatedJob world = World(1, "ppo_colocated", 2);
  const auto wait_for = [&](const std::string& subject) -> std::string {
    const v1::ExplainJobResponse why = world.core().Explain(world.now());
    for (const v1::Wait& wait : why.waits()) {
      if (wait.kind() == "turn" && wait.subject() == subject) return wait.cause();
    }
    return "";
  };
  while (world.UnderWay(TaskKind::kGenerate).size() != 1 || wait_for("role reward").empty()) {
    ASSERT_TRUE(world.Step());
  }
  EXPECT_EQ(wait_for("role reward"), "its turn on shared workers; rollout runs 1 task");
  while (world.UnderWay(TaskKind::kUpdate).empty()) ASSERT_TRUE(world.Step());
  EXPECT_EQ(wait_for("role critic"),
            "its turn on shared workers, for update; actor executes update");
}

TEST(DataflowJobTest, TheCriticLearnsFromTheActorsBatchesAndIsSavedWithIt) {
  SimulatedJob world = World(3, "ppo", 4);
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.disk().at(4).size(), 2u);
  EXPECT_EQ(world.disk().at(4).at("actor"), world.disk().at(4).at("critic"))
      << "the same batches give the same simulated weights";
}

TEST(DataflowJobTest, TheCriticOfCostsIsTrainedAndSavedAsTheOther) {
  SimulatedJob world = World(3, "two_critics", 4);
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  const auto& saved = world.disk().at(4);
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved.at("cost_critic"), saved.at("critic"));
  EXPECT_EQ(saved.at("cost_critic"), saved.at("actor"));
}

TEST(DataflowJobTest, TheLossOfTheCriticTakesTheActorBackToo) {
  const auto run = [](const std::string& lost) {
    SimulatedJob world = World(3, "ppo", 5);
    while (world.core().step() < 3) world.Step();
    world.LoseOneOf(lost);
    EXPECT_EQ(world.core().step(), 2);
    EXPECT_EQ(world.core().incarnation(), 2u);
    EXPECT_EQ(world.core().state(), Job::STATE_RECOVERING);
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
    return world.FinalWeights();
  };
  SimulatedJob undisturbed = World(3, "ppo", 5);
  undisturbed.RunToEnd();
  EXPECT_EQ(run("critic"), undisturbed.FinalWeights());
  EXPECT_EQ(run("actor"), undisturbed.FinalWeights());
}

// All that the actor scores lies between two of its updates, and on whichever of its ranks.
TEST(DataflowJobTest, EveryRankOfTheActorScoresWhatItIsAskedFor) {
  std::set<std::string> scored;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedJob world = World(seed, "recomputed_on_ranks", 3);
    for (int i = 0; !world.ended() && i < 20000 && world.Step(); ++i) {
      for (const TaskDone& done : world.UnderWay(TaskKind::kScore)) scored.insert(done.worker);
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  }
  EXPECT_GE(std::count_if(scored.begin(), scored.end(),
                          [](const std::string& worker) { return worker.rfind("actor", 0) == 0; }),
            2);
}

// Every third group is dropped, so each step takes two rounds of three prompts, and the next goes
// on where it stopped.
TEST(DataflowJobTest, DynamicSamplingDrawsUntilThereIsEnough) {
  SimulatedJob world = World(5, "dapo", 2);
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  using ::testing::ElementsAre;
  const auto id = [](uint64_t prompt_index, uint32_t sample) {
    return TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, sample, 2);
  };
  EXPECT_THAT(world.trained().at(1),
              ElementsAre(id(1, 0), id(1, 1), id(2, 0), id(2, 1), id(4, 0), id(4, 1)));
  EXPECT_THAT(world.trained().at(2),
              ElementsAre(id(7, 0), id(7, 1), id(8, 0), id(8, 1), id(10, 0), id(10, 1)));
  const store::v1::JobRow row = world.core().Row();
  ASSERT_EQ(row.spent_size(), 1);
  EXPECT_EQ(row.spent(0).last(), 11u) << "and those that the batches had no place for";
}

// The relay loses the version while the step generates with it: the actor publishes it again, and
// the batch waits for that.
TEST(DataflowJobTest, AVersionThatIsPublishedAgainChangesNoBatch) {
  SimulatedJob undisturbed = World(5, "dapo", 2);
  undisturbed.RunToEnd();
  SimulatedJob world = World(5, "dapo", 2);
  while (world.core().Brief().phase() != "generating" ||
         world.UnderWay(TaskKind::kLoadWeights).empty() ||
         world.UnderWay(TaskKind::kGenerate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  TaskDone load = world.UnderWay(TaskKind::kLoadWeights)[0];
  world.Swallow(TaskKind::kLoadWeights);
  load.status = absl::NotFoundError("the relay has no such version");
  world.Send(load);
  const std::vector<TaskDone> publish = world.UnderWay(TaskKind::kPublish);
  ASSERT_EQ(publish.size(), 1u);
  world.Swallow(TaskKind::kPublish);
  for (int i = 0; i < 200 && world.Step(); ++i) {
  }
  EXPECT_EQ(world.core().Brief().phase(), "publishing weights");
  EXPECT_TRUE(world.UnderWay(TaskKind::kUpdate).empty());
  world.Send(publish[0]);
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.trained(), undisturbed.trained());
}

TEST(DataflowJobTest, DynamicSamplingGivesUpAtItsLimitAndSaysWhy) {
  SimulatedJob::Options options;
  options.preset = "dapo";
  options.filter_all = true;
  SimulatedJob world(options);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_EQ(world.core().step(), 0);
  EXPECT_THAT(world.core().Brief().error().message(),
              ::testing::HasSubstr("after 10 batches of 3 prompts only 0 of 3 groups"));
}

}  // namespace
}  // namespace baton::controller
