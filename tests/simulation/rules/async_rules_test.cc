// Worlds of async jobs, and each of their rules judged by itself.
#include "tests/simulation/rules/async_rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/trajectory.h"
#include "gtest/gtest.h"
#include "tests/simulation/rules/invariants.h"
#include "tests/simulation/rules/recorded_run.h"
#include "tests/simulation/runner.h"

namespace baton::simulation {
namespace {

// A sanitizer looks for other faults than broken rules, and takes twenty times as long.
#ifdef BATON_SANITIZED
constexpr uint64_t kStride = 5;
#else
constexpr uint64_t kStride = 1;
#endif

// Every job of the world that generates is async.
Scenario AsyncWorld(uint64_t seed) {
  Scenario scenario = MakeScenario(seed);
  for (JobPlan& plan : scenario.jobs) {
    if (plan.sft) continue;
    plan.async = true;
    plan.max_staleness = static_cast<int>(seed % 5);
    plan.in_order = seed % 3 == 0;
    plan.steps = 6;
    plan.pools.clear();
  }
  return scenario;
}

TEST(AsyncWorldTest, SomeJobsOfSomeWorldsAreAsync) {
  int async = 0, in_order = 0, rl = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const JobPlan& plan : MakeScenario(seed).jobs) {
      rl += plan.sft ? 0 : 1;
      async += plan.async ? 1 : 0;
      in_order += plan.async && plan.in_order ? 1 : 0;
      EXPECT_FALSE(plan.async && plan.sft);
    }
  }
  EXPECT_GT(async, rl / 5);
  EXPECT_LT(async, rl / 2);
  EXPECT_GT(in_order, async / 4);
}

TEST(AsyncWorldTest, UndisturbedJobsTrainOnStaleResponses) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 60; seed += kStride) {
    Scenario scenario = AsyncWorld(seed);
    scenario.faults.clear();
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("steps with stale responses"), 50u / kStride);
}

TEST(AsyncWorldTest, JobsContinueDespiteFaults) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 60; seed += kStride) {
    EXPECT_EQ(RunScenario(AsyncWorld(seed), &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("steps with stale responses"), 20u / kStride);
}

TEST(AsyncWorldTest, GroupsGoOnWithoutTheirStragglers) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 30; seed += kStride) {
    Scenario scenario = AsyncWorld(seed);
    for (JobPlan& plan : scenario.jobs) {
      if (!plan.async) continue;
      plan.samples = 4;
      plan.group_timeout = 0.1 * static_cast<double>(seed % 5 + 1);
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("responses that were given up"), 10u / kStride);
}

TEST(AsyncWorldTest, IdleRolloutsRunAhead) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 60; seed += kStride) {
    Scenario scenario = MakeScenario(seed);
    for (JobPlan& plan : scenario.jobs) {
      if (!plan.sft) plan.pools.clear();
      plan.run_ahead = !plan.sft;
    }
    EXPECT_EQ(RunScenario(scenario, &coverage, false).violation, "") << "seed " << seed;
  }
  EXPECT_GT(coverage.happened("responses that were run ahead"), 100u / kStride);
  EXPECT_GT(coverage.happened("responses ahead that were stopped"), 20u / kStride);
}

v1::JobSpec AsyncSpec(int max_staleness, bool in_order = false) {
  JobPlan plan;
  plan.async = true;
  plan.max_staleness = max_staleness;
  plan.in_order = in_order;
  plan.error_reward = false;
  return SpecOf(plan);  // two samples of each of two prompts
}

TEST(AsyncRulesTest, CountsUpdatesViaTheCommonAncestor) {
  JobHistory history;
  history.made_by[2] = {1, 1, {}};
  history.made_by[3] = {2, 2, {}};
  history.made_by[4] = {2, 2, {}};
  history.made_by[5] = {4, 3, {}};
  EXPECT_EQ(UpdatesBetween(history, 3, 3), 0u);
  EXPECT_EQ(UpdatesBetween(history, 1, 5), 3u);
  EXPECT_EQ(UpdatesBetween(history, 3, 5), 3u);
  EXPECT_EQ(UpdatesBetween(history, 5, 3), 3u);
  EXPECT_EQ(UpdatesBetween(history, 5, 9), std::nullopt);
}

TEST(AsyncRulesTest, StalenessIsBounded) {
  JobHistory history;
  history.published = {{1, 11}, {2, 12}, {3, 13}};
  history.made_by[12] = {11, 1, {}};
  history.made_by[13] = {12, 2, {}};
  Payload response;
  response.weights = 11;
  response.version = 1;
  const ActorState actor = {13, 2, 3, 1};
  EXPECT_EQ(StalenessIsBounded(AsyncSpec(2), history, actor, {response}), "");
  EXPECT_NE(StalenessIsBounded(AsyncSpec(1), history, actor, {response}), "");
  response.version = 2;
  EXPECT_NE(StalenessIsBounded(AsyncSpec(2), history, actor, {response}), "") << "of version 1";
  history.published[9] = 99;
  response.version = 9;
  response.weights = 99;
  EXPECT_NE(StalenessIsBounded(AsyncSpec(4), history, actor, {response}), "") << "of another job";
}

controller::BuildBatch BatchOfPrompts(const v1::JobSpec& spec,
                                      const std::vector<uint64_t>& prompt_indices) {
  controller::PromptMix prompts = PromptsOf(spec);
  controller::BuildBatch batch;
  batch.step = 1;
  for (const uint64_t prompt_index : prompt_indices) {
    for (uint32_t sample = 0; sample < 2; ++sample) {
      controller::TrajectoryInfo info;
      info.id = controller::TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, sample, 2);
      info.prompt_index = prompt_index;
      info.sample = sample;
      info.prompt_id = prompts.At(prompt_index);
      info.state = controller::TrajectoryState::kReady;
      batch.trajectories.push_back(info);
    }
  }
  return batch;
}

TEST(AsyncRulesTest, ABatchHasWholeGroups) {
  v1::JobSpec spec = AsyncSpec(2);
  JobHistory history;
  EXPECT_EQ(BatchIsWhole(spec, history, BatchOfPrompts(spec, {3, 7})), "") << "any two";
  EXPECT_NE(BatchIsWhole(spec, history, BatchOfPrompts(spec, {3})), "");
  EXPECT_NE(BatchIsWhole(spec, history, BatchOfPrompts(spec, {7, 3})), "");
  controller::BuildBatch part = BatchOfPrompts(spec, {3, 7}), other = part, waits = part;
  part.trajectories.pop_back();
  EXPECT_NE(BatchIsWhole(spec, history, part), "");
  other.trajectories[1].prompt_id += 1;
  EXPECT_NE(BatchIsWhole(spec, history, other), "") << "the prompt of another";
  waits.trajectories[1].state = controller::TrajectoryState::kScoring;
  EXPECT_NE(BatchIsWhole(spec, history, waits), "");
  history.scored_by_error = true;
  EXPECT_NE(BatchIsWhole(spec, history, part), "") << "one alone compares with none";
  spec.mutable_algorithm()->set_preset("ppo");
  EXPECT_EQ(BatchIsWhole(spec, history, part), "");
}

store::v1::BatchRow RowOfPrompts(int64_t step, const std::vector<uint64_t>& prompt_indices) {
  store::v1::BatchRow batch;
  batch.set_step(step);
  batch.set_incarnation(1);
  for (const uint64_t prompt_index : prompt_indices) {
    store::v1::TrajectoryRow& row = *batch.add_entries()->mutable_trajectory();
    row.set_prompt_index(prompt_index);
    row.set_id(prompt_index);
    row.set_trajectory_uid(100 + prompt_index);
  }
  return batch;
}

TEST(AsyncRulesTest, OpenGroupsAreBounded) {
  store::v1::JobRow row;
  row.add_open_prompts()->set_count(4);
  row.add_open_prompts()->set_count(2);
  EXPECT_EQ(OpenGroupsAreBounded(AsyncSpec(2), row), "");
  EXPECT_NE(OpenGroupsAreBounded(AsyncSpec(1), row), "");
  EXPECT_NE(OpenGroupsAreBounded(SpecOf(JobPlan()), row), "") << "a sync job";
  EXPECT_EQ(OpenGroupsAreBounded(SpecOf(JobPlan()), store::v1::JobRow()), "");
}

TEST(AsyncRulesTest, TheTrainedWeightsScoreAgain) {
  JobPlan plan;
  plan.async = plan.recompute = true;
  const v1::JobSpec spec = SpecOf(plan);
  const ActorState actor = {13, 2, 3, 1};
  Payload response;
  response.id = 5;
  JobHistory history;
  EXPECT_NE(RescoredByTheTrainedWeights(spec, history, actor, {response}), "");
  EXPECT_EQ(RescoredByTheTrainedWeights(AsyncSpec(2), history, actor, {response}), "");
  history.rescored[5] = 12;
  EXPECT_NE(RescoredByTheTrainedWeights(spec, history, actor, {response}), "");
  history.rescored[5] = 13;
  EXPECT_EQ(RescoredByTheTrainedWeights(spec, history, actor, {response}), "");
}

TEST(AsyncRulesTest, BatchesAreInOrder) {
  JobHistory history;
  history.spec = AsyncSpec(2, /*in_order=*/true);
  history.batches[1] = RowOfPrompts(1, {0, 4});
  EXPECT_EQ(BatchesAreInOrder(history, RowOfPrompts(2, {5, 7})), "");
  EXPECT_NE(BatchesAreInOrder(history, RowOfPrompts(2, {3, 7})), "");
  history.spec = AsyncSpec(2);
  EXPECT_EQ(BatchesAreInOrder(history, RowOfPrompts(2, {3, 7})), "");
}

TEST(AsyncRulesTest, ChecksThatSpentGroupsWereConsumed) {
  JobHistory history;
  history.batches[1] = RowOfPrompts(1, {0, 1});
  history.batches[2] = RowOfPrompts(2, {3, 5});
  store::v1::JobRow row;
  row.mutable_job()->mutable_effective_spec()->set_kind(v1::JOB_KIND_RL);
  const auto spend = [&](uint64_t first, uint64_t last) {
    row.add_spent()->set_first(first);
    row.mutable_spent()->rbegin()->set_last(last);
  };
  spend(0, 1);
  EXPECT_EQ(SpentIsWhatWasConsumed(row, history, 1), "");
  EXPECT_NE(SpentIsWhatWasConsumed(row, history, 2), "");
  spend(3, 5);
  EXPECT_NE(SpentIsWhatWasConsumed(row, history, 2), "") << "4 taught nothing";
  history.scored_by_error = true;
  EXPECT_EQ(SpentIsWhatWasConsumed(row, history, 2), "") << "no reward was left of 4";
}

TEST(AsyncRulesTest, BatchesMakeTheWeights) {
  JobHistory history;
  history.spec = AsyncSpec(2);
  const uint64_t first = InitialWeights(history.spec, "actor");
  history.published[1] = first;
  EXPECT_FALSE(RecordedRun(history.spec, history, 1).possible);
  store::v1::BatchRow batch = RowOfPrompts(1, {4});
  store::v1::TrajectoryRow& row = *batch.mutable_entries(0)->mutable_trajectory();
  row.set_policy_version(1);
  row.set_purpose(v1::PURPOSE_TRAIN);
  row.set_prompt_id(2);
  (*row.mutable_scores())["reward"] = 1;
  history.batches[1] = batch;
  Payload response = Respond(first, v1::PURPOSE_TRAIN, 2, 4, 0);
  response.reward = 1;
  EXPECT_EQ(RecordedRun(history.spec, history, 1).weights, Train(first, {response}));
  history.published.clear();
  EXPECT_FALSE(RecordedRun(history.spec, history, 1).possible);
}

TEST(AsyncRulesTest, AResponseOfABatchHasItsOwnRow) {
  const store::v1::BatchRow batch = RowOfPrompts(1, {4});
  store::v1::TrajectoryRow row = batch.entries(0).trajectory();
  EXPECT_EQ(BatchedResponsesAreStored(batch, {row}), "");
  EXPECT_NE(BatchedResponsesAreStored(batch, {}), "");
  row.set_trajectory_uid(7);
  EXPECT_NE(BatchedResponsesAreStored(batch, {row}), "") << "of an earlier time";
}

TEST(AsyncRulesTest, AnEvaluationIsOfOneVersion) {
  JobHistory history;
  history.spec = AsyncSpec(2);
  history.published = {{1, InitialWeights(history.spec, "actor")}, {2, 5}};
  store::v1::TrajectoryRow row;
  row.set_purpose(v1::PURPOSE_EVAL);
  row.set_policy_version(1);
  store::v1::TrajectoryRow other = row;
  other.set_policy_version(2);
  EXPECT_EQ(AnEvaluationIsOfOneVersion({row, row}, history, 0, std::nullopt), "");
  EXPECT_NE(AnEvaluationIsOfOneVersion({row, other}, history, 0, std::nullopt), "");
  EXPECT_NE(AnEvaluationIsOfOneVersion({other, other}, history, 0, std::nullopt), "")
      << "of other weights than those of step 0";
}

TEST(AsyncRulesTest, ChecksThatGroupsBeginInOrder) {
  controller::TaskRef train, eval;
  train.subject = controller::TrajectoryId(v1::PURPOSE_TRAIN, 4, 0, 1);
  eval.subject = controller::TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1);
  FirstTries tries;
  const auto asked = [&](controller::TaskRef ref, uint64_t trajectory_uid, uint64_t own) {
    ref.trajectory_uid = trajectory_uid;
    return tries.AskedAhead(ref, own);
  };
  EXPECT_EQ(asked(train, 5, 1), "");
  EXPECT_EQ(asked(train, 8, 1), "");
  EXPECT_EQ(asked(eval, 6, 1), "") << "evaluations go on beside the steps";
  EXPECT_EQ(asked(train, 5, 1), "") << "again";
  EXPECT_NE(asked(train, 7, 1), "");
  EXPECT_EQ(asked(train, 4, 9), "") << "a controller after it goes by the prompts that it found";
  EXPECT_EQ(asked(train, 9, 9), "");
  EXPECT_NE(asked(train, 3, 9), "") << "and begins what it found first";
}

}  // namespace
}  // namespace baton::simulation
