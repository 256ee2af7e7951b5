#include "controller/runtime/job_files/checkpoint_copy.h"

#include <sys/stat.h>

#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/runtime/files/file_copy.h"
#include "controller/runtime/files/folder_lock.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "sdk/common/base/relative_path.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status Lost(const fs::path& checkpoint, absl::string_view file, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(checkpoint.string(), ": ", file, " ", what));
}

bool OnSameFileSystem(const fs::path& one, const fs::path& other) {
  struct stat first = {}, second = {};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev;
}

// The size of a part, which must be a regular file in the folder after links are resolved.
absl::StatusOr<uint64_t> SizeOfPart(const fs::path& checkpoint, const std::string& file) {
  std::error_code code;
  const fs::path path = checkpoint / file;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found) return Lost(checkpoint, file, "is missing");
  if (!fs::is_regular_file(status) || !IsBelow(path, checkpoint)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a regular file of ",
                                                   checkpoint.string(),
                                                   "; put the file itself there"));
  }
  const uint64_t size = fs::file_size(path, code);
  if (code) return Lost(checkpoint, file, absl::StrCat("cannot be read: ", code.message()));
  return size;
}

// `expected`: the hash; "": any.
absl::Status CopyPart(const fs::path& from, const std::string& file, const std::string& expected,
                      const fs::path& to, const std::function<bool()>& stop) {
  BATON_RETURN_IF_ERROR(MakeFolder((to / file).parent_path()));
  std::error_code code;
  // The target of a link, because a hard link to a link would follow it later.
  const fs::path real = fs::canonical(from / file, code);
  if (code) return Lost(from, file, "is missing");
  if (IsOwnFile(real)) {
    fs::create_hard_link(real, to / file, code);
    if (!code) return SyncFolder((to / file).parent_path());
  }
  BATON_ASSIGN_OR_RETURN(const std::string hash, CopyAndHash(real, to / file, stop));
  if (!expected.empty() && hash != expected) {
    return Lost(from, file,
                absl::StrCat("has XXH3 ", hash, ", and its files.json says ", expected,
                             ": it was damaged or changed"));
  }
  return SyncFolder((to / file).parent_path());
}

absl::Status CopyParts(const fs::path& from, const CheckpointParts& parts, const fs::path& to,
                       const std::function<bool()>& stop) {
  BATON_RETURN_IF_ERROR(MakeFolder(to));
  for (const v1::FileHash& file : parts.files) {
    BATON_ASSIGN_OR_RETURN(const uint64_t size, SizeOfPart(from, file.path()));
    if (size != static_cast<uint64_t>(file.size_bytes())) {
      return Lost(from, file.path(),
                  absl::StrCat("has ", size, " bytes, and its files.json says ", file.size_bytes(),
                               ": it was damaged or changed"));
    }
    BATON_RETURN_IF_ERROR(CopyPart(from, file.path(), file.xxh3(), to, stop));
  }
  for (const std::string& file : parts.others) {
    BATON_RETURN_IF_ERROR(SizeOfPart(from, file).status());
    BATON_RETURN_IF_ERROR(CopyPart(from, file, "", to, stop));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointParts> PartsOf(const fs::path& checkpoint, const v1::JobSpec& spec) {
  v1::CheckpointManifest manifest;
  BATON_RETURN_IF_ERROR(ReadJsonFile(checkpoint / "files.json", &manifest));
  if (manifest.removed_size() > 0) return WeightsOnlyError(checkpoint);
  CheckpointParts parts;
  std::set<std::string> named = {"files.json", "job.json"};
  for (v1::FileHash& file : *manifest.mutable_files()) {
    if (!StaysBelow(file.path()) || file.size_bytes() < 0) {
      return Lost(checkpoint, "files.json",
                  absl::StrCat("names '", file.path(), "', which is no file of a checkpoint"));
    }
    if (!named.insert(file.path()).second) continue;
    parts.bytes += static_cast<uint64_t>(file.size_bytes());
    parts.files.push_back(std::move(file));
  }
  parts.others = {"files.json", "job.json"};
  for (const std::string& upload : UploadedFiles(spec)) {
    const std::string file = absl::StrCat("data/", upload.substr(upload.find('/') + 1));
    std::error_code code;  // the spec may name an upload that was gone when the checkpoint was made
    if (StaysBelow(file) && fs::exists(checkpoint / file, code) && named.insert(file).second) {
      parts.others.push_back(file);
    }
  }
  for (const std::string& file : parts.others) {
    if (const auto size = SizeOfPart(checkpoint, file); size.ok()) parts.bytes += *size;
  }
  return parts;
}

uint64_t BytesToCopy(const fs::path& checkpoint, const CheckpointParts& parts,
                     const fs::path& beside) {
  const bool may_link = OnSameFileSystem(checkpoint, beside);
  uint64_t bytes = parts.bytes;
  const auto subtract = [&](const std::string& file, uint64_t size) {
    if (may_link && IsOwnFile(checkpoint / file)) bytes -= std::min(bytes, size);
  };
  for (const v1::FileHash& file : parts.files) {
    subtract(file.path(), static_cast<uint64_t>(file.size_bytes()));
  }
  for (const std::string& file : parts.others) {
    if (const auto size = SizeOfPart(checkpoint, file); size.ok()) subtract(file, *size);
  }
  return bytes;
}

absl::Status CopyCheckpoint(const fs::path& from, const CheckpointParts& parts, const fs::path& to,
                            const std::function<bool()>& stop) {
  const FolderLock lock = FolderLock::ForReading(from);  // its optimizer's files stay meanwhile
  absl::Status copied = CopyParts(from, parts, to, stop);
  // A deleted checkpoint loses its name first, so a folder that still has its name was complete
  // then.
  std::error_code code;
  if (!fs::is_directory(from, code)) {
    copied = absl::NotFoundError(absl::StrCat(from.string(), " was removed meanwhile"));
  } else if (absl::IsNotFound(copied)) {
    copied = absl::DataLossError(copied.message());
  }
  // They may have been removed since `parts` was read.
  if (absl::IsDataLoss(copied)) {
    if (const absl::Status whole = CheckHasOptimizer(from); !whole.ok()) copied = whole;
  }
  if (!copied.ok()) fs::remove_all(to, code);
  return copied;
}

}  // namespace baton::controller
