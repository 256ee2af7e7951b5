// Groups that go on without their stragglers (schedule.group_timeout_seconds), and the order in
// which prompts are begun (schedule.begin_order).
#include <algorithm>

#include "tests/job/async_testing.h"

namespace baton::controller {
namespace {

using ::testing::Contains;
using ::testing::Ge;
using ::testing::Key;
using ::testing::Not;

Options WithTimeout(uint64_t seed, int max_staleness = 2) {
  Options options = Async(seed, max_staleness);
  options.samples = 4;
  const auto edit = options.edit;
  options.edit = [edit](v1::JobSpec* spec) {
    edit(spec);
    spec->mutable_rollout()->set_n(4);
    spec->mutable_schedule()->set_group_timeout_seconds(60);
  };
  return options;
}

// By prompt index: the members of its group in the batch that consumed it.
std::map<uint64_t, std::set<uint32_t>> Consumed(const SimulatedJob& job) {
  std::map<uint64_t, std::set<uint32_t>> groups;
  for (const auto& [step, row] : job.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) {
      groups[entry.trajectory().prompt_index()].insert(entry.trajectory().sample());
    }
  }
  return groups;
}

// The group that a batch consumed lacks what it had given up. A group that was begun anew meanwhile
// has other trajectory uids, and is whole.
void ExpectConsumedWithout(const SimulatedJob& job, uint64_t prompt_index, uint64_t first_uid,
                           const std::set<uint32_t>& given_up) {
  for (const auto& [step, row] : job.batch_rows()) {
    for (const store::v1::BatchEntry& entry : row.entries()) {
      const store::v1::TrajectoryRow& member = entry.trajectory();
      const bool same =
          member.trajectory_uid() >= first_uid && member.trajectory_uid() < first_uid + 4;
      if (member.prompt_index() != prompt_index || !same) continue;
      EXPECT_THAT(given_up, Not(Contains(member.sample()))) << "prompt index " << prompt_index;
      EXPECT_EQ(Consumed(job).at(prompt_index).size() + given_up.size(), 4u)
          << "prompt index " << prompt_index;
    }
  }
}

std::map<uint64_t, std::set<uint32_t>> GivenUp(const SimulatedJob& job) {
  std::map<uint64_t, std::set<uint32_t>> prompt_indices;
  for (const store::v1::OpenPrompts& open : job.row().open_prompts()) {
    if (open.given_up_size() == 0) continue;
    EXPECT_EQ(open.count(), 1u);
    prompt_indices[open.prompt_index()] = {open.given_up().begin(), open.given_up().end()};
  }
  return prompt_indices;
}

// By prompt index: how many of its responses are stored.
std::map<uint64_t, size_t> Stored(SimulatedJob& job) {
  std::map<uint64_t, size_t> prompt_indices;
  for (const auto& [serial, row] : job.rows()) {
    if (row.purpose() == v1::PURPOSE_TRAIN) ++prompt_indices[row.prompt_index()];
  }
  return prompt_indices;
}

// Time passes, and the controller looks at its deadlines every second.
void Pass(SimulatedJob& job, int seconds) {
  for (int i = 0; i < seconds && !job.ended(); ++i) {
    job.Wait(absl::Seconds(1));
    job.Send(Tick{});
  }
}

// Some responses never come. True: a group with `least` to `most` of its four is among those that
// wait.
bool LoseStragglers(SimulatedJob& job, size_t least = 2, size_t most = 3) {
  const auto has_some = [&] {
    const auto stored = Stored(job);
    return std::any_of(stored.begin(), stored.end(), [&](const auto& group) {
      return group.second >= least && group.second <= most &&
             OpenPrompts(job).count(group.first) > 0;
    });
  };
  if (!StepUntil(job, has_some)) return false;
  job.Swallow(TaskKind::kGenerate);
  while (job.Step()) {
  }
  return has_some();
}

TEST(AsyncStragglersTest, AGroupContinuesWithoutItsStragglers) {
  int gave_up = 0;
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    SimulatedJob job(WithTimeout(seed));
    if (!LoseStragglers(job)) continue;
    const auto stored = Stored(job);
    Pass(job, 20);
    EXPECT_TRUE(GivenUp(job).empty()) << "not yet";
    Pass(job, 61);
    const auto given_up = GivenUp(job);
    const auto open = OpenPrompts(job);
    for (const auto& [prompt_index, samples] : given_up) {
      ++gave_up;
      ASSERT_EQ(stored.count(prompt_index), 1u);
      EXPECT_EQ(stored.at(prompt_index) + samples.size(), 4u);
      EXPECT_GE(stored.at(prompt_index), 2u) << "the least that are compared with each other";
    }
    job.Wait(absl::Minutes(3));  // what is left of the lost responses is asked of others
    job.Send(Tick{});
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    for (const auto& [prompt_index, samples] : given_up) {
      ExpectConsumedWithout(job, prompt_index, open.at(prompt_index), samples);
    }
    for (const auto& [prompt_index, samples] : Consumed(job)) EXPECT_THAT(samples.size(), Ge(2u));
    if (HasFailure()) return;
  }
  EXPECT_GT(gave_up, 5 / kStride);
}

// A single response has nothing to be compared with, so its group waits on.
TEST(AsyncStragglersTest, AGroupWithOneResponseWaitsForItsStragglers) {
  int waited = 0;
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    SimulatedJob job(WithTimeout(seed));
    if (!LoseStragglers(job, 1, 1)) continue;
    const auto stored = Stored(job);
    Pass(job, 81);
    const auto given_up = GivenUp(job);
    for (const auto& [prompt_index, trajectory_uid] : OpenPrompts(job)) {
      if (stored.count(prompt_index) == 0 || stored.at(prompt_index) != 1) continue;
      ++waited;
      EXPECT_EQ(given_up.count(prompt_index), 0u)
          << "seed " << seed << ", prompt index " << prompt_index;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(waited, 5 / kStride);
}

// Nothing could come while the machine was suspended, the job was paused or had no rollouts.
TEST(AsyncStragglersTest, TimeWithoutRolloutsDoesNotCount) {
  SimulatedJob job(WithTimeout(1));
  ASSERT_TRUE(LoseStragglers(job));
  Pass(job, 20);
  job.Wait(absl::Seconds(100));
  Pass(job, 30);
  EXPECT_TRUE(GivenUp(job).empty());
  Pass(job, 40);
  EXPECT_FALSE(GivenUp(job).empty());
}

// After a pause its rollouts are ready, and its data are read for longer than the timeout.
TEST(AsyncStragglersTest, TimeInWhichDataAreReadDoesNotCount) {
  int met = 0;
  for (uint64_t seed = 0; met == 0; ++seed) {  // in few worlds a group is late just then
    ASSERT_LT(seed, 1000u);
    SimulatedJob job(WithTimeout(seed));
    if (!StepUntil(job, [&] { return job.core().step() == 2; })) continue;
    job.Send(PauseRequested{});
    ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
    job.Send(ResumeRequested{});
    const auto reads = [&] { return Waits(job).count("data") > 0; };
    const auto ready = [&] {
      return !job.InQueue() && job.UnderWay(TaskKind::kAssignRole).empty();
    };
    StepUntil(job, [&] { return reads(); });
    if (!StepUntil(job, [&] { return !reads() || ready(); }) || !reads()) continue;
    const auto stored = Stored(job);
    for (const auto& [prompt_index, trajectory_uid] : OpenPrompts(job)) {
      const auto found = stored.find(prompt_index);
      if (found != stored.end() && (found->second == 2 || found->second == 3)) ++met;
    }
    Pass(job, 90);
    EXPECT_TRUE(GivenUp(job).empty()) << "seed " << seed;
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
}

TEST(AsyncStragglersTest, WithoutATimeoutAGroupWaits) {
  Options options = WithTimeout(1);
  const auto edit = options.edit;
  options.edit = [edit](v1::JobSpec* spec) {
    edit(spec);
    spec->mutable_schedule()->clear_group_timeout_seconds();
  };
  SimulatedJob job(options);
  ASSERT_TRUE(LoseStragglers(job));
  Pass(job, 100);
  EXPECT_TRUE(GivenUp(job).empty());
  EXPECT_THAT(job.metrics(), Not(Contains(Key("buffer/given_up_responses"))));
}

// A restart while the group waits, while its batch is taken, or during its update, makes no
// response again that was given up.
TEST(AsyncStragglersTest, RemembersGivenUpResponsesAfterARestart) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    Options options = WithTimeout(seed);
    options.recompute_log_prob = seed % 2 == 1;
    SimulatedJob job(options);
    if (!LoseStragglers(job)) continue;
    Pass(job, 61);
    const auto given_up = GivenUp(job);
    if (given_up.empty()) continue;
    // With seeds as they come: at once, or once its batch is trained on.
    if (seed % 3 != 0) {
      job.Wait(absl::Minutes(3));
      job.Send(Tick{});
      StepUntil(job, [&] {
        const auto& open = job.row().open_prompts();
        return std::any_of(open.begin(), open.end(), [](const store::v1::OpenPrompts& prompts) {
          return prompts.in_batch() && prompts.given_up_size() > 0;
        });
      });
    }
    const auto before = GivenUp(job);
    const auto open = OpenPrompts(job);
    job.Restart(static_cast<int>(seed % 2) * 50);
    for (int i = 0; i < 30; ++i) job.Step();
    for (const auto& [prompt_index, samples] : before) {
      if (OpenPrompts(job).count(prompt_index) > 0) {
        EXPECT_EQ(GivenUp(job)[prompt_index], samples) << "seed " << seed;
      }
    }
    job.Wait(absl::Minutes(3));
    job.Send(Tick{});
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    for (const auto& [prompt_index, samples] : before) {
      ExpectConsumedWithout(job, prompt_index, open.at(prompt_index), samples);
    }
    ++checked;
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 10 / kStride);
}

TEST(AsyncStragglersTest, AGroupThatHasTooFewSaysSo) {
  Options options = WithTimeout(1);
  const auto edit = options.edit;
  options.edit = [edit](v1::JobSpec* spec) {
    edit(spec);
    spec->mutable_schedule()->set_min_group_size(4);
  };
  SimulatedJob job(options);
  ASSERT_TRUE(LoseStragglers(job));
  EXPECT_THAT(Waits(job), Not(Contains("late_group")));
  Pass(job, 61);
  EXPECT_TRUE(GivenUp(job).empty());
  EXPECT_THAT(Waits(job), Contains("late_group"));
}

// A score over the group is asked for those that are left, and ReMax' greedy response is waited
// for.
TEST(AsyncStragglersTest, TrainsOnEachGroupOnceDespiteFaults) {
  double given_up = 0;
  for (uint64_t seed = 0; seed < 150; seed += kStride) {
    Options options = WithTimeout(seed, static_cast<int>(seed % 4));
    if (seed % 5 == 0) options.preset = "ppo";
    if (seed % 5 == 1) options.preset = "remax";
    options.recompute_log_prob = seed % 5 == 2;
    SimulatedJob job(options);
    LetThingsDie(job, seed);
    for (int i = 0; i < 200 && !job.ended(); ++i) {
      for (int k = 0; k < 10 && !job.ended(); ++k) job.Step();
      Pass(job, 20);
      const auto now = job.metrics().find("buffer/given_up_responses");
      if (now != job.metrics().end()) given_up = std::max(given_up, now->second);
    }
    job.RunToEnd();
    const std::string what = absl::StrCat("seed ", seed);
    ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED)
        << what << "\n"
        << job.core().Explain(job.now()).DebugString() << job.core().Brief().DebugString();
    for (const auto& [id, times] : TimesConsumed(job)) EXPECT_EQ(times, 1) << what << ": " << id;
    for (const auto& [prompt_index, samples] : Consumed(job)) {
      EXPECT_THAT(samples.size(), Ge(2u)) << what;
    }
    if (options.preset.empty()) EXPECT_EQ(job.FinalWeights(), WeightsOfRows(job)) << what;
    if (HasFailure()) return;
  }
  EXPECT_GT(given_up, 0);
}

TEST(AsyncStragglersTest, LongestFirstBeginsAndLearnsFromEachPromptGroupOnce) {
  for (uint64_t seed = 0; seed < 100; seed += kStride) {
    Options options = Async(seed, static_cast<int>(seed % 4));
    options.steps = 12;  // 36 prompt groups of 10 prompts
    const auto edit = options.edit;
    options.edit = [edit](v1::JobSpec* spec) {
      edit(spec);
      spec->mutable_schedule()->set_begin_order("longest_first");
    };
    SimulatedJob job(options);
    if (seed % 2 == 0) LetThingsDie(job, seed);
    job.RunToEnd();
    ASSERT_EQ(job.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(job.FinalWeights(), WeightsOfRows(job)) << "seed " << seed;
    EXPECT_EQ(Consumed(job).size(), 36u);
    // A window is begun whole before the next one.
    EXPECT_LT(Consumed(job).rbegin()->first, 36u + kBatch * 4);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace baton::controller
