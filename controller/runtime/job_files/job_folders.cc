#include "controller/runtime/job_files/job_folders.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/trash.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr char kStagingPrefix[] = ".staging-";
// In a folder that already has its job's name before the job's row is committed. Lists what was
// staged.
constexpr char kUncommitted[] = ".uncommitted";
// In a folder whose job is being deleted. Has the job's uid.
constexpr char kDeleted[] = ".deleted";

absl::Status CannotRename(const fs::path& from, const fs::path& to, const std::error_code& code) {
  return absl::UnavailableError(
      absl::StrCat("cannot rename ", from.string(), " to ", to.string(), ": ", code.message()));
}

absl::Status Exists(const fs::path& path) {
  return MakeError(absl::StatusCode::kAlreadyExists, "JOB_FOLDER",
                   absl::StrCat(path.string(), " exists already"));
}

// Relative names of the model folders and checkpoints in a job's folder; '?' stands for other
// entries.
std::vector<std::string> HoldsOf(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (name == kUncommitted) continue;
    if (name != "checkpoints") {
      out.push_back(name);
      continue;
    }
    for (const auto& checkpoint : fs::directory_iterator(entry.path(), code)) {
      out.push_back(absl::StrCat("checkpoints/", checkpoint.path().filename().string()));
    }
  }
  if (code) out.push_back("?");  // cannot be read, so the list may be incomplete
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> LinesOf(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// True for a folder that has only the staged files, and nothing that a job has written since.
bool IsLeftover(const fs::path& folder) {
  std::error_code code;
  return fs::is_regular_file(folder / kUncommitted, code) &&
         HoldsOf(folder) == LinesOf(folder / kUncommitted);
}

void RemoveLeftover(const fs::path& data_root, const fs::path& folder) {
  const absl::Status moved = MoveToTrash(data_root, folder);
  Log(moved.ok() ? LogLevel::kInfo : LogLevel::kWarn,
      moved.ok() ? "removed what an unfinished call left" : "what an unfinished call left stays",
      {{"folder", folder.string()}, {"error", moved.message()}});
}

void RemoveDeletedCheckpoints(const fs::path& data_root, const fs::path& job_folder) {
  const auto entries = ListFolder(job_folder / "checkpoints");
  if (!entries.ok()) return;
  for (const fs::directory_entry& entry : *entries) {
    if (absl::EndsWith(entry.path().filename().string(), kDeletedSuffix)) {
      MoveToTrash(data_root, entry.path()).IgnoreError();
    }
  }
}

}  // namespace

std::string JobFolderOf(const std::string& data_root, const std::string& job) {
  const std::string rest = absl::StrReplaceAll(job.substr(9), {{"/jobs/", "/"}});
  return absl::StrCat(data_root, "/jobs/", rest);
}

StagedFolder::StagedFolder(const fs::path& project_folder, const std::string& uid)
    : data_root_(project_folder.parent_path().parent_path()),
      staging_(project_folder / absl::StrCat(kStagingPrefix, uid)) {}

StagedFolder::~StagedFolder() {
  if (staged_) MoveToTrash(data_root_, staging_).IgnoreError();  // the next start tries again
}

fs::path StagedFolder::Stage(const std::string& name) {
  staged_ = true;
  std::error_code code;  // a later write there fails and gives the reason
  fs::create_directories((staging_ / name).parent_path(), code);
  return staging_ / name;
}

absl::Status StagedFolder::Keep(const fs::path& folder, bool adopt) {
  if (!staged_) return absl::OkStatus();
  if (adopt) return KeepBeside(folder);
  {
    std::ofstream note(staging_ / kUncommitted);
    for (const std::string& name : HoldsOf(staging_)) note << name << "\n";
    note.close();
    if (!note) {
      return absl::UnavailableError(absl::StrCat("cannot write ", staging_.string(), "/",
                                                 kUncommitted, "; free space under the data root"));
    }
  }
  std::error_code code;
  if (fs::exists(fs::symlink_status(folder, code))) return Exists(folder);
  fs::rename(staging_, folder, code);
  if (code) return CannotRename(staging_, folder, code);
  staged_ = false;
  return SyncFolder(folder.parent_path());
}

absl::Status StagedFolder::KeepBeside(const fs::path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(staging_, code)) {
    const fs::path to = folder / entry.path().filename();
    if (fs::exists(fs::symlink_status(to, code))) return Exists(to);
    fs::rename(entry.path(), to, code);
    if (code) return CannotRename(entry.path(), to, code);
  }
  return SyncFolder(folder);
}

void Committed(const fs::path& folder) {
  std::error_code code;
  fs::remove(folder / kUncommitted, code);
  fs::remove(folder / kDeleted, code);
}

absl::Status MarkDeleted(const fs::path& folder, const std::string& uid) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) return absl::OkStatus();
  const fs::path mark = folder / kDeleted;
  std::ofstream out(mark, std::ios::binary | std::ios::trunc);
  out << uid;
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", mark.string()));
  BATON_RETURN_IF_ERROR(SyncFile(mark));
  return SyncFolder(folder);
}

bool IsMarkedDeleted(const fs::path& folder, const std::string& uid) {
  std::ifstream in(folder / kDeleted, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return in.good() && text == uid;
}

absl::Status RemoveJobFolder(const std::string& data_root, const fs::path& folder) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(folder, code))) return absl::OkStatus();
  const fs::path doomed =
      folder.parent_path() / absl::StrCat(kDeletedPrefix, folder.filename().string());
  BATON_RETURN_IF_ERROR(MoveToTrash(data_root, doomed));  // of an earlier job of this name
  fs::rename(folder, doomed, code);
  if (code) return CannotRename(folder, doomed, code);
  // Before anything removes the mark in it, because a power cut may undo the rename.
  BATON_RETURN_IF_ERROR(SyncFolder(folder.parent_path()));
  const absl::Status moved = MoveToTrash(data_root, doomed);
  if (!moved.ok()) {
    Log(LogLevel::kWarn, "the files of a deleted job stay until the next start",
        {{"folder", doomed.string()}, {"error", moved.message()}});
  }
  return absl::OkStatus();
}

void CleanJobFolders(const fs::path& jobs, const std::function<bool(const std::string&)>& known) {
  std::error_code code;
  const fs::path data_root = jobs.parent_path();
  const auto projects = ListFolder(jobs);
  if (!projects.ok()) return;
  for (const fs::directory_entry& project : *projects) {
    if (!project.is_directory(code) || project.is_symlink(code)) continue;
    std::vector<fs::path> folders;
    const auto entries = ListFolder(project.path());
    if (!entries.ok()) continue;
    for (const fs::directory_entry& entry : *entries) {
      if (entry.is_directory(code) && !entry.is_symlink(code)) folders.push_back(entry.path());
    }
    for (const fs::path& folder : folders) {
      const std::string name = folder.filename().string();
      if (absl::StartsWith(name, kStagingPrefix) || absl::StartsWith(name, kDeletedPrefix)) {
        RemoveLeftover(data_root, folder);
      } else if (known(absl::StrCat(project.path().filename().string(), "/", name))) {
        Committed(folder);
        RemoveDeletedCheckpoints(data_root, folder);
      } else if (IsLeftover(folder)) {
        RemoveLeftover(data_root, folder);
      }
    }
  }
}

std::vector<FoundCheckpoint> FindCheckpoints(const fs::path& job_folder) {
  std::vector<FoundCheckpoint> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(job_folder / "checkpoints", code)) {
    const std::string name = entry.path().filename().string();
    FoundCheckpoint found;
    found.path = entry.path();
    absl::string_view number = name;
    if (!absl::ConsumePrefix(&number, "step-") || !absl::SimpleAtoi(number, &found.step)) continue;
    if (found.step < 0 || name != absl::StrCat("step-", found.step)) continue;
    std::error_code missing;
    if (!fs::is_regular_file(entry.path() / "job.json", missing) ||
        !fs::is_regular_file(entry.path() / "files.json", missing)) {
      continue;
    }
    out.push_back(std::move(found));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return out;
}

absl::Status LinkCheckpoint(const fs::path& from, const fs::path& to) {
  absl::Status linked = LinkFolder(from, to);
  // A deleted checkpoint loses its name first, so a folder that still has its name was complete
  // then.
  std::error_code code;
  if (!fs::is_directory(from, code)) {
    linked = absl::NotFoundError(absl::StrCat(from.string(), " was removed meanwhile"));
  }
  if (!linked.ok()) fs::remove_all(to, code);
  return linked;
}

absl::Status SetAsideAfter(const fs::path& job_folder, int64_t step, const std::string& uid) {
  for (const FoundCheckpoint& found : FindCheckpoints(job_folder)) {
    if (found.step <= step) continue;
    const fs::path to = absl::StrCat(found.path.string(), ".before-", uid);
    std::error_code code;
    fs::rename(found.path, to, code);
    if (code) return CannotRename(found.path, to, code);
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
