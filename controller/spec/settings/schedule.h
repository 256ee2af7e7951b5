// Schedule of generation relative to training: algorithm.mode and spec.schedule.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_SCHEDULE_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_SCHEDULE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// True if responses of a job are made while its trainer trains (algorithm.mode async). A replay of
/// such a job makes none, so it is not async. `effective` and `dataflow` are a job's effective
/// ones.
bool IsAsync(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

/// Settings of an async job: its bound on staleness, and which groups a batch takes.
struct Schedule {
  uint64_t max_staleness = 0;  ///< In updates of the actor.
  bool in_order = false;       ///< Batches take the oldest groups, and not those complete first.
  bool refresh = false;        ///< Newer weights may make unfinished responses again.
  /// After this a group with `min_group_size` responses goes on without the others.
  absl::Duration group_timeout = absl::InfiniteDuration();
  uint32_t min_group_size = 0;
  bool paced = false;          ///< Groups begin no further ahead than makes steps shorter.
  bool longest_first = false;  ///< Prompts with long responses are begun first.
};
Schedule ScheduleOf(const v1::JobSpec& effective);

/// Fills in spec.schedule if the mode is async, and adds its conflicts with the rest of the spec.
/// Pools must be filled in.
void CheckSchedule(const v1::Dataflow& dataflow, v1::JobSpec* spec, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_SCHEDULE_H_
