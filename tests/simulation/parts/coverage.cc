#include "tests/simulation/parts/coverage.h"

#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/core/job/job_state.h"

namespace baton::simulation {
namespace {

constexpr const char* kEventNames[] = {"worker granted", "worker lost",
                                       "worker back",    "data loaded",
                                       "progress",       "task done",
                                       "batch built",    "checkpoint committed",
                                       "cancel",         "pause",
                                       "resume",         "yield",
                                       "tick",           "time lost",
                                       "payload lost",   "role troubled",
                                       "payloads wait",  "rows refused",
                                       "data waits",     "update progress",
                                       "relays seen",    "optimizers dropped"};
constexpr size_t kEvents = std::variant_size_v<controller::Event>;
static_assert(sizeof(kEventNames) / sizeof(kEventNames[0]) == kEvents);
constexpr const char* kPhases[] = {"setting up", "publishing weights",   "generating",
                                   "scoring",    "computing advantages", "training",
                                   "evaluating", "saving a checkpoint",  "releasing workers"};

}  // namespace

const char* EventName(const controller::Event& event) { return kEventNames[event.index()]; }

void Coverage::Merge(const Coverage& other) {
  for (const auto& [key, count] : other.events_) events_[key] += count;
  for (const auto& [key, count] : other.faults_) faults_[key] += count;
  for (const auto& [key, count] : other.phases_) phases_[key] += count;
  for (const auto& [key, count] : other.ends_) ends_[key] += count;
  drained_as_slow_ += other.drained_as_slow_;
  for (const auto& [what, times] : other.happened_) happened_[what] += times;
}

std::string Coverage::Report() const {
  std::string out = "events by the job's state:\n";
  std::vector<std::string> never;
  for (int s = v1::Job::STATE_QUEUED; s <= v1::Job::State_MAX; ++s) {
    const auto state = static_cast<v1::Job::State>(s);
    if (!v1::Job::State_IsValid(s)) continue;
    const std::string name(controller::StateName(state));
    std::vector<std::string> row;
    for (size_t e = 0; e < kEvents; ++e) {
      const auto it = events_.find({s, e});
      if (it != events_.end()) {
        row.push_back(absl::StrCat(kEventNames[e], " ", it->second));
      } else {
        never.push_back(absl::StrCat(name, " x ", kEventNames[e]));
      }
    }
    absl::StrAppendFormat(&out, "  %-11s %s\n", name, absl::StrJoin(row, ", "));
    for (int f = 0; f < kFaultKinds; ++f) {
      if (faults_.count({s, f}) == 0) {
        never.push_back(absl::StrCat(name, " x ", FaultName(static_cast<FaultKind>(f))));
      }
    }
  }
  out += "faults by the job's phase:\n";
  for (const char* phase : kPhases) {
    std::vector<std::string> row;
    for (int f = 0; f < kFaultKinds; ++f) {
      const auto it = phases_.find({phase, f});
      if (it != phases_.end()) {
        row.push_back(absl::StrCat(FaultName(static_cast<FaultKind>(f)), " ", it->second));
      } else {
        never.push_back(absl::StrCat(phase, " x ", FaultName(static_cast<FaultKind>(f))));
      }
    }
    absl::StrAppendFormat(&out, "  %-21s %s\n", phase, absl::StrJoin(row, ", "));
  }
  out += "ends:";
  for (const auto& [state, count] : ends_) {
    absl::StrAppend(&out, " ",
                    std::string(controller::StateName(static_cast<v1::Job::State>(state))), " ",
                    count);
  }
  absl::StrAppend(&out, "\ndrained as slow: ", drained_as_slow_);
  for (const auto& [what, times] : happened_) absl::StrAppend(&out, "\n", what, ": ", times);
  absl::StrAppend(&out, "\nnever reached (", never.size(), "): ", absl::StrJoin(never, "; "), "\n");
  return out;
}

}  // namespace baton::simulation
