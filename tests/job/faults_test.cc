// A job when things go wrong together: losses while pausing, restarts before the workers are
// back, a relay that forgets. A job must end with the weights of an undisturbed one, or stand
// with a wait that names why.
#include "tests/job/simulated_job.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using Job = v1::Job;
using Options = SimulatedJob::Options;

Options Seed(uint64_t seed, int steps = 5) {
  Options options;
  options.seed = seed;
  options.steps = steps;
  return options;
}

// Until `done`, or nothing is under way.
template <typename Done>
bool StepUntil(SimulatedJob& job, Done done) {
  for (int i = 0; i < 20000; ++i) {
    if (done()) return true;
    if (!job.Step()) break;
  }
  return done();
}

bool ReachStep(SimulatedJob& job, int64_t step) {
  return StepUntil(job, [&] {
    return job.core().step() == step && job.core().Describe().phase() == "generating";
  });
}

// Checks that every job passes at its end.
void ExpectTheSameEnd(SimulatedJob& job, const std::string& what) {
  static const uint64_t kRl = [] {
    SimulatedJob undisturbed(Seed(1));
    undisturbed.RunToEnd();
    return undisturbed.FinalWeights();
  }();
  ASSERT_NE(kRl, 0u);
  job.RunToEnd();
  ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED)
      << what << "\n"
      << job.core().Explain(job.now()).DebugString();
  EXPECT_EQ(job.FinalWeights(), kRl) << what;
  EXPECT_THAT(job.evaluated(), ::testing::IsSupersetOf({0, 2, 4, 5})) << what;
  EXPECT_TRUE(job.core().HeldWorkers().empty()) << what;
  EXPECT_FALSE(job.InQueue()) << what;
}

TEST(JobFaultsTest, AnyOrderEndsWithTheSameWeights) {
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    SimulatedJob job(Seed(seed));
    ExpectTheSameEnd(job, "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

TEST(JobFaultsTest, ATrainerThatDiesWithTheControllerIsRolledBack) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob job(Seed(seed));
    ASSERT_TRUE(ReachStep(job, 3));  // the last checkpoint is of step 2
    job.Restart(100);
    ExpectTheSameEnd(job, "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

// Rows that a batch must not consume, however they came to be: those of the step in progress, READY
// and of weights before the ones that are trained.
TEST(JobFaultsTest, RegeneratesStaleResponsesBeforeABatchConsumesThem) {
  SimulatedJob job(Seed(4));
  const auto row = [&](uint64_t serial) -> store::v1::TrajectoryRow& {
    return job.rows().at(serial);
  };
  const auto newest = [&] {
    uint64_t serial = 0;
    for (const auto& [s, r] : job.rows()) {
      if (r.step() == 4 && r.purpose() == v1::PURPOSE_TRAIN) serial = s;
    }
    return serial;
  };
  ASSERT_TRUE(StepUntil(job, [&] {
    return job.core().step() == 3 && newest() != 0 && row(newest()).scored_nodes() == 1;
  }));
  const uint64_t stale = newest(), id = row(stale).id(), version = row(stale).policy_version();
  ASSERT_GT(version, 1u);
  row(stale).set_policy_version(version - 1);
  job.Restart(0);
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 4; }));
  int of_stale_weights = 0, of_these = 0;
  for (const auto& [serial, r] : job.rows()) {
    if (r.id() != id || r.step() != 4) continue;
    ++(r.policy_version() == version ? of_these : of_stale_weights);
  }
  EXPECT_EQ(of_stale_weights, 0) << "its group is dropped";
  EXPECT_EQ(of_these, 1) << "and drawn anew, once";
  ExpectTheSameEnd(job, "");
}

TEST(JobFaultsTest, APauseBeforeTheWorkersAreBackSavesFirst) {
  SimulatedJob job(Seed(4));
  ASSERT_TRUE(ReachStep(job, 3));
  job.Restart(0);
  job.Send(PauseRequested{});
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
  EXPECT_EQ(job.disk().count(job.core().step()), 1u);
  job.Send(ResumeRequested{});
  ExpectTheSameEnd(job, "");
}

TEST(JobFaultsTest, APausingJobReplacesTheRolloutsItNeedsToFinishItsStep) {
  SimulatedJob job(Seed(4));
  ASSERT_TRUE(ReachStep(job, 3));
  job.Send(PauseRequested{});
  job.LoseOneOf("rollout");
  job.LoseOneOf("rollout");
  job.LoseOneOf("reward");
  EXPECT_EQ(job.core().Explain(job.now()).waits(0).kind(), "workers");
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }))
      << job.core().Explain(job.now()).DebugString();
  EXPECT_EQ(job.core().step(), 4);
  EXPECT_FALSE(job.InQueue());
  job.Send(ResumeRequested{});
  ExpectTheSameEnd(job, "");
}

TEST(JobFaultsTest, APausingJobThatLosesItsTrainerAsksForNoWorker) {
  SimulatedJob job(Seed(4));
  ASSERT_TRUE(ReachStep(job, 3));
  job.Send(PauseRequested{});
  job.LoseOneOf("actor");
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
  EXPECT_FALSE(job.InQueue());
  EXPECT_EQ(job.core().step(), 2);
  job.Send(ResumeRequested{});
  ExpectTheSameEnd(job, "");
}

// At every event: pause, then the controller restarts, a worker is lost, or the user changes
// his mind, a few events later.
TEST(JobFaultsTest, PausesAndResumesDespiteFaults) {
  for (int at = 0; at < 150; at += 4 * kStride) {
    for (int later = 0; later < 24; later += 3 * kStride) {
      for (int what = 0; what < 4; ++what) {
        SimulatedJob job(Seed(static_cast<uint64_t>(at * 31 + later)));
        for (int i = 0; i < at && !job.ended(); ++i) job.Step();
        if (job.ended()) return;
        job.Send(PauseRequested{});
        for (int i = 0; i < later && !job.ended(); ++i) job.Step();
        if (what == 0) job.Restart(0);
        if (what == 1) job.Restart(30);
        if (what == 2) job.LoseSomeWorker();
        if (what == 3) job.Send(ResumeRequested{});
        const std::string where = "pause at " + std::to_string(at) + ", fault " +
                                  std::to_string(what) + " " + std::to_string(later) + " later";
        StepUntil(job, [&] { return job.ended() || job.core().state() == Job::STATE_PAUSED; });
        if (!job.ended() && what < 3) {
          ASSERT_EQ(job.core().state(), Job::STATE_PAUSED)
              << where << "\n"
              << job.core().Explain(job.now()).DebugString();
          ASSERT_FALSE(job.InQueue()) << where;
        }
        job.Send(ResumeRequested{});
        ExpectTheSameEnd(job, where);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(JobFaultsTest, ARelayThatForgotIsToldAgain) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    for (int at = 20; at < 120; at += 5) {
      SimulatedJob job(Seed(seed));
      for (int i = 0; i < at; ++i) job.Step();
      job.LoseRelay();
      ExpectTheSameEnd(job, "seed " + std::to_string(seed) + " at " + std::to_string(at));
      if (HasFailure()) return;
    }
  }
}

TEST(JobFaultsTest, ACancelAfterTheEndChangesNotHowItEnded) {
  SimulatedJob job(Seed(2, 1));
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_STOPPING; }));
  job.Send(CancelRequested{});
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
}

TEST(JobFaultsTest, AFailureStaysOneWhenTheUserCancelsToo) {
  SimulatedJob job(Seed(2));
  ASSERT_TRUE(StepUntil(job, [&] { return !job.UnderWay(TaskKind::kGenerate).empty(); }));
  const auto running = job.UnderWay(TaskKind::kGenerate);
  ASSERT_FALSE(running.empty());
  TaskDone bad = running.front();
  bad.status = absl::InvalidArgumentError("no such prompt");
  job.Send(bad);
  job.Send(CancelRequested{});
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Describe().error().message(), ::testing::HasSubstr("no such prompt"));
}

TEST(JobFaultsTest, TheLastWorkerBackSetsTheJobUp) {
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    for (int at = 6; at < 12; ++at) {  // around the end of STARTING
      SimulatedJob job(Seed(seed));
      for (int i = 0; i < at; ++i) job.Step();
      job.Restart(0);
      ExpectTheSameEnd(job, "seed " + std::to_string(seed) + " at " + std::to_string(at));
      if (HasFailure()) return;
    }
  }
}

TEST(JobFaultsTest, AnUpdateThatStillRunsAfterARestartIsNotSentAgain) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob job(Seed(seed));
    ASSERT_TRUE(StepUntil(
        job, [&] { return job.core().step() == 2 && !job.UnderWay(TaskKind::kUpdate).empty(); }));
    job.Restart(0);
    ExpectTheSameEnd(job, "seed " + std::to_string(seed));  // and SimulatedJob saw no second one
    if (HasFailure()) return;
  }
}

TEST(JobFaultsTest, ACommandAdoptedAfterARestartHasADeadlineToo) {
  for (TaskKind kind : {TaskKind::kUpdate, TaskKind::kPublish, TaskKind::kSaveCheckpoint}) {
    SimulatedJob job(Seed(6));
    ASSERT_TRUE(
        StepUntil(job, [&] { return job.core().step() == 2 && !job.UnderWay(kind).empty(); }));
    job.Restart(0);
    // All are back and nothing else is to be done but what hangs.
    StepUntil(job, [&] {
      for (const auto& [worker, role] : job.core().HeldWorkers()) job.BreakStream(worker);
      return true;
    });
    for (int i = 0; i < 40 && !job.UnderWay(kind).empty(); ++i) {
      if (job.core().Describe().phase() == "training") break;
      job.Step();
    }
    if (job.UnderWay(kind).empty()) continue;  // it answered before
    job.Swallow(kind);
    while (job.Step()) {
    }
    job.Wait(absl::Hours(2));
    job.Send(Tick{});
    ExpectTheSameEnd(job, std::string(MethodName(kind)));
  }
}

TEST(JobFaultsTest, DataThatIsNeverReadFailsTheJobAtItsDeadline) {
  SimulatedJob job(Seed(3));
  job.Step();  // granted: the data is being read, and will not be answered
  ASSERT_EQ(job.core().state(), Job::STATE_STARTING);
  job.Wait(absl::Minutes(11));
  job.Send(Tick{});
  StepUntil(job, [&] { return job.ended(); });
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Describe().error().message(), ::testing::HasSubstr("data"));
}

TEST(JobFaultsTest, ACheckpointThatIsNeverCompleteFailsTheJobAtItsDeadline) {
  SimulatedJob job(Seed(3));
  ASSERT_TRUE(StepUntil(job, [&] {
    return job.core().Describe().phase() == "saving a checkpoint" &&
           job.UnderWay(TaskKind::kSaveCheckpoint).empty();
  }));
  const v1::ExplainJobResponse why = job.core().Explain(job.now());
  ASSERT_EQ(why.waits_size(), 1);
  EXPECT_EQ(why.waits(0).kind(), "checkpoint");
  EXPECT_EQ(why.waits(0).deadline_in().seconds(), 600);
  job.Wait(absl::Minutes(11));
  job.Send(Tick{});
  StepUntil(job, [&] { return job.ended(); });
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Describe().error().message(), ::testing::HasSubstr("checkpoint of step"));
}

TEST(JobFaultsTest, AWorkerThatFencedItselfComesBackWithoutItsRole) {
  for (TaskKind kind : {TaskKind::kUpdate, TaskKind::kGenerate, TaskKind::kScore}) {
    SimulatedJob job(Seed(5));
    ASSERT_TRUE(
        StepUntil(job, [&] { return job.core().step() == 2 && !job.UnderWay(kind).empty(); }));
    WorkerReconnected back;
    back.worker = job.UnderWay(kind)[0].worker;
    job.Swallow(kind);  // it stopped everything
    job.Send(back);
    EXPECT_EQ(job.core().HeldWorkers().count(back.worker), 0u) << "it is given back";
    ExpectTheSameEnd(job, std::string(MethodName(kind)));
  }
}

TEST(JobFaultsTest, ARoleThatWasTakenAndForgottenIsAssignedAgain) {
  SimulatedJob job(Seed(5));
  ASSERT_TRUE(StepUntil(job, [&] { return !job.UnderWay(TaskKind::kAssignRole).empty(); }));
  const TaskDone taken = job.UnderWay(TaskKind::kAssignRole)[0];
  WorkerReconnected back;  // its result was not acknowledged when it fenced itself
  back.worker = taken.worker;
  back.unacked = {taken.ref};
  job.Send(back);
  const auto assigned = job.UnderWay(TaskKind::kAssignRole);
  EXPECT_TRUE(std::any_of(assigned.begin(), assigned.end(), [&](const TaskDone& again) {
    return again.worker == taken.worker && again.ref.attempt > taken.ref.attempt;
  }));
  ExpectTheSameEnd(job, "");
}

// Refuses every score until the first step is done or the job has ended; how many it refused.
int RefuseScores(SimulatedJob& job) {
  int refused = 0;
  while (job.core().step() == 0 && !job.ended() && refused < 1000) {
    const auto scores = job.UnderWay(TaskKind::kScore);
    if (scores.empty()) {
      if (!job.Step()) return -1;
      continue;
    }
    job.Swallow(TaskKind::kScore);
    for (TaskDone score : scores) {
      score.status = absl::FailedPreconditionError("ROLE_NOT_HELD");
      job.Send(score);
      ++refused;
    }
  }
  return refused;
}

TEST(JobFaultsTest, AScoreThatIsAlwaysRefusedIsTriedFourTimes) {
  Options options = Seed(5);
  options.error_reward = true;
  SimulatedJob asked(options);
  // Four tries for each of step 1's 6 responses, and for the 4 of the evaluation before it.
  EXPECT_EQ(RefuseScores(asked), 4 * (6 + 4));
  EXPECT_EQ(asked.metrics().at("critic/score/mean"), -1);

  SimulatedJob job(Seed(5));  // the 6 have no reward, and others are drawn in their place
  EXPECT_EQ(RefuseScores(job), 4 * (6 + 4 * 6 + 4));
  EXPECT_EQ(job.metrics().at("val/infra_failed"), 4);
  EXPECT_EQ(job.metrics().count("val/accuracy"), 0u);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Brief().error().message(), ::testing::HasSubstr("ROLE_NOT_HELD"));
}

TEST(JobFaultsTest, AResponseThatAlwaysFailsIsTriedElsewhereAndThenEndsTheJob) {
  SimulatedJob job(Seed(5));
  const auto workers = [&] {
    std::set<std::string> names;
    for (const TaskDone& done : job.UnderWay(TaskKind::kGenerate)) names.insert(done.worker);
    return names.size();
  };
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 1 && workers() == 2; }));
  const uint64_t poisoned = job.UnderWay(TaskKind::kGenerate)[0].ref.subject;
  std::vector<std::string> tried;
  while (!job.ended() && tried.size() < 100) {
    const auto generating = job.UnderWay(TaskKind::kGenerate);
    if (generating.empty()) {  // a rollout loads the version first
      ASSERT_TRUE(job.Step());
      continue;
    }
    job.Swallow(TaskKind::kGenerate);
    for (const TaskDone& done : generating) {
      if (done.ref.subject != poisoned) job.Send(done);
    }
    for (TaskDone done : generating) {
      if (done.ref.subject != poisoned) continue;
      tried.push_back(done.worker);
      done.status = absl::InternalError("response token 0: cannot sample");
      job.Send(done);
    }
  }
  ASSERT_THAT(tried, ::testing::SizeIs(4));  // meanwhile the others were generated
  EXPECT_EQ(std::set<std::string>(tried.begin(), tried.end()).size(), 2u);
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Row().job().error().message(),
              ::testing::ContainsRegex("generating .* .prompt [0-9]+. failed: response token 0"));
}

TEST(JobFaultsTest, APauseAfterARestartFinishesTheStepThatWasUnderWay) {
  SimulatedJob job(Seed(5));
  ASSERT_TRUE(StepUntil(
      job, [&] { return job.core().step() == 1 && !job.UnderWay(TaskKind::kScore).empty(); }));
  job.Restart(0);
  job.Send(PauseRequested{});
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
  EXPECT_EQ(job.core().step(), 2) << "what was generated is not generated again";
  job.Send(ResumeRequested{});
  ExpectTheSameEnd(job, "");
}

TEST(JobFaultsTest, ARewardThatIsBrokenEndsTheJobWithItsWords) {
  SimulatedJob job(Seed(5));
  ASSERT_TRUE(StepUntil(job, [&] { return !job.UnderWay(TaskKind::kScore).empty(); }));
  TaskDone score = job.UnderWay(TaskKind::kScore)[0];
  job.Swallow(TaskKind::kScore);
  score.status = absl::AbortedError("the command 'judge' failed 20 times in a row");
  job.Send(score);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(
      job.core().Row().job().error().message(),
      ::testing::HasSubstr("failed on worker " + score.worker + ": the command 'judge' failed 20"));
}

TEST(JobFaultsTest, CompletesStepsWithoutABatch) {
  Options options = Seed(3);
  options.filter_all = true;
  SimulatedJob job(options);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_TRUE(job.trained().empty());
  EXPECT_EQ(job.core().step(), 5);
}

TEST(JobFaultsTest, PayloadsOfAnEvaluationAreKeptAsLongAsItsStep) {
  SimulatedJob job(Seed(3, 1));
  job.RunToEnd();
  const store::v1::JobRow row = job.core().Row();
  ASSERT_EQ(row.kept_steps_size(), 1);  // the step, with the evaluations before and after it
  // Payload k lies in file k: two evaluations of 4, and 6 responses.
  ASSERT_EQ(row.kept_steps(0).files_size(), 1);
  EXPECT_EQ(row.kept_steps(0).files(0).first(), 1u);
  EXPECT_EQ(row.kept_steps(0).files(0).last(), 14u);
}

TEST(JobFaultsTest, DeletesOldCheckpoints) {
  Options options = Seed(3);
  options.max_checkpoints = 1;
  SimulatedJob job(options);
  ExpectTheSameEnd(job, "");
  EXPECT_EQ(job.disk().size(), 1u);
}

// A rollout loads weights in every step, each time under the next attempt of its slot. A restarted
// controller begins with attempts that none of them had.
TEST(JobFaultsTest, AttemptsOfALongEpochEndBeforeTheNextOne) {
  SimulatedJob job(Seed(1, 300));
  uint64_t last = 0;
  while (job.core().step() < 290) {
    ASSERT_TRUE(job.Step());
    for (const TaskDone& load : job.UnderWay(TaskKind::kLoadWeights)) {
      last = std::max(last, load.ref.attempt);
    }
  }
  EXPECT_GT(last, 256u) << "more than eight bits of tries";
  job.Restart(0);
  while (job.core().step() < 293) {
    ASSERT_TRUE(job.Step());
    for (const TaskDone& load : job.UnderWay(TaskKind::kLoadWeights)) {
      if (!job.core().Wants(load.worker, load.ref)) continue;
      EXPECT_TRUE(load.ref.attempt <= last || load.ref.attempt >= FirstAttempt(2));
      EXPECT_LT(load.ref.attempt, FirstAttempt(3));
    }
  }
}

// The folder of a checkpoint could not be made, so its command never left: a worker runs commands
// in order and would wait for it for ever.
TEST(JobFaultsTest, ACommandWithoutRoomIsIssuedAgainUnderItsNumber) {
  SimulatedJob job(Seed(1));
  ASSERT_TRUE(StepUntil(job, [&] { return !job.UnderWay(TaskKind::kSaveCheckpoint).empty(); }));
  TaskDone first = job.UnderWay(TaskKind::kSaveCheckpoint)[0];
  job.Swallow(TaskKind::kSaveCheckpoint);
  first.status = absl::ResourceExhaustedError("no space left");
  for (int tries = 0; tries < 3; ++tries) {
    job.Send(first);
    EXPECT_TRUE(job.UnderWay(TaskKind::kSaveCheckpoint).empty()) << "at once";
    job.Wait(absl::Seconds(3));
    job.Send(Tick{});
    const auto again = job.UnderWay(TaskKind::kSaveCheckpoint);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].ref.subject, first.ref.subject);
    EXPECT_FALSE(again[0].ref == first.ref) << "a token of its own";
    first.ref = again[0].ref;
    if (tries < 2) job.Swallow(TaskKind::kSaveCheckpoint);
  }
  ExpectTheSameEnd(job, "after three tries");
}

TEST(JobFaultsTest, EndsWithTheSameWeightsDespiteRandomFaults) {
  for (uint64_t seed = 0; seed < 400; seed += kStride) {
    Options options = Seed(seed);
    options.failing_percent = seed % 3 == 0 ? 5 : 0;
    SimulatedJob job(options);
    std::mt19937_64 random(seed + 1000);
    int slow = 0;
    for (int i = 0; i < 600 && !job.ended(); ++i) {
      switch (random() % 150) {
        case 0:
          job.LoseSomeWorker();
          break;
        case 1:
          job.Restart(0);
          break;
        case 2:
          job.Restart(50);
          break;
        case 3:
          job.Send(PauseRequested{});
          break;
        case 4:
        case 5:
        case 6:
          job.Send(ResumeRequested{});
          break;
        case 7:
        case 8:
          job.BreakSomeStream();
          break;
        case 9:
          job.LoseRelay();
          break;
        case 10:
        case 11:
        case 12:
          job.RepeatAResult();
          break;
        case 13:  // too slow for a response and for a release, twice at most
          if (options.failing_percent > 0 || ++slow > 2) break;
          job.Wait(absl::Minutes(3));
          job.Send(Tick{});
          break;
        default:
          break;
      }
      if (job.ended()) break;
      job.Step();
    }
    StepUntil(job, [&] { return job.ended() || job.core().state() == Job::STATE_PAUSED; });
    job.Send(ResumeRequested{});
    ExpectTheSameEnd(job, "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

// The store would try it for ever, and every job would wait.
TEST(JobFaultsTest, AJobWhoseRowIsTooLongFailsAndGivesItsWorkersBack) {
  Options options = Seed(3);
  for (int i = 0; i < 50; ++i) {
    options.more_metrics[std::string(150, 'm') + std::to_string(i)] = i;
  }
  size_t batch_bytes = 0;
  {
    SimulatedJob undisturbed(options);
    ASSERT_TRUE(StepUntil(undisturbed, [&] { return undisturbed.batch_rows().count(3) > 0; }));
    batch_bytes = undisturbed.batch_rows().at(3).ByteSizeLong();
    ASSERT_LT(undisturbed.row().ByteSizeLong() + 1000, batch_bytes);
  }
  options.max_row_bytes = batch_bytes / 2;  // less than a batch's, more than the job's own
  ASSERT_LT(SimulatedJob(Seed(3)).row().ByteSizeLong(), options.max_row_bytes);
  SimulatedJob job(options);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Brief().error().message(),
              ::testing::HasSubstr("a row of table batches has "));
  EXPECT_EQ(job.row().job().state(), Job::STATE_FAILED) << "it is stored";
  EXPECT_TRUE(job.core().HeldWorkers().empty());
  EXPECT_FALSE(job.InQueue());
  EXPECT_EQ(job.core().step(), 0);
  job.Restart(0);
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
}

}  // namespace
}  // namespace baton::controller
