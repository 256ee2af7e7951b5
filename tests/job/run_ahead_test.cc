// Idle rollouts sample what is to be drawn next: nothing but guesses comes of it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/spec/settings/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/async_testing.h"

namespace baton::controller {
namespace {

using ::testing::IsEmpty;

Options Ahead(Options options, uint64_t seed, int rollouts = 2) {
  options.seed = seed;
  options.rollout_workers = rollouts;
  const auto edit = options.edit;
  options.edit = [=](v1::JobSpec* spec) {
    if (edit) edit(spec);
    spec->mutable_rollout()->mutable_speculation()->set_run_ahead(true);
  };
  return options;
}

// By name: what the steps told in all.
double Told(const SimulatedJob& job, const std::string& name) {
  double told = 0;
  for (const v1::JobEvent& event : job.events()) {
    const auto metric = event.metrics().find(name);
    if (event.type() == "step" && metric != event.metrics().end()) told += metric->second;
  }
  return told;
}

TEST(RunAheadTest, IdleRolloutsSampleWhatIsDrawnNext) {
  SimulatedJob without(Sync());
  without.RunToEnd();
  double told = 0;
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob job(Ahead(Sync(), seed));
    job.RunToEnd();
    ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(job.trained(), without.trained()) << "seed " << seed;
    EXPECT_EQ(job.FinalWeights(), without.FinalWeights()) << "seed " << seed;
    EXPECT_GT(job.ahead().size(), 0u) << "seed " << seed;
    told += Told(job, "rollout/spec/ahead_tokens");
    for (const auto& [ref, start] : job.ahead()) {
      // Six steps draw 3 prompts each.
      EXPECT_LT(start.response.prompt_index, 18u) << "seed " << seed << ": no step draws it";
      EXPECT_LT(start.response.sample, 2u);
    }
  }
  EXPECT_GT(told, 0);
}

TEST(RunAheadTest, SamplesEachResponseAheadOnceUnlessStopped) {
  int most = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob job(Ahead(Sync(), seed));
    job.RunToEnd();
    std::map<std::pair<uint64_t, uint32_t>, int> times;
    for (const auto& [ref, start] : job.ahead()) {
      ++times[{start.response.prompt_index, start.response.sample}];
    }
    for (const auto& [response, begun] : times) {
      const auto stopped = job.ahead_stopped().find(response);
      const int stops = stopped == job.ahead_stopped().end() ? 0 : stopped->second;
      EXPECT_LE(begun, 1 + stops) << "seed " << seed << ", prompt index " << response.first;
      most = std::max(most, begun);
    }
  }
  EXPECT_GT(most, 1) << "some were begun again";
}

TEST(RunAheadTest, AnAsyncJobRunsAheadWhileNothingMayBegin) {
  size_t ahead = 0;
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Ahead(Async(seed, 1), seed));
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    ahead += job.ahead().size();
    for (const auto& [ref, start] : job.ahead()) EXPECT_LT(start.response.prompt_index, 18u);
  }
  EXPECT_GT(ahead, 0u);
}

TEST(RunAheadTest, SamplesNothingAheadIfTurnedOff) {
  SimulatedJob job(Sync());
  job.RunToEnd();
  EXPECT_THAT(job.ahead(), IsEmpty());
  EXPECT_EQ(job.metrics().count("rollout/spec/ahead_tokens"), 0u);
}

// A prompt that was sampled ahead is then drawn where its history is, as long as that has room.
// This holds for the first step: later ones begin on whichever rollout has the new weights first.
TEST(RunAheadTest, TheResponseIsMadeWhereItWasSampledAhead) {
  int same = 0, other = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob job(Ahead(Sync(), seed));
    std::set<uint64_t> seen;
    while (job.core().step() == 0 && job.Step()) {
      std::map<uint64_t, std::string> sampled_by;  // by prompt index
      for (const auto& [ref, start] : job.ahead()) {
        sampled_by[start.response.prompt_index] = start.worker;
      }
      for (const TaskDone& task : job.UnderWay(TaskKind::kGenerate)) {
        const TrajectoryInfo* const info = job.core().Find(task.ref.subject);
        if (info == nullptr || info->purpose != v1::PURPOSE_TRAIN) continue;
        const auto sampled = sampled_by.find(info->prompt_index);
        if (sampled == sampled_by.end() || !seen.insert(task.ref.subject).second) continue;
        ++(sampled->second == task.worker ? same : other);
      }
    }
  }
  EXPECT_GT(same, other + other / 2) << "of " << same + other;
}

TEST(RunAheadTest, LeavesTheWeightsUnchangedDespiteFaults) {
  SimulatedJob without(Sync());
  without.RunToEnd();
  for (uint64_t seed = 0; seed < 100; seed += kStride) {
    SimulatedJob sync(Ahead(Sync(), seed));
    LetThingsDie(sync, seed);
    sync.RunToEnd();
    ASSERT_EQ(sync.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(sync.FinalWeights(), without.FinalWeights()) << "seed " << seed;
    SimulatedJob async(Ahead(Async(seed, static_cast<int>(seed % 3)), seed));
    LetThingsDie(async, seed);
    async.RunToEnd();
    ASSERT_EQ(async.core().state(), Job::STATE_SUCCEEDED) << "async, seed " << seed;
    EXPECT_EQ(async.FinalWeights(), WeightsOfRows(async)) << "async, seed " << seed;
    for (const auto& [id, times] : TimesConsumed(async)) EXPECT_EQ(times, 1) << "seed " << seed;
    if (HasFailure()) return;
  }
}

// A worker that does not know the method, and one that fails each time: four at once, and then it
// rests.
TEST(RunAheadTest, StopsAskingAWorkerThatCannotRunAhead) {
  const std::pair<absl::Status, size_t> cases[] = {
      {absl::UnimplementedError("no method run_ahead"), 4},
      {absl::InternalError("no"), 12},
      {absl::CancelledError("for no reason"), 12},
      {absl::FailedPreconditionError("other weights"), 12}};
  for (const auto& [status, most] : cases) {
    Options options = Ahead(Sync(), 5, /*rollouts=*/1);
    options.ahead = status;
    SimulatedJob job(options);
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << status;
    EXPECT_GT(job.ahead().size(), 0u) << status;
    EXPECT_LE(job.ahead().size(), most) << status << ": of four at once";
  }
}

// A task that failed once is tried again after a while, and a whole wave that fails counts once.
TEST(RunAheadTest, AWorkerThatFailedIsAskedAgain) {
  SimulatedJob job(Ahead(Sync(), 5, /*rollouts=*/1));
  const auto under_way = [&] { return job.UnderWay(TaskKind::kRunAhead); };
  ASSERT_TRUE(StepUntil(job, [&] { return under_way().size() == 4; }));
  const auto wave = under_way();
  job.Swallow(TaskKind::kRunAhead);
  for (TaskDone done : wave) {
    done.status = absl::InternalError("the engine stumbled");
    job.Send(done);
  }
  EXPECT_TRUE(under_way().empty()) << "it rests";
  job.Wait(absl::Milliseconds(1100));
  job.Send(Tick{});
  EXPECT_EQ(under_way().size(), 4u);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_GT(Told(job, "rollout/spec/ahead_responses"), 0);
}

// A restarted controller knows nothing of them.
TEST(RunAheadTest, StopsRunAheadTasksOfAnEarlierController) {
  int stopped = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob job(Ahead(Sync(), seed));
    if (!StepUntil(job, [&] { return !job.UnderWay(TaskKind::kRunAhead).empty(); })) continue;
    std::set<TaskRef> before;
    for (const TaskDone& task : job.UnderWay(TaskKind::kRunAhead)) before.insert(task.ref);
    job.Restart(0);
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    for (const StopTask& stop : job.stopped()) stopped += before.count(stop.ref) > 0 ? 1 : 0;
  }
  EXPECT_GT(stopped, 0);
}

// Results of tasks that were never assigned or have ended, and a number that makes no sense.
TEST(RunAheadTest, IgnoresUnwantedResults) {
  SimulatedJob job(Ahead(Sync(), 7));
  ASSERT_TRUE(StepUntil(job, [&] { return !job.UnderWay(TaskKind::kRunAhead).empty(); }));
  TaskDone done = job.UnderWay(TaskKind::kRunAhead)[0];
  EXPECT_TRUE(job.core().Wants(done.worker, done.ref));
  EXPECT_FALSE(job.core().Wants("another", done.ref));
  TaskDone other = done;
  other.ref.subject += 1000;
  EXPECT_FALSE(job.core().Wants(other.worker, other.ref));
  other = done;
  other.ref.attempt += 1;
  EXPECT_FALSE(job.core().Wants(other.worker, other.ref));
  done.output.metrics[kAheadTokens] = 1e18;
  job.Send(done);
  EXPECT_FALSE(job.core().Wants(done.worker, done.ref)) << "it has ended";
  job.Send(done);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_LT(Told(job, "rollout/spec/ahead_tokens"), 1e6);
}

}  // namespace
}  // namespace baton::controller
