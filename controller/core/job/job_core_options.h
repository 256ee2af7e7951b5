#ifndef BATON_CONTROLLER_CORE_JOB_JOB_CORE_OPTIONS_H_
#define BATON_CONTROLLER_CORE_JOB_JOB_CORE_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "controller/core/job/straggler_detector.h"
#include "controller/spec/settings/step_size.h"

namespace baton::controller {

/// Deadlines and limits. Every wait of a job has a deadline or a limit, except the wait for
/// workers, which only a person can end.
struct JobCoreOptions {
  absl::Duration setup_deadline = absl::Minutes(10);    ///< assign_role, load_weights, data.
  absl::Duration generate_stall = absl::Minutes(2);     ///< A response without a new token.
  absl::Duration score_deadline = absl::Minutes(10);    ///< One response's score.
  absl::Duration command_deadline = absl::Minutes(60);  ///< update, publish, save_checkpoint.
  absl::Duration release_deadline = absl::Seconds(30);  ///< release_role.
  absl::Duration regroup_delay = absl::Seconds(15);     ///< A broken group; more than a lease.
  absl::Duration pool_quantum = absl::Seconds(10);      ///< A role's turn on shared workers, async.
  absl::Duration no_room_retry = absl::Seconds(2);      ///< A command that found a disk full.
  absl::Duration tell_again = absl::Seconds(30);        ///< Between warnings of failing rewards.
  uint32_t max_attempts = 4;                            ///< For one trajectory or one set-up.
  size_t max_queued_responses = 16'384;                 ///< Responses that wait for a rollout.
  size_t kept_steps = 50;                               ///< Steps whose trajectories are kept.
  int64_t max_batch_row_bytes = kMaxBatchRowBytes;      ///< Limit for a batch's row.
  StragglerOptions stragglers;                          ///< When a worker counts as slow.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_JOB_CORE_OPTIONS_H_
