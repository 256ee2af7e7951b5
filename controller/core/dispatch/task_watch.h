// Watch over the running tasks of a role: which worker runs each task, and whether it makes
// progress.
//
// A worker may keep tasks in a queue of its own, and takes them in the order in which it got them.
// So a task that has not moved yet is not stalled while its worker moves, until a later task
// overtakes it: then it runs or hangs.
//
// Pure and deterministic.
#ifndef BATON_CONTROLLER_CORE_DISPATCH_TASK_WATCH_H_
#define BATON_CONTROLLER_CORE_DISPATCH_TASK_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace baton::controller {

class TaskWatch {
 public:
  struct Running {
    std::string worker;
    absl::Time started;
    absl::Time progressed;  ///< Last sign that it moves.
    uint64_t place = 0;     ///< In the order of assignments; 0: adopted, so before all others.
    bool moved = false;     ///< Progressed on this worker.
    /// When a task that the worker got later moved before this one; infinite future: none did.
    absl::Time overtaken = absl::InfiniteFuture();
    /// When the task was stopped, to be queued again once it has ended; infinite past: it was not.
    absl::Time recalled = absl::InfinitePast();
  };

  /// By trajectory.
  const std::map<uint64_t, Running>& all() const { return running_; }
  bool Has(uint64_t trajectory) const { return running_.count(trajectory) > 0; }

  /// `place`: as of Running.
  void Begin(uint64_t trajectory, const std::string& worker, uint64_t place, absl::Time now);
  /// The trajectory runs no more. Returns the worker that ran it; nullopt: it did not run.
  std::optional<std::string> End(uint64_t trajectory);
  /// Forgets the worker; what it ran is returned in id order.
  std::vector<uint64_t> RemoveWorker(const std::string& worker);
  /// Forgets all tasks; returns those that were running. Keeps when each worker was last heard
  /// from.
  std::map<uint64_t, Running> Clear();

  /// The response has a new token, or is complete, so its worker moves. Scores report nothing
  /// before they are done, so their time counts from their start.
  void Progressed(uint64_t trajectory, absl::Time now);
  /// The worker sent a result, so it is alive.
  void Heard(const std::string& worker, absl::Time now);
  /// The trajectory is stopped, and will be queued again once it has ended.
  void Recall(uint64_t trajectory, absl::Time now) { running_.at(trajectory).recalled = now; }
  /// Nothing could move for `duration`, so that time does not make any trajectory older.
  void Delay(absl::Duration duration, absl::Time now);

  /// The time since which the trajectory should have moved, as a rule its last progress. One that
  /// has not moved yet may wait in the worker's queue: it is not stalled while the worker moves,
  /// until it is overtaken.
  absl::Time StillSince(const Running& running) const;
  /// Running trajectories that have been still since before `before`, in id order.
  std::vector<uint64_t> StalledSince(absl::Time before) const;
  /// Workers all of whose trajectories are stalled, and that have sent nothing since the first of
  /// these began: then the worker hangs, not a single response. By name.
  std::vector<std::string> SilentSince(absl::Time before) const;

 private:
  struct Worker {
    absl::Time heard = absl::InfinitePast();
    absl::Time moved = absl::InfinitePast();  // some trajectory on it progressed
    // Place and trajectory of tasks that may wait in the worker's queue: not moved and not
    // overtaken.
    std::set<std::pair<uint64_t, uint64_t>> waiting;
  };

  std::map<uint64_t, Running> running_;
  std::map<std::string, Worker> workers_;  // those that have run a task
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DISPATCH_TASK_WATCH_H_
