// Async jobs in virtual time whose unfinished responses newer weights make again.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/weights/refresh.h"
#include "gtest/gtest.h"
#include "tests/job/async_testing.h"

namespace baton::controller {
namespace {

Options AsyncWith(const std::string& refresh, uint64_t seed) {
  Options options = Async(seed, 4);
  const auto edit = options.edit;
  options.edit = [=](v1::JobSpec* spec) {
    edit(spec);
    spec->mutable_schedule()->set_refresh(refresh);
  };
  return options;
}

// The responses that are wanted and run, by id.
std::map<uint64_t, TrajectoryInfo> Running(const SimulatedJob& job) {
  std::map<uint64_t, TrajectoryInfo> running;
  for (const TaskDone& task : job.UnderWay(TaskKind::kGenerate)) {
    const TrajectoryInfo* const info = job.core().Find(task.ref.subject);
    if (info != nullptr && job.core().Wants(task.worker, task.ref)) running[info->id] = *info;
  }
  return running;
}

// Each response that has begun has two tokens.
void Progress(SimulatedJob& job) {
  for (const TaskDone& task : job.UnderWay(TaskKind::kGenerate)) {
    const TrajectoryInfo* const info = job.core().Find(task.ref.subject);
    if (info == nullptr || !job.core().Wants(task.worker, task.ref)) continue;
    if (info->tokens == 0) job.Send(TaskProgressed{task.worker, task.ref, 2});
  }
}

int Recalled(const SimulatedJob& job) {
  int recalled = 0;
  for (const StopTask& stop : job.stopped()) recalled += stop.reason == kMadeAgain;
  return recalled;
}

// Newer weights come while a replica is left with a long response: it is stopped, and made again by
// them, with what there was of it as a draft. Where refresh is off the replica finishes it.
TEST(AsyncRefreshTest, UnfinishedResponsesAreMadeAgainByNewerWeights) {
  for (const std::string refresh : {"auto", "off"}) {
    int recalled = 0, drafts = 0;
    for (uint64_t seed = 0; seed < 40; seed += kStride) {
      SimulatedJob job(AsyncWith(refresh, seed));
      while (!job.ended()) {
        Progress(job);
        const std::map<uint64_t, TrajectoryInfo> known = Running(job);
        const size_t stops = job.stopped().size();
        if (!job.Step()) break;
        for (size_t i = stops; i < job.stopped().size(); ++i) {
          const StopTask& stop = job.stopped()[i];
          const auto stopped = known.find(stop.ref.subject);
          if (stop.reason != kMadeAgain || stopped == known.end()) continue;
          EXPECT_GE(stopped->second.tokens, 2 * stopped->second.drafted) << "it may never end";
        }
        for (const auto& [id, info] : Running(job)) {
          if (info.drafted == 0) continue;
          ++drafts;
          EXPECT_LT(info.draft_version, info.policy_version);
        }
      }
      recalled += Recalled(job);
      ExpectAGoodEnd(job, absl::StrCat("seed ", seed, ", refresh ", refresh));
      if (HasFailure()) return;
    }
    EXPECT_EQ(recalled > 0, refresh == "auto");
    EXPECT_EQ(drafts > 0, refresh == "auto");
  }
}

// A recalled response whose worker, stream or controller dies before it has said what it has.
TEST(AsyncRefreshTest, SurvivesFaultsWhileResponsesAreRecalled) {
  int recalled = 0;
  for (uint64_t seed = 0; seed < 200; seed += kStride) {
    SimulatedJob job(AsyncWith("auto", seed));
    int faults = 0;
    while (!job.ended() && faults < 4) {
      Progress(job);
      const int before = Recalled(job);
      if (!job.Step()) break;
      if (Recalled(job) == before) continue;
      switch ((seed / kStride + static_cast<uint64_t>(faults++)) % 4) {
        case 0:
          job.LoseOneOf("rollout");
          break;
        case 1:
          job.BreakSomeStream();
          break;
        case 2:
          job.Restart(0);
          break;
        default:
          job.LoseOneOf("actor");
          break;
      }
    }
    recalled += Recalled(job);
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    if (HasFailure()) return;
  }
  EXPECT_GT(recalled, 0);
}

}  // namespace
}  // namespace baton::controller
