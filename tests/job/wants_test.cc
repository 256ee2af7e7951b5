// Tests of whether a job still wants the answer of a task (JobCore::Wants).
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

SimulatedJob::Options ThreeSteps() {
  SimulatedJob::Options options;
  options.seed = 5;
  options.steps = 3;
  return options;
}

// The rank's failure broke the group and was acknowledged. Until the ranks meet anew the rank has
// no task, so a repeat of the failure tells nothing.
TEST(JobWantsTest, DoesNotWantARepeatedMeetingFailure) {
  SimulatedJob::Options options = ThreeSteps();
  options.actor_ranks = 2;
  SimulatedJob world(options);
  const auto ranks = [&] {
    std::vector<TaskDone> tasks;
    for (const TaskDone& task : world.UnderWay(TaskKind::kAssignRole)) {
      if (world.core().RoleOf(task.ref) == "actor") tasks.push_back(task);
    }
    return tasks;
  };
  while (ranks().size() < 2) ASSERT_TRUE(world.Step());
  TaskDone failed = ranks()[0];
  const TaskDone other = ranks()[1];
  ASSERT_TRUE(world.core().Wants(failed.worker, failed.ref));
  failed.status = absl::UnavailableError("rank 1 is gone");
  world.Send(failed);
  EXPECT_FALSE(world.core().Wants(failed.worker, failed.ref)) << "it was acknowledged";
  EXPECT_TRUE(world.core().Wants(other.worker, other.ref)) << "it may still answer";
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

// A restarted controller does not know its trajectories yet. Meanwhile it wants the results of
// tasks that a worker of the role said it runs, and nothing else.
TEST(JobWantsTest, BeforeAStepIsKnownAgainATaskThatItsWorkerToldOfIsWantedAlone) {
  SimulatedJob world(ThreeSteps());
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kGenerate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  const TaskDone running = world.UnderWay(TaskKind::kGenerate)[0];
  const uint64_t version = world.core().Find(running.ref.subject)->policy_version;
  world.Restart(0);
  ASSERT_FALSE(world.core().knows_trajectories());
  EXPECT_FALSE(world.core().Wants(running.worker, running.ref)) << "its worker is not back yet";
  world.Send(WorkerReconnected{running.worker, {{"rollout", version}}, {running.ref}, {}});
  ASSERT_FALSE(world.core().knows_trajectories());
  EXPECT_TRUE(world.core().Wants(running.worker, running.ref));
  TaskRef other = running.ref;
  ++other.attempt;
  EXPECT_FALSE(world.core().Wants(running.worker, other));
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

// A process does not run the tasks of an earlier process of the same name.
TEST(JobWantsTest, AWorkerThatWasLostRunsNothingOfWhatItToldOf) {
  SimulatedJob world(ThreeSteps());
  while (world.core().step() < 1 || world.UnderWay(TaskKind::kGenerate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  const TaskDone running = world.UnderWay(TaskKind::kGenerate)[0];
  const uint64_t version = world.core().Find(running.ref.subject)->policy_version;
  world.Restart(0);
  world.Send(WorkerReconnected{running.worker, {{"rollout", version}}, {running.ref}, {}});
  ASSERT_TRUE(world.core().Wants(running.worker, running.ref));
  world.Send(WorkerLost{running.worker, "its process was replaced"});
  world.Send(WorkerGranted{running.worker, "rollout", {{"rollout", 8}}});
  ASSERT_EQ(world.core().HeldWorkers().count(running.worker), 1u);
  ASSERT_FALSE(world.core().knows_trajectories());
  EXPECT_FALSE(world.core().Wants(running.worker, running.ref));
}

}  // namespace
}  // namespace baton::controller
