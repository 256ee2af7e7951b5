// The ranks of one generation replica: the first rank is the leader, the others are followers.
// Callers give requests only to the leader's generator. Before each of its steps, the leader
// announces the added and cancelled requests, and the drafts of its drafter, to the followers, so
// that all ranks make the same step.
#ifndef BATON_WORKERS_HYBRID_REPLICA_H_
#define BATON_WORKERS_HYBRID_REPLICA_H_

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "workers/engine/generation/generator.h"
#include "workers/engine/generation/leader_channel.h"
#include "workers/engine/model/communicator.h"

namespace baton::hybrid {

/// Created and destroyed by one thread; another thread may step the generator.
class ReplicaLeader {
 public:
  /// `control`: a group of the ranks of the generator's tensor group, in the same order, used for
  /// nothing else; this is its rank 0. The leader announces the steps of `generator`. `keep_alive`
  /// as GroupLeader's. `control` and `generator` outlive this.
  ReplicaLeader(engine::Communicator* control, engine::Generator* generator,
                absl::Duration keep_alive);
  /// Calls End and ignores its error.
  ~ReplicaLeader();

  /// Tells the followers to stop; afterwards the generator must not be stepped. Unavailable or
  /// DeadlineExceeded: a follower was lost, now or earlier.
  absl::Status End();

 private:
  engine::Generator* const generator_;
  engine::GroupLeader leader_;
};

/// Runs a thread that waits for the leader's announcements and makes the same steps.
class ReplicaFollower {
 public:
  /// The generator belongs to this until WaitForEnd has returned or this is destroyed. `control`
  /// and `generator` outlive this.
  ReplicaFollower(engine::Communicator* control, engine::Generator* generator);
  /// Leaves at the leader's next message, or when the leader is lost, even if the leader has not
  /// ended. The group is then unusable.
  ~ReplicaFollower();

  /// Blocks until the leader ends. Unavailable or DeadlineExceeded: the leader or another rank was
  /// lost.
  absl::Status WaitForEnd();

 private:
  absl::Status Follow();

  engine::Communicator* const control_;
  engine::Generator* const generator_;
  std::atomic<bool> leaving_{false};
  absl::Status status_;  ///< The thread's result, valid once the thread has ended.
  std::thread thread_;
};

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_REPLICA_H_
