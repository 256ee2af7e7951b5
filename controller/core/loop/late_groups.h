// Prompt groups of an async job that wait for their last responses: schedule.group_timeout_seconds.
//
// Owns since when each open group has been under way, and how many responses were given up since
// the last step. AsyncGroups asks it which groups are late, and goes on with those that remain.
#ifndef BATON_CONTROLLER_CORE_LOOP_LATE_GROUPS_H_
#define BATON_CONTROLLER_CORE_LOOP_LATE_GROUPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

class LateGroups {
 public:
  /// After a restart: when the groups that are open began is not stored, so they begin now.
  void Stand(absl::Time now) { stood_ = now; }
  void NoteBegun(uint64_t draw, absl::Time now) { begun_[draw] = now; }
  /// The group is complete, or dropped. Returns when it began; nothing: that is not known.
  std::optional<absl::Time> End(uint64_t draw);
  void Clear() { begun_.clear(); }

  /// Groups that have waited for schedule.group_timeout_seconds. Call it every few seconds.
  std::vector<uint64_t> Due(const JobParts& job);
  /// The group goes on without the responses that are not there, if it has
  /// schedule.min_group_size of them. False: it waits on.
  bool GiveUp(uint64_t draw, JobParts& job);

  /// The next step begins.
  void EndStep() { given_up_ = given_up_tokens_ = 0; }
  void AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const;
  /// Groups that would have gone on without their stragglers, had they enough responses.
  void Explain(const JobParts& job, WaitList& waits) const;

 private:
  absl::Time BegunAt(uint64_t draw) const;
  void SkipOutage(absl::Time now);

  std::map<uint64_t, absl::Time> begun_;      // by draw; of groups that this controller began …
  absl::Time stood_;                          // … and when it took over the others
  absl::Time looked_ = absl::InfinitePast();  // rollouts were there, and Due looked
  uint64_t given_up_ = 0, given_up_tokens_ = 0;  // responses, since the last step
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_LATE_GROUPS_H_
