// The worker slots of a job: which worker plays which role, and in which state.
//
// Owns the Roster (slots and worker slots), the attempts and failures of a slot's role tasks, what
// keeps a worker from its work, and the deadlines of all these. All parts may read the Roster; only
// the calls below change a slot. For each slot:
//
//          granted            its group is complete,         took the role on
//          a worker           or it has no group
//   empty ---------> gathering ------------------> assigning -----------------> ready
//     ^                ^                             |   ^ failed, may try again  |
//     |                |                             |   +-- (assigning)          |
//     |                +--- its group forms anew ----+----------------------------+
//     |
//     +-- its worker is lost, from any state
//     +-- left the role, or its time is up -- releasing <-- the job gives its workers back
//
// A ready slot of a rollout loads each new version of the weights (PolicyVersions); the slot has
// the attempt and the deadline of the load, too. slot_views.h has the queries on slots. Ranks of a
// group take their role on together (take_role.h); worker_return.h handles workers that come back.
#ifndef BATON_CONTROLLER_CORE_WORKERS_WORKER_SLOTS_H_
#define BATON_CONTROLLER_CORE_WORKERS_WORKER_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/dispatch/task_scheduler.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/roster.h"
#include "controller/core/weights/policy_versions.h"
#include "controller/core/workers/rank_groups.h"

namespace baton::controller {

class WorkerSlots {
 public:
  /// The loss of a worker, for the job.
  struct Loss {
    std::string worker_slot;         ///< Roles of its worker slot, joined by "+".
    std::vector<std::string> roles;  ///< The same, one by one.
    bool releasing = false;          ///< The worker was about to leave.
    std::string trained;             ///< A role whose weights are gone with it; "": none.
  };

  WorkerSlots(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
              const JobCoreOptions& options);
  void Restore(const store::v1::JobRow& row);
  /// Sets slots.
  void Save(store::v1::JobRow* row) const { roster_.Keep(row); }

  const Roster& roster() const { return roster_; }
  uint64_t IndexOf(const RoleSlot& slot) const {
    return static_cast<uint64_t>(roster_.IndexOf(slot));
  }

  // ---- Workers come and go.
  /// A controller begins: all waits count from now.
  void Begin(absl::Time now);
  /// Gives the worker a free worker slot, whose slots then gather. Empty: no such worker slot is
  /// free.
  std::vector<const RoleSlot*> Place(const WorkerGranted& event, absl::Time now);
  /// The worker is attached. True: for the first time since this controller started.
  bool Attached(const std::string& worker);
  /// Empties the slots of a worker; nothing if it has none.
  std::optional<Loss> Lose(const std::string& worker, RankGroups& groups, PolicyVersions& versions,
                           absl::Time now);
  /// The worker left the role, or its time to leave is up. With its last role it goes back to the
  /// queue.
  void Leave(const RoleSlot& slot, PolicyVersions& versions, EffectSink& out,
             ReturnReason return_reason = ReturnReason::kGood);
  /// Tells every worker to leave.
  void ReleaseAll(EffectSink& out);
  /// Tells the worker to leave its role, again if it has been told before.
  void SendRelease(const RoleSlot& slot, EffectSink& out);
  void RepeatRelease(const RoleSlot& slot, EffectSink& out) const;

  // ---- Roles.
  /// The worker waits for the other ranks. If it is taking the role on, it is stopped.
  void Gather(const RoleSlot& slot, EffectSink& out);
  /// Sends assign_role. `args` has the arguments of the group and the job.
  void Assign(const RoleSlot& slot, TaskArgs args, PolicyVersions& versions, EffectSink& out);
  /// The worker's answer to assign_role broke its group: it gets no task until the ranks meet anew.
  void NoteAnswered(const RoleSlot& slot) { Own(slot).answered = true; }
  /// The worker took the role on.
  void TookOn(const RoleSlot& slot, absl::Time now);
  /// Lets rollouts with the newest weights generate, and the others load them.
  void LoadWeights(bool may_load, PolicyVersions& versions, TaskScheduler& rollouts,
                   EffectSink& out);
  /// Counts a failure of the slot's role task; returns the number of failures in a row.
  uint32_t CountFailure(const RoleSlot& slot) { return ++Own(slot).failures; }
  void ForgetFailures(const RoleSlot& slot) { Own(slot).failures = 0; }
  /// Forgets all failures: a user resumes the job.
  void ForgetAllFailures();
  /// Notes what keeps a worker from its work. False: nothing to tell, because the trouble is over
  /// or the slot is no longer the worker's.
  bool NoteTrouble(const RoleTroubled& event, absl::Time now);
  /// Moves all waits by that time.
  void Delay(absl::Duration duration, absl::Time now);

 private:
  RoleSlot& Own(const RoleSlot& slot) {
    return roster_.slots()[static_cast<size_t>(IndexOf(slot))];
  }
  void Empty(RoleSlot& slot, PolicyVersions& versions, absl::Time now);

  JobCoreOptions options_;
  Roster roster_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_WORKER_SLOTS_H_
