// Rewards that fail: when they end the job, and what its user is told before.
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using Job = v1::Job;
using Failing = SimulatedJob::Options::Failing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A step has 3 prompts of 2 responses, the evaluations 4.
SimulatedJob::Options RewardsThat(Failing failing, double max_error_rate, int steps = 1) {
  SimulatedJob::Options options;
  options.preset = "grpo";
  options.steps = steps;
  options.failing_rewards = failing;
  options.max_error_rate = max_error_rate;
  return options;
}

std::string ErrorOf(const SimulatedJob& world) { return world.row().job().error().message(); }

// By hand from FailsForGood: 1 of the 4 of each evaluation fails. In step 1, 1 of the first 6
// fails, then both of the group drawn in place of that one (3 of 8), then none of the next (3 of
// 10).
TEST(RewardErrors, EndTheJobOnceTheyAreMoreThanItAllows) {
  struct Case {
    double rate;
    bool good;
    std::string error;
  };
  for (const Case& c : {Case{0, false,
                             "the rewards of 1 of 4 responses of the evaluation of step 0 failed; "
                             "reward.max_error_rate 0 allows 0. "},
                        Case{0.2, false,
                             "the rewards of 1 of 4 responses of the evaluation of step 0 failed; "
                             "reward.max_error_rate 0.2 allows 0. "},
                        Case{0.25, false,
                             "the rewards of 3 of 8 responses of step 1 failed; "
                             "reward.max_error_rate 0.25 allows 2. "},
                        Case{0.375, true, ""}, Case{1, true, ""}}) {
    SimulatedJob world(RewardsThat(Failing::kSome, c.rate));
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), c.good ? Job::STATE_SUCCEEDED : Job::STATE_FAILED) << c.rate;
    EXPECT_THAT(ErrorOf(world), HasSubstr(c.error));
    EXPECT_EQ(world.trained().size(), c.good ? 1u : 0u)
        << "a step whose rewards failed trains none";
  }
}

TEST(RewardErrors, AreToldWithTheFirstErrorAndWhatToDo) {
  SimulatedJob world(RewardsThat(Failing::kAll, 0.1));
  world.RunToEnd();
  EXPECT_THAT(ErrorOf(world),
              AllOf(HasSubstr("The first: eval-"), HasSubstr(" on worker "),
                    HasSubstr(": the command ended"), HasSubstr("baton reward test")));
  EXPECT_THAT(world.core().Explain(world.now()).summary(), HasSubstr("the command ended"));
  EXPECT_TRUE(world.core().HeldWorkers().empty());
}

TEST(RewardErrors, CountWhateverTheErrorIsWorth) {
  SimulatedJob::Options options = RewardsThat(Failing::kAll, 0.1);
  options.error_reward = true;
  SimulatedJob world(options);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(ErrorOf(world), HasSubstr("reward.max_error_rate 0.1 allows 0"));
}

TEST(RewardErrors, AreShownFromTheFirstOneOn) {
  SimulatedJob world(RewardsThat(Failing::kAll, 1));
  while (world.warnings().empty() && world.Step()) {
  }
  ASSERT_EQ(world.warnings().size(), 1u);
  EXPECT_THAT(world.warnings()[0],
              AllOf(HasSubstr("the rewards of 1 of 4 responses of the evaluation of step 0 failed"),
                    HasSubstr("the job fails when more than 4 do (reward.max_error_rate 1)"),
                    HasSubstr("the command ended")));
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  ASSERT_GT(why.waits_size(), 0);
  EXPECT_EQ(why.waits(0).kind(), "reward_errors");
  EXPECT_THAT(why.waits(0).cause(),
              AllOf(HasSubstr("its rewards: 1 of 4 have failed. The first: eval-"),
                    HasSubstr("the command ended")));
  EXPECT_THAT(why.waits(0).action(), HasSubstr("the job fails when more than 4 of the 4 rewards"));
}

TEST(RewardErrors, AreNotToldAgainWithinHalfAMinute) {
  SimulatedJob world(RewardsThat(Failing::kAll, 1));
  while (world.core().step() == 0 && world.warnings().size() < 2 && world.Step()) {
  }
  EXPECT_LT(world.now(), absl::UnixEpoch() + absl::Hours(1) + absl::Seconds(30));
  ASSERT_EQ(world.warnings().size(), 2u);
  EXPECT_THAT(world.warnings()[1], HasSubstr("another prompt replaces it"))
      << "a warning of its own";
}

std::string WorkerOf(SimulatedJob& world, const std::string& role) {
  for (const auto& [worker, roles] : world.core().HeldWorkers()) {
    if (roles == role) return worker;
  }
  return "";
}

TEST(RewardErrors, AWorkersTroubleIsTheFirstReasonUntilItIsOver) {
  SimulatedJob world(RewardsThat(Failing::kNone, 0.5));
  while (world.UnderWay(TaskKind::kScore).empty() && world.Step()) {
  }
  const std::string worker = WorkerOf(world, "reward");
  const std::string line = "your command exited with code 2: boom (restarted 3 times)";
  const std::string text = line + "\nThe end of its stderr:\nTraceback";
  world.Send(RoleTroubled{worker, "reward", text});
  ASSERT_EQ(world.warnings().size(), 1u);
  EXPECT_EQ(world.warnings()[0], "role reward, worker " + worker + ": " + text);
  world.Wait(absl::Seconds(2));
  v1::ExplainJobResponse why = world.core().Explain(world.now());
  EXPECT_EQ(why.waits(0).kind(), "trouble");
  EXPECT_EQ(why.waits(0).subject(), "role reward");
  EXPECT_EQ(why.waits(0).cause(), "worker " + worker + ", which says: " + line);
  EXPECT_EQ(why.waits(0).since().seconds(), 2);
  EXPECT_THAT(why.waits(0).action(),
              HasSubstr("the job fails when more than 2 of the 4 rewards of the evaluation of step "
                        "0 fail (reward.max_error_rate 0.5)\nThe end of its stderr:\nTraceback"));
  for (const v1::Wait& wait : why.waits()) {
    EXPECT_THAT(wait.action(), Not(HasSubstr("it is tried again; after the last try")));
  }
  world.Send(RoleTroubled{worker, "reward", text + " again"});  // told, but not at once again
  EXPECT_EQ(world.warnings().size(), 1u);
  world.Wait(absl::Minutes(1));
  world.Send(RoleTroubled{worker, "reward", text + " and again"});
  EXPECT_EQ(world.warnings().size(), 2u);

  world.Send(RoleTroubled{worker, "reward", ""});
  why = world.core().Explain(world.now());
  for (const v1::Wait& wait : why.waits()) EXPECT_NE(wait.kind(), "trouble");
  EXPECT_EQ(world.warnings().size(), 2u);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

TEST(RewardErrors, IgnoreTroubleOfOtherAndLostWorkers) {
  SimulatedJob world(RewardsThat(Failing::kNone, 0.5));
  while (world.UnderWay(TaskKind::kScore).empty() && world.Step()) {
  }
  const std::string worker = WorkerOf(world, "reward");
  world.Send(RoleTroubled{"stranger", "reward", "boom"});
  world.Send(RoleTroubled{worker, "actor", "boom"});
  EXPECT_TRUE(world.warnings().empty());
  world.Send(RoleTroubled{worker, "reward", "boom"});
  EXPECT_EQ(world.core().Explain(world.now()).waits(0).kind(), "trouble");
  world.Lose(worker);
  const v1::ExplainJobResponse why = world.core().Explain(world.now());
  for (const v1::Wait& wait : why.waits()) EXPECT_NE(wait.kind(), "trouble");
}

// A score whose task fails is tried again: that too is told from the first time on.
TEST(RewardErrors, ATryThatFailsIsShown) {
  SimulatedJob world(RewardsThat(Failing::kNone, 1));
  while (world.UnderWay(TaskKind::kScore).empty() && world.Step()) {
  }
  TaskDone score = world.UnderWay(TaskKind::kScore).front();
  score.status = absl::InternalError("KeyError: 'answer'");
  score.output = TaskOutput();
  world.Send(score);
  EXPECT_THAT(world.warnings(),
              ElementsAre(AllOf(HasSubstr("a score failed and is computed again: eval-"),
                                HasSubstr("KeyError: 'answer'"))));
  EXPECT_THAT(world.core().Explain(world.now()).waits(0).cause(),
              AllOf(HasSubstr("1 tries have failed"), HasSubstr("KeyError: 'answer'")));
  // The message names an error that counts: not the one of a try that was repeated with success.
  const auto wanted = [&]() -> std::optional<TaskDone> {
    for (const TaskDone& done : world.UnderWay(TaskKind::kScore)) {
      if (world.core().Wants(done.worker, done.ref)) return done;
    }
    return std::nullopt;
  };
  while (!wanted().has_value()) ASSERT_TRUE(world.Step());
  TaskDone counts = *wanted();
  counts.output = TaskOutput();
  counts.output.error = "no number in it";
  world.Send(counts);
  EXPECT_THAT(world.core().Explain(world.now()).waits(0).cause(),
              AllOf(HasSubstr("1 of 4 have failed"), HasSubstr("no number in it"),
                    Not(HasSubstr("KeyError"))));
}

// Errors that were counted before a restart count after it.
TEST(RewardErrors, AreCountedAcrossARestart) {
  for (int at = 0; at < 200; at += 3 * kStride) {
    SimulatedJob world(RewardsThat(Failing::kSome, 0.25));
    bool moved = true;
    for (int i = 0; !world.ended() && moved; ++i) {
      if (i == at) world.Restart(0);
      moved = world.Step();
    }
    EXPECT_EQ(world.core().state(), Job::STATE_FAILED) << "restart at " << at;
    EXPECT_THAT(ErrorOf(world), HasSubstr("the rewards of 3 of 8 responses of step 1 failed"))
        << "restart at " << at;
  }
}

}  // namespace
}  // namespace baton::controller
