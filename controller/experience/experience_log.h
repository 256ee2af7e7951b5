// Log of trajectories' payloads: append-only and checksummed, one per job.
//
// A record is the serialised baton.v1.Trajectory. It is written before the row that names it, so no
// row names a record that a crash of the controller has torn off. A power cut may leave rows whose
// records are gone, in whole or in part, unless Sync came between: reading them is an error.
#ifndef BATON_CONTROLLER_EXPERIENCE_EXPERIENCE_LOG_H_
#define BATON_CONTROLLER_EXPERIENCE_EXPERIENCE_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::experience {

/// The place of a record.
struct Location {
  uint32_t file = 0;    ///< Number of the log file.
  uint64_t offset = 0;  ///< Byte offset of the record's frame.
  uint32_t size = 0;    ///< Bytes of the payload.
};

/// The name of a log file in the log's folder.
std::string LogFileName(uint32_t number);

/// The log of one job. Thread-safe. May block on the disk: never call on a strand.
class ExperienceLog {
 public:
  /// Opens the log in `directory`, which exists. Existing files stay as they are: the first Append
  /// begins a new file, so a place is never given to two records.
  static absl::StatusOr<std::unique_ptr<ExperienceLog>> Open(const std::string& directory);
  virtual ~ExperienceLog() = default;

  /// ResourceExhausted when the disk is full; nothing is changed then.
  virtual absl::StatusOr<Location> Append(absl::string_view payload) = 0;
  /// DataLoss: the record's checksum is wrong. OutOfRange: the record is not there. Internal: the
  /// disk cannot read it (EIO). Unavailable: the process lacks a file descriptor, memory or the
  /// permission to read it; nothing is lost then.
  virtual absl::StatusOr<std::string> Read(const Location& location) = 0;
  /// Makes everything appended so far survive a power cut.
  virtual absl::Status Sync() = 0;
  /// Deletes the files numbered below `end` for which `needed` returns false. The newest file
  /// stays, because numbers only grow. If a file cannot be deleted, the others still are; the first
  /// error is returned.
  virtual absl::Status DropFiles(uint32_t end, absl::FunctionRef<bool(uint32_t)> needed) = 0;
};

}  // namespace baton::experience

#endif  // BATON_CONTROLLER_EXPERIENCE_EXPERIENCE_LOG_H_
