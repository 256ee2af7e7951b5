// The optimizer's files of checkpoints: which a checkpoint has, and their removal.
//
// Only the writer of a checkpoint knows which of its files hold the optimizer's state and nothing
// else, so each FileHash of files.json says it (`optimizer`). The files of a checkpoint without
// such files are never removed. A checkpoint whose optimizer's files were removed says so in its
// files.json (`removed`), which a reader without the controller can see. All functions block.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_OPTIMIZER_FILES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_OPTIMIZER_FILES_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"

namespace baton::controller {

/// Moves the optimizer's files of a complete checkpoint to the trash, after its files.json says
/// that they are gone. Returns the bytes that this frees: links of other jobs keep theirs. After a
/// crash in the middle, the next call does the rest. ABORTED: a job copies the checkpoint; try
/// again. Other errors: a file stays.
absl::StatusOr<int64_t> RemoveOptimizer(const std::string& data_root,
                                        const std::filesystem::path& checkpoint);

/// True if the optimizer's files of this checkpoint were removed. False also for a folder without a
/// files.json that can be read; others say what is wrong with it.
bool HasWeightsOnly(const std::filesystem::path& checkpoint);
/// FAILED_PRECONDITION (CHECKPOINT_WEIGHTS_ONLY): HasWeightsOnly, so no training goes on from it.
absl::Status CheckHasOptimizer(const std::filesystem::path& checkpoint);
/// That error. Names the setting, and the newest checkpoint of the same job that has them.
absl::Status WeightsOnlyError(const std::filesystem::path& checkpoint);

/// Sets size_bytes, optimizer_bytes and weights_only to what the folder has.
void MeasureCheckpoint(const std::filesystem::path& folder, v1::Checkpoint* checkpoint);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_OPTIMIZER_FILES_H_
