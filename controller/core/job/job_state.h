// The life of a job as a table: (state, trigger) -> state.
//
// docs/state-machines.md draws the same table; a test compares the two.
#ifndef BATON_CONTROLLER_CORE_JOB_JOB_STATE_H_
#define BATON_CONTROLLER_CORE_JOB_JOB_STATE_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "baton/v1/job_service.pb.h"

namespace baton::controller {

enum class JobTrigger {
  kWorkersGranted,  ///< The queue gave the job all it asked for.
  kSetUp,           ///< Data, models and groups are ready.
  kTrainerLost,     ///< The actor's group must be re-formed.
  kPause,           ///< The user pauses the job …
  kResume,          ///< … or resumes it.
  kCancel,          ///< The user ends the job.
  kFail,            ///< The job cannot go on.
  kFinish,          ///< All steps done.
  kReleased,        ///< All workers are given back.
};

inline constexpr JobTrigger kAllJobTriggers[] = {
    JobTrigger::kWorkersGranted, JobTrigger::kSetUp,  JobTrigger::kTrainerLost,
    JobTrigger::kPause,          JobTrigger::kResume, JobTrigger::kCancel,
    JobTrigger::kFail,           JobTrigger::kFinish, JobTrigger::kReleased};

/// The state that follows; nullopt if the trigger has no meaning in `state`. `stopping_as` is what
/// a stopping job becomes once its workers are released.
std::optional<v1::Job::State> NextJobState(v1::Job::State state, JobTrigger trigger,
                                           v1::Job::State stopping_as);

/// SUCCEEDED, FAILED or CANCELLED.
bool IsTerminal(v1::Job::State state);
/// Holds workers or is about to.
bool IsActive(v1::Job::State state);

/// "RUNNING" for STATE_RUNNING.
absl::string_view StateName(v1::Job::State state);
absl::string_view TriggerName(JobTrigger trigger);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_JOB_STATE_H_
