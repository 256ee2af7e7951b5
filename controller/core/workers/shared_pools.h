// Turns of roles that share workers.
//
// Owns, for each shared pool, the role whose turn it is, and since when.
//
//      no turn    --a role has work--> its turn
//         ^                                |
//         +-- it has no work left; or a command waits; or it has had its quantum, and others wait
//
// One role of a pool works at a time. It goes on until it has no more work; then the next role that
// has work begins. In an async job work comes all the time, so a role that has had its quantum
// begins nothing more while another role has work, and the roles take turns in their order.
// Commands of groups come first: while a command is outstanding nothing new begins on its pool, and
// the command is sent when the tasks that run there have ended. Two groups of one pool execute
// their commands one after the other. So a worker never does two things at once, apart from ending
// tasks that it was told to stop, and ranks never meet in different orders.
#ifndef BATON_CONTROLLER_CORE_WORKERS_SHARED_POOLS_H_
#define BATON_CONTROLLER_CORE_WORKERS_SHARED_POOLS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/dispatch/role_queues.h"
#include "controller/core/job/roster.h"
#include "controller/core/weights/policy_versions.h"
#include "controller/core/workers/group_commands.h"
#include "controller/core/workers/rank_groups.h"

namespace baton::controller {

/// Several roles that share workers: one of them works at a time.
struct SharedPool {
  std::vector<std::string> roles;  ///< The first role is served first.
  std::string turn;                ///< The role that works; "": none has work.
  absl::Time since;                ///< When the turn began.
  bool yields = false;             ///< The role has had its quantum, and others have work.
};

/// The parts of the job that decide whose turn it is.
struct PoolView {
  const Roster& roster;
  const RankGroups& groups;
  const GroupCommands& commands;
  const RoleQueues& queues;
  const PolicyVersions& versions;
  bool updating;    ///< The step's update is under way, so its batch is built.
  bool batch_made;  ///< Its batch is built, or needs no more work of a role.
  bool unadopted;   ///< Workers run tasks that may belong to unrestored work.

  /// True if a task of the role runs.
  bool IsAtWork(const std::string& role) const;
  /// True if a task of the role could begin.
  bool HasWork(const std::string& role) const;
};

class SharedPools {
 public:
  SharedPools() = default;
  /// `quantum`: how long a role goes on while others of its pool have work; infinite: to its end.
  SharedPools(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
              absl::Duration quantum = absl::InfiniteDuration());

  bool empty() const { return pools_.empty(); }
  /// The shared pool of a role; null: it has workers of its own.
  const SharedPool* Of(absl::string_view role) const;
  /// True if the role may begin something.
  bool HasTurn(const std::string& role, const PoolView& view) const;
  /// Ends turns and gives them, and opens and closes the queues of the roles accordingly (`queues`
  /// are those of `view`). True: the rollouts' turn has come.
  bool TakeTurns(const PoolView& view, RoleQueues& queues, absl::Time now);
  /// True if the group's command may go to a rank: the command has begun already, or nothing else
  /// works on the pool and no earlier group has a command.
  bool MayCommand(const Group& group, const PoolView& view) const;

  /// For people: what works on the pool while `role` waits, such as "rollout runs 8 tasks".
  std::string AtWorkIn(const std::string& role, const PoolView& view) const;
  void Explain(const PoolView& view, absl::Time phase_since, WaitList& waits) const;

 private:
  /// True if no worker of the pool is still expected after a restart. A worker that is not back may
  /// be at work.
  bool AllBack(const SharedPool& pool, const PoolView& view) const;
  /// True if a group of the pool has a command, or is broken.
  bool Commanded(const SharedPool& pool, const PoolView& view) const;

  /// The role whose turn comes after the current one; "": none has work.
  std::string NextTurn(const SharedPool& pool, bool commanded, const PoolView& view) const;

  std::vector<SharedPool> pools_;
  absl::Duration quantum_ = absl::InfiniteDuration();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_SHARED_POOLS_H_
