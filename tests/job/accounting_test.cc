// Tests of what counts against a job and what does not: lost time, losses that no worker caused,
// answers that come too late to mean anything. And what is recorded of each step.
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

SimulatedJob FewSteps(uint64_t seed) {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = 2;
  return SimulatedJob(options);
}

// Longer than a generation, a score, a command and a set-up may take.
TEST(AccountingTest, LostTimeStopsNoTaskAndReleasesNoWorker) {
  for (const TaskKind kind : {TaskKind::kGenerate, TaskKind::kScore, TaskKind::kUpdate,
                              TaskKind::kAssignRole, TaskKind::kLoadWeights}) {
    SimulatedJob world = FewSteps(3);
    while (world.UnderWay(kind).empty()) ASSERT_TRUE(world.Step());
    const auto held = world.core().HeldWorkers();
    const size_t stopped = world.stopped().size();
    world.Wait(absl::Hours(30));
    world.Send(TimeLost{absl::Hours(30)});
    world.Send(Tick{});
    EXPECT_EQ(world.stopped().size(), stopped) << MethodName(kind);
    EXPECT_EQ(world.core().HeldWorkers(), held) << MethodName(kind);
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), v1::Job::STATE_SUCCEEDED) << MethodName(kind);
  }
}

// The batch of a step that was redone since may still be on its way.
TEST(AccountingTest, ABatchOfAnOldIncarnationIsNotTrainedOn) {
  SimulatedJob world = FewSteps(5);
  while (world.core().Brief().phase() != "computing advantages") ASSERT_TRUE(world.Step());
  world.LoseOneOf("actor");
  ASSERT_EQ(world.core().incarnation(), 2u);
  while (world.core().Brief().phase() != "computing advantages") ASSERT_TRUE(world.Step());
  BatchBuilt old;
  old.step = world.core().step() + 1;
  old.incarnation = 1;
  old.size = 1;
  old.status = absl::InternalError("of an incarnation that is gone");
  world.Send(old);
  EXPECT_EQ(world.core().state(), v1::Job::STATE_RUNNING);
  old.status = absl::OkStatus();
  world.Send(old);
  EXPECT_TRUE(world.UnderWay(TaskKind::kUpdate).empty());
  EXPECT_EQ(world.core().Brief().phase(), "computing advantages");
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), v1::Job::STATE_SUCCEEDED);
}

// The tasks that workers said they run, before the restarted controller has the step's trajectories
// again.
std::vector<TaskDone> Told(SimulatedJob& world) {
  std::vector<TaskDone> told;
  for (const TaskKind kind : {TaskKind::kGenerate, TaskKind::kScore}) {
    for (const TaskDone& task : world.UnderWay(kind)) {
      if (world.core().Wants(task.worker, task.ref)) told.push_back(task);
    }
  }
  return told;
}

TEST(AccountingTest, RollBackStopsRunningTasksOfTheAbandonedStep) {
  int met = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SimulatedJob world = FewSteps(seed);
    while (world.core().step() < 1) ASSERT_TRUE(world.Step());
    while (world.UnderWay(TaskKind::kGenerate).empty() && world.core().step() < 2) world.Step();
    if (world.core().step() > 1) continue;
    world.Restart(0);
    std::vector<TaskDone> told;
    while (told.empty() && !world.core().knows_trajectories()) {
      ASSERT_TRUE(world.Step());
      if (!world.core().knows_trajectories()) told = Told(world);
    }
    if (told.empty()) continue;
    const size_t before = world.stopped().size();
    world.LoseOneOf("actor");
    ASSERT_EQ(world.core().incarnation(), 2u) << seed;
    const std::vector<StopTask> stopped(
        world.stopped().begin() + static_cast<std::ptrdiff_t>(before), world.stopped().end());
    for (const TaskDone& task : told) {
      EXPECT_TRUE(std::any_of(stopped.begin(), stopped.end(), [&](const StopTask& stop) {
        return stop.worker == task.worker && stop.ref == task.ref;
      })) << seed;
    }
    ++met;
  }
  EXPECT_GT(met, 2);
}

// Steps until the phase is `phase`; false: it never became so.
bool StepTo(SimulatedJob& world, const std::string& phase) {
  for (int i = 0; i < 2000 && world.core().Brief().phase() != phase; ++i) {
    if (!world.Step()) break;
  }
  return world.core().Brief().phase() == phase;
}

// A relay that lost the version may have no room for it while the step generates. The trainer waits
// for room; what is generated meanwhile stays.
TEST(AccountingTest, ARelayWithoutRoomLeavesTheStepAlone) {
  SimulatedJob undisturbed = FewSteps(1);
  undisturbed.RunToEnd();
  int refusals = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SimulatedJob world = FewSteps(seed);
    while (world.core().step() < 1) ASSERT_TRUE(world.Step());
    if (!StepTo(world, "generating")) continue;
    world.LoseRelay();
    world.LoseOneOf("rollout");  // its successor asks for the version
    for (int i = 0; i < 50 && world.UnderWay(TaskKind::kPublish).empty(); ++i) world.Step();
    if (world.UnderWay(TaskKind::kPublish).empty()) continue;
    TaskDone refused = world.UnderWay(TaskKind::kPublish)[0];
    world.Swallow(TaskKind::kPublish);
    refused.status = absl::ResourceExhaustedError("no room");
    world.Send(refused);
    for (int i = 0; i < 200 && world.Step(); ++i) {
    }
    EXPECT_EQ(world.core().incarnation(), 1u) << seed << ": nothing is made again";
    world.Wait(absl::Seconds(10));
    world.Send(Tick{});  // there is room again
    world.RunToEnd();
    EXPECT_EQ(world.core().state(), v1::Job::STATE_SUCCEEDED) << seed;
    EXPECT_EQ(world.FinalWeights(), undisturbed.FinalWeights()) << seed;
    ++refusals;
  }
  EXPECT_GT(refusals, 5);
}

std::map<int64_t, std::vector<uint64_t>> Recorded(const SimulatedJob& world) {
  std::map<int64_t, std::vector<uint64_t>> consumed;
  for (const auto& [step, row] : world.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) {
      if (entry.column_hashes_size() > 0) consumed[step].push_back(entry.trajectory().id());
    }
  }
  return consumed;
}

// Whatever was redone, the rows name what the remaining weights were made of.
TEST(BatchRowsTest, RecordWhatEachStepWasTrainedOn) {
  for (const char* preset : {"grpo", "ppo", "dapo", "remax"}) {
    SimulatedJob::Options options;
    options.seed = 11;
    options.steps = 5;
    options.preset = preset;
    SimulatedJob world(options);
    while (world.core().step() < 3 || world.UnderWay(TaskKind::kUpdate).empty()) {
      ASSERT_TRUE(world.Step()) << preset;
    }
    world.LoseOneOf("actor");
    EXPECT_EQ(world.core().step(), 2) << preset;
    EXPECT_EQ(world.batch_rows().rbegin()->first, 2) << "those of steps 3 and 4 went";
    while (world.UnderWay(TaskKind::kUpdate).empty()) ASSERT_TRUE(world.Step()) << preset;
    world.Restart(0);
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), v1::Job::STATE_SUCCEEDED) << preset;
    EXPECT_EQ(Recorded(world), world.trained()) << preset;
    EXPECT_EQ(world.batch_rows().at(2).incarnation(), 1u) << preset;
    EXPECT_EQ(world.batch_rows().at(3).incarnation(), 2u) << preset;
  }
}

TEST(BatchRowsTest, AreDroppedWithOldExperienceUnlessAllIsKept) {
  for (const char* kept : {"needed", "all"}) {
    SimulatedJob::Options options;
    options.seed = 12;
    options.steps = 53;
    options.edit = [&](v1::JobSpec* spec) { spec->mutable_trainer()->set_keep_experience(kept); };
    SimulatedJob world(options);
    world.RunToEnd();
    ASSERT_EQ(world.core().state(), v1::Job::STATE_SUCCEEDED);
    // The evaluation after the last step counts with it.
    const auto first = 53 - static_cast<int64_t>(JobCoreOptions().kept_steps) + 1;
    EXPECT_EQ(world.batch_rows().begin()->first, std::string(kept) == "all" ? 1 : first);
    EXPECT_EQ(world.batch_rows().rbegin()->first, 53);
  }
}

// Far more often than max_attempts: a job on machines that come and go still ends.
TEST(AccountingTest, WorkersThatAreLostAgainAndAgainFailNoJob) {
  SimulatedJob world = FewSteps(7);
  for (int losses = 0; losses < 12; ++losses) {
    const TaskKind kind = losses % 2 == 0 ? TaskKind::kGenerate : TaskKind::kScore;
    while (world.UnderWay(kind).empty() && !world.ended()) ASSERT_TRUE(world.Step());
    if (world.ended()) break;
    world.Lose(world.UnderWay(kind).front().worker);
  }
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), v1::Job::STATE_SUCCEEDED);
}

}  // namespace
}  // namespace baton::controller
