// Payloads of trajectories, in an append-only, checksummed log per job.
//
// A record is the serialised baton.v1.Trajectory. It is written before the row that names it, so
// what the death of the controller tears off is known to no row. A power cut may leave rows whose
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

/// Where a record stands.
struct Location {
  uint32_t file = 0;    ///< Number of the log file.
  uint64_t offset = 0;  ///< Byte offset of the record's frame.
  uint32_t size = 0;    ///< Bytes of the payload.
};

/// The name of a log file in the log's folder.
std::string LogFileName(uint32_t number);

/// One job's log. Thread-safe. May block on the disk: never call on a strand.
class ExperienceLog {
 public:
  /// Opens the log in `directory`, which exists. What is there stays as it is: the first Append
  /// begins a new file, so a place that was given once is never another record's.
  static absl::StatusOr<std::unique_ptr<ExperienceLog>> Open(const std::string& directory);
  virtual ~ExperienceLog() = default;

  /// ResourceExhausted when the disk is full; nothing is changed then.
  virtual absl::StatusOr<Location> Append(absl::string_view payload) = 0;
  /// DataLoss when the record's checksum is wrong, OutOfRange when it is not there, Internal when
  /// the disk cannot read it (EIO). Unavailable when the process lacks a file descriptor, memory or
  /// the permission to read it: nothing is lost then.
  virtual absl::StatusOr<std::string> Read(const Location& location) = 0;
  /// Makes everything appended so far survive a power cut.
  virtual absl::Status Sync() = 0;
  /// Deletes the files numbered below `end` of which `needed` says false. The newest stays: numbers
  /// only grow. A file that cannot be deleted costs no other; the first error is returned.
  virtual absl::Status DropFiles(uint32_t end, absl::FunctionRef<bool(uint32_t)> needed) = 0;
};

}  // namespace baton::experience

#endif  // BATON_CONTROLLER_EXPERIENCE_EXPERIENCE_LOG_H_
