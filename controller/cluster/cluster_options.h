// Options for workers and for the jobs that wait for them.
#ifndef BATON_CONTROLLER_CLUSTER_CLUSTER_OPTIONS_H_
#define BATON_CONTROLLER_CLUSTER_CLUSTER_OPTIONS_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace baton::controller {

struct ClusterOptions {
  absl::Duration lease = absl::Seconds(10);
  absl::Duration heartbeat_interval = absl::Seconds(2);
  int protocol_min = 1;  ///< Protocol versions this controller speaks.
  int protocol_max = 1;
  int max_silences = 3;  ///< Deadlines that a worker may let pass before it is drained.
  /// If no free worker plays a worker slot without which a job cannot go on, the job waits this
  /// long before its own workers change their worker slots.
  absl::Duration rearrange_after = absl::Seconds(20);
  /// A job that cannot go on waits this long before another job that cannot go on either gives up
  /// its workers for it.
  absl::Duration yield_after = absl::Seconds(60);
  /// After this wait, the free workers that a job could use to start are kept from jobs of the same
  /// or a lower priority (reservations.h).
  absl::Duration reserve_after = absl::Minutes(5);
  /// Option of `baton up` -> the number of workers that it started by this option; advice names
  /// these options. Empty: this controller was not started by `baton up`.
  std::map<std::string, int> up_workers;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CLUSTER_OPTIONS_H_
