// A backup in one file: a tar archive (pax), compressed with zstd, that `tar --zstd` reads too.
//
// Its last entry, MANIFEST, has a line "XXH3-128 SIZE PATH" for every other one, so an archive that
// was cut off or damaged is never taken for a whole one.
#ifndef BATON_SDK_CLI_CLUSTER_BACKUP_ARCHIVE_H_
#define BATON_SDK_CLI_CLUSTER_BACKUP_ARCHIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::cli {

/// Writes beside `path` and takes its place in Close. Not thread-safe. Errors name the file:
/// FAILED_PRECONDITION where it cannot be written, RESOURCE_EXHAUSTED when the disk is full.
class BackupWriter {
 public:
  /// ALREADY_EXISTS: the file is there.
  static absl::StatusOr<std::unique_ptr<BackupWriter>> Create(const std::string& path);
  /// Without Close nothing is left.
  virtual ~BackupWriter() = default;

  /// The next file; its bytes follow.
  virtual absl::Status Begin(const std::string& path, int64_t size_bytes) = 0;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  /// INVALID_ARGUMENT: there is no whole file. Survives a power cut.
  virtual absl::Status Close() = 0;
};

struct RestoredBackup {
  int64_t files = 0;
  int64_t bytes = 0;
};

/// Unpacks into `folder`, which is empty or not there; `on_file` hears each path. The folder then
/// holds all of the backup, or nothing. NOT_FOUND: there is no archive. FAILED_PRECONDITION: the
/// folder is not empty or cannot be written, the archive is a folder. RESOURCE_EXHAUSTED: the disk
/// is full. DATA_LOSS: the archive is damaged, not whole, or another kind of file.
absl::StatusOr<RestoredBackup> RestoreBackup(
    const std::string& archive, const std::string& folder,
    const std::function<void(const std::string& path)>& on_file);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_CLUSTER_BACKUP_ARCHIVE_H_
