#include "controller/core/job/task_failure.h"

namespace baton::controller {

TaskFailure FailureOf(const TaskDone& done) {
  return done.role_lost ? TaskFailure::kRoleLost : FailureOf(done.status);
}

TaskFailure FailureOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return TaskFailure::kNone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return TaskFailure::kInvalid;
    case absl::StatusCode::kNotFound:
      return TaskFailure::kNotFound;
    case absl::StatusCode::kFailedPrecondition:
      return TaskFailure::kWrongVersion;
    case absl::StatusCode::kResourceExhausted:
      return TaskFailure::kNoRoom;
    case absl::StatusCode::kUnavailable:
      return TaskFailure::kUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return TaskFailure::kTooLate;
    case absl::StatusCode::kAborted:
      return TaskFailure::kAborted;
    case absl::StatusCode::kCancelled:
      return TaskFailure::kCancelled;
    default:
      return TaskFailure::kOther;
  }
}

bool IsPermanent(TaskFailure failure) {
  return failure == TaskFailure::kInvalid || failure == TaskFailure::kNotFound;
}

bool MissesPeer(TaskFailure failure) {
  return failure == TaskFailure::kUnavailable || failure == TaskFailure::kTooLate;
}

bool BreaksGroup(TaskFailure failure) {
  return MissesPeer(failure) || failure == TaskFailure::kAborted ||
         failure == TaskFailure::kCancelled;
}

bool IsPassing(TaskFailure failure) {
  // A worker that ran into its deadline had all the time there is: a second try has no more.
  return BreaksGroup(failure) && failure != TaskFailure::kTooLate;
}

}  // namespace baton::controller
