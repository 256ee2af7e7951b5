#include "controller/runtime/job_files/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/files/path_guard.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/relative_path.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/times.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(absl::string_view what, const fs::path& path, const std::error_code& code) {
  const std::string message = absl::StrCat(what, " ", path.string(), ": ", code.message());
  if (code == std::errc::no_space_on_device || code == std::errc::file_too_large ||
      code == std::error_code(EDQUOT, std::generic_category())) {
    return absl::ResourceExhaustedError(message + "; free space under the data root");
  }
  return absl::InternalError(message);
}

// Syncs the names in a folder and in the folders below it.
absl::Status SyncFolders(const fs::path& root) {
  std::error_code code;
  for (fs::recursive_directory_iterator entry(root, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->is_directory()) BATON_RETURN_IF_ERROR(SyncFolder(entry->path()));
  }
  if (code) return FileError("cannot list", root, code);
  return SyncFolder(root);
}

absl::Status WriteFile(const fs::path& path, const std::string& content) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return FileError("cannot create", path, {errno, std::generic_category()});
  size_t done = 0;
  int error = 0;
  while (done < content.size() && error == 0) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno != EINTR) error = errno;
    if (n > 0) done += static_cast<size_t>(n);
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  if (error != 0) return FileError("cannot write", path, {error, std::generic_category()});
  return absl::OkStatus();
}

absl::Status WriteJson(const fs::path& path, const google::protobuf::Message& message) {
  const absl::StatusOr<std::string> json = JsonText(message);
  if (!json.ok()) {
    return absl::InternalError(absl::StrCat(path.string(), " ", json.status().message()));
  }
  return WriteFile(path, *json);
}

absl::Status CheckSize(const fs::path& folder, const v1::FileHash& file) {
  if (!StaysBelow(file.path())) {
    return absl::DataLossError(absl::StrCat("the worker says that it wrote '", file.path(),
                                            "', which is not a path in the checkpoint's folder"));
  }
  std::error_code code;
  const auto size = fs::file_size(folder / file.path(), code);
  if (!code && static_cast<int64_t>(size) == file.size_bytes()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat((folder / file.path()).string(), ": the worker wrote ",
                                          file.size_bytes(), " bytes, here ",
                                          code ? code.message() : absl::StrCat("are ", size),
                                          "; worker and controller must see the same folder"));
}

// The role that wrote this part of a checkpoint.
std::string OwnerOf(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const char* critic : {roles::kCostCritic, roles::kCritic}) {
    if (absl::StartsWith(name, critic)) return critic;
  }
  return roles::kActor;
}

}  // namespace

std::vector<std::string> UploadedFiles(const v1::JobSpec& spec) {
  std::vector<std::string> out;
  for (const auto* files :
       {&spec.data().train_files(), &spec.data().val_files(), &spec.data().pretrain_files()}) {
    for (const std::string& file : *files) {
      if (absl::StartsWith(file, "files/")) out.push_back(file);
    }
  }
  return out;
}

CheckpointFiles::CheckpointFiles(std::string job_dir, std::string data_root)
    : root_(std::move(job_dir) + "/checkpoints"), data_root_(std::move(data_root)) {}

std::string CheckpointFiles::PathOf(int64_t step) const {
  return absl::StrCat(root_, "/step-", step);
}

std::string CheckpointFiles::TemporaryOf(int64_t step, uint64_t incarnation) const {
  return absl::StrCat(PathOf(step), ".", incarnation, ".tmp");
}

absl::StatusOr<std::string> CheckpointFiles::Prepare(int64_t step, uint64_t incarnation,
                                                     const std::string& role) const {
  const fs::path path = TemporaryOf(step, incarnation);
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(root_, code)) {
    const bool other = entry.path() != path;
    if (other && entry.path().extension() == ".tmp") {
      MoveToTrash(data_root_, entry.path()).IgnoreError();  // the next save tries again
    }
  }
  for (const auto& entry : fs::directory_iterator(path, code)) {
    if (OwnerOf(entry.path()) != role) continue;
    BATON_RETURN_IF_ERROR(MoveToTrash(data_root_, entry.path()));
  }
  BATON_RETURN_IF_ERROR(MakeFolder(path));
  return path.string();
}

absl::StatusOr<v1::Checkpoint> CheckpointFiles::Commit(
    int64_t step, uint64_t incarnation, const store::v1::JobRow& row,
    const std::vector<v1::FileHash>& files) const {
  const fs::path temporary = TemporaryOf(step, incarnation);
  const fs::path path = PathOf(step);
  v1::CheckpointManifest manifest;
  manifest.set_step(step);
  for (const v1::FileHash& file : files) {
    BATON_RETURN_IF_ERROR(CheckSize(temporary, file));
    *manifest.add_files() = file;
  }
  std::sort(manifest.mutable_files()->begin(), manifest.mutable_files()->end(),
            [](const v1::FileHash& a, const v1::FileHash& b) { return a.path() < b.path(); });
  BATON_RETURN_IF_ERROR(WriteJson(temporary / "files.json", manifest));
  // Without the list of the store's rows by step, which is useless to another controller and grows
  // with the steps.
  store::v1::JobRow saved = row;
  saved.clear_kept_steps();
  BATON_RETURN_IF_ERROR(WriteJson(temporary / "job.json", saved));
  // The folder must be enough for another controller, so it gets the data too. Links take no space.
  for (const std::string& file : UploadedFiles(row.job().effective_spec())) {
    // it is not an upload, so its owner keeps it elsewhere
    if (!PathGuard::IsUpload(file)) continue;
    // The file was removed; the job has read it and does not need it any more.
    std::error_code missing;
    if (!fs::exists(absl::StrCat(data_root_, "/", file), missing)) continue;
    BATON_RETURN_IF_ERROR(LinkFile(absl::StrCat(data_root_, "/", file),
                                   temporary / "data" / file.substr(file.find('/') + 1)));
  }
  BATON_RETURN_IF_ERROR(SyncFolders(temporary));
  std::error_code code;
  BATON_RETURN_IF_ERROR(MoveToTrash(data_root_, path));  // of steps that were rolled back
  fs::rename(temporary, path, code);
  if (code) return FileError("cannot rename to", path, code);
  BATON_RETURN_IF_ERROR(SyncFolder(root_));
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  checkpoint.set_path(path.string());
  *checkpoint.mutable_create_time() = ToProtoSeconds(absl::Now());
  checkpoint.set_policy_version(row.job().policy_version());
  MeasureCheckpoint(path, &checkpoint);
  return checkpoint;
}

void CheckpointFiles::Delete(const v1::Checkpoint& checkpoint) const {
  // The folder loses its name before its files go. A call that links its files checks the name
  // afterwards: if the name is still there, no file was missing.
  const absl::Status moved = MoveToTrash(data_root_, checkpoint.path());
  if (moved.ok()) return;
  Log(LogLevel::kWarn, "a checkpoint that is no longer wanted stays",
      {{"path", checkpoint.path()}, {"error", moved.message()}});
}

}  // namespace baton::controller
