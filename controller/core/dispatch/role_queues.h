// The work on trajectories, by the role that does it: rollouts generate, the others score.
//
// Owns for each such role the queue of its work with what its workers run (TaskScheduler), and how
// fast each worker is beside its peers (StragglerDetector). A unit of work is a trajectory, for
// roles that score a trajectory and a node of the dataflow (WorkId).
#ifndef BATON_CONTROLLER_CORE_DISPATCH_ROLE_QUEUES_H_
#define BATON_CONTROLLER_CORE_DISPATCH_ROLE_QUEUES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/dispatch/task_scheduler.h"
#include "controller/core/job/straggler_detector.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

struct RoleQueue {
  explicit RoleQueue(const StragglerOptions& stragglers, bool keeps_affinity = false)
      : tasks(keeps_affinity), stragglers(stragglers) {}
  TaskScheduler tasks;
  StragglerDetector
      stragglers;  ///< Seconds per token of a rollout, per response of a role that scores.
};

class RoleQueues {
 public:
  RoleQueues(const std::vector<std::string>& scoring_roles, const StragglerOptions& stragglers)
      : rollouts_(stragglers, /*keeps_affinity=*/true) {
    for (const std::string& role : scoring_roles) scorers_.emplace(role, stragglers);
  }

  /// Null: the role does no work on trajectories.
  RoleQueue* Find(const std::string& role) {
    if (role == roles::kRollout) return &rollouts_;
    const auto found = scorers_.find(role);
    return found == scorers_.end() ? nullptr : &found->second;
  }
  const RoleQueue* Find(const std::string& role) const {
    return const_cast<RoleQueues*>(this)->Find(role);
  }
  /// The tasks of a role that has a queue.
  TaskScheduler& Of(const std::string& role) { return Find(role)->tasks; }
  const TaskScheduler& Of(const std::string& role) const { return Find(role)->tasks; }

  RoleQueue& rollouts() { return rollouts_; }
  const RoleQueue& rollouts() const { return rollouts_; }
  std::map<std::string, RoleQueue>& scorers() { return scorers_; }
  const std::map<std::string, RoleQueue>& scorers() const { return scorers_; }

  /// Calls f(role, queue): the rollouts first, then the others by name.
  template <typename F>
  void ForEach(F f) {
    f(std::string(roles::kRollout), rollouts_);
    for (auto& [role, queue] : scorers_) f(role, queue);
  }

  /// A worker leaves the job. What it ran is not queued again.
  void RemoveWorker(const std::string& worker) {
    ForEach([&](const std::string&, RoleQueue& queue) { queue.tasks.RemoveWorker(worker); });
  }
  /// Forgets the measured paces of a lost worker.
  void ForgetSamples(const std::string& worker) {
    ForEach([&](const std::string&, RoleQueue& queue) { queue.stragglers.Forget(worker); });
  }
  /// Nothing could move for `duration`, so that time does not make any work older.
  void Delay(absl::Duration duration, absl::Time now) {
    ForEach(
        [&](const std::string&, RoleQueue& queue) { queue.tasks.watch().Delay(duration, now); });
  }

 private:
  RoleQueue rollouts_;
  std::map<std::string, RoleQueue> scorers_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DISPATCH_ROLE_QUEUES_H_
