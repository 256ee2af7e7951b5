// The metrics of a job: how many series it has, and when what a job shows of itself changes.
#include <map>
#include <random>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/job/metric_names.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

void RunToSuccess(SimulatedJob& world) {
  while (!world.ended() && world.Step()) {
  }
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
}

TEST(JobMetricsTest, BoundsTheMetricsThatWorkersReport) {
  SimulatedJob::Options options;
  options.steps = 3;
  for (int i = 0; i < 40'000; ++i) options.more_metrics[absl::StrCat("source/", i)] = i;
  SimulatedJob world(options);
  size_t most_scores = 0;
  while (!world.ended() && world.Step()) {
    for (const auto& [serial, row] : world.rows()) {
      most_scores = std::max(most_scores, static_cast<size_t>(row.scores_size()));
    }
  }
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  const auto& metrics = world.row().job().metrics();
  EXPECT_LE(metrics.size(), kMostSeries + 100);
  EXPECT_EQ(most_scores, kMostScoreNames);  // `reward` is the node's own
  EXPECT_TRUE(metrics.contains("critic/score/mean"));
  EXPECT_TRUE(metrics.contains("val/accuracy"));
  EXPECT_TRUE(metrics.contains("training/global_step"));
  // The metric is of the last step: the actor's update alone reported so many more than a job has.
  EXPECT_GT(metrics.at("training/dropped_metrics"), 39'000);
  EXPECT_LE(world.row().ByteSizeLong(), 100'000u);
}

TEST(JobMetricsTest, SourcesHaveBounds) {
  SimulatedJob::Options options;
  options.steps = 1;
  for (int i = 0; i < 500; ++i) options.val_sources.push_back(absl::StrCat("s", i));
  SimulatedJob world(options);
  RunToSuccess(world);
  size_t sources = 0;
  for (const auto& [name, value] : world.row().job().metrics()) {
    if (absl::StartsWith(name, "val-core/") && absl::StrContains(name, "/mean@")) ++sources;
  }
  EXPECT_EQ(sources, kMostSources + 1);
  // 500 and those without a source.
  EXPECT_EQ(world.row().job().metrics().at("val-core/sources_in_other"), 501.0 - kMostSources);
  EXPECT_TRUE(world.row().job().metrics().contains("val-core/all/mean@1"));
  EXPECT_TRUE(world.row().job().metrics().contains("val-core/other/mean@1"));
}

// Everything that a job shows, but for workers and phase, stands in the row that was written last:
// nothing else need be copied.
TEST(JobMetricsTest, AJobChangesOnlyWithItsRow) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob::Options options;
    options.seed = seed;
    options.steps = 4;
    options.max_checkpoints = 1;
    options.failing_percent = 5;
    options.actor_ranks = seed % 2 == 0 ? 1 : 2;
    SimulatedJob world(options);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; !world.ended() && i < 20'000; ++i) {
      if (random() % 60 == 0) world.LoseSomeWorker();
      if (random() % 200 == 0) world.Send(PauseRequested{});
      if (random() % 20 == 0) world.Send(ResumeRequested{});
      if (!world.Step()) break;
      Job written = world.row().job();
      written.clear_spec();
      written.clear_effective_spec();
      written.clear_dataflow();
      ASSERT_TRUE(
          google::protobuf::util::MessageDifferencer::Equals(world.core().Durable(), written))
          << "seed " << seed << "\n"
          << world.core().Durable().DebugString() << written.DebugString();
    }
  }
}

// The test counts idle seconds itself, one by one, from the tasks that are under way.
class IdleSeconds {
 public:
  void Count(const SimulatedJob& job) {
    const std::string phase = job.core().Progress().phase();
    ++seconds_;
    trainer_ += phase == "generating" || phase == "scoring" || phase == "evaluating" ? 1 : 0;
    std::set<std::string> generate, load;
    for (const TaskDone& task : job.UnderWay(TaskKind::kGenerate)) generate.insert(task.worker);
    for (const TaskDone& task : job.UnderWay(TaskKind::kLoadWeights)) load.insert(task.worker);
    rollouts_ += 2 - static_cast<int>(generate.size());
    loading_ += static_cast<int>(load.size());
  }
  void Expect(const std::map<std::string, double>& metrics) const {
    EXPECT_NEAR(metrics.at("idle/trainer"), trainer_ / seconds_, 1e-9);
    // A task that is assigned is under way a little later: when its turn is committed.
    const double idle = metrics.at("idle/rollouts"), loading = metrics.at("idle/rollouts_loading");
    EXPECT_LE(idle, rollouts_ / (2 * seconds_) + 1e-9);
    EXPECT_GE(loading, loading_ / (2 * seconds_) - 1e-9);
    EXPECT_LE(loading, idle);
  }

 private:
  double seconds_ = 0, trainer_ = 0, rollouts_ = 0, loading_ = 0;
};

TEST(JobMetricsTest, IdleSharesAreOfTheTimeBetweenTwoSteps) {
  std::map<std::string, double> mean, loading;  // of the trainer, and of rollouts, by mode
  for (const char* mode : {"sync", "async"}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      SimulatedJob::Options options;
      options.seed = seed;
      options.steps = 6;
      options.edit = [=](v1::JobSpec* spec) { spec->mutable_algorithm()->set_mode(mode); };
      SimulatedJob world(options);
      IdleSeconds idle;
      double steps = 0;
      while (!world.ended()) {
        world.Wait(absl::Seconds(1));
        idle.Count(world);
        if (!world.Step()) break;
        const auto done = world.metrics().find("training/global_step");
        if (done == world.metrics().end() || done->second == steps) continue;
        steps = done->second;
        // Before the first step rollouts took on their role one after the other.
        if (steps > 1) idle.Expect(world.metrics());
        mean[mode] += world.metrics().at("idle/trainer");
        loading[mode] += world.metrics().at("idle/rollouts_loading");
        idle = IdleSeconds();
      }
      ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
      ASSERT_EQ(steps, 6);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(mean["sync"], mean["async"]) << "rollouts that run ahead keep the trainer busy";
  for (const char* mode : {"sync", "async"}) {
    EXPECT_GT(mean[mode], 0);
    EXPECT_GT(loading[mode], 0);
  }
}

// While roles of one worker take turns, the worker is not idle because one of them is.
TEST(JobMetricsTest, RolloutsThatShareTheirWorkersHaveNoIdleShare) {
  SimulatedJob::Options options;
  options.steps = 2;
  options.rollout_workers = 1;
  options.pools = {{"actor", "rollout"}};
  SimulatedJob world(options);
  while (!world.ended()) {
    world.Wait(absl::Seconds(1));
    if (!world.Step()) break;
  }
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(world.metrics().count("idle/rollouts"), 0u);
  EXPECT_LT(world.metrics().at("idle/trainer"), 1);
}

}  // namespace
}  // namespace baton::controller
