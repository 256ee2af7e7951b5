// The channel of a group whose first rank leads: it tells the others, in one order, what all do
// next.
#ifndef BATON_WORKERS_ENGINE_GENERATION_LEADER_CHANNEL_H_
#define BATON_WORKERS_ENGINE_GENERATION_LEADER_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "workers/engine/model/communicator.h"

namespace baton::engine {

/// Rank 0's end. Say and End from any thread.
class GroupLeader {
 public:
  /// `control`: used for nothing else; outlives this. When there is nothing to say for
  /// `keep_alive`, below the group's timeout, it says so, for those who wait. `lost`: called at
  /// most once, on a thread of its own, when they do not hear that; may be null.
  GroupLeader(Communicator* control, absl::Duration keep_alive,
              std::function<void(const absl::Status&)> lost = nullptr);
  /// End, whatever comes of it.
  ~GroupLeader();

  /// Returns when the others listened, or Unavailable or DeadlineExceeded: one of them was lost,
  /// now or before.
  [[nodiscard]] absl::Status Say(const std::vector<int64_t>& words);

  /// Tells the others to end; nothing may be said any more. The status as Say's.
  absl::Status End();

 private:
  absl::Status Send(int64_t kind, std::vector<int64_t> words) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepAlive();

  Communicator* const control_;
  const absl::Duration keep_alive_;
  const std::function<void(const absl::Status&)> lost_;

  absl::Mutex mu_;  ///< Held while it sends: one thread at a time has `control_`.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool sent_ ABSL_GUARDED_BY(mu_) = false;  ///< Since the keeper looked.
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::thread keeper_;
};

/// The leader's next word; nullopt when the leader ends. Unavailable or DeadlineExceeded: the
/// leader or another rank was lost. Cancelled: `leaving` was set, which is noticed at the leader's
/// next word (of any sort); the group is then unusable.
absl::StatusOr<std::optional<std::vector<int64_t>>> ReceiveFromLeader(
    Communicator& control, const std::atomic<bool>& leaving);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_LEADER_CHANNEL_H_
