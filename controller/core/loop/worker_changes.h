// Changes of a job's workers: one comes, answers for its role, comes back, or is lost.
//
// Owns nothing: WorkerSlots has the state of slots, RankGroups that of groups. A worker leaves in
// one of four ways. It is lost (its lease ran out), it is evicted (it lives, but let a deadline
// pass or does not hold its role), it is drained (it is slower than its peers), or it moves to
// another worker slot. All of them end in LoseWorker.
#ifndef BATON_CONTROLLER_CORE_LOOP_WORKER_CHANGES_H_
#define BATON_CONTROLLER_CORE_LOOP_WORKER_CHANGES_H_

#include <string>

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The queue gives the job a worker. A worker that the job does not need goes back.
void PlaceWorker(const WorkerGranted& event, JobParts& job);
/// A worker attaches again within its lease.
void TakeBackWorker(const WorkerReconnected& event, JobParts& job);

/// Workers that came back before the work was restored reported what they run; they keep these
/// tasks.
void AdoptRunning(JobParts& job);
/// The answer to assign_role or release_role, which the slot awaits.
void OnRoleTask(const TaskDone& event, const RoleSlot& slot, JobParts& job);
/// The answer to load_weights, which the slot awaits.
void OnLoadWeights(const TaskDone& event, const RoleSlot& slot, JobParts& job);

/// The worker is gone. `moves`: to another worker slot of this job.
void LoseWorker(const std::string& worker, const std::string& reason, bool moves, JobParts& job);
/// Evicts a worker that is alive but let a deadline pass, or does not hold a role that it took on.
void Evict(const std::string& worker, const std::string& reason, JobParts& job);
/// After a step: drains a worker of `role` that has been slower than its peers for long. `unit`:
/// the unit of `pace`, for people.
void DrainSlow(StragglerDetector& stragglers, const std::string& role, const std::string& unit,
               JobParts& job);

/// A rank misses another one, as the failed task says.
void OnGroupBroken(const Group& group, const TaskDone& event, JobParts& job);
/// Groups that have been broken for long enough form anew.
void CheckGroups(JobParts& job);
/// Workers that let the deadline of a role or of weights pass.
void CheckSlotDeadlines(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_WORKER_CHANGES_H_
