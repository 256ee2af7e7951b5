#include "controller/runtime/job_files/optimizer_files.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/files/folder_lock.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/job_files/job_folders.h"
#include "sdk/common/base/relative_path.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

fs::path ManifestOf(const fs::path& checkpoint) { return checkpoint / "files.json"; }

// Moves the optimizer's files to `removed`. False: there are none.
bool StrikeOut(v1::CheckpointManifest* manifest) {
  auto& files = *manifest->mutable_files();
  const auto first = std::stable_partition(
      files.begin(), files.end(), [](const v1::FileHash& file) { return !file.optimizer(); });
  if (first == files.end()) return false;
  for (auto file = first; file != files.end(); ++file) *manifest->add_removed() = *file;
  files.erase(first, files.end());
  return true;
}

// Returns the bytes that are free once the trash is empty.
absl::StatusOr<int64_t> RemovePart(const std::string& data_root, const fs::path& checkpoint,
                                   const std::string& file) {
  const fs::path path = checkpoint / file;
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return 0;  // removed before
  // Workers can write into the folder.
  if (!StaysBelow(file) || !IsBelow(path, checkpoint)) {
    return absl::DataLossError(absl::StrCat(path.string(), " is no file of the checkpoint"));
  }
  const bool linked = fs::hard_link_count(path, code) > 1;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, code));
  BATON_RETURN_IF_ERROR(MoveToTrash(data_root, path));
  return linked || code ? 0 : bytes;
}

}  // namespace

absl::StatusOr<int64_t> RemoveOptimizer(const std::string& data_root, const fs::path& checkpoint) {
  std::error_code code;
  if (!fs::is_directory(checkpoint, code)) return 0;
  const std::optional<FolderLock> lock = FolderLock::ForRemoval(checkpoint);
  if (!lock.has_value()) {
    return absl::AbortedError(absl::StrCat("a job copies ", checkpoint.string(), "; try again"));
  }
  v1::CheckpointManifest manifest;
  BATON_RETURN_IF_ERROR(ReadJsonFile(ManifestOf(checkpoint), &manifest));
  if (StrikeOut(&manifest)) {
    BATON_RETURN_IF_ERROR(ReplaceJsonFile(ManifestOf(checkpoint), manifest));
  }
  int64_t freed = 0;
  for (const v1::FileHash& file : manifest.removed()) {
    BATON_ASSIGN_OR_RETURN(const int64_t bytes, RemovePart(data_root, checkpoint, file.path()));
    freed += bytes;
  }
  return freed;
}

bool HasWeightsOnly(const fs::path& checkpoint) {
  v1::CheckpointManifest manifest;
  return ReadJsonFile(ManifestOf(checkpoint), &manifest).ok() && manifest.removed_size() > 0;
}

absl::Status CheckHasOptimizer(const fs::path& checkpoint) {
  return HasWeightsOnly(checkpoint) ? WeightsOnlyError(checkpoint) : absl::OkStatus();
}

absl::Status WeightsOnlyError(const fs::path& checkpoint) {
  std::string message = absl::StrCat(
      checkpoint.string(),
      " has weights only, and training cannot go on from it: its job succeeded, and with "
      "trainer.keep_optimizer: newest only the newest checkpoint keeps the optimizer's state (all: "
      "every one does)");
  const auto others = FindCheckpoints(checkpoint.parent_path().parent_path());
  const auto newest =
      std::find_if(others.rbegin(), others.rend(),
                   [](const FoundCheckpoint& other) { return !HasWeightsOnly(other.path); });
  if (newest != others.rend()) {
    absl::StrAppend(&message, "; go on from ", newest->path.string(), ", or");
  } else {
    absl::StrAppend(&message, ";");
  }
  absl::StrAppend(&message, " begin a new job with model.path: ", checkpoint.string(), "/actor");
  return MakeError(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_WEIGHTS_ONLY", message);
}

void MeasureCheckpoint(const fs::path& folder, v1::Checkpoint* checkpoint) {
  int64_t size = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry.depth() == 0 && entry->path().filename() == "data") entry.disable_recursion_pending();
    if (entry->is_regular_file(code)) size += static_cast<int64_t>(entry->file_size(code));
  }
  checkpoint->set_size_bytes(size);
  v1::CheckpointManifest manifest;
  if (!ReadJsonFile(ManifestOf(folder), &manifest).ok()) return;
  if (manifest.removed_size() > 0) checkpoint->set_weights_only(true);
  int64_t optimizer = 0;
  for (const v1::FileHash& file : manifest.files()) {
    if (file.optimizer()) optimizer += file.size_bytes();
  }
  if (optimizer > 0) checkpoint->set_optimizer_bytes(optimizer);
}

}  // namespace baton::controller
