#include "controller/spec/schedule.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/spec/least_responses.h"
#include "controller/spec/pools.h"
#include "controller/spec/replay.h"
#include "controller/spec/role_names.h"

namespace baton::controller {
namespace {

constexpr char kAsync[] = "async";
constexpr char kFifo[] = "fifo";
constexpr char kInOrder[] = "in_order";
constexpr char kAuto[] = "auto";
constexpr char kOff[] = "off";
constexpr char kAsDrawn[] = "as_drawn";
constexpr char kLongestFirst[] = "longest_first";
constexpr double kLeastTimeout = 0.001, kMostTimeout = 86400;  // seconds
constexpr int kDefaultStaleness = 4;
// PolicyVersions knows the origin of twice as many versions, so the staleness of a response that a
// batch may consume is always known.
constexpr int kMostStaleness = 32;

// Groups that are begun and not consumed: each has its place in memory and in the job's row.
constexpr int64_t kMostOpenGroups = 1 << 15;

class ScheduleCheck {
 public:
  explicit ScheduleCheck(std::vector<v1::FieldViolation>* out) : out_(out) {}

  void Fail(absl::string_view field, std::string description) {
    v1::FieldViolation violation;
    violation.set_field(absl::StrCat("spec.", field));
    violation.set_description(std::move(description));
    out_->push_back(std::move(violation));
  }

  void OneOf(absl::string_view field, absl::string_view value, absl::string_view first,
             absl::string_view second) {
    if (value == first || value == second) return;
    Fail(field, absl::StrCat("'", value, "' is not one of: ", first, ", ", second));
  }

  // When a group goes on without its stragglers.
  void GroupTimeout(const v1::Dataflow& dataflow, v1::JobSpec* spec) {
    v1::ScheduleSpec* const schedule = spec->mutable_schedule();
    const int n = std::max(1, spec->rollout().n());
    if (!schedule->has_group_timeout_seconds()) {
      if (schedule->has_min_group_size()) {
        Fail(
            "schedule.min_group_size",
            "needs schedule.group_timeout_seconds: without it a group waits for all its responses");
      }
      return;
    }
    const double timeout = schedule->group_timeout_seconds();
    if (!(timeout >= kLeastTimeout && timeout <= kMostTimeout)) {
      Fail("schedule.group_timeout_seconds",
           absl::StrCat(timeout, " is not in [", kLeastTimeout, ", ", kMostTimeout, "]"));
    }
    const int least = static_cast<int>(LeastResponses(*spec, dataflow));
    if (!schedule->has_min_group_size()) {
      schedule->set_min_group_size(std::max(least, (n + 1) / 2));
    }
    if (schedule->min_group_size() < least || schedule->min_group_size() > n) {
      Fail("schedule.min_group_size",
           absl::StrCat(
               schedule->min_group_size(), " is not in [", least, ", ", n, "]: ",
               least > 1 ? "the responses of a group are compared, which takes two, and " : "",
               "rollout.n is ", n));
    }
  }

  // Rollouts that share workers generate in turns, and async lets no role wait for its turn.
  void Pools(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
    for (const RolePool& pool : PoolsOf(spec, dataflow)) {
      const auto& roles = pool.roles;
      if (std::count(roles.begin(), roles.end(), roles::kRollout) == 0 || roles.size() == 1) {
        continue;
      }
      Fail(
          "algorithm.mode",
          absl::StrCat("async needs rollouts with workers of their own, and here they share them (",
                       absl::StrJoin(roles, ", "),
                       "): put rollout into a pool of its own, e.g. resources.placement: split, "
                       "or set mode: sync"));
    }
  }

 private:
  std::vector<v1::FieldViolation>* const out_;
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
  schedule.longest_first = spec.begin_order() == kLongestFirst;
  return schedule;
}

void CheckSchedule(const v1::Dataflow& dataflow, v1::JobSpec* spec,
                   std::vector<v1::FieldViolation>* out) {
  ScheduleCheck check(out);
  if (spec->algorithm().mode() != kAsync) {
    if (spec->has_schedule()) {
      check.Fail("schedule", "needs algorithm.mode: async; remove it, or set the mode");
    }
    return;
  }
  if (spec->kind() != v1::JOB_KIND_RL) {
    return check.Fail("algorithm.mode",
                      "async is of kind rl; other kinds generate nothing: remove it");
  }
  v1::ScheduleSpec* schedule = spec->mutable_schedule();
  if (!schedule->has_max_staleness()) schedule->set_max_staleness(kDefaultStaleness);
  if (schedule->max_staleness() < 0 || schedule->max_staleness() > kMostStaleness) {
    check.Fail("schedule.max_staleness",
               absl::StrCat(schedule->max_staleness(), " is not in [0, ", kMostStaleness, "]"));
  }
  const int64_t open =
      (int64_t{schedule->max_staleness()} + 1) * std::max(1, spec->data().train_batch_size());
  if (open > kMostOpenGroups) {
    check.Fail("schedule.max_staleness",
               absl::StrCat("(max_staleness + 1) x data.train_batch_size = ", open,
                            " groups may be under way at once, at most ", kMostOpenGroups,
                            ": lower one of them"));
  }
  if (!schedule->has_sampler()) schedule->set_sampler(kFifo);
  check.OneOf("schedule.sampler", schedule->sampler(), kFifo, kInOrder);
  if (!schedule->has_refresh()) schedule->set_refresh(kAuto);
  check.OneOf("schedule.refresh", schedule->refresh(), kAuto, kOff);
  if (!schedule->has_begin_order()) schedule->set_begin_order(kAsDrawn);
  check.OneOf("schedule.begin_order", schedule->begin_order(), kAsDrawn, kLongestFirst);
  if (schedule->begin_order() == kLongestFirst && schedule->sampler() == kInOrder) {
    check.Fail(
        "schedule.begin_order",
        "longest_first is of sampler fifo: with in_order a batch waits for the oldest prompts; "
        "remove one of them");
  }
  check.GroupTimeout(dataflow, spec);
  check.Pools(*spec, dataflow);
}

}  // namespace baton::controller
