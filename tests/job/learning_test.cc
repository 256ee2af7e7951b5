// Tests of a job's messages about its learning, its best checkpoint, its early end, and its
// continuation after a failure: all are the same whatever dies meanwhile.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Job = v1::Job;

/// Runs to the end, with deaths and restarts.
void RunDisturbed(SimulatedJob& world, uint64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int i = 0; !world.ended() && i < 20'000; ++i) {
    if (random() % 50 == 0) world.LoseSomeWorker();
    if (random() % 90 == 0) world.LoseOneOf("actor");
    if (random() % 90 == 0) world.Restart(static_cast<int>(random() % 2) * 50);
    if (random() % 120 == 0) world.Send(PauseRequested{});
    if (random() % 20 == 0) world.Send(ResumeRequested{});
    if (!world.Step()) world.Send(ResumeRequested{});
  }
}

std::vector<std::string> ToldBy(const SimulatedJob& world, const std::string& type,
                                const std::string& text) {
  std::vector<std::string> out;
  for (const v1::JobEvent& event : world.events()) {
    if (event.type() == type && absl::StrContains(event.message(), text)) {
      out.push_back(event.message());
    }
  }
  return out;
}

uint64_t ActorIn(const SimulatedJob& world, int64_t step) {
  return world.disk().at(step).at("actor");
}

SimulatedJob::Options Plain(uint64_t seed, int steps) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = steps;
  return options;
}

TEST(JobLearningTest, AJobWithoutUpdatesSucceedsAndSaysWhatItDid) {
  for (uint64_t seed = 0; seed < 30; seed += kStride) {
    SimulatedJob::Options options = Plain(seed, 6);
    options.filter_all = true;
    SimulatedJob world(options);
    seed == 0 ? world.RunToEnd() : RunDisturbed(world, seed);
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << seed;
    const char kSummary[] = "6 of 6 steps made no update: all rewards of each group were equal";
    EXPECT_THAT(ToldBy(world, "warning", "of 6 steps made no"), ElementsAre(kSummary)) << seed;
    EXPECT_THAT(world.core().Describe().warnings(), ElementsAre(kSummary));
    EXPECT_THAT(ToldBy(world, "warning", "steps 1 to 3 made no update"), Not(IsEmpty())) << seed;
    if (seed > 0) continue;
    ASSERT_EQ(ToldBy(world, "warning", "steps 1 to 3 made no update").size(), 1u);
    // The warning is told when it begins, and in the end.
    const v1::JobEvent& last = *(world.events().rbegin() + 1);
    EXPECT_EQ(last.message(), kSummary);
  }
}

TEST(JobLearningTest, AJobThatLearnsHasNoWarnings) {
  SimulatedJob world(Plain(1, 6));
  world.RunToEnd();
  EXPECT_THAT(ToldBy(world, "warning", ""), IsEmpty());
  EXPECT_THAT(world.core().Describe().warnings(), IsEmpty());
}

TEST(JobLearningTest, AnIdleJobFailsWhenItsSpecSaysSoAndGoesOnWhenAskedTo) {
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob::Options options = Plain(seed, 9);
    options.filter_all = true;
    options.edit = [](v1::JobSpec* spec) { spec->mutable_trainer()->set_fail_after_idle_steps(5); };
    SimulatedJob world(options);
    seed == 0 ? world.RunToEnd() : RunDisturbed(world, seed);
    ASSERT_EQ(world.core().state(), Job::STATE_FAILED) << seed;
    EXPECT_EQ(world.core().step(), 5);
    EXPECT_THAT(world.core().Describe().error().message(),
                HasSubstr("5 steps in a row, steps 1 to 5, had nothing to learn from"));
    // The checkpoint's count of idle steps is not forgotten.
    world.Send(ResumeRequested{});
    EXPECT_EQ(world.core().state(), Job::STATE_QUEUED);
    EXPECT_EQ(world.core().step(), 4);
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
    EXPECT_EQ(world.core().step(), 5);
  }
}

// After steps 0, 2, 4, 6, 8, 10, 12.
double Accuracy(int64_t step) {
  constexpr double kValues[] = {0.1, 0.4, 0.7, 0.6, 0.5, 0.65, 0.3};
  return kValues[step / 2];
}

TEST(JobLearningTest, TheBestCheckpointIsKeptBesideTheNewest) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob::Options options = Plain(seed, 12);
    options.max_checkpoints = 2;
    options.accuracy = Accuracy;
    options.edit = [](v1::JobSpec* spec) {
      spec->mutable_trainer()->set_keep_best("val/accuracy");
      spec->mutable_trainer()->set_save_freq(3);  // 4 is saved for its accuracy alone
    };
    SimulatedJob world(options);
    seed == 0 ? world.RunToEnd() : RunDisturbed(world, seed);
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << seed;
    std::vector<int64_t> kept, best, on_disk;
    for (const v1::Checkpoint& checkpoint : world.core().checkpoints()) {
      kept.push_back(checkpoint.step());
      if (checkpoint.best()) best.push_back(checkpoint.step());
    }
    for (const auto& [step, weights] : world.disk()) on_disk.push_back(step);
    EXPECT_EQ(best, std::vector<int64_t>{4}) << seed;
    // A checkpoint that a trainer's loss interrupted may lie there besides.
    EXPECT_TRUE(std::includes(on_disk.begin(), on_disk.end(), kept.begin(), kept.end())) << seed;
    EXPECT_EQ(kept.size(), 3u) << seed;
    EXPECT_EQ(kept.back(), 12);
    if (seed > 0) continue;
    EXPECT_EQ(kept, (std::vector<int64_t>{4, 9, 12}));
    EXPECT_EQ(kept, on_disk);
  }
}

TEST(JobLearningTest, AJobEndsEarlyAtTheSameStepWhateverDies) {
  uint64_t weights = 0;
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob::Options options = Plain(seed, 12);
    options.accuracy = Accuracy;
    options.edit = [](v1::JobSpec* spec) {
      v1::EarlyStopSpec* early = spec->mutable_trainer()->mutable_early_stop();
      early->set_metric("val/accuracy");
      early->set_patience(2);
    };
    SimulatedJob world(options);
    seed == 0 ? world.RunToEnd() : RunDisturbed(world, seed);
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << seed;
    EXPECT_EQ(world.core().step(), 8) << seed;  // the best is of step 4, and 6 and 8 are worse
    EXPECT_EQ(world.core().checkpoints().back().step(), 8);
    EXPECT_THAT(world.core().Describe().stop_reason(),
                HasSubstr("val/accuracy has not become better than 0.7 (step 4)"));
    EXPECT_THAT(ToldBy(world, "notice", "the job ends early, after step 8 of 12"),
                Contains(HasSubstr("in 2 measurements")));
    if (seed == 0) weights = ActorIn(world, 8);
    EXPECT_EQ(ActorIn(world, 8), weights) << seed;
  }
}

TEST(JobLearningTest, AJobWhoseHoursAreUsedUpEndsAfterItsStep) {
  SimulatedJob::Options options = Plain(2, 9);
  options.edit = [](v1::JobSpec* spec) { spec->mutable_trainer()->set_max_hours(2); };
  SimulatedJob world(options);
  while (world.core().step() < 3) ASSERT_TRUE(world.Step());
  // A pause does not count, however long it is.
  world.Send(PauseRequested{});
  while (world.core().state() != Job::STATE_PAUSED) ASSERT_TRUE(world.Step());
  world.Wait(absl::Hours(5));
  world.Send(ResumeRequested{});
  while (world.core().step() < 4) ASSERT_TRUE(world.Step());
  world.Wait(absl::Hours(1));
  while (world.core().step() < 5) ASSERT_TRUE(world.Step());
  world.Restart(0);  // what was worked is known to the next controller
  const auto generates_after_six = [&] {
    return world.core().step() == 6 && world.core().Describe().phase() == "generating";
  };
  while (!generates_after_six()) ASSERT_TRUE(world.Step());
  EXPECT_EQ(world.core().Describe().stop_reason(), "");
  world.Wait(absl::Minutes(61));
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.core().step(), 7);
  EXPECT_EQ(world.core().Describe().stop_reason(), "trainer.max_hours (2) is used up");
  EXPECT_EQ(world.core().checkpoints().back().step(), 7);
  EXPECT_TRUE(world.evaluated().count(7) > 0) << "as after a last step";
}

// The generated responses of the step in progress are kept, and the job ends after that step.
TEST(JobLearningTest, AStepThatARestartInterruptedIsFinishedWhenTheHoursAreUsedUp) {
  for (const bool evaluates : {false, true}) {
    SimulatedJob::Options options = Plain(2, 9);
    options.edit = [](v1::JobSpec* spec) {
      spec->mutable_trainer()->set_max_hours(2);
      spec->mutable_trainer()->set_test_freq(1);
      spec->mutable_trainer()->set_val_after_train(false);
    };
    SimulatedJob world(options);
    const auto half_done = [&] {
      const Job job = world.core().Describe();
      return job.step() == 6 && job.phase() == (evaluates ? "evaluating" : "generating") &&
             job.phase_done() > 0;
    };
    while (!half_done()) ASSERT_TRUE(world.Step());
    world.Restart(0);
    world.Wait(absl::Hours(3));
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
    EXPECT_EQ(world.core().step(), evaluates ? 6 : 7);
    EXPECT_EQ(world.core().checkpoints().back().step(), world.core().step());
    EXPECT_EQ(world.core().Describe().stop_reason(), "trainer.max_hours (2) is used up");
    EXPECT_TRUE(world.evaluated().count(6) > 0);
  }
}

TEST(JobLearningTest, TimeThatTheControllerDidNotRunIsNotWorked) {
  SimulatedJob::Options options = Plain(2, 4);
  options.edit = [](v1::JobSpec* spec) { spec->mutable_trainer()->set_max_hours(2); };
  SimulatedJob world(options);
  while (world.core().step() < 2) ASSERT_TRUE(world.Step());
  world.Wait(absl::Hours(5));
  world.Send(TimeLost{absl::Hours(5)});
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.core().step(), 4);
  EXPECT_EQ(world.core().Describe().stop_reason(), "");
  EXPECT_LT(world.row().worked_seconds(), 3600);
}

// Data that were being read when the job ended are read again, and the old answer is ignored.
TEST(JobLearningTest, AJobThatEndsWhileItsDataAreReadGoesOn) {
  SimulatedJob world(Plain(1, 2));
  while (world.core().state() == Job::STATE_QUEUED) ASSERT_TRUE(world.Step());
  world.Send(CancelRequested{});
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_CANCELLED);
  world.Send(ResumeRequested{});
  ASSERT_EQ(world.core().state(), Job::STATE_QUEUED);
  world.Send(DataLoaded{absl::InternalError("the disk was gone")});
  EXPECT_EQ(world.core().state(), Job::STATE_QUEUED);
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

TEST(JobLearningTest, AJobThatFailedOrWasCancelledGoesOnToTheSameEnd) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob::Options options = Plain(seed, 6);
    options.max_checkpoints = 2;
    options.actor_ranks = seed % 3 == 0 ? 2 : 1;
    options.sft = seed % 7 == 1;
    SimulatedJob undisturbed(options);
    undisturbed.RunToEnd();
    ASSERT_EQ(undisturbed.core().state(), Job::STATE_SUCCEEDED);
    SimulatedJob world(options);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int ends = 0; ends < 4; ++ends) {
      for (uint64_t i = random() % 60; i > 0 && !world.ended(); --i) world.Step();
      if (world.core().state() == Job::STATE_SUCCEEDED) break;
      const bool cancels = random() % 2 == 0;
      if (cancels) {
        world.Send(CancelRequested{});
      } else {
        while (!IsActive(world.core().state())) ASSERT_TRUE(world.Step());
        world.Send(DataLoaded{absl::InternalError("the disk is gone")});
      }
      if (random() % 3 == 0) world.Restart(50);
      world.RunToEnd();
      ASSERT_EQ(world.core().state(), cancels ? Job::STATE_CANCELLED : Job::STATE_FAILED) << seed;
      // `baton resume` is suggested if there is a checkpoint.
      EXPECT_EQ(absl::StrContains(world.core().Explain(world.now()).summary(), "`baton resume "),
                !world.core().checkpoints().empty());
      if (random() % 3 == 0) world.Restart(0);
      world.Send(ResumeRequested{});
      ASSERT_EQ(world.core().state(), Job::STATE_QUEUED) << seed;
      const Job job = world.core().Describe();
      EXPECT_FALSE(job.has_error());
      EXPECT_FALSE(job.has_end_time());
    }
    RunDisturbed(world, seed);
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << seed;
    EXPECT_EQ(world.FinalWeights(), undisturbed.FinalWeights()) << seed;
  }
}

TEST(JobLearningTest, ResumingASucceededJobChangesNothing) {
  SimulatedJob world(Plain(1, 2));
  world.RunToEnd();
  world.Send(ResumeRequested{});
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

}  // namespace
}  // namespace baton::controller
