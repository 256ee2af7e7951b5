#include "controller/spec/schedule.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
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
  return {static_cast<uint64_t>(std::max(0, effective.schedule().max_staleness())),
          effective.schedule().sampler() == kInOrder, effective.schedule().refresh() == kAuto};
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
  if (schedule->sampler() != kFifo && schedule->sampler() != kInOrder) {
    check.Fail("schedule.sampler",
               absl::StrCat("'", schedule->sampler(), "' is not one of: ", kFifo, ", ", kInOrder));
  }
  if (!schedule->has_refresh()) schedule->set_refresh(kAuto);
  if (schedule->refresh() != kAuto && schedule->refresh() != kOff) {
    check.Fail("schedule.refresh",
               absl::StrCat("'", schedule->refresh(), "' is not one of: ", kAuto, ", ", kOff));
  }
  check.Pools(*spec, dataflow);
}

}  // namespace baton::controller
