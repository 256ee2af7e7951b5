// A job on simulated workers in virtual time. What happens next is drawn from a seed:
// which task ends, who is lost, when the controller restarts.
#include "tests/job/simulated_job.h"

#include <map>
#include <random>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using Job = v1::Job;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

SimulatedJob WorldOf(uint64_t seed, bool sft, int steps) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.sft = sft;
  options.steps = steps;
  return SimulatedJob(options);
}

std::map<int64_t, std::vector<uint64_t>> Undisturbed(bool sft, int steps) {
  SimulatedJob world = WorldOf(1, sft, steps);
  while (!world.ended() && world.Step()) {
  }
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  return world.trained();
}

TEST(JobTest, AJobRunsToItsEndWhateverTheOrder) {
  const auto expected = Undisturbed(false, 5);
  ASSERT_EQ(expected.size(), 5u);
  EXPECT_EQ(expected.at(1).size(), 6u);
  for (uint64_t seed = 0; seed < 200; seed += kStride) {
    SimulatedJob world = WorldOf(seed, false, 5);
    while (!world.ended() && world.Step()) {
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(world.trained(), expected) << "seed " << seed;
    EXPECT_TRUE(world.core().HeldWorkers().empty());
  }
}

TEST(JobTest, SupervisedFineTuningRunsToItsEnd) { EXPECT_EQ(Undisturbed(true, 7).size(), 7u); }

// Whatever dies and whoever pauses it, it measures the model that it begins with, and nothing else.
TEST(JobTest, AnEvaluationAloneTrainsAndSavesNothing) {
  for (uint64_t seed = 0; seed < 150; seed += kStride) {
    SimulatedJob::Options options;
    options.seed = seed;
    options.edit = [seed](v1::JobSpec* spec) {
      spec->mutable_trainer()->clear_total_training_steps();
      spec->mutable_trainer()->set_val_only(true);
      if (seed % 2 == 1) spec->mutable_algorithm()->set_mode("async");
    };
    SimulatedJob world(options);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; !world.ended() && i < 20000; ++i) {
      if (i < 200 && random() % 40 == 0) world.LoseSomeWorker();
      if (i < 200 && random() % 60 == 0) world.Restart(50);
      if (i < 200 && random() % 80 == 0) world.Send(PauseRequested{});
      if (world.core().state() == Job::STATE_PAUSED) world.Send(ResumeRequested{});
      if (!world.Step()) world.Wait(absl::Seconds(1));
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(world.core().step(), 0);
    EXPECT_EQ(world.core().Describe().total_steps(), 0);
    EXPECT_EQ(world.core().Describe().metrics().count("val/accuracy"), 1u) << "seed " << seed;
    EXPECT_TRUE(world.trained().empty());
    EXPECT_TRUE(world.disk().empty());
  }
}

// No turn makes all trajectories of a large step, and what is trained is the same.
TEST(JobTest, AStepIsDrawnAsRolloutsTakeIt) {
  const auto expected = Undisturbed(false, 5);
  int partly = 0;
  for (uint64_t seed = 0; seed < 150; seed += kStride) {
    SimulatedJob::Options options;
    options.seed = seed;
    options.max_queued_responses = 1;
    SimulatedJob world(options);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; !world.ended() && i < 20000; ++i) {
      if (i < 400 && random() % 60 == 0) world.LoseSomeWorker();
      if (i < 400 && random() % 90 == 0) world.Restart(50);
      if (!world.Step()) break;
      const Job job = world.core().Brief();
      if (job.phase() != "generating") continue;
      ASSERT_EQ(job.phase_total(), 6);
      int known = 0;
      for (uint64_t id = 0; id < 60; ++id) {  // of 5 steps, and of more
        const uint64_t train = TrajectoryId(v1::PURPOSE_TRAIN, id / 2, id % 2, 2);
        known += world.core().Find(train) != nullptr ? 1 : 0;
      }
      if (known < 6) ++partly;
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(world.trained(), expected) << "seed " << seed;
  }
  EXPECT_GT(partly, 100 / kStride);
}

// Rollouts have nothing to do with a reward that is slow.
TEST(JobTest, WithAllResponsesGeneratedTheJobIsScoring) {
  int scoring = 0, generating = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob world = WorldOf(seed, false, 5);
    while (!world.ended() && world.Step()) {
      const Job job = world.core().Brief();
      if (job.phase() != "generating" && job.phase() != "scoring") continue;
      int generated = 0;
      for (uint64_t id = 0; id < 60; ++id) {
        const uint64_t train = TrajectoryId(v1::PURPOSE_TRAIN, id / 2, id % 2, 2);
        const TrajectoryInfo* found = world.core().Find(train);
        generated += found != nullptr && (found->state == TrajectoryState::kScoring ||
                                          found->state == TrajectoryState::kReady)
                         ? 1
                         : 0;
      }
      EXPECT_EQ(job.phase(), generated == 6 ? "scoring" : "generating") << "seed " << seed;
      ++(generated == 6 ? scoring : generating);
      EXPECT_LT(job.phase_done(), 6);
      EXPECT_EQ(job.phase_total(), 6);
    }
  }
  EXPECT_GT(scoring, 100);
  EXPECT_GT(generating, 100);
}

TEST(JobTest, LostWorkersChangeNothingInWhatIsTrained) {
  const auto expected = Undisturbed(false, 5);
  for (uint64_t seed = 0; seed < 300; seed += kStride) {
    SimulatedJob world = WorldOf(seed, false, 5);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; !world.ended() && i < 20000; ++i) {
      if (i < 400 && random() % 40 == 0) world.LoseSomeWorker();
      if (!world.Step()) break;
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
        << "seed " << seed << "\n"
        << world.core().Explain(absl::UnixEpoch()).DebugString();
    EXPECT_EQ(world.trained(), expected) << "seed " << seed;
  }
}

TEST(JobTest, ARestartAtAnyEventChangesNothingInWhatIsTrained) {
  const auto expected = Undisturbed(false, 3);
  for (int at = 0; at < 160; at += kStride) {
    SimulatedJob world = WorldOf(static_cast<uint64_t>(at) % 7, false, 3);
    bool moved = true;
    for (int i = 0; !world.ended() && moved; ++i) {
      if (i == at) world.Restart(0);
      moved = world.Step();
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
        << "restart at " << at << "\n"
        << world.core().Explain(absl::UnixEpoch()).DebugString();
    EXPECT_EQ(world.trained(), expected) << "restart at " << at;
  }
}

TEST(JobTest, AStaleResultChangesNothing) {
  SimulatedJob world = WorldOf(3, false, 2);
  for (int i = 0; i < 30; ++i) world.Step();
  const std::string before = world.core().Row().DebugString();
  TaskDone stale;
  stale.worker = "rollout-1";
  stale.ref.kind = TaskKind::kGenerate;
  stale.ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 2);
  stale.ref.trajectory_uid = 99;
  world.Send(stale);
  EXPECT_EQ(world.core().Row().DebugString(), before);
}

TEST(JobTest, PauseAndResumeInAnyPhase) {
  const auto expected = Undisturbed(false, 3);
  for (int at = 0; at < 120; at += 3 * kStride) {
    SimulatedJob world = WorldOf(5, false, 3);
    for (int i = 0; i < at && !world.ended(); ++i) world.Step();
    if (world.ended()) break;
    world.Send(PauseRequested{});
    while (world.core().state() != Job::STATE_PAUSED && !world.ended() && world.Step()) {
    }
    if (world.ended()) continue;  // it was in its last breath
    ASSERT_EQ(world.core().state(), Job::STATE_PAUSED) << at;
    EXPECT_TRUE(world.core().HeldWorkers().empty());
    world.Send(ResumeRequested{});
    while (!world.ended() && world.Step()) {
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << at;
    EXPECT_EQ(world.trained(), expected) << at;
  }
}

TEST(JobTest, CancelInAnyPhaseGivesTheWorkersBack) {
  for (int at = 0; at < 120; at += kStride) {
    SimulatedJob world = WorldOf(5, false, 3);
    for (int i = 0; i < at && !world.ended(); ++i) world.Step();
    if (world.ended()) break;
    world.Send(CancelRequested{});
    while (!world.ended() && world.Step()) {
    }
    EXPECT_TRUE(world.ended()) << at;
    EXPECT_TRUE(world.core().HeldWorkers().empty()) << at;
  }
}

TEST(JobTest, AnActorThatFailsFailsTheJobWithItsWords) {
  SimulatedJob world = WorldOf(5, true, 3);
  for (int i = 0; i < 4; ++i) world.Step();
  DataLoaded broken;
  broken.status = absl::InvalidArgumentError("a.jsonl:3: not valid JSON");
  world.Send(broken);
  while (!world.ended() && world.Step()) {
  }
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_EQ(world.core().Describe().error().message(), "a.jsonl:3: not valid JSON");
}

// The last step's weights, evaluation and checkpoint are made when no step comes after it.
TEST(JobExplain, NamesNoStepAfterTheLast) {
  SimulatedJob::Options options;
  options.preset = "grpo";
  options.steps = 2;
  SimulatedJob world(options);
  std::set<std::string> seen;
  while (!world.ended() && world.Step()) {
    const v1::ExplainJobResponse why = world.core().Explain(world.now());
    EXPECT_THAT(why.summary(), Not(HasSubstr("step 3"))) << why.summary();
    for (const v1::Wait& wait : why.waits()) {
      EXPECT_NE(wait.subject(), "step 3") << wait.kind() << ": " << wait.cause();
      seen.insert(absl::StrCat(wait.kind(), " of ", wait.subject()));
    }
  }
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_THAT(seen, IsSupersetOf({"update of step 2", "publish of step 2",
                                  "save_checkpoint of step 2", "evaluation of step 2"}));
}

}  // namespace
}  // namespace baton::controller
