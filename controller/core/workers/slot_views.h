// Views of a job's worker slots: queries about them, and the sentences that `baton why` prints
// about them. The functions change nothing; only WorkerSlots changes a slot.
#ifndef BATON_CONTROLLER_CORE_WORKERS_SLOT_VIEWS_H_
#define BATON_CONTROLLER_CORE_WORKERS_SLOT_VIEWS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/events.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/roster.h"
#include "controller/core/job/task.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/weights/policy_versions.h"
#include "controller/core/workers/rank_groups.h"

namespace baton::controller {

/// The slot that waits for the answer to this assign_role, release_role or load_weights of that
/// worker; null: none does.
const RoleSlot* AwaitingSlot(const Roster& roster, const std::string& worker, const TaskRef& ref,
                             const PolicyVersions& versions);

/// True if enough workers have taken their roles on. `goes_on`: the job runs already, so only the
/// roles that train must be complete. A job that starts needs one worker of every role, and all
/// ranks of every group.
bool AreSetUp(const Roster& roster, const RankGroups& groups, bool goes_on);

/// The workers that the job lacks, with hints for the queue's choice.
NeedWorkers NeedOf(const Roster& roster, const RankGroups& groups);

/// A slot whose worker let a deadline pass, and what it did not answer.
struct LateSlot {
  size_t slot = 0;  ///< Index of the slot.
  TaskKind kind = TaskKind::kAssignRole;
};
/// The first late slot from index `from` on.
std::optional<LateSlot> NextLate(const Roster& roster, size_t from, const PolicyVersions& versions,
                                 const JobCoreOptions& options, absl::Time now);

/// Explains workers that report what keeps them from their work. `limit`: what happens in the end.
void ExplainTrouble(const Roster& roster, const std::string& limit, WaitList& waits);
/// Explains worker slots without a worker. `queued_since`: for a job that has no worker at all yet.
void ExplainMissing(const Roster& roster, const std::string& job,
                    std::optional<absl::Time> queued_since, WaitList& waits);
/// Explains workers that must attach again, take a role on, load weights or leave.
void ExplainSlots(const Roster& roster, const PolicyVersions& versions,
                  const JobCoreOptions& options, WaitList& waits);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_SLOT_VIEWS_H_
