// Worlds in which a rule broke once, told by what happens in them.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

SimulatedJob::Options FourSteps(uint64_t seed) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = 4;
  return options;
}

uint64_t EndOfUndisturbed(const SimulatedJob::Options& options) {
  SimulatedJob world(options);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  return world.FinalWeights();
}

bool WasStopped(const SimulatedJob& world, const std::string& worker, const TaskRef& ref) {
  const auto& stopped = world.stopped();
  return std::any_of(stopped.begin(), stopped.end(), [&](const StopTask& stop) {
    return stop.worker == worker && stop.ref == ref;
  });
}

SimulatedJob::Options WithTwoReferenceRanks(uint64_t seed) {
  SimulatedJob::Options options = FourSteps(seed);
  options.preset = "ppo";
  options.reference_ranks = options.reference_tp = 2;
  return options;
}

// The scores under way that the job still wants.
std::vector<TaskDone> ScoresOfReference(SimulatedJob& world) {
  std::vector<TaskDone> scores;
  for (const TaskDone& done : world.UnderWay(TaskKind::kScore)) {
    const bool wanted = world.core().Wants(done.worker, done.ref);
    if (wanted && world.core().RoleOf(done.ref) == "reference") scores.push_back(done);
  }
  return scores;
}

bool WaitsForRegroup(SimulatedJob& world) {
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  return std::any_of(why.waits().begin(), why.waits().end(),
                     [](const auto& wait) { return wait.kind() == "regroup"; });
}

// A rollout hangs through two controllers and wakes up under the third one with tokens of an
// evaluation. Its messages before that controller knows the trajectories belong to no task, and the
// next evaluation, whose responses have the same names, begins without tokens.
TEST(WorldsTest, TokensOfAnEarlierEvaluationAreNotGoneOnWith) {
  SimulatedJob world(FourSteps(3));
  const auto evaluates = [&] {
    const auto running = world.UnderWay(TaskKind::kGenerate);
    return world.core().step() == 2 && !running.empty() &&
           PurposeOf(running[0].ref.subject) == v1::PURPOSE_EVAL;
  };
  while (!evaluates()) ASSERT_TRUE(world.Step());
  const TaskDone hangs = world.UnderWay(TaskKind::kGenerate)[0];
  world.Restart(0);
  world.Restart(0);
  world.Send(TaskProgressed{hangs.worker, hangs.ref, 5});
  const TrajectoryInfo* before = world.core().Find(hangs.ref.subject);
  EXPECT_TRUE(before == nullptr || before->tokens == 0);
  while (world.core().step() < 4 && !world.ended()) ASSERT_TRUE(world.Step());
  while (!world.ended() && world.core().Describe().phase() != "evaluating") {
    ASSERT_TRUE(world.Step());
  }
  const TrajectoryInfo* next = world.core().Find(hangs.ref.subject);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->tokens, 0u);
  world.RunToEnd();
  EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(FourSteps(3)));
}

// A response is of one version: what a retry goes on with are tokens of the very weights that it
// is sent to. After a recovery they are none.
TEST(WorldsTest, ARetryGoesOnWithTokensOfItsOwnWeightsAlone) {
  SimulatedJob world(FourSteps(4));
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kGenerate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  TaskDone first = world.UnderWay(TaskKind::kGenerate)[0];
  const uint64_t id = first.ref.subject;
  world.Send(TaskProgressed{first.worker, first.ref, 3});
  world.Lose(first.worker);
  EXPECT_EQ(world.core().Find(id)->tokens, 3u) << "another replica goes on with them";
  world.LoseOneOf("actor");
  while (world.core().Find(id) == nullptr) ASSERT_TRUE(world.Step());
  EXPECT_EQ(world.core().Find(id)->tokens, 0u);
  world.RunToEnd();
  EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(FourSteps(4)));
}

// A response that a worker generates with another version than the job's is not taken over after a
// restart.
TEST(WorldsTest, AGenerationOfAnotherVersionIsNotTakenOver) {
  for (const bool same : {true, false}) {
    SimulatedJob world(FourSteps(5));
    while (world.core().step() < 1 || world.UnderWay(TaskKind::kGenerate).empty()) {
      ASSERT_TRUE(world.Step());
    }
    TaskDone running = world.UnderWay(TaskKind::kGenerate)[0];
    const uint64_t version = world.core().Find(running.ref.subject)->policy_version;
    if (!same) --running.ref.version;
    world.Swallow(TaskKind::kGenerate);
    world.Restart(0);
    world.Send(WorkerReconnected{running.worker, {{"rollout", version}}, {running.ref}, {}});
    while (!world.core().knows_trajectories()) ASSERT_TRUE(world.Step());
    EXPECT_EQ(world.core().Wants(running.worker, running.ref), same);
    EXPECT_EQ(WasStopped(world, running.worker, running.ref), !same);
  }
}

// A response is lost after a restart and generated again; the worker that was scoring the lost one
// under the earlier controller attaches only then. Its score is of a response that is gone.
TEST(WorldsTest, AScoreOfALostResponseIsNotTakenOver) {
  int seen = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimulatedJob world(FourSteps(seed));
    while (world.core().step() < 1 || world.UnderWay(TaskKind::kScore).empty()) {
      ASSERT_TRUE(world.Step());
    }
    const TaskDone scores = world.UnderWay(TaskKind::kScore)[0];
    const uint64_t id = scores.ref.subject;
    world.Swallow(TaskKind::kScore);
    world.Restart(0);
    while (!world.core().knows_trajectories()) ASSERT_TRUE(world.Step());
    if (world.core().Wants(scores.worker, scores.ref)) continue;  // it was back before the loss
    world.Send(PayloadLost{{{id, world.core().Find(id)->serial}}, "the file is gone"});
    while (world.core().Find(id)->state == TrajectoryState::kPending ||
           world.core().Find(id)->state == TrajectoryState::kGenerating) {
      ASSERT_TRUE(world.Step());
    }
    if (world.core().Find(id)->state == TrajectoryState::kReady) continue;
    ++seen;
    world.Send(WorkerReconnected{scores.worker, {{"reward", 0}}, {scores.ref}, {}});
    EXPECT_FALSE(world.core().Wants(scores.worker, scores.ref)) << seed;
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  }
  EXPECT_GT(seen, 3);
}

// Ranks that hold the reference together miss one of them, and the job is paused before they meet
// again. When it is resumed, nothing waits for that meeting.
TEST(WorldsTest, ABrokenGroupThatIsGivenBackIsWaitedForNoLonger) {
  const SimulatedJob::Options options = WithTwoReferenceRanks(7);
  SimulatedJob world(options);
  while (world.core().step() < 1 || ScoresOfReference(world).empty()) ASSERT_TRUE(world.Step());
  TaskDone broken = ScoresOfReference(world)[0];
  broken.status = absl::UnavailableError("rank 1 closed its connection");
  world.Send(broken);
  ASSERT_TRUE(WaitsForRegroup(world));
  world.Send(PauseRequested{});
  world.LoseOneOf("actor");  // it is paused where its checkpoint is, at once
  while (world.core().state() != Job::STATE_PAUSED) ASSERT_TRUE(world.Step());
  EXPECT_FALSE(WaitsForRegroup(world));
  world.Send(ResumeRequested{});
  EXPECT_FALSE(WaitsForRegroup(world)) << "of a group that it does not hold yet";
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(options));
}

// Two jobs hold what each other lacks, and the later one gives its workers back, whatever it is
// at. It goes on from its checkpoint when it is granted workers again.
TEST(WorldsTest, AJobThatGivesItsWorkersBackGoesOnLater) {
  const uint64_t end = EndOfUndisturbed(FourSteps(10));
  for (int at = 1; at < 160; at += 2 * kStride) {
    SimulatedJob world(FourSteps(10));
    for (int i = 0; i < at && !world.ended(); ++i) world.Step();
    if (world.ended()) break;
    const bool pauses = at % 3 == 0;
    if (pauses) world.Send(PauseRequested{});
    world.Send(YieldRequested{"an earlier one lacks them"});
    while (!world.ended() && !world.core().HeldWorkers().empty() && world.Step()) {
    }
    if (world.ended()) continue;
    EXPECT_EQ(world.core().state(), pauses ? Job::STATE_PAUSED : Job::STATE_QUEUED) << at;
    EXPECT_EQ(world.InQueue(), !pauses) << at;
    world.Send(ResumeRequested{});
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << at;
    EXPECT_EQ(world.FinalWeights(), end) << at;
  }
}

// The first of two ranks that hold the reference together reports that it misses the other: what
// they score besides is stopped. Then the controller restarts and hears the result of what was
// stopped, which failed for the same reason. It is asked again, and breaks no group.
TEST(WorldsTest, AFailureThatAnEarlierControllerSawIsNotCountedAgain) {
  const SimulatedJob::Options options = WithTwoReferenceRanks(7);
  SimulatedJob world(options);
  while (world.core().step() < 1 || ScoresOfReference(world).size() < 2) ASSERT_TRUE(world.Step());
  const std::vector<TaskDone> running = ScoresOfReference(world);
  TaskDone broken = running[0], stopped = running[1];
  broken.status = stopped.status = absl::UnavailableError("rank 1 closed its connection");
  world.Send(broken);
  EXPECT_TRUE(WasStopped(world, stopped.worker, stopped.ref));
  world.Swallow(TaskKind::kScore);
  world.Restart(0);
  world.Send(WorkerReconnected{stopped.worker, {{"reference", 0}}, {}, {stopped.ref}});
  while (!world.core().knows_trajectories()) ASSERT_TRUE(world.Step());
  if (world.core().Wants(stopped.worker, stopped.ref)) world.Send(stopped);
  EXPECT_FALSE(WaitsForRegroup(world)) << world.core().Explain(world.now()).DebugString();
  EXPECT_FALSE(world.core().Wants(stopped.worker, stopped.ref));
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(options));
}

// Critic and reward share a worker, which computes rewards when a power cut takes the rows of two
// values; of one the worker still holds the result. Rewards and that result are both taken over,
// and neither role begins anything before the other one has ended (SimulatedJob::CheckTurn looks).
TEST(WorldsTest, NoRoleBeginsWhileAnotherOneOfItsPoolWasTakenOver) {
  int met = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimulatedJob::Options options = FourSteps(seed);
    options.preset = "ppo";
    options.pools = {{"actor", "reference"}, {"critic", "reward"}, {"rollout"}};
    SimulatedJob world(options);
    const auto of = [&](const std::string& role) {
      std::vector<TaskDone> scores;
      for (const TaskDone& done : world.UnderWay(TaskKind::kScore)) {
        const bool wanted = world.core().Wants(done.worker, done.ref);
        if (wanted && world.core().RoleOf(done.ref) == role) scores.push_back(done);
      }
      return scores;
    };
    while (world.core().step() < 1 || of("reward").size() < 3) {
      if (!of("critic").empty()) world.RepeatAResult();
      ASSERT_TRUE(world.Step());
    }
    std::set<uint64_t> held;  // results that the worker still has
    uint32_t node = 0;
    for (const TaskDone& done : world.UnderWay(TaskKind::kScore)) {
      const TrajectoryInfo* scored = world.core().Find(done.ref.subject);
      const bool current = scored != nullptr && scored->trajectory_uid == done.ref.trajectory_uid;
      if (world.core().RoleOf(done.ref) != "critic" || !current) continue;
      held.insert(done.ref.subject);
      node = done.ref.target;
    }
    int lost[2] = {0, 0};
    for (auto& [serial, row] : world.rows()) {
      const bool made = row.incarnation() == world.core().incarnation() &&
                        row.step() == world.core().step() + 1 && (row.scored_nodes() >> node & 1);
      if (!made || lost[held.count(row.id())]++ > 0) continue;
      row.set_scored_nodes(row.scored_nodes() & ~(uint64_t{1} << node));
      auto& columns = *row.mutable_columns();
      columns.erase(std::remove_if(columns.begin(), columns.end(),
                                   [&](const auto& made) { return made.node() == node; }),
                    columns.end());
    }
    if (lost[0] == 0 || lost[1] == 0) continue;
    ++met;
    world.Restart(0);
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << seed;
    EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(options));
  }
  EXPECT_GT(met, 20);
}

// A worker that does not hold the role it took on has lost it with whatever it held there: the job
// goes on without that worker, and fails by none of the answers.
TEST(WorldsTest, AWorkerThatDoesNotHoldItsRoleIsALostOne) {
  for (TaskKind kind : {TaskKind::kUpdate, TaskKind::kPublish, TaskKind::kSaveCheckpoint,
                        TaskKind::kLoadWeights, TaskKind::kGenerate, TaskKind::kScore}) {
    const std::string what(MethodName(kind));
    SimulatedJob world(FourSteps(8));
    while (world.core().step() < 2 || world.UnderWay(kind).empty()) {
      ASSERT_TRUE(world.Step()) << what;
    }
    TaskDone refused = world.UnderWay(kind)[0];
    refused.status = absl::FailedPreconditionError("this worker does not hold the role");
    refused.role_lost = true;
    const bool trains = IsGroupCommand(kind);
    world.Swallow(kind);
    world.Send(refused);
    EXPECT_EQ(world.core().HeldWorkers().count(refused.worker), 0u) << what;
    EXPECT_EQ(world.core().incarnation(), trains ? 2u : 1u) << what;
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
        << what << world.core().Explain(world.now()).DebugString();
    EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(FourSteps(8))) << what;
  }
}

// A worker that moves to another worker slot leaves its role first, and the job asks for none: the
// queue has found who takes its place.
TEST(WorldsTest, AWorkerThatMovesLeavesItsRole) {
  SimulatedJob world(FourSteps(9));
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kScore).empty()) {
    ASSERT_TRUE(world.Step());
  }
  const std::string moves = world.UnderWay(TaskKind::kScore)[0].worker;
  world.Send(WorkerLost{moves, "it moves", /*moves=*/true});
  const auto releases = world.UnderWay(TaskKind::kReleaseRole);
  ASSERT_EQ(releases.size(), 1u);
  EXPECT_EQ(releases[0].worker, moves);
  EXPECT_FALSE(world.InQueue());
  EXPECT_EQ(world.core().HeldWorkers().count(moves), 0u);
  world.Send(WorkerGranted{moves, "reward", {{"reward", 4}}});
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.FinalWeights(), EndOfUndisturbed(FourSteps(9)));
}

}  // namespace
}  // namespace baton::controller
