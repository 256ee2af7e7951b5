// The job in the folder of a checkpoint.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_SAVED_JOB_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_SAVED_JOB_H_

#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

/// An error about a checkpoint's folder (CHECKPOINT_FOLDER): "FOLDER what".
absl::Status CheckpointFolderError(absl::StatusCode code, const std::filesystem::path& folder,
                                   absl::string_view what);

/// The row in the checkpoint's job.json. NOT_FOUND: the folder is no complete checkpoint;
/// DATA_LOSS: no controller wrote that file, or it is too large (json_file.h).
/// The row passed CheckRow, and so its specs the checks of a new job. Blocks.
absl::StatusOr<store::v1::JobRow> ReadSavedJob(const std::filesystem::path& checkpoint);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_SAVED_JOB_H_
