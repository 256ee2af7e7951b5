// The ranks of one generation replica: the first leads, the others follow. Requests are given to
// the leader's generator alone; before each of its steps it tells the others what was added and
// cancelled, so that all step alike.
#ifndef BATON_WORKERS_HYBRID_REPLICA_H_
#define BATON_WORKERS_HYBRID_REPLICA_H_

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "workers/engine/communicator.h"
#include "workers/engine/generator.h"
#include "workers/engine/led_group.h"

namespace baton::hybrid {

/// Made and ended by one thread; the generator may be stepped by another.
class ReplicaLeader {
 public:
  /// `control`: ranks of the generator's tensor group in the same order, used for nothing else;
  /// this is rank 0. Announces the steps of `generator`. `keep_alive` as GroupLeader's. Both
  /// outlive this.
  ReplicaLeader(engine::Communicator* control, engine::Generator* generator,
                absl::Duration keep_alive);
  /// End, whatever comes of it.
  ~ReplicaLeader();

  /// The followers are told to stop; the generator must not be stepped any more. Unavailable or
  /// DeadlineExceeded: a follower was lost, now or before.
  absl::Status End();

 private:
  engine::Generator* const generator_;
  engine::GroupLeader leader_;
};

/// Has a thread that waits for the leader and steps with it.
class ReplicaFollower {
 public:
  /// The generator is this one's until WaitForEnd has returned, or this is destroyed. Both outlive
  /// this.
  ReplicaFollower(engine::Communicator* control, engine::Generator* generator);
  /// Leaves without the leader's consent, at its next word or when it is lost: the group is then
  /// unusable.
  ~ReplicaFollower();

  /// Until the leader ends. Unavailable or DeadlineExceeded: it, or another rank, was lost.
  absl::Status WaitForEnd();

 private:
  absl::Status Follow();

  engine::Communicator* const control_;
  engine::Generator* const generator_;
  std::atomic<bool> leaving_{false};
  absl::Status status_;  ///< Of the thread, once it has ended.
  std::thread thread_;
};

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_REPLICA_H_
