// Async jobs in virtual time: rollouts run ahead of the trainer, within their bound and no further,
// and whatever dies, each prompt group is learned from once.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/async_testing.h"

namespace baton::controller {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(AsyncJobTest, StepsAreMadeAndEachPromptGroupIsLearnedFromOnce) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob job(Async(seed));
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
}

// With a bound of 0, or in the order of the prompts, the batches are those of mode sync.
TEST(AsyncJobTest, MakesTheBatchesOfSyncIfTheOrderIsFixed) {
  SimulatedJob sync(Sync());
  sync.RunToEnd();
  ASSERT_NE(sync.FinalWeights(), 0u);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedJob bound_0(Async(seed, 0)), in_order(Async(seed, 3, "in_order"));
    ExpectAGoodEnd(bound_0, absl::StrCat("bound 0, seed ", seed));
    EXPECT_EQ(bound_0.FinalWeights(), sync.FinalWeights());
    ExpectAGoodEnd(in_order, absl::StrCat("in order, seed ", seed));
    EXPECT_EQ(in_order.FinalWeights(), sync.FinalWeights());
    EXPECT_EQ(in_order.metrics().at("buffer/stale_dropped_groups"), 0);
    if (HasFailure()) return;
  }
}

// Until steps are judged, nothing of the second batch begins before the first update ends; `baton
// why` says what rollouts wait for.
TEST(AsyncJobTest, NothingIsBegunAheadOfTheTrainerUntilStepsAreJudged) {
  int held_back = 0;  // worlds in which a rollout has a free place during the first batch
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Paced(seed, 4));
    const auto some_made = [&] {
      const auto made = [](const auto& row) { return row.second.purpose() == v1::PURPOSE_TRAIN; };
      const auto trains = [](const TaskDone& task) {
        return PurposeOf(task.ref.subject) == v1::PURPOSE_TRAIN;
      };
      const auto tasks = job.UnderWay(TaskKind::kGenerate);
      return std::any_of(job.rows().begin(), job.rows().end(), made) &&
             std::any_of(tasks.begin(), tasks.end(), trains);
    };
    ASSERT_TRUE(StepUntil(job, some_made));
    job.Swallow(TaskKind::kGenerate);
    while (job.Step()) {
    }
    EXPECT_EQ(OpenPrompts(job).size(), kBatch) << "seed " << seed;
    held_back += Waits(job).count("pace") > 0 ? 1 : 0;
    job.Wait(absl::Minutes(3));  // what was swallowed is asked of others
    job.Send(Tick{});
    ASSERT_TRUE(StepUntil(job, [&] { return !job.UnderWay(TaskKind::kUpdate).empty(); }));
    job.Swallow(TaskKind::kUpdate);
    while (job.Step()) {
    }
    EXPECT_EQ(job.core().step(), 0);
    EXPECT_EQ(OpenPrompts(job).size(), kBatch) << "seed " << seed;
    EXPECT_THAT(Waits(job), Contains("pace")) << "seed " << seed;
    EXPECT_THAT(Waits(job), Not(Contains("staleness"))) << "seed " << seed;
    if (HasFailure()) return;
  }
  EXPECT_GT(held_back, 0);
}

TEST(AsyncJobTest, TheSecondBatchIsAtMostOneUpdateOld) {
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Paced(seed, 4));
    for (const double staleness : {0, 1}) {
      const int64_t step = job.core().step() + 1;
      ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == step; }));
      EXPECT_LE(job.metrics().at("staleness/max"), staleness) << "seed " << seed;
    }
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
}

// The trainer is held up, so the pace holds back nothing.
TEST(AsyncJobTest, RolloutsRunAheadOfAnUpdateUpToTheirBound) {
  SimulatedJob job(Paced(3, 2));
  ASSERT_TRUE(StepUntil(
      job, [&] { return job.core().step() == 1 && !job.UnderWay(TaskKind::kUpdate).empty(); }));
  job.Swallow(TaskKind::kUpdate);
  for (int i = 0; i < 3; ++i) {
    while (job.Step()) {
    }
    job.Wait(absl::Seconds(10));
    job.Send(Tick{});
  }
  // The update under way has one batch; two more are ahead of the trainer, and no more may be.
  EXPECT_EQ(OpenPrompts(job).size(), 3 * kBatch);
  EXPECT_THAT(Waits(job), Contains("staleness"));
  EXPECT_EQ(job.core().Progress().phase(), "training");
}

TEST(AsyncJobTest, ExplainsWhatTheTrainerWaitsFor) {
  SimulatedJob job(Async(4));
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().Progress().phase() == "generating"; }));
  const v1::ExplainJobResponse why = job.core().Explain(job.now());
  EXPECT_TRUE(std::any_of(why.waits().begin(), why.waits().end(), [](const v1::Wait& wait) {
    return wait.kind() == "batch" && wait.cause().find("3 complete groups") == 0;
  })) << why.DebugString();
}

TEST(AsyncJobTest, ReportsBoundedStaleness) {
  double most = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedJob job(Async(seed, 3));
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    most = std::max(most, job.metrics().at("staleness/max"));
    EXPECT_LE(job.metrics().at("staleness/mean"), job.metrics().at("staleness/max"));
  }
  EXPECT_GT(most, 0) << "no response was ever behind: nothing ran ahead";
  EXPECT_LE(most, 3);
}

// A response is of one version for life, and an evaluation of the version that it measures.
TEST(AsyncJobTest, AnEvaluationIsOfOneVersion) {
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Async(seed, 4));
    std::map<int64_t, std::set<uint64_t>> versions;  // of evaluations, by step
    while (!job.ended() && job.Step()) {
      for (const auto& [serial, row] : job.rows()) {
        if (row.purpose() == v1::PURPOSE_EVAL) versions[row.step()].insert(row.policy_version());
      }
    }
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    EXPECT_EQ(versions.size(), 4u);
    for (const auto& [step, of] : versions) EXPECT_EQ(of.size(), 1u) << "step " << step;
  }
}

// The relay keeps the version of an evaluation until its responses are made, also when the rollout
// that had it is lost after several updates.
TEST(AsyncJobTest, TheRelayKeepsTheVersionOfAnEvaluation) {
  int loaded_again = 0;
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    Options options = Async(seed, 4);
    const auto edit = options.edit;
    options.edit = [edit](v1::JobSpec* spec) {
      edit(spec);
      spec->mutable_trainer()->set_test_freq(6);
    };
    SimulatedJob job(options);
    const auto evaluates = [&] {
      const auto tasks = job.UnderWay(TaskKind::kGenerate);
      return std::any_of(tasks.begin(), tasks.end(), [](const TaskDone& task) {
        return PurposeOf(task.ref.subject) == v1::PURPOSE_EVAL;
      });
    };
    ASSERT_TRUE(StepUntil(job, evaluates));
    job.Swallow(TaskKind::kGenerate);  // it takes several steps
    const auto lags = [&] {
      const store::v1::EvaluationRow& evaluation = job.row().evaluation();
      return evaluation.version() != 0 && job.core().step() >= evaluation.step() + 3;
    };
    if (StepUntil(job, lags)) {
      job.LoseOneOf("rollout");
      job.LoseOneOf("rollout");
      ++loaded_again;
    }
    job.RunToEnd();
    job.Wait(absl::Minutes(3));  // what was swallowed is asked of others
    if (!job.ended()) job.Send(Tick{});
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_THAT(job.evaluated(), IsSupersetOf({0, 6}));
    EXPECT_THAT(job.warnings(), Not(Contains(HasSubstr("no longer has its weights"))));
    if (HasFailure()) return;
  }
  EXPECT_GT(loaded_again, 5 / kStride);
}

TEST(AsyncJobTest, DynamicSamplingReplacesGroupsAsTheyAreComplete) {
  Options options = Async(5);
  options.preset = "dapo";
  SimulatedJob job(options);
  ExpectAGoodEnd(job, "dapo");
  for (const auto& [id, times] : TimesConsumed(job)) {
    EXPECT_NE(id % (uint64_t{1} << 48) / 2 % 3, 0u) << "every third group teaches nothing";
  }
  options.filter_all = true;
  SimulatedJob stuck(options);
  stuck.RunToEnd();
  EXPECT_EQ(stuck.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(stuck.core().Brief().error().message(), HasSubstr("dynamic sampling"));
}

TEST(AsyncJobTest, GroupsWithoutRewardsAreReplaced) {
  Options options = Async(6);
  options.failing_rewards = Options::Failing::kSome;
  SimulatedJob job(options);
  job.RunToEnd();
  ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
  for (const auto& [id, times] : TimesConsumed(job)) {
    EXPECT_EQ(times, 1);
    EXPECT_THAT(id % (uint64_t{1} << 48) / 2 % 4, ::testing::AnyOf(0u, 2u)) << "no reward";
  }
  options.failing_rewards = Options::Failing::kAll;
  SimulatedJob stuck(options);
  stuck.RunToEnd();
  EXPECT_EQ(stuck.core().state(), Job::STATE_FAILED);
}

// The share of rewards that failed is one of all responses since the last step; those that a batch
// or an evaluation has taken count among them.
TEST(AsyncJobTest, RewardsThatFailAreAShareOfAllResponses) {
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    Options options = Async(seed, static_cast<int>(seed % 3));
    options.failing_rewards = Options::Failing::kAll;
    options.error_reward = true;
    SimulatedJob job(options);
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED)
        << "seed " << seed << ": " << job.core().Brief().DebugString();
  }
}

TEST(AsyncJobTest, GeneratedResponsesSurviveAPause) {
  SimulatedJob job(Async(7, 3));
  ASSERT_TRUE(
      StepUntil(job, [&] { return job.core().step() == 2 && OpenPrompts(job).size() >= 6; }));
  job.Send(PauseRequested{});
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
  std::set<uint64_t> uids;  // of responses that are there, and that no batch has
  for (const auto& [serial, row] : job.rows()) {
    if (row.purpose() != v1::PURPOSE_TRAIN) continue;
    if (OpenPrompts(job).count(row.prompt_index()) > 0) uids.insert(row.trajectory_uid());
  }
  ASSERT_GE(uids.size(), 2 * kBatch);
  job.Send(ResumeRequested{});
  ExpectAGoodEnd(job, "paused");
  std::set<uint64_t> consumed;
  for (const auto& [step, row] : job.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) {
      consumed.insert(entry.trajectory().trajectory_uid());
    }
  }
  EXPECT_THAT(consumed, IsSupersetOf(uids));
}

// Each worker of the pool has two roles, and may run something of either one when the job pauses.
TEST(AsyncJobTest, APauseTakesBackTheWorkOfEachRoleOfAWorker) {
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    Options options = Async(seed, 3);
    options.preset = "ppo";
    options.pools = {{"critic", "reward"}, {"rollout"}};
    SimulatedJob job(options);
    for (int64_t step = 0; step <= 4; ++step) {
      const bool scores = StepUntil(job, [&] {
        return job.core().step() >= step && job.UnderWay(TaskKind::kScore).size() > 1;
      });
      if (!scores) break;
      job.Send(PauseRequested{});
      ASSERT_TRUE(
          StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED || job.ended(); }))
          << "seed " << seed << "\n"
          << job.core().Explain(job.now()).DebugString();
      if (job.ended()) break;
      job.Send(ResumeRequested{});
    }
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    if (HasFailure()) return;
  }
}

TEST(AsyncJobTest, CompleteGroupsOutliveATrainer) {
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    ASSERT_TRUE(
        StepUntil(job, [&] { return job.core().step() == 3 && OpenPrompts(job).size() >= 6; }));
    std::set<uint64_t> uids;
    for (const auto& [prompt_index, trajectory_uid] : OpenPrompts(job)) uids.insert(trajectory_uid);
    job.LoseOneOf("actor");
    EXPECT_EQ(job.core().step(), 2) << "the checkpoint";
    std::set<uint64_t> after;
    for (const auto& [prompt_index, trajectory_uid] : OpenPrompts(job)) {
      after.insert(trajectory_uid);
    }
    EXPECT_THAT(after, IsSupersetOf(uids)) << "what was open goes on";
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
}

// A step is undone, its prompt groups are begun anew, and the controller dies. The rows of the
// responses that the step had consumed may still be there; a group that begins anew is not taken
// for done because of them.
TEST(AsyncJobTest, ARestartDoesNotRecallWhatAnUndoneStepConsumed) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    std::set<std::pair<uint64_t, uint64_t>> made;  // ids and trajectory uids
    const auto look = [&] {
      for (const auto& [serial, row] : job.rows()) made.insert({row.id(), row.trajectory_uid()});
    };
    ASSERT_TRUE(StepUntil(job, [&] {
      look();
      return job.core().step() == 3 && OpenPrompts(job).size() >= 6;
    }));
    std::set<uint64_t> undone;  // prompt groups
    for (const store::v1::BatchEntry& entry : job.batch_rows().at(3).entries()) {
      undone.insert(entry.trajectory().prompt_index());
    }
    job.LoseOneOf("actor");
    ASSERT_EQ(job.core().step(), 2);
    ASSERT_TRUE(StepUntil(job, [&] {
      look();
      const auto open = OpenPrompts(job);
      return std::any_of(open.begin(), open.end(),
                         [&](const auto& group) { return undone.count(group.first) > 0; });
    }));
    job.Restart(0);
    while (!job.ended() && job.Step()) look();
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    for (const auto& [step, row] : job.batch_rows()) {
      for (const store::v1::BatchEntry& entry : row.entries()) {
        const store::v1::TrajectoryRow& response = entry.trajectory();
        EXPECT_EQ(made.count({response.id(), response.trajectory_uid()}), 1u)
            << "seed " << seed << ", step " << step << ": " << response.id();
      }
    }
    if (HasFailure()) return;
  }
}

TEST(AsyncJobTest, ALostPayloadOfABatchIsGeneratedAgain) {
  for (const TaskKind kind : {TaskKind::kUpdate, TaskKind::kPublish}) {
    SimulatedJob job(Async(8));
    ASSERT_TRUE(
        StepUntil(job, [&] { return job.core().step() == 2 && !job.UnderWay(kind).empty(); }));
    std::map<uint64_t, uint64_t> lost;
    for (const auto& [serial, row] : job.rows()) {
      if (row.purpose() == v1::PURPOSE_TRAIN) lost[row.id()] = serial;
    }
    job.Send(PayloadLost{lost, "wrong checksum"});
    ExpectAGoodEnd(job, absl::StrCat("while it makes ", MethodName(kind)));
  }
}

// Decoupled PPO: the actor scores a response when a batch takes it, with the weights that learn
// from it (SimulatedJob checks with which), and again if that batch is given up.
TEST(AsyncJobTest, ProximalLogProbsAreMadeAtTheSelection) {
  for (uint64_t seed = 0; seed < 30; seed += kStride) {
    Options options = Async(seed, 3);
    options.recompute_log_prob = true;
    SimulatedJob job(options);
    ASSERT_TRUE(StepUntil(
        job, [&] { return job.core().step() == 3 && !job.UnderWay(TaskKind::kScore).empty(); }));
    if (seed % 3 == 0) job.LoseOneOf("actor");
    if (seed % 3 == 1) job.Restart(0);
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    for (const auto& [step, row] : job.batch_rows()) {
      for (const store::v1::BatchEntry& entry : row.entries()) {
        EXPECT_EQ(entry.trajectory().columns_size(), 1) << "old_log_prob";
      }
    }
    if (HasFailure()) return;
  }
}

// One rollout, and more responses than it takes at once: training work that waits for newer weights
// must not hold up an evaluation that waits for older ones, which the only rollout would have to
// keep.
TEST(AsyncJobTest, OneRolloutServesAnEvaluationAndTraining) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    Options options = Async(seed, 4);
    options.rollout_workers = 1;
    const auto edit = options.edit;
    options.edit = [edit](v1::JobSpec* spec) {
      edit(spec);
      spec->mutable_rollout()->set_n(8);  // a worker takes 4 at once
      spec->mutable_trainer()->set_test_freq(1);
    };
    options.samples = 8;
    SimulatedJob job(options);
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
}

// A response outside the batch is lost while the batch is built, or trained on: the batch stays.
TEST(AsyncJobTest, ALostPayloadOfAnotherGroupLeavesTheBatchAlone) {
  for (const bool builds : {true, false}) {
    SimulatedJob job(Async(9, 3));
    std::map<uint64_t, uint64_t> lost;
    ASSERT_TRUE(StepUntil(job, [&] {
      const std::string phase = job.core().Progress().phase();
      if (job.core().step() != 3 || phase != (builds ? "computing advantages" : "training")) {
        return false;
      }
      for (const auto& [serial, row] : job.rows()) {
        if (job.core().Find(row.id()) != nullptr && row.purpose() == v1::PURPOSE_TRAIN) {
          lost = {{row.id(), serial}};  // in the work: no batch has it
        }
      }
      return !lost.empty();
    }));
    const uint64_t incarnation = job.core().incarnation();
    job.Send(PayloadLost{lost, "wrong checksum"});
    ExpectAGoodEnd(job, builds ? "built" : "trained on");
    EXPECT_EQ(job.core().incarnation(), incarnation) << "the trainer went back for nothing";
  }
}

TEST(AsyncJobTest, AJobThatEndedBeforeItBeganGoesOnWhenItIsResumed) {
  SimulatedJob job(Async(10));
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 3; }));
  job.Restart(0);
  job.Send(CancelRequested{});  // before its data are read
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_CANCELLED; }));
  job.Send(ResumeRequested{});
  ExpectAGoodEnd(job, "resumed");
}

// After a failure the weights that the rollouts have may be what failed.
TEST(AsyncJobTest, AResumedJobLearnsNothingFromTheBranchThatFailed) {
  SimulatedJob job(Async(11, 4));
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 3; }));
  job.Send(CancelRequested{});
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_CANCELLED; }));
  const uint64_t version = job.row().job().policy_version();
  job.Send(ResumeRequested{});
  ExpectAGoodEnd(job, "resumed");
  for (const auto& [step, row] : job.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) {
      if (step > 2) EXPECT_GT(entry.trajectory().policy_version(), version);
    }
  }
}

// A response is of one version: a part that another version has made is begun anew.
TEST(AsyncJobTest, ARetryGoesOnWithTokensOfItsOwnVersionAlone) {
  int anew = 0, went_on = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SimulatedJob job(Async(seed, 4));
    const bool runs = StepUntil(job, [&] {
      const auto running = job.UnderWay(TaskKind::kGenerate);
      return job.core().step() >= 2 && !running.empty() &&
             PurposeOf(running[0].ref.subject) == v1::PURPOSE_TRAIN &&
             job.core().Wants(running[0].worker, running[0].ref);
    });
    if (!runs) continue;
    const TaskDone first = job.UnderWay(TaskKind::kGenerate)[0];
    const uint64_t id = first.ref.subject;
    job.Send(TaskProgressed{first.worker, first.ref, 3});
    const uint64_t version = job.core().Find(id)->policy_version;
    job.Lose(first.worker);
    const TrajectoryInfo* again = nullptr;
    StepUntil(job, [&] {
      again = job.core().Find(id);
      return again == nullptr || again->state != TrajectoryState::kPending;
    });
    if (again == nullptr || again->state != TrajectoryState::kGenerating) continue;
    const bool same = again->policy_version == version;
    EXPECT_EQ(again->tokens, same ? 3u : 0u) << "seed " << seed;
    ++(same ? went_on : anew);
  }
  EXPECT_GT(anew, 0);
  EXPECT_GT(went_on, 0);
}

// The update goes on at the ranks. Scoring on their workers waits for its end, although other
// groups than those of its batch have something to score.
TEST(AsyncJobTest, NothingRunsBesideAnUpdateInterruptedByARestart) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    Options options = Async(seed, 3);
    options.preset = "ppo";
    options.pools = {{"actor", "critic"}, {"rollout"}};
    SimulatedJob job(options);
    for (int64_t step = 1; step <= 4; ++step) {
      ASSERT_TRUE(StepUntil(job, [&] {
        return job.core().step() == step && !job.UnderWay(TaskKind::kUpdate).empty();
      }));
      job.Restart(0);
    }
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    if (HasFailure()) return;
  }
}

// A command that waits for a score on its workers waits for it after a restart, too.
TEST(AsyncJobTest, NoCommandJoinsAScoreThatRunsOnAfterARestart) {
  int waited = 0;
  for (uint64_t seed = 0; seed < 120; seed += kStride) {
    Options options = Async(seed, 3);
    options.preset = "ppo";
    options.pools = {{"actor", "reference"}, {"critic", "reward"}, {"rollout"}};
    SimulatedJob job(options);
    // Not in the first steps: until the pace is known, nothing is scored while weights are
    // published.
    const auto step = 2 + static_cast<int64_t>(seed % 3);
    const bool found = StepUntil(job, [&] {
      if (job.core().step() < step) return false;
      const auto& groups = job.row().groups();
      return !job.UnderWay(TaskKind::kScore).empty() && job.UnderWay(TaskKind::kPublish).empty() &&
             std::any_of(groups.begin(), groups.end(), [](const store::v1::GroupRow& group) {
               return group.has_command() &&
                      group.command().kind() == static_cast<int>(TaskKind::kPublish);
             });
    });
    if (found) {
      ++waited;
      job.Restart(0);
    }
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    if (HasFailure()) return;
  }
  EXPECT_GT(waited, 20 / static_cast<int>(kStride));
}

// Tasks that a rollout does not answer are taken back from it. The rollout is idle then, and loads
// the weights that came meanwhile.
TEST(AsyncJobTest, ARolloutWhoseResponsesStallTakesNewWeights) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Options options = Async(seed, 2);
    options.rollout_workers = 1;
    SimulatedJob job(options);
    ASSERT_TRUE(StepUntil(job, [&] {
      return !job.UnderWay(TaskKind::kPublish).empty() &&
             !job.UnderWay(TaskKind::kGenerate).empty();
    }));
    job.Swallow(TaskKind::kGenerate);
    while (job.Step()) {
    }
    job.Wait(absl::Minutes(3));
    job.Send(Tick{});
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
}

TEST(AsyncJobTest, TrainsOnEachPromptGroupOnceDespiteFaults) {
  for (uint64_t seed = 0; seed < 400; seed += kStride) {
    const bool in_order = seed % 3 == 0;
    Options options = Async(seed, static_cast<int>(seed % 5), in_order ? "in_order" : "fifo");
    options.failing_percent = seed % 4 == 0 ? 4 : 0;
    if (seed % 7 == 0) options.preset = "ppo";
    if (seed % 11 == 0) options.preset = "remax";
    options.recompute_log_prob = seed % 5 == 2;
    SimulatedJob job(options);
    LetThingsDie(job, seed);
    job.RunToEnd();
    const std::string what = absl::StrCat("seed ", seed);
    ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED)
        << what << "\n"
        << job.core().Explain(job.now()).DebugString() << job.core().Brief().DebugString();
    for (const auto& [id, times] : TimesConsumed(job)) EXPECT_EQ(times, 1) << what << ": " << id;
    if (options.preset.empty()) EXPECT_EQ(job.FinalWeights(), WeightsOfRows(job)) << what;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace baton::controller
