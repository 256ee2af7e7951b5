#include "controller/runtime/job_files/saved_job.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/job_files/job_folders.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

namespace fs = std::filesystem;

namespace {

absl::Status NoCheckpoint(const fs::path& folder, absl::string_view file) {
  std::string what = absl::StrCat("is not a checkpoint: it has no ", file,
                                  " (a checkpoint is a folder JOB/checkpoints/step-N)");
  const auto others = FindCheckpoints(folder.parent_path().parent_path());
  if (!others.empty()) {
    absl::StrAppend(&what, "; the newest complete one there is ", others.back().path.string());
  }
  return CheckpointFolderError(absl::StatusCode::kNotFound, folder, what);
}

}  // namespace

absl::Status CheckpointFolderError(absl::StatusCode code, const fs::path& folder,
                                   absl::string_view what) {
  return MakeError(code, "CHECKPOINT_FOLDER", absl::StrCat(folder.string(), " ", what));
}

absl::StatusOr<store::v1::JobRow> ReadSavedJob(const fs::path& checkpoint) {
  std::error_code code;
  for (const char* file : {"job.json", "files.json"}) {
    if (!fs::is_regular_file(checkpoint / file, code)) return NoCheckpoint(checkpoint, file);
  }
  store::v1::JobRow row;
  absl::Status read = ReadJsonFile(checkpoint / "job.json", &row);
  if (read.ok() && !row.job().has_effective_spec()) read = absl::DataLossError("no effective_spec");
  if (!read.ok()) {
    return CheckpointFolderError(
        absl::StatusCode::kDataLoss, checkpoint,
        absl::StrCat("has a job.json that cannot be read: ", read.message()));
  }
  if (const absl::Status good = CheckRow(row); !good.ok()) {
    return CheckpointFolderError(
        absl::StatusCode::kDataLoss, checkpoint,
        absl::StrCat("has a job.json that was not written by a controller: ", good.message()));
  }
  return row;
}

}  // namespace baton::controller
