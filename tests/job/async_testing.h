// Helpers of the tests of async jobs in virtual time.
#ifndef BATON_TESTS_JOB_ASYNC_TESTING_H_
#define BATON_TESTS_JOB_ASYNC_TESTING_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {

using Job = v1::Job;
using Options = SimulatedJob::Options;

inline constexpr uint64_t kBatch = 3;  // groups

inline Options Async(uint64_t seed, int max_staleness = 2, const std::string& sampler = "fifo") {
  Options options;
  options.seed = seed;
  options.steps = 6;
  options.edit = [=](v1::JobSpec* spec) {
    spec->mutable_algorithm()->set_mode("async");
    spec->mutable_schedule()->set_max_staleness(max_staleness);
    spec->mutable_schedule()->set_sampler(sampler);
    spec->mutable_schedule()->set_pace("off");  // a few steps would not show that it pays
  };
  return options;
}

// With the pace that the controller chooses.
inline Options Paced(uint64_t seed, int max_staleness) {
  Options options = Async(seed, max_staleness);
  options.edit = [async = options.edit](v1::JobSpec* spec) {
    async(spec);
    spec->mutable_schedule()->set_pace("auto");
  };
  return options;
}

inline Options Sync() {
  Options options;
  options.steps = 6;
  return options;
}

// The weights of a trainer that trains on the recorded batches, one after the other.
inline uint64_t WeightsOfRows(const SimulatedJob& job) {
  uint64_t weights = 0;
  for (const auto& [step, row] : job.batch_rows()) {
    std::map<uint64_t, std::vector<uint64_t>> columns;
    std::vector<uint64_t> ids;
    for (const store::v1::BatchEntry& entry : row.entries()) {
      if (entry.column_hashes().empty()) continue;
      ids.push_back(entry.trajectory().id());
      columns[ids.back()] = {entry.column_hashes().begin(), entry.column_hashes().end()};
    }
    uint64_t contents = 0;
    for (const auto& [id, hashes] : columns) {
      for (const uint64_t hash : hashes) contents = MixInto(contents, hash);
    }
    if (ids.empty()) continue;
    weights = MixInto(MixInto(weights, static_cast<uint64_t>(step - 1)), contents);
    for (const uint64_t id : ids) weights = MixInto(weights, id);
  }
  return MixInto(0, weights);
}

inline std::map<uint64_t, int> TimesConsumed(const SimulatedJob& job) {
  std::map<uint64_t, int> times;  // by id
  for (const auto& [step, row] : job.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) ++times[entry.trajectory().id()];
  }
  return times;
}

// Checks that every async job passes at its end.
inline void ExpectAGoodEnd(SimulatedJob& job, const std::string& what) {
  job.RunToEnd();
  ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED)
      << what << "\n"
      << job.core().Explain(job.now()).DebugString() << job.core().Brief().DebugString();
  EXPECT_EQ(job.FinalWeights(), WeightsOfRows(job)) << what;
  for (const auto& [id, times] : TimesConsumed(job)) EXPECT_EQ(times, 1) << what << ": " << id;
  EXPECT_THAT(job.evaluated(), ::testing::IsSupersetOf({0, 2, 4, 6})) << what;
  EXPECT_TRUE(job.core().HeldWorkers().empty()) << what;
}

// By prompt index: the first trajectory uid.
inline std::map<uint64_t, uint64_t> OpenPrompts(const SimulatedJob& job) {
  std::map<uint64_t, uint64_t> prompt_indices;
  for (const store::v1::OpenPrompts& open : job.row().open_prompts()) {
    for (uint64_t i = 0; i < open.count(); ++i) {
      prompt_indices[open.prompt_index() + i] = open.first_uid() + i * open.per_prompt();
    }
  }
  return prompt_indices;
}

template <typename Done>
bool StepUntil(SimulatedJob& job, Done done) {
  for (int i = 0; i < 20000 && !done(); ++i) {
    if (!job.Step()) break;
  }
  return done();
}

inline std::set<std::string> Waits(const SimulatedJob& job) {
  std::set<std::string> kinds;
  const v1::ExplainJobResponse why = job.core().Explain(job.now());
  for (const v1::Wait& wait : why.waits()) kinds.insert(wait.kind());
  return kinds;
}

// Anything may die, at any time, again and again.
inline void LetThingsDie(SimulatedJob& job, uint64_t seed) {
  uint64_t state = seed * 977 + 5;
  const auto next = [&](uint64_t n) {
    state = MixInto(state, 12345) + 1;
    return (state >> 20) % n;
  };
  int relays = 0;
  for (int fault = 0; fault < 12 && !job.ended(); ++fault) {
    for (uint64_t i = next(60) + 1; i > 0 && !job.ended(); --i) {
      if (!job.Step()) break;
    }
    if (job.ended()) return;
    switch (next(7)) {
      case 0:
        job.LoseSomeWorker();
        break;
      case 1:
        job.BreakSomeStream();
        break;
      case 2:
        if (++relays <= 2) job.LoseRelay();  // a load that fails four times in a row ends a job
        break;
      case 3:
        job.Restart(static_cast<int>(next(3)) * 50);
        break;
      case 4:
        job.RepeatAResult();
        break;
      case 5:
        job.LoseOneOf("actor");
        break;
      default:
        job.LoseOneOf("rollout");
        break;
    }
  }
}

}  // namespace baton::controller

#endif  // BATON_TESTS_JOB_ASYNC_TESTING_H_
