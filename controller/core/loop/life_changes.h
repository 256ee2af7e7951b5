// What follows when a job changes its state: by a request of its user, by what it has done, or by
// what it lost.
//
// JobLife has the state; the table of states is in job_state.h, and this is the one place that goes
// by it.
#ifndef BATON_CONTROLLER_CORE_LOOP_LIFE_CHANGES_H_
#define BATON_CONTROLLER_CORE_LOOP_LIFE_CHANGES_H_

#include <string>

#include "absl/status/status.h"
#include "controller/core/job/events.h"
#include "controller/core/job/job_state.h"
#include "controller/core/steps/job_parts.h"
#include "controller/spec/learning.h"

namespace baton::controller {

// ---- States.
/// Goes to the state that follows. False: the trigger means nothing in this state.
bool Trigger(JobTrigger trigger, JobParts& job);
void Fail(const absl::Status& status, JobParts& job);
/// All steps are done, or what ends the job early has come.
void Finish(JobParts& job);
/// Tells the user what keeps the job from learning, and fails it where the spec says so.
void ApplyLearning(const LearningNews& news, JobParts& job);
/// Goes back to the newest checkpoint, and forms the groups that train anew. `role`: the one that
/// is lost, for `reason`; empty: none is lost, and `reason` is the whole sentence.
void RecoverTrainer(const std::string& role, const std::string& reason, JobParts& job);

// ---- Requests.
void Cancel(JobParts& job);
void Pause(JobParts& job);
void Resume(JobParts& job);
/// It gives its workers back, and asks for them anew.
void Yield(const YieldRequested& event, JobParts& job);

// ---- Workers are given back.
void ReleaseAll(JobParts& job);
/// The last worker may be gone: then the job ends, rests or queues.
void CheckReleased(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_LIFE_CHANGES_H_
