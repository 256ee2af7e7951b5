// A job's checkpoint by name: "job:NAME", "job:NAME@best", "job:NAME@120".
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_CHOICE_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_CHOICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_service.pb.h"

namespace baton::controller {

struct CheckpointName {
  std::string job;    ///< "NAME", or "projects/P/jobs/NAME".
  std::string which;  ///< "": the newest; "best"; a step.
};

/// True if `path` names a job's checkpoint, and not a folder.
bool NamesCheckpoint(absl::string_view path);

/// Splits a path for which NamesCheckpoint is true.
CheckpointName ParseCheckpointName(absl::string_view path);

/// Finds the checkpoint `which` among the complete checkpoints of `job`, oldest first.
/// INVALID_ARGUMENT: `which` is neither "best" nor a step. NOT_FOUND (CHECKPOINT_NOT_FOUND): there
/// is no such checkpoint; the message lists the existing ones.
absl::StatusOr<v1::Checkpoint> ChooseCheckpoint(const std::string& job, const std::string& which,
                                                const std::vector<v1::Checkpoint>& checkpoints);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_CHOICE_H_
