#include "controller/spec/settings/schedule.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/settings/least_responses.h"
#include "sdk/common/messages/settings.h"

namespace baton::controller {
namespace {

constexpr char kAsync[] = "async";
constexpr char kInOrder[] = "in_order";
constexpr char kAuto[] = "auto";
constexpr char kLongestFirst[] = "longest_first";

// Groups that are begun and not consumed: each has its place in memory and in the job's row.
constexpr int64_t kMostOpenGroups = 1 << 15;

class ScheduleCheck {
 public:
  explicit ScheduleCheck(Violations* out) : out_(*out) {}

  // Checks the settings for groups that go on without their stragglers.
  void GroupTimeout(const v1::Dataflow& dataflow, v1::JobSpec* spec) {
    v1::ScheduleSpec* const schedule = spec->mutable_schedule();
    const int n = std::max(1, spec->rollout().n());
    if (!schedule->has_group_timeout_seconds()) {
      if (schedule->has_min_group_size()) {
        out_.Add(
            "schedule.min_group_size",
            "needs schedule.group_timeout_seconds: without it a group waits for all its responses");
      }
      return;
    }
    const int least = static_cast<int>(LeastResponses(*spec, dataflow));
    if (!schedule->has_min_group_size()) {
      schedule->set_min_group_size(std::max(least, (n + 1) / 2));
    }
    if (schedule->min_group_size() < least || schedule->min_group_size() > n) {
      out_.Add("schedule.min_group_size",
               absl::StrCat(
                   schedule->min_group_size(), " is not in [", least, ", ", n, "]: ",
                   least > 1 ? "the responses of a group are compared, which takes two, and " : "",
                   "rollout.n is ", n));
    }
  }

  // Rollouts that share workers generate in turns, but async must not make a role wait for its
  // turn.
  void Pools(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
    for (const RolePool& pool : PoolsOf(spec, dataflow)) {
      const auto& roles = pool.roles;
      if (std::count(roles.begin(), roles.end(), roles::kRollout) == 0 || roles.size() == 1) {
        continue;
      }
      out_.Add(
          "algorithm.mode",
          absl::StrCat("async needs rollouts with workers of their own, and here they share them (",
                       absl::StrJoin(roles, ", "),
                       "): put rollout into a pool of its own, e.g. resources.placement: split, "
                       "or set mode: sync"));
    }
  }

 private:
  Violations& out_;
};

}  // namespace

bool IsAsync(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  return effective.algorithm().mode() == kAsync && effective.kind() == v1::JOB_KIND_RL &&
         !Replays(dataflow);
}

Schedule ScheduleOf(const v1::JobSpec& effective) {
  const v1::ScheduleSpec& spec = effective.schedule();
  Schedule schedule;
  schedule.max_staleness = static_cast<uint64_t>(std::max(0, spec.max_staleness()));
  schedule.in_order = spec.sampler() == kInOrder;
  schedule.refresh = spec.refresh() == kAuto;
  if (spec.has_group_timeout_seconds()) {
    schedule.group_timeout = absl::Seconds(spec.group_timeout_seconds());
  }
  schedule.min_group_size = static_cast<uint32_t>(std::max(1, spec.min_group_size()));
  schedule.paced = spec.pace() == kAuto;
  schedule.longest_first = spec.begin_order() == kLongestFirst;
  return schedule;
}

void CheckSchedule(const v1::Dataflow& dataflow, v1::JobSpec* spec, Violations* out) {
  if (spec->algorithm().mode() != kAsync) {
    if (spec->has_schedule()) {
      out->Add("schedule", "needs algorithm.mode: async; remove it, or set the mode");
    }
    return;
  }
  if (spec->kind() != v1::JOB_KIND_RL) {
    return out->Add("algorithm.mode",
                    "async is of kind rl; other kinds generate nothing: remove it");
  }
  v1::ScheduleSpec* schedule = spec->mutable_schedule();
  FillDefaults(schedule);
  const int64_t open =
      (int64_t{schedule->max_staleness()} + 1) * std::max(1, spec->data().train_batch_size());
  if (open > kMostOpenGroups) {
    out->Add("schedule.max_staleness",
             absl::StrCat("(max_staleness + 1) x data.train_batch_size = ", open,
                          " groups may be under way at once, at most ", kMostOpenGroups,
                          ": lower one of them"));
  }
  if (schedule->begin_order() == kLongestFirst && schedule->sampler() == kInOrder) {
    out->Add(
        "schedule.begin_order",
        "longest_first is of sampler fifo: with in_order a batch waits for the oldest prompts; "
        "remove one of them");
  }
  ScheduleCheck check(out);
  check.GroupTimeout(dataflow, spec);
  check.Pools(*spec, dataflow);
}

}  // namespace baton::controller
