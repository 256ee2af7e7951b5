// Scheduler of per-trajectory tasks over the workers of one role.
//
// Used once for the rollout replicas (generation) and once for the reward workers (scoring). A
// worker gets work while it is enabled, below its credits, and below a fair share of the open
// trajectories, so the first replica with new weights does not take everything. Trajectories of one
// prompt group go to one worker when it has room, so they share the prompt's KV. With
// `keeps_affinity` (prompt affinity) they go to the worker that had the prompt last, if it has
// room, because earlier responses may let it predict the next ones.
//
// A pinned trajectory goes only to workers that hold the version of its pin, enabled or not; while
// none of them has room, other trajectories overtake it.
//
// Owns the queue, and what each worker may take; TaskWatch knows what runs and whether it moves.
//
// Pure and deterministic: ties are broken by worker id.
#ifndef BATON_CONTROLLER_CORE_DISPATCH_TASK_SCHEDULER_H_
#define BATON_CONTROLLER_CORE_DISPATCH_TASK_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/dispatch/task_watch.h"

namespace baton::controller {

/// Prompt affinity: the worker that had each prompt last. Earlier responses may let that worker
/// predict the next ones.
class PromptAffinity {
 public:
  /// `group`: PromptKey of a trajectory.
  void Note(uint64_t group, const std::string& worker) {
    if (workers_.size() >= kMost) workers_.clear();  // affinities form again
    workers_[group] = worker;
  }
  /// The worker that had the prompt last; "": unknown. It may have left since.
  std::string Of(uint64_t group) const {
    const auto preferred = workers_.find(group);
    return preferred == workers_.end() ? std::string() : preferred->second;
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  std::map<uint64_t, std::string> workers_;
};

class TaskScheduler {
 public:
  struct Assignment {
    std::string worker;
    uint64_t trajectory = 0;
  };
  using Running = TaskWatch::Running;

  explicit TaskScheduler(bool keeps_affinity = false) : keeps_affinity_(keeps_affinity) {}

  /// A worker of the role that may get work once it is enabled.
  void AddWorker(const std::string& worker, int credits);
  /// Forgets it; its running trajectories are returned in id order and are not queued.
  std::vector<uint64_t> RemoveWorker(const std::string& worker);
  void SetEnabled(const std::string& worker, bool enabled);
  /// Sets the version of the weights that the worker generates with; 0: none, or it loads.
  void SetVersion(const std::string& worker, uint64_t version);
  uint64_t version(const std::string& worker) const;
  /// At most `most` trajectories are open, and a worker's fair share is a share of this number; 0:
  /// a share of the trajectories that are open now.
  void SetMostOpen(int most) { most_open_ = most; }
  /// While closed, nothing is assigned, because other roles use the workers. Open at first.
  void SetOpen(bool open) { open_ = open; }

  /// Queues a trajectory; `group` names its prompt group. `avoid` gets it only when no other
  /// worker has room. `pin`: the version that it needs; 0: any.
  void Enqueue(uint64_t trajectory, uint64_t group, const std::string& avoid = "",
               uint64_t pin = 0);
  /// Queues a trajectory that was running already before all others.
  void EnqueueFirst(uint64_t trajectory, uint64_t group, uint64_t pin = 0);
  /// Notes that a re-attached worker runs the trajectory already. False: no such worker, or the
  /// trajectory runs elsewhere.
  bool Adopt(uint64_t trajectory, const std::string& worker, absl::Time now);

  /// Makes the next possible assignment, which then counts as running; nullopt: none is possible.
  std::optional<Assignment> Next(absl::Time now);
  /// True if a trajectory with that pin would be assigned at once if it were queued now.
  bool HasRoom(uint64_t pin) const;
  /// True if an enabled worker has fewer tasks than it can do at once, whatever its fair share is.
  bool HasFreePlace() const;
  /// The version that the first queued trajectory with a pin needs; 0: none is queued.
  uint64_t PinnedVersion() const;

  /// The trajectory runs no more. False if it did not run.
  bool Finish(uint64_t trajectory);
  /// The trajectory is neither queued nor running any more.
  void Withdraw(uint64_t trajectory);
  /// Forgets all trajectories; returns what was running.
  std::map<uint64_t, Running> Clear();

  /// The running trajectories and their progress.
  TaskWatch& watch() { return watch_; }
  const TaskWatch& watch() const { return watch_; }
  const std::map<uint64_t, Running>& running() const { return watch_.all(); }
  size_t queued() const { return queue_.size(); }
  int load(const std::string& worker) const;
  /// Trajectories that the worker may run at once: its credits, or its fair share.
  int Places(const std::string& worker) const;
  /// While nothing is queued: the workers that run nothing and could begin any trajectory without a
  /// pin, by name.
  std::vector<std::string> Idle() const;
  /// The prompt affinity, used with `keeps_affinity`.
  PromptAffinity& affinity() { return affinity_; }

 private:
  struct Worker {
    int credits = 0;
    int load = 0;
    bool enabled = false;
    uint64_t version = 0;
  };
  struct Queued {
    uint64_t trajectory;
    uint64_t group;
    std::string avoid;
    uint64_t pin;
  };
  void Unqueue(uint64_t trajectory);
  void Run(uint64_t trajectory, const std::string& name, uint64_t place, Worker& worker,
           absl::Time now);
  Worker* Pick(const Queued& next, std::string* name);
  Worker* PreferredWorker(const Queued& next, int share, std::string* name);
  int Share() const;
  bool HasRoom(const Worker& worker, int share, uint64_t pin) const;

  bool open_ = true;
  int most_open_ = 0;
  std::map<std::string, Worker> workers_;
  std::deque<Queued> queue_;
  TaskWatch watch_;
  uint64_t places_ = 0;  // assigned so far
  const bool keeps_affinity_;
  PromptAffinity affinity_;
  uint64_t last_group_ = ~uint64_t{0};
  std::string last_worker_;  // of last_group_
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DISPATCH_TASK_SCHEDULER_H_
