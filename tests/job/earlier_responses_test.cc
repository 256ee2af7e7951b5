// Responses that are made again have the earlier response as their draft.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/job/async_testing.h"

namespace baton::controller {
namespace {

// Ids of training responses that have a row.
std::set<uint64_t> Responses(SimulatedJob& job) {
  std::set<uint64_t> responses;
  for (const auto& [serial, row] : job.rows()) {
    if (row.purpose() == v1::PURPOSE_TRAIN) responses.insert(row.id());
  }
  return responses;
}

// Ids of training responses that were asked for with a draft.
std::map<uint64_t, std::vector<int32_t>> Drafted(const SimulatedJob& job) {
  std::map<uint64_t, std::vector<int32_t>> drafted;
  for (const auto& [ref, draft] : job.drafts()) {
    if (PurposeOf(ref.subject) == v1::PURPOSE_TRAIN) drafted[ref.subject] = draft;
  }
  return drafted;
}

Options Without(Options options) {
  const auto edit = options.edit;
  options.edit = [=](v1::JobSpec* spec) {
    if (edit) edit(spec);
    spec->mutable_rollout()->mutable_speculation()->set_mode("off");
    if (spec->has_schedule()) spec->mutable_schedule()->set_refresh("off");
  };
  return options;
}

// The trainer dies, and its steps since the checkpoint are redone. Their responses are drawn with
// the same random numbers, so the responses of the dead branch are drafts for them.
TEST(EarlierResponsesTest, UndoneResponsesBecomeDraftsAfterATrainerLoss) {
  int drafts = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (const bool async : {false, true}) {
      Options options = async ? Async(seed, 3) : Sync();
      options.seed = seed;
      SimulatedJob job(options);
      ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 3; }));
      const std::string what = absl::StrCat(async ? "async" : "sync", ", seed ", seed);
      EXPECT_TRUE(Drafted(job).empty()) << what << ": nothing was drawn twice yet";
      const std::set<uint64_t> before = Responses(job);
      job.LoseOneOf("actor");
      ASSERT_EQ(job.core().step(), 2) << "the checkpoint";
      double told = 0, accepted = 0;
      ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 4; })) << what;
      for (const v1::JobEvent& event : job.events()) {
        const auto& metrics = event.metrics();
        if (metrics.contains("rollout/spec/made_again_tokens")) {
          told += metrics.at("rollout/spec/made_again_tokens");
          accepted += metrics.at("rollout/spec/made_again_accepted");
        }
      }
      for (const auto& [id, draft] : Drafted(job)) {
        EXPECT_EQ(before.count(id), 1u) << what << ": " << id;
        EXPECT_EQ(draft, std::vector<int32_t>(draft.size(), static_cast<int32_t>(id % 1000)));
        ++drafts;
      }
      EXPECT_FALSE(Drafted(job).empty()) << what;
      EXPECT_GT(told, 0) << what;
      EXPECT_EQ(accepted, told) << what << ": the weights are the same";
      if (async) {
        ExpectAGoodEnd(job, what);
      } else {
        SimulatedJob undisturbed(options);
        undisturbed.RunToEnd();
        job.RunToEnd();
        EXPECT_EQ(job.FinalWeights(), undisturbed.FinalWeights()) << what;
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(drafts, 50);
}

TEST(EarlierResponsesTest, DraftsSurviveARestartOfTheController) {
  SimulatedJob job(Async(2, 3));
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 3; }));
  job.Restart(0);
  job.LoseOneOf("actor");
  ASSERT_EQ(job.core().step(), 2);
  ExpectAGoodEnd(job, "");
  EXPECT_FALSE(Drafted(job).empty());
}

TEST(EarlierResponsesTest, MakesNoDraftsWithoutSpeculation) {
  for (const Options& options : {Without(Async(3, 3)), Without(Sync())}) {
    SimulatedJob job(options);
    ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 3; }));
    job.LoseOneOf("actor");
    job.RunToEnd();
    EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
    EXPECT_TRUE(job.drafts().empty());
  }
}

// The log has lost the earlier response: the new one is made without a draft.
TEST(EarlierResponsesTest, GeneratesWithoutADraftThatCannotBeRead) {
  SimulatedJob job(Async(4, 3));
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 3; }));
  for (auto& [serial, row] : job.rows()) row.set_offset(row.offset() + 7);
  job.Restart(0);
  job.LoseOneOf("actor");
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_SUCCEEDED);
  EXPECT_TRUE(Drafted(job).empty());
}

}  // namespace
}  // namespace baton::controller
