// Copying of a checkpoint for another job, within a folder of the controller's own.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_COPY_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_COPY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

/// The files of a checkpoint that make it: those of files.json, then files.json and job.json, and
/// the uploads of its spec in `data/`. Nothing else of the folder is looked at.
struct CheckpointParts {
  std::vector<v1::FileHash> files;  ///< With size and hash.
  std::vector<std::string> others;  ///< Relative paths.
  /// The most that copies of them take, holes included.
  uint64_t bytes = 0;
};

/// `spec`: of its job. DATA_LOSS: files.json cannot be read, or has a name that is no path in the
/// folder. FAILED_PRECONDITION (CHECKPOINT_WEIGHTS_ONLY): CheckHasOptimizer (optimizer_files.h).
absl::StatusOr<CheckpointParts> PartsOf(const std::filesystem::path& checkpoint,
                                        const v1::JobSpec& spec);

/// The bytes that CopyCheckpoint must write into a folder on the file system of `beside`: 0 where
/// all files are linked.
uint64_t BytesToCopy(const std::filesystem::path& checkpoint, const CheckpointParts& parts,
                     const std::filesystem::path& beside);

/// Copies the parts to the new folder `to`: by hard link where the file is the controller's own,
/// else by reflink or without its holes, and then it is hashed and compared with files.json.
/// Survives a power cut. `stop` as in CopyAndHash. NOT_FOUND: the checkpoint was removed meanwhile.
/// Its optimizer's files stay until the copy is done; FAILED_PRECONDITION
/// (CHECKPOINT_WEIGHTS_ONLY): they were removed before it began. DATA_LOSS names the file that is
/// missing, or has another size or hash. INVALID_ARGUMENT: a file is no regular file of the folder.
/// RESOURCE_EXHAUSTED: the disk is full. After an error nothing is at `to`.
absl::Status CopyCheckpoint(const std::filesystem::path& from, const CheckpointParts& parts,
                            const std::filesystem::path& to,
                            const std::function<bool()>& stop = nullptr);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_COPY_H_
