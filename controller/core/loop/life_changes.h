// Changes of a job's state: by a request of its user, by the end of its steps, or by a loss.
//
// JobLife has the state; the table of states is in job_state.h, and only this file uses it.
#ifndef BATON_CONTROLLER_CORE_LOOP_LIFE_CHANGES_H_
#define BATON_CONTROLLER_CORE_LOOP_LIFE_CHANGES_H_

#include <string>

#include "absl/status/status.h"
#include "controller/core/job/events.h"
#include "controller/core/job/job_state.h"
#include "controller/core/steps/job_parts.h"
#include "controller/spec/dataflow/learning.h"

namespace baton::controller {

// ---- States.
/// Goes to the state that follows. False: the trigger has no meaning in this state.
bool Trigger(JobTrigger trigger, JobParts& job);
void Fail(const absl::Status& status, JobParts& job);
/// Ends the job: all steps are done, or a condition for an early end is met.
void Finish(JobParts& job);
/// Tells the user what keeps the job from learning, and fails it where the spec says so.
void ApplyLearning(const LearningNews& news, JobParts& job);
/// Goes back to the newest checkpoint, and forms the groups that train anew. `role`: the role that
/// is lost, for `reason`; empty: none is lost, and `reason` is the whole sentence.
void RecoverTrainer(const std::string& role, const std::string& reason, JobParts& job);

// ---- Requests.
void Cancel(JobParts& job);
void Pause(JobParts& job);
void Resume(JobParts& job);
/// The job gives its workers back, and asks for workers anew.
void Yield(const YieldRequested& event, JobParts& job);

// ---- Workers are given back.
void ReleaseAll(JobParts& job);
/// If the last worker is gone, the job ends, is paused or queues.
void CheckReleased(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_LIFE_CHANGES_H_
