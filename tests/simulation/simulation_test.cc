// The simulator judged itself: a seed repeats, a failure shrinks, and each rule sees its breach.
// (simulate_mutants proves the rules against whole runs; here stand those that no mutation
// reaches.)
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "gtest/gtest.h"
#include "tests/simulation/parts/disk.h"
#include "tests/simulation/parts/scheduler.h"
#include "tests/simulation/parts/wire.h"
#include "tests/simulation/rules/invariants.h"
#include "tests/simulation/runner.h"
#include "tests/simulation/world/commit_rules.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {
namespace {

using controller::StartTask;
using controller::TaskKind;

TEST(SimulationTest, ASeedIsOneRun) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome first = RunScenario(MakeScenario(seed), &coverage, false);
    const Outcome second = RunScenario(MakeScenario(seed), &coverage, true);
    EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << seed;
    EXPECT_EQ(first.events, second.events);
    EXPECT_FALSE(second.trace.empty());
  }
  const uint64_t one = RunScenario(MakeScenario(1), &coverage, false).fingerprint;
  EXPECT_NE(one, RunScenario(MakeScenario(2), &coverage, false).fingerprint);
}

// A call of the very instant of a restart must not find a controller without jobs.
TEST(SimulationTest, NoCallReachesAControllerThatHasNotRestoredItsJobs) {
  Coverage coverage;
  World world(MakeScenario(5), &coverage, false);
  EXPECT_EQ(world.controller(), nullptr) << "its first event restores it";
}

TEST(SimulationTest, AnUndisturbedJobEndsWithTheWeightsOfAPlainLoop) {
  Scenario quiet = MakeScenario(5);
  quiet.faults.clear();
  Coverage coverage;
  EXPECT_EQ(RunScenario(quiet, &coverage, false).violation, "");
}

TEST(SimulationTest, LeavesOutAndRedrawsResponsesWithoutAReward) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults.clear();
    for (JobPlan& plan : scenario.jobs) {
      plan.error_reward = false;
      plan.failing_rewards = 30;
      plan.keep_best = plan.stops = false;  // their scores are predicted of other jobs
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("responses without a reward, of steps"), 50u);
  EXPECT_GT(coverage.happened("responses without a reward, of evaluations"), 10u);
  EXPECT_GT(coverage.happened("groups replaced"), 20u);
}

TEST(SimulationTest, AJobGoesOnAfterPowerCuts) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults.clear();
    for (int second = 1; second <= 6; ++second) {
      scenario.faults.push_back(
          {FaultKind::kCutPower, absl::Seconds(second), absl::Milliseconds(200), 0});
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("commits that power cuts took"), 50u);
  EXPECT_GT(coverage.happened("records of experience logs that power cuts took"), 100u);
}

TEST(SimulationTest, AJobGoesOnWhereverItsControllerDies) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults.clear();
    for (int second = 1; second <= 5; ++second) {
      scenario.faults.push_back(
          {FaultKind::kKillController, absl::Seconds(second), absl::Milliseconds(100), 0});
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("controllers that died between two calls"), 20u);
  EXPECT_GT(coverage.happened("controllers that were stopped"), 20u);
}

TEST(SimulationTest, DeliversMessagesOfAnOldStreamAfterItsSuccessors) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 90; ++seed) {
    Scenario scenario = MakeScenario(seed);
    for (Fault& fault : scenario.faults) fault.kind = FaultKind::kBreakStream;
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("messages that came after those of a newer stream"), 20u);
}

TEST(SimulationTest, NewerWeightsMakeUnfinishedResponsesAgain) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    EXPECT_EQ(RunScenario(MakeScenario(seed), &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("responses recalled"), 3u);
  EXPECT_GT(coverage.happened("drafts"), 3u);
}

TEST(SimulationTest, AJobWaitsForAFullDisk) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults = {
        {FaultKind::kDiskFull, absl::Milliseconds(800), absl::Seconds(2), 0},
        {FaultKind::kDiskFull, absl::Seconds(4), absl::Seconds(3), 0},
    };
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("writes that a full disk refused"), 100u);
}

// The store refuses for a while; then the turn that ends a step and a later one, which rolls back
// and deletes the step's rows, are written together.
TEST(SimulationTest, MetricsAreCountedBeforeALaterTurnDeletesTheRows) {
  Coverage coverage;
  EXPECT_EQ(RunScenario(MakeScenario(4600140364), &coverage, false).violation, "");
}

TEST(ModelTest, GroupsWithoutRewardsAreDrawnAnew) {
  JobPlan plan;
  plan.samples = 1;
  plan.error_reward = false;
  EXPECT_EQ(ExpectRun(SpecOf(plan), 2).prompts, 4u);
  plan.failing_rewards = 50;
  int more = 0;
  for (plan.seed = 1; plan.seed <= 50; ++plan.seed) {
    const ExpectedRun run = ExpectRun(SpecOf(plan), 1);
    if (!run.possible) continue;
    ASSERT_EQ(run.batch.size(), 2u);
    for (const Payload& response : run.batch) EXPECT_FALSE(RewardFails(SpecOf(plan), response));
    more += run.prompts > 2 ? 1 : 0;
  }
  EXPECT_GT(more, 20);  // 3 in 4
  plan.failing_rewards = 100;
  EXPECT_FALSE(ExpectRun(SpecOf(plan), 1).possible);
  EXPECT_EQ(ExpectedWeights(SpecOf(plan), 1), 0u);
  plan.error_reward = true;
  EXPECT_EQ(ExpectRun(SpecOf(plan), 2).prompts, 4u);
}

TEST(SimulationTest, JobsEndWhereTooManyRewardsFail) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Scenario scenario = MakeScenario(seed);
    for (JobPlan& plan : scenario.jobs) {
      plan.failing_rewards = 30;
      plan.keep_best = plan.stops = false;
      plan.max_error_rate = static_cast<double>(seed % 4) / 10;
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("jobs that ended since too many rewards failed"), 30u);
}

TEST(SimulationTest, AWorkerThatStaysSlowIsDrained) {
  Coverage coverage, quiet;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults.clear();
    scenario.two_projects = false;  // else jobs get other workers than the slow one
    for (JobPlan& plan : scenario.jobs) plan.project = "default";
    EXPECT_EQ(RunScenario(scenario, &quiet, false).violation, "") << "seed " << seed;
    const uint64_t rollout_0 = 2;
    scenario.faults.push_back(
        {FaultKind::kSlow, absl::ZeroDuration(), absl::Seconds(60), rollout_0});
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.drained_as_slow(), 10u);
  EXPECT_LT(3 * quiet.drained_as_slow(), 2 * coverage.drained_as_slow()) << "some are, by chance";
}

TEST(SchedulerTest, RunsEventsByTimeThenOrderAndNoneOfKilledProcesses) {
  Scheduler time;
  const ProcessId a = time.AddProcess(), b = time.AddProcess();
  std::string happened;
  time.After(absl::Seconds(2), a, [&] { happened += "a2"; });
  time.After(absl::Seconds(1), b, [&] { happened += "b1"; });
  time.After(absl::Seconds(1), a, [&] { happened += "a1"; });
  ASSERT_TRUE(time.RunOne());
  ASSERT_TRUE(time.RunOne());
  time.Kill(a);
  time.Start(a);
  time.Hang(b, time.now() + absl::Seconds(5));
  time.After(absl::Seconds(1), b, [&] { happened += "late"; });
  time.After(absl::Seconds(3), a, [&] { happened += "new"; });
  while (time.RunOne()) {
  }
  EXPECT_EQ(happened, "b1a1newlate");
}

// A process that hangs already hangs on: or messages that waited for the end of the first hang
// would come after later ones.
TEST(SchedulerTest, KeepsTheEventOrderOfAProcessThatHangsTwice) {
  Scheduler time;
  const ProcessId a = time.AddProcess();
  std::string happened;
  time.Hang(a, time.now() + absl::Seconds(8));
  time.After(absl::Seconds(1), a, [&] { happened += "first "; });
  time.After(absl::Seconds(2), kWorld, [&] { time.Hang(a, time.now() + absl::Seconds(3)); });
  time.After(absl::Seconds(4), a, [&] { happened += "second "; });
  while (time.RunOne()) {
  }
  EXPECT_EQ(happened, "first second ");
}

TEST(CommitRulesTest, MetricsAreCountedInTheRowsThatTheirTurnLeaves) {
  Coverage coverage;
  World world(MakeScenario(1), &coverage, false);
  const std::string job = "projects/p/jobs/j";
  store::v1::JobRow row;
  row.mutable_job()->set_name(job);
  row.set_incarnation(4);
  const auto response = [](uint64_t id, double reward) {
    store::v1::TrajectoryRow trajectory;
    trajectory.set_id(id);
    trajectory.set_incarnation(4);
    trajectory.set_purpose(v1::PURPOSE_EVAL);
    (*trajectory.mutable_scores())["reward"] = reward;
    return trajectory.SerializeAsString();
  };
  const auto turn = [&](double told) {
    v1::StepMetrics metrics;
    (*metrics.mutable_metrics())["val/reward"] = told;
    return std::vector<store::Write>{
        {controller::kTrajectoryTable, controller::NumberKey(job, 2), std::nullopt},
        {controller::kMetricTable, controller::NumberKey(job, 0, "/val"),
         metrics.SerializeAsString()},
        {controller::kJobTable, job, row.SerializeAsString()}};
  };
  world.disk().store.Commit(
      {{controller::kTrajectoryTable, controller::NumberKey(job, 1), response(1, 0.25)},
       {controller::kTrajectoryTable, controller::NumberKey(job, 2), response(2, 1)}},
      store::Durability::kPowerCut, [](absl::Status) {});
  CheckCommit(world, turn(0.25));  // the turn deletes the other row
  EXPECT_EQ(world.violation(), "");
  CheckCommit(world, turn(0.625));
  EXPECT_EQ(world.violation(),
            "MetricsEqualARecount: val/reward of step 0 is 0.625; counted again it is 0.25");
}

std::vector<Payload> BatchOf(uint64_t weights) {
  Payload one = Respond(weights, v1::PURPOSE_TRAIN, 1, 0, 0);
  one.id = controller::TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1);
  return {one};
}

TEST(InvariantsTest, ConsumedOncePerBranch) {
  JobHistory history;
  const auto batch = BatchOf(7);
  EXPECT_EQ(ConsumedOncePerBranch(history, 7, 1, batch), "");
  history.made_by[8] = {7, 1, {batch[0].id}};
  EXPECT_NE(ConsumedOncePerBranch(history, 8, 2, batch), "") << "it stands before, on this branch";
  EXPECT_EQ(ConsumedOncePerBranch(history, 7, 1, batch), "") << "after a rollback it does not";
  EXPECT_NE(ConsumedOncePerBranch(history, 8, 1, {}), "") << "the step was made already";
  auto evaluation = batch;
  evaluation[0].purpose = v1::PURPOSE_EVAL;
  EXPECT_NE(ConsumedOncePerBranch(history, 7, 1, evaluation), "");
  EXPECT_NE(ConsumedOncePerBranch(history, 7, 1, {batch[0], batch[0]}), "");
}

TEST(InvariantsTest, EpochsOnlyGrow) {
  EXPECT_EQ(EpochsOnlyGrow(0, 1), "");
  EXPECT_NE(EpochsOnlyGrow(2, 2), "");
  EXPECT_NE(EpochsOnlyGrow(2, 1), "");
}

// Eight of twelve records stand in a full file, which is synced.
TEST(LogFilesTest, APowerCutTakesWhatWasNotSynced) {
  std::set<uint64_t> lost, torn;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    LogFiles log;
    uint32_t file = 0;
    std::vector<experience::Location> at;
    for (uint64_t id = 1; id <= 12; ++id) {
      at.push_back(log.Append(absl::StrCat("record ", id), &file));
    }
    EXPECT_EQ(at[7].file, 1u);
    EXPECT_EQ(at[8].file, 2u);
    lost.insert(log.CutPower(random));
    uint64_t there = 0;
    for (uint64_t id = 1; id <= 12; ++id) {
      const auto read = log.Read(at[id - 1]);
      EXPECT_TRUE(id > 8 || read.ok());
      if (read.ok()) EXPECT_EQ(*read, absl::StrCat("record ", id));
      EXPECT_EQ(log.LostToPowerCut(at[id - 1]), !read.ok());
      EXPECT_TRUE(log.EverWritten(at[id - 1]));
      there += read.ok() ? 1 : 0;
    }
    torn.insert(12 - there);
    EXPECT_EQ(log.CutPower(random), 0u) << "the disk holds what is left";
    file = 0;  // the next controller
    const experience::Location next = log.Append("record 13", &file);
    EXPECT_EQ(next.file, 3u) << "no place is given twice";
    log.Sync();
    EXPECT_EQ(log.CutPower(random), 0u);
    EXPECT_TRUE(log.Read(next).ok()) << "it was synced";
    EXPECT_FALSE(log.EverWritten({next.file, next.offset + 1, 9}));
  }
  EXPECT_EQ(lost, torn);
  EXPECT_EQ(lost, (std::set<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(InvariantsTest, ABatchHoldsWholeGroups) {
  JobPlan plan;
  plan.error_reward = false;
  const v1::JobSpec spec = SpecOf(plan);  // two samples of each of two prompts
  controller::BuildBatch batch;
  batch.step = 1;
  for (const Payload& p : ExpectRun(spec, 1).batch) {
    controller::TrajectoryInfo info;
    info.id = p.id;
    info.prompt_index = p.prompt_index;
    info.state = controller::TrajectoryState::kReady;
    batch.trajectories.push_back(info);
  }
  ASSERT_EQ(batch.trajectories.size(), 4u);
  JobHistory history;
  EXPECT_EQ(BatchIsWhole(spec, history, batch), "");
  controller::BuildBatch group = batch, part = batch, other = batch;
  group.trajectories.resize(2);
  EXPECT_NE(BatchIsWhole(spec, history, group), "");
  part.trajectories.resize(3);
  std::swap(other.trajectories[0], other.trajectories[3]);
  history.scored_by_error = true;
  EXPECT_EQ(BatchIsWhole(spec, history, group), "") << "a worker's failures took the other";
  EXPECT_NE(BatchIsWhole(spec, history, part), "");
  EXPECT_NE(BatchIsWhole(spec, history, other), "");
}

TEST(InvariantsTest, ABatchHoldsRewardsAlone) {
  JobHistory history;
  v1::JobSpec spec;
  const Payload response = Respond(7, v1::PURPOSE_TRAIN, 1, 0, 0);
  controller::TrajectoryInfo info;
  EXPECT_NE(EveryResponseHasItsReward(spec, history, info, response), "");
  info.scores["reward"] = response.reward;
  EXPECT_EQ(EveryResponseHasItsReward(spec, history, info, response), "");
  info.scores["reward"] = response.reward + 1;
  EXPECT_NE(EveryResponseHasItsReward(spec, history, info, response), "");
  spec.mutable_reward()->set_error_reward(response.reward + 1);
  EXPECT_NE(EveryResponseHasItsReward(spec, history, info, response), "") << "no worker failed";
  history.scored_by_error = true;
  EXPECT_EQ(EveryResponseHasItsReward(spec, history, info, response), "");
  JobPlan plan;
  plan.error_reward = false;
  plan.failing_rewards = 100;
  spec = SpecOf(plan);
  EXPECT_NE(EveryResponseHasItsReward(spec, history, info, response), "") << "it has none";
}

TEST(InvariantsTest, ChecksVersionsAndStaleness) {
  auto batch = BatchOf(7);
  batch[0].version = 1;
  batch[0].branch = 1;
  const v1::JobSpec sync;
  JobHistory history;
  EXPECT_EQ(StalenessIsBounded(sync, history, {7, 0, 1, 1}, batch), "");
  EXPECT_NE(StalenessIsBounded(sync, history, {8, 1, 2, 1}, batch), "") << "a step behind";
  EXPECT_NE(StalenessIsBounded(sync, history, {7, 1, 2, 1}, batch), "")
      << "a step behind, if with these weights";
  EXPECT_NE(StalenessIsBounded(sync, history, {7, 0, 1, 2}, batch), "") << "of another incarnation";
  TaskMessage task;
  EXPECT_EQ(OneVersionPerResponse(task, BatchOf(7)[0]), "");
  task.resume = {TokenAt(BatchOf(7)[0].content, 0)};
  EXPECT_EQ(OneVersionPerResponse(task, BatchOf(7)[0]), "");
  task.resume = {TokenAt(BatchOf(8)[0].content, 0)};
  EXPECT_NE(OneVersionPerResponse(task, BatchOf(7)[0]), "");
  history.published[3] = 7;
  history.asked = 3;
  EXPECT_EQ(OneVersionIsOneThing(history, 3, 7), "");
  EXPECT_NE(OneVersionIsOneThing(history, 3, 8), "");
  EXPECT_NE(LoadedAsPublished(history, 3, 8), "");
  EXPECT_NE(LoadedAsPublished(history, 4, 7), "");
  StartTask publish;
  publish.ref.kind = TaskKind::kPublish;
  publish.args.policy_version = 2;
  EXPECT_NE(VersionsOnlyGrow(history, publish), "");
  publish.args.policy_version = 4;
  EXPECT_EQ(VersionsOnlyGrow(history, publish), "");
}

TEST(InvariantsTest, ChecksThatLeasedSegmentsStay) {
  const absl::Time now = absl::UnixEpoch();
  const std::map<std::string, LeaseGiven> leases = {
      {"l", {"j1", 3, "rollout-0", "s1", now + absl::Seconds(1)}}};
  EXPECT_EQ(NothingLeasedIsGone(leases, {"s1", "s2"}, now), "");
  EXPECT_NE(NothingLeasedIsGone(leases, {"s2"}, now), "");
  EXPECT_EQ(NothingLeasedIsGone(leases, {"s2"}, now + absl::Seconds(1)), "") << "it ended";
  EXPECT_EQ(NothingLeasedIsGone({}, {}, now), "");
}

TEST(InvariantsTest, ChecksSessionsAndDelivery) {
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(FencedBeforeReassigned(true, now, now), "");
  EXPECT_NE(FencedBeforeReassigned(true, now + absl::Milliseconds(1), now), "");
  EXPECT_EQ(FencedBeforeReassigned(false, now + absl::Seconds(1), now), "");
  EXPECT_NE(AckedIsCommitted(false, {}), "");
  EXPECT_EQ(AckedIsTakenIn(false, {}), "");
  EXPECT_NE(AckedIsTakenIn(true, {}), "");
  controller::TaskRef save;
  save.kind = controller::TaskKind::kSaveCheckpoint;
  save.subject = 8;
  save.attempt = 3;
  store::v1::GroupRow group;
  EXPECT_TRUE(CommandIsAnswered(group, save));
  group.mutable_command()->set_sequence(8);
  group.mutable_command()->set_attempt(3);
  EXPECT_FALSE(CommandIsAnswered(group, save));
  group.mutable_command()->set_attempt(4);  // the store refused, and it is tried again meanwhile
  EXPECT_TRUE(CommandIsAnswered(group, save));
  group.mutable_command()->set_attempt(3);
  group.mutable_command()->set_sequence(9);
  EXPECT_TRUE(CommandIsAnswered(group, save));
  JobHistory history;
  history.revision = 4;
  EXPECT_EQ(RevisionsHaveNoGap(history, 5), "");
  EXPECT_NE(RevisionsHaveNoGap(history, 6), "");
  EXPECT_NE(RevisionsHaveNoGap(history, 4), "");
  EXPECT_NE(NothingAfterTheEnd(v1::Job::STATE_SUCCEEDED, {}), "");
  EXPECT_EQ(NothingAfterTheEnd(v1::Job::STATE_RUNNING, {}), "");
}

// A response reaches the workers that score it and train on it as it was sampled, whatever the
// controller does.
TEST(WireTest, DetectsThePayloadOfAnotherTrajectory) {
  Payload response = Respond(7, v1::PURPOSE_TRAIN, 1, 4, 0);
  response.id = controller::TrajectoryId(v1::PURPOSE_TRAIN, 4, 0, 1);
  response.version = 2;
  response.branch = 3;
  TaskMessage task;
  task.kind = TaskKind::kGenerate;
  task.prompt = 1;
  Result result;
  result.payload = response;
  const v1::TaskResult sampled = MakeResult(task, result);
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("train-4");
  trajectory.set_group_id("group-4");
  trajectory.set_purpose(v1::PURPOSE_TRAIN);
  trajectory.set_prompt_id(1);
  trajectory.set_prompt_text(DataExample(1).prompt);
  trajectory.set_response_text(sampled.response_text());
  *trajectory.mutable_columns() = sampled.columns();
  const auto read = ReadPayload(trajectory);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->id, response.id);
  EXPECT_EQ(read->weights, 7u);
  EXPECT_EQ(read->content, response.content);
  EXPECT_EQ(read->reward, response.reward);

  v1::Trajectory other = trajectory;
  other.set_prompt_id(2);
  EXPECT_FALSE(ReadPayload(other).has_value()) << "the prompt of another";
  other = trajectory;
  other.clear_columns();
  EXPECT_FALSE(ReadPayload(other).has_value()) << "no tokens";
  other = trajectory;
  other.mutable_columns(1)->mutable_data()->at(0) ^= 1;
  EXPECT_FALSE(ReadPayload(other).has_value()) << "the tokens of another";
  other = trajectory;
  other.set_purpose(v1::PURPOSE_EVAL);
  EXPECT_FALSE(ReadPayload(other).has_value()) << "of another purpose than its name says";
  other = trajectory;
  other.set_response_text(DataExample(1).response);
  EXPECT_EQ(ReadPayload(other)->weights, 0u) << "an example";
}

TEST(InvariantsTest, ChecksThatWatchersGetStoredEventsInOrder) {
  v1::JobEvent event;
  event.set_revision(5);
  EXPECT_EQ(ToldIsStored(true, event), "");
  EXPECT_NE(ToldIsStored(false, event), "");
  EXPECT_EQ(ToldInOrder(0, event), "") << "the first that this controller tells";
  EXPECT_EQ(ToldInOrder(4, event), "");
  EXPECT_NE(ToldInOrder(3, event), "");
  EXPECT_NE(ToldInOrder(5, event), "");
}

TEST(InvariantsTest, AManifestNamesEveryPart) {
  CheckpointFolder folder;
  folder.trained["actor"] = {7, 1, 2, 3};
  std::vector<v1::FileHash> written;
  EXPECT_NE(ManifestNamesEveryPart(folder, written), "");
  written.emplace_back().set_path("actor");
  EXPECT_EQ(ManifestNamesEveryPart(folder, written), "");
  folder.trained["critic"] = {8, 1, 2, 3};
  EXPECT_NE(ManifestNamesEveryPart(folder, written), "");
}

TEST(InvariantsTest, BytesComeBeforeTheirRow) {
  LogFiles log;
  uint32_t file = 0;
  const experience::Location at = log.Append("record", &file);
  store::v1::TrajectoryRow row;
  EXPECT_EQ(PayloadIsBeforeItsRow(row, log), "") << "an example";
  row.set_tokens(2);
  EXPECT_NE(PayloadIsBeforeItsRow(row, log), "");
  row.set_file(at.file);
  row.set_offset(at.offset);
  row.set_size(at.size);
  EXPECT_EQ(PayloadIsBeforeItsRow(row, log), "");
  store::v1::ColumnsRow& columns = *row.add_columns();
  columns.set_file(at.file);
  columns.set_offset(at.offset + 1);
  EXPECT_NE(PayloadIsBeforeItsRow(row, log), "") << "a column is missing";
  row.clear_columns();
  EXPECT_EQ(SyncedPayloadsSurvive(row, log), "");
  for (uint64_t seed = 1; log.Read(at).ok(); ++seed) {
    log = LogFiles();
    file = 0;
    log.Append("record", &file);
    Random random(seed);
    log.CutPower(random);
  }
  EXPECT_NE(SyncedPayloadsSurvive(row, log), "");
}

TEST(InvariantsTest, OneRoleWorksOnAPool) {
  const std::vector<controller::RolePool> pools = {{{"rollout", "reference", "actor"}, 2},
                                                   {{"reward"}, 1}};
  const TaskAtWork generate = {"a", "rollout", TaskKind::kGenerate};
  const TaskAtWork load = {"b", "rollout", TaskKind::kLoadWeights};
  const TaskAtWork score = {"b", "reference", TaskKind::kScore};
  const TaskAtWork reward = {"c", "reward", TaskKind::kScore};
  const TaskAtWork log_prob = {"b", "actor", TaskKind::kScore};
  const TaskAtWork update = {"a", "actor", TaskKind::kUpdate};
  const TaskAtWork assign = {"b", "reference", TaskKind::kAssignRole};
  EXPECT_EQ(OneRoleOfAPoolAtATime(pools, {}), "");
  EXPECT_EQ(OneRoleOfAPoolAtATime(pools, {generate, load, reward, assign}), "");
  EXPECT_EQ(OneRoleOfAPoolAtATime(pools, {assign, update, reward}), "");
  EXPECT_EQ(OneRoleOfAPoolAtATime(pools, {update, {"b", "actor", TaskKind::kUpdate}}), "");
  EXPECT_EQ(OneRoleOfAPoolAtATime(pools, {generate, score}),
            "rollout.generate on a and reference.score on b run on their pool at once");
  EXPECT_NE(OneRoleOfAPoolAtATime(pools, {reward, score, load}), "");
  EXPECT_NE(OneRoleOfAPoolAtATime(pools, {score, update}), "");
  EXPECT_NE(OneRoleOfAPoolAtATime(pools, {log_prob, update}), "") << "a command runs alone";
}

TEST(InvariantsTest, SharedWeightsAreThoseThatAreTrained) {
  const ActorState actor = {7, 3, 4, 1};
  Payload response;
  response.weights = 7;
  response.version = 4;
  response.branch = 1;
  EXPECT_EQ(SampledByTheTrainedWeights(actor, response), "");
  EXPECT_NE(SampledByTheTrainedWeights({8, 3, 4, 1}, response), "");
  EXPECT_NE(SampledByTheTrainedWeights({7, 3, 5, 1}, response), "");
  EXPECT_NE(SampledByTheTrainedWeights({7, 3, 4, 2}, response), "") << "of another actor";
}

TEST(InvariantsTest, ChecksThatTheFirstRankOfACopyScores) {
  EXPECT_EQ(TheFirstOfACopyScores(0, 1), "");
  EXPECT_EQ(TheFirstOfACopyScores(3, 1), "");
  EXPECT_EQ(TheFirstOfACopyScores(2, 2), "");
  EXPECT_EQ(TheFirstOfACopyScores(3, 2), "rank 3 is asked for a score, and 2 ranks hold a copy");
}

TEST(InvariantsTest, ChecksThatAnEndedJobHasACause) {
  store::v1::JobRow row;
  JobHistory history;
  row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
  EXPECT_NE(JobEndedWell(row, history), "");
  row.mutable_job()->set_state(v1::Job::STATE_CANCELLED);
  EXPECT_NE(JobEndedWell(row, history), "");
  history.cancelled = true;
  EXPECT_EQ(JobEndedWell(row, history), "");
  row.mutable_job()->set_state(v1::Job::STATE_FAILED);
  row.mutable_job()->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_NE(JobEndedWell(row, history), "") << "no cause";
  row.mutable_job()->mutable_error()->set_message("the relay does not answer");
  EXPECT_EQ(JobEndedWell(row, history), "");
  row.mutable_job()->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_NE(JobEndedWell(row, history), "") << "no fault explains it";
}

}  // namespace
}  // namespace baton::simulation
