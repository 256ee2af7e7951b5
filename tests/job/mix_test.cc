// A job whose prompts come from several files: whatever dies, it draws the prompts that an
// undisturbed one draws, and it says how many came from which file.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/prompts/prompt_mix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using Job = v1::Job;
using Options = SimulatedJob::Options;

// 3 prompts a step: of the first file up to step 3, of the second one from step 2.
Options Mixed(uint64_t seed, bool async) {
  Options options;
  options.seed = seed;
  options.steps = 6;
  options.file_sizes = {2, 5, 3};
  options.edit = [async](v1::JobSpec* spec) {
    v1::DataSpec* data = spec->mutable_data();
    for (const char* file : {"u", "v"}) data->add_train_files(file);
    data->add_train_mix()->set_to_step(3);
    data->add_train_mix()->set_from_step(2);
    data->add_train_mix()->set_weight(0.5);
    if (async) spec->mutable_algorithm()->set_mode("async");
  };
  return options;
}

// By prompt index: the prompts that were learned from.
std::map<uint64_t, uint64_t> PromptsOfRows(const SimulatedJob& job) {
  std::map<uint64_t, uint64_t> prompts;
  for (const auto& [step, row] : job.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) {
      prompts[entry.trajectory().prompt_index()] = entry.trajectory().prompt_id();
    }
  }
  return prompts;
}

void LoseSomething(SimulatedJob& job, uint64_t seed) {
  for (int i = 0; i < 400 && !job.ended(); ++i) {
    if (!job.Step()) return;
    if ((seed + static_cast<uint64_t>(i)) % 97 != 0) continue;
    switch ((seed + static_cast<uint64_t>(i) / 97) % 3) {
      case 0:
        job.LoseOneOf("actor");  // back to the checkpoint
        break;
      case 1:
        job.Restart(seed % 2 == 0 ? 100 : 0);
        break;
      default:
        job.LoseOneOf("rollout");
        break;
    }
  }
}

TEST(JobMixTest, DrawsTheSamePromptsDespiteFaults) {
  for (const bool async : {false, true}) {
    for (uint64_t seed = 0; seed < 60; seed += kStride) {
      SimulatedJob job(Mixed(seed, async));
      LoseSomething(job, seed);
      job.RunToEnd();
      const std::string what = absl::StrCat(async ? "async" : "sync", ", seed ", seed);
      ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED)
          << what << "\n"
          << job.core().Explain(job.now()).DebugString();
      PromptMix mix(job.core().effective_spec().data(), {2, 5, 3});
      const std::map<uint64_t, uint64_t> prompts = PromptsOfRows(job);
      for (const auto& [prompt_index, prompt] : prompts) {
        ASSERT_EQ(prompt, mix.At(prompt_index)) << what << ", prompt index " << prompt_index;
      }
      if (async) continue;  // it may have learned from later prompts before earlier ones
      EXPECT_EQ(prompts.size(), 18u) << what;
      EXPECT_EQ(prompts.rbegin()->first, 17u) << what << ": a prompt was skipped";
    }
  }
}

TEST(JobMixTest, EachStepTellsItsShares) {
  SimulatedJob job(Mixed(1, /*async=*/false));
  std::map<int64_t, std::map<std::string, double>> of_steps;
  while (!job.ended() && job.Step()) {
    if (job.metrics().count("data/share_0") > 0) of_steps[job.core().step()] = job.metrics();
  }
  ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
  ASSERT_EQ(of_steps.size(), 6u);
  for (auto& [step, metrics] : of_steps) {
    EXPECT_DOUBLE_EQ(metrics["data/share_0"] + metrics["data/share_1"] + metrics["data/share_2"],
                     1);
    EXPECT_EQ(metrics["data/share_0"] > 0, step <= 3) << step;
    EXPECT_EQ(metrics["data/share_1"] > 0, step >= 2) << step;
  }
  EXPECT_DOUBLE_EQ(of_steps[1]["data/share_0"], 2.0 / 3);
  EXPECT_DOUBLE_EQ(of_steps[6]["data/share_1"], 2.0 / 3);

  SimulatedJob unmixed{Options()};
  unmixed.RunToEnd();
  EXPECT_EQ(unmixed.metrics().count("data/share_0"), 0u);
}

TEST(JobMixTest, AFileThatIsEmptyWhenItIsReadAgainFailsTheJob) {
  Options options = Mixed(1, /*async=*/false);
  options.file_sizes = {5, 0, 5};
  SimulatedJob empty(options);
  empty.RunToEnd();
  EXPECT_EQ(empty.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(empty.core().Describe().error().message(),
              HasSubstr("data.train_files[1] has no prompt"));
}

}  // namespace
}  // namespace baton::controller
