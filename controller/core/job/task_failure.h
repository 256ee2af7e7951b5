// The meaning of a task's failure. The only place that reads a task's status.
//
// A worker ends a task with a status code, and in one case with an ErrorInfo reason:
// ROLE_NOT_HELD, which the runtime tells as TaskDone::role_lost. Each caller asks one question
// below instead of comparing codes, so two callers cannot disagree on what a code means.
#ifndef BATON_CONTROLLER_CORE_JOB_TASK_FAILURE_H_
#define BATON_CONTROLLER_CORE_JOB_TASK_FAILURE_H_

#include "absl/status/status.h"
#include "controller/core/job/events.h"

namespace baton::controller {

enum class TaskFailure {
  kNone,          ///< The task succeeded.
  kRoleLost,      ///< ROLE_NOT_HELD: the worker does not hold the role.
  kInvalid,       ///< The task cannot be done as it is asked. Another try fails, too.
  kNotFound,      ///< Something that the task names is gone: a file, a published version.
  kWrongVersion,  ///< The worker holds other weights than the task asks for.
  kNoRoom,        ///< A disk, shared memory or a GPU's memory is full.
  kUnavailable,   ///< A peer is gone.
  kTooLate,       ///< A peer did not answer in time.
  kAborted,       ///< Something that the task depends on failed as a whole.
  kCancelled,     ///< The task was stopped, which is no failure.
  kOther,         ///< Anything else. Another try may succeed.
};

TaskFailure FailureOf(const TaskDone& done);
TaskFailure FailureOf(const absl::Status& status);

/// Another try of a generation or a score would fail as well.
bool IsPermanent(TaskFailure failure);
/// The rank misses another rank of its group. The group then waits to learn which one is lost.
bool MissesPeer(TaskFailure failure);
/// Neither this rank nor the others can go on with the group's command or meeting.
bool BreaksGroup(TaskFailure failure);
/// A worker that failed to take on a role may try again at once.
bool IsPassing(TaskFailure failure);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_TASK_FAILURE_H_
