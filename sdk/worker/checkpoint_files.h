// The files of a checkpoint that a rank reports after it wrote them, and checks before it starts
// from them.
#ifndef BATON_SDK_WORKER_CHECKPOINT_FILES_H_
#define BATON_SDK_WORKER_CHECKPOINT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "baton/v1/worker_service.pb.h"

namespace baton {

/// Flushes every file under `directory` (and the folders) to disk and adds its path, size and
/// checksum to `result.files`, sorted by path. Errors name the file.
[[nodiscard]] absl::Status ReportCheckpointFiles(const std::string& directory,
                                                 v1::TaskResult& result);

/// As above, for only the files of `parts`, each a file or a folder under `directory`: the files of
/// one role in a checkpoint that other roles write at the same time. Paths stay relative to
/// `directory`. `optimizer`: further parts, which hold the optimizer's state and nothing that the
/// weights alone need. The controller may remove them once the job has succeeded
/// (trainer.keep_optimizer).
[[nodiscard]] absl::Status ReportCheckpointFiles(const std::string& directory,
                                                 const std::vector<std::string>& parts,
                                                 v1::TaskResult& result,
                                                 const std::vector<std::string>& optimizer = {});

/// What a checkpoint is read for: to go on training, or only for its weights.
enum class CheckpointUse { kTraining, kWeights };

/// Compares the files of a complete checkpoint with its `files.json`; for kWeights not those of the
/// optimizer, which may be removed meanwhile. DATA_LOSS names the first file that is missing or
/// differs. FAILED_PRECONDITION (CHECKPOINT_WEIGHTS_ONLY): training cannot
/// go on from it, because the optimizer's files were removed. A folder without `files.json` is not
/// checked.
[[nodiscard]] absl::Status VerifyCheckpointFiles(const std::string& directory,
                                                 CheckpointUse use = CheckpointUse::kTraining);

/// Writes a small file and syncs its content to disk; missing folders of its path are created.
[[nodiscard]] absl::Status WriteCheckpointFile(const std::string& path, absl::string_view content);

}  // namespace baton

#endif  // BATON_SDK_WORKER_CHECKPOINT_FILES_H_
