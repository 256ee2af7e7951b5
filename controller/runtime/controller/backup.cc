#include "controller/runtime/controller/backup.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "baton/store/v1/rows.pb.h"
#include "boost/asio/post.hpp"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "controller/runtime/rows/checkpoint_rows.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/sqlite_store.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/process/low_priority.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr char kBackupPrefix[] = ".backup-";
constexpr char kDatabase[] = "baton.db";
constexpr int kTries = 5;
// Everything that rows name is in these folders.
constexpr const char* kFolders[] = {"jobs", "files"};

// True if a path below the data root is unfinished: a checkpoint that is being written
// (jobs/PROJECT/JOB/checkpoints/NAME.tmp), a job's folder that is being created or removed
// (jobs/PROJECT/.staging-…, .deleted-…), a running upload (files/.upload-…). The depth of the path
// counts too, because users may give such names to uploads, which are also in checkpoints' data.
bool IsUnfinished(const fs::path& path) {
  const auto parts = std::distance(path.begin(), path.end());
  const std::string name = path.filename().string();
  if (*path.begin() == "files") return parts == 2 && absl::StartsWith(name, ".upload-");
  const bool moves = absl::StartsWith(name, ".staging-") || absl::StartsWith(name, ".deleted-");
  return (parts == 3 && moves) || (parts == 5 && path.extension() == ".tmp");
}

// Links the file, unless it has been linked already. A file that vanished meanwhile is no error.
absl::Status Keep(const fs::path& from, const fs::path& to) {
  std::error_code code;
  if (fs::exists(to, code)) return absl::OkStatus();
  fs::create_directories(to.parent_path(), code);
  if (!code) fs::create_hard_link(from, to, code);
  if (code && code != std::errc::no_such_file_or_directory) {
    code.clear();
    fs::copy_file(from, to, code);
  }
  if (!code || code == std::errc::no_such_file_or_directory) return absl::OkStatus();
  const std::string message =
      absl::StrCat("cannot keep a copy of ", from.string(), ": ", code.message());
  return code == std::errc::no_space_on_device
             ? absl::ResourceExhaustedError(message + "; free space under the data root")
             : absl::UnavailableError(message);
}

absl::Status KeepAll(const fs::path& data_root, const fs::path& folder) {
  for (const char* name : kFolders) {
    std::error_code code;
    for (fs::recursive_directory_iterator entry(data_root / name, code), end; !code && entry != end;
         entry.increment(code)) {
      std::error_code gone;
      const fs::path path = entry->path().lexically_relative(data_root);
      if (IsUnfinished(path)) {
        if (entry->is_directory(gone)) entry.disable_recursion_pending();
      } else if (entry->is_regular_file(gone)) {
        BATON_RETURN_IF_ERROR(Keep(entry->path(), folder / path));
      }
    }
    // If a folder vanishes while it is read, look again; that is no error.
  }
  return absl::OkStatus();
}

// Removes the linked folders of jobs that were deleted meanwhile, because they would block the
// jobs' names. Folders of jobs that the store does not know stay if they still exist.
void DropDeletedJobs(const fs::path& data_root, const fs::path& folder, store::Store& copy) {
  using Entries = std::vector<fs::directory_entry>;
  const auto projects = ListFolder(folder / "jobs");
  for (const fs::directory_entry& project : projects.value_or(Entries())) {
    const auto jobs = ListFolder(project.path());
    for (const fs::directory_entry& job : jobs.value_or(Entries())) {
      const std::string name = absl::StrCat("projects/", project.path().filename().string(),
                                            "/jobs/", job.path().filename().string());
      const auto row = copy.Get(kJobTable, name);
      const bool known = !row.ok() || row->has_value();
      std::error_code gone;
      const fs::path at = data_root / job.path().lexically_relative(folder);
      if (known || fs::symlink_status(at, gone).type() != fs::file_type::not_found) continue;
      fs::remove_all(job.path(), gone);
    }
  }
}

// The checkpoints that the copied rows name, by their paths below the data root. Nothing: one of
// them was deleted before it was linked.
absl::StatusOr<std::optional<std::vector<std::string>>> NamedCheckpoints(const fs::path& data_root,
                                                                         const fs::path& folder) {
  BATON_ASSIGN_OR_RETURN(const auto copy, store::SqliteStore::Open(folder / kDatabase));
  DropDeletedJobs(data_root, folder, *copy);
  std::optional<std::vector<std::string>> named(std::in_place);
  const auto look = [&](const store::Row& stored) {
    store::v1::JobRow row;
    if (!row.ParseFromString(stored.value)) return true;  // the controller does not read it either
    if (!ReadCheckpoints(*copy, stored.key, &row).ok()) return true;
    for (const v1::Checkpoint& checkpoint : row.checkpoints()) {
      const fs::path path = fs::path(checkpoint.path()).lexically_relative(data_root);
      if (path.empty() || *path.begin() == "..") continue;  // it was never below this data root
      // A checkpoint that is deleted loses its name first. One that has it still was there, whole
      // or damaged, when its files were linked.
      std::error_code code;
      if (!fs::exists(folder / path / "files.json", code) &&
          !fs::is_directory(data_root / path, code)) {
        named.reset();
        return false;
      }
      // It lost its optimizer's files meanwhile, so the copy may lack some that its files.json
      // names.
      if (HasWeightsOnly(data_root / path) && !HasWeightsOnly(folder / path)) {
        named.reset();
        return false;
      }
      named->push_back(path.string());
    }
    return true;
  };
  BATON_RETURN_IF_ERROR(ScanInPieces(*copy, kJobTable, {}, look));
  return named;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackupSet>> BackupSet::Make(const std::string& data_root,
                                                           store::Store& store) {
  for (int i = 0; i < kTries; ++i) {
    std::string pattern = absl::StrCat(data_root, "/", kBackupPrefix, "XXXXXX");
    if (::mkdtemp(pattern.data()) == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot make a folder in ", data_root, "; free space under the data root"));
    }
    std::unique_ptr<BackupSet> set(new BackupSet(pattern));
    BATON_RETURN_IF_ERROR(KeepAll(data_root, pattern));
    BATON_RETURN_IF_ERROR(store.CopyTo(absl::StrCat(pattern, "/", kDatabase)));
    BATON_RETURN_IF_ERROR(KeepAll(data_root, pattern));
    BATON_ASSIGN_OR_RETURN(const auto named, NamedCheckpoints(data_root, pattern));
    if (!named.has_value()) continue;
    BATON_RETURN_IF_ERROR(set->List());
    for (const std::string& checkpoint : *named) set->Compare(checkpoint);
    return set;
  }
  return MakeError(absl::StatusCode::kUnavailable, "BACKUP_OVERTAKEN",
                   "jobs delete their checkpoints faster than they can be copied; try again, or "
                   "raise trainer.max_checkpoints");
}

absl::Status BackupSet::List() {
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder_, code), end; !code && entry != end;
       entry.increment(code)) {
    if (!entry->is_regular_file(code)) continue;
    const std::string path = entry->path().lexically_relative(folder_).string();
    if (absl::StartsWith(path, "baton.db.") || absl::StartsWith(path, "baton.db-")) continue;
    files_.push_back({path, entry->path().string(), static_cast<int64_t>(entry->file_size(code))});
  }
  if (code) return absl::UnavailableError(absl::StrCat("cannot list ", folder_));
  std::sort(files_.begin(), files_.end(), [](const BackupFile& a, const BackupFile& b) {
    return std::make_pair(a.path != kDatabase, a.path) <
           std::make_pair(b.path != kDatabase, b.path);
  });
  return absl::OkStatus();
}

void BackupSet::Compare(const std::string& checkpoint) {
  const auto damaged = [&](const std::string& file, absl::string_view what) {
    // The worker that wrote files.json chose the name; it may be of any length.
    damaged_.push_back(absl::StrCat(checkpoint, "/", CutText(file), " ", what));
  };
  v1::CheckpointManifest manifest;
  if (const absl::Status read =
          ReadJsonFile(fs::path(folder_) / checkpoint / "files.json", &manifest);
      !read.ok()) {
    return damaged("files.json", absl::IsNotFound(read)
                                     ? "is missing, so nothing tells whether the rest is whole"
                                     : "is no JSON list of the checkpoint's files");
  }
  for (const v1::FileHash& noted : manifest.files()) {
    const std::string path = absl::StrCat(checkpoint, "/", noted.path());
    const auto found = std::lower_bound(files_.begin(), files_.end(), path,
                                        [](const BackupFile& file, const std::string& wanted) {
                                          return file.path == kDatabase || file.path < wanted;
                                        });
    if (found == files_.end() || found->path != path) {
      damaged(noted.path(), "is missing");
    } else if (found->size_bytes != noted.size_bytes()) {
      damaged(noted.path(), absl::StrCat("has ", found->size_bytes,
                                         " bytes, and its files.json says ", noted.size_bytes()));
    } else {
      found->xxh3 = noted.xxh3();
    }
  }
}

// If the caller leaves, the backup is destroyed on a thread that serves other calls, so the removal
// must be fast.
BackupSet::~BackupSet() {
  MoveToTrash(fs::path(folder_).parent_path(), folder_).IgnoreError();  // else the next start does
}

void RemoveUnfinishedBackups(const std::string& data_root) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(data_root, code)) {
    if (!absl::StartsWith(entry.path().filename().string(), kBackupPrefix)) continue;
    MoveToTrash(data_root, entry.path()).IgnoreError();
  }
}

Backups::Backups(ControllerScope* scope) : scope_(scope) {
  LowerPoolPriority(1, [this](auto work) { boost::asio::post(thread_, std::move(work)); });
}

void Backups::Make(Callback<std::shared_ptr<BackupFiles>> done) {
  if (held_->exchange(true)) {
    return done(MakeError(absl::StatusCode::kFailedPrecondition, "BACKUP_RUNNING",
                          "another backup is being sent; try again when it has ended"));
  }
  scope_->gate.Post(thread_.get_executor(), [this, done = std::move(done)] {
    auto set = BackupSet::Make(scope_->options.data_root, *scope_->store);
    if (!set.ok()) {
      *held_ = false;
      return done(set.status());
    }
    const auto release = [held = held_](BackupFiles* files) {
      delete files;
      *held = false;
    };
    done(std::shared_ptr<BackupFiles>(set->release(), release));
  });
}

}  // namespace baton::controller
