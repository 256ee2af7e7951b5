// Spreads per-trajectory tasks over the workers of one role.
//
// Used once for the rollout replicas (generation) and once for the reward workers (scoring).
// A worker gets work while it is enabled, below its credits, and below a fair share of what is
// open: so one replica that has the new weights first does not take everything. Trajectories of
// one prompt group go to one worker when it has room, which shares the prompt's KV among them. With
// `keeps_homes` that is the worker that had the prompt last, if it has room: it may know from
// earlier responses how the next ones go on.
//
// A pinned trajectory goes to workers alone that hold the version of its pin, whether they are
// enabled or not; while none of them has room, others overtake it.
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

/// Which worker had a prompt last: it may know from earlier responses how the next ones go on.
class PromptHomes {
 public:
  /// `group`: PromptKey of a trajectory.
  void Note(uint64_t group, const std::string& worker) {
    if (homes_.size() >= kMost) homes_.clear();  // they are found again
    homes_[group] = worker;
  }
  /// "": it is not known. The worker may have left since.
  std::string Of(uint64_t group) const {
    const auto home = homes_.find(group);
    return home == homes_.end() ? std::string() : home->second;
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  std::map<uint64_t, std::string> homes_;
};

class TaskScheduler {
 public:
  struct Assignment {
    std::string worker;
    uint64_t trajectory = 0;
  };
  using Running = TaskWatch::Running;

  explicit TaskScheduler(bool keeps_homes = false) : keeps_homes_(keeps_homes) {}

  /// A worker of the role that may get work once it is enabled.
  void AddWorker(const std::string& worker, int credits);
  /// Forgets it; its running trajectories are returned in id order and are not queued.
  std::vector<uint64_t> RemoveWorker(const std::string& worker);
  void SetEnabled(const std::string& worker, bool enabled);
  /// The version of the weights that it generates with; 0: none, or it loads.
  void SetVersion(const std::string& worker, uint64_t version);
  uint64_t version(const std::string& worker) const;
  /// So many trajectories are open at most, and a worker's fair share is one of these; 0: it is one
  /// of those that are open now.
  void SetMostOpen(int most) { most_open_ = most; }
  /// While closed nothing is assigned: the workers are somebody else's. Open at first.
  void SetOpen(bool open) { open_ = open; }

  /// Queues a trajectory; `group` names its prompt group. `avoid` gets it only when no other
  /// worker has room. `pin`: the version that it needs; 0: any.
  void Enqueue(uint64_t trajectory, uint64_t group, const std::string& avoid = "",
               uint64_t pin = 0);
  /// Puts it before all others: it was running already.
  void EnqueueFirst(uint64_t trajectory, uint64_t group, uint64_t pin = 0);
  /// A worker that re-attached runs it already.
  /// False: it cannot (no such worker, or it runs elsewhere).
  bool Adopt(uint64_t trajectory, const std::string& worker, absl::Time now);

  /// The next assignment that is possible, which is thereby running; nothing when none is.
  std::optional<Assignment> Next(absl::Time now);
  /// A trajectory with that pin would be assigned at once, if it were queued now.
  bool HasRoom(uint64_t pin) const;
  /// The version that the first queued trajectory with a pin needs; 0: none is queued.
  uint64_t PinnedVersion() const;

  /// It runs no more. False when it did not run.
  bool Finish(uint64_t trajectory);
  /// It is neither queued nor running any more.
  void Withdraw(uint64_t trajectory);
  /// Forgets all trajectories; returns what was running.
  std::map<uint64_t, Running> Clear();

  /// What runs, and whether it moves.
  TaskWatch& watch() { return watch_; }
  const TaskWatch& watch() const { return watch_; }
  const std::map<uint64_t, Running>& running() const { return watch_.all(); }
  size_t queued() const { return queue_.size(); }
  int load(const std::string& worker) const;
  /// Trajectories that the worker may run at once: its credits, or its fair share.
  int Places(const std::string& worker) const;
  /// Nothing is queued, and these workers could begin any trajectory without a pin and run none; in
  /// order of their names.
  std::vector<std::string> Idle() const;
  /// Where prompts go next, with `keeps_homes`.
  PromptHomes& homes() { return homes_; }

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
  Worker* HomeOf(const Queued& next, int share, std::string* name);
  int Share() const;
  bool HasRoom(const Worker& worker, int share, uint64_t pin) const;

  bool open_ = true;
  int most_open_ = 0;
  std::map<std::string, Worker> workers_;
  std::deque<Queued> queue_;
  TaskWatch watch_;
  uint64_t places_ = 0;  // assigned so far
  const bool keeps_homes_;
  PromptHomes homes_;
  uint64_t last_group_ = ~uint64_t{0};
  std::string last_worker_;  // of last_group_
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DISPATCH_TASK_SCHEDULER_H_
