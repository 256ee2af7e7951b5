// How the controller treats its workers and the jobs that wait for them.
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
  /// A job that cannot go on without a worker slot that no free worker plays waits so long before
  /// its own workers change their worker slots for it.
  absl::Duration rearrange_after = absl::Seconds(20);
  /// A job that cannot go on waits so long before another one that cannot go on either gives it its
  /// workers.
  absl::Duration yield_after = absl::Seconds(60);
  /// A job that waits to start keeps the free workers that it could use from jobs of its priority
  /// or a lower one once it has waited so long (reservations.h).
  absl::Duration reserve_after = absl::Minutes(5);
  /// Options of `baton up` -> how many workers it started by them, where it started this
  /// controller: advice then names these options. Empty: it did not.
  std::map<std::string, int> up_workers;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CLUSTER_OPTIONS_H_
