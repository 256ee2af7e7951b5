// The audit log of calls and refusals: one JSON object per line.
#ifndef BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_
#define BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton::access {

struct AuditEntry {
  absl::Time time;
  std::string caller;    ///< Caller::name.
  std::string peer;      ///< Address, as given by gRPC.
  std::string method;    ///< "JobService.CreateJob".
  std::string resource;  ///< A job, a token, a worker, a project; may be empty.
  absl::Status outcome;
};

struct AuditOptions {
  std::string path;  ///< Log of calls with a valid token.
  /// Log of calls without one. Every caller can produce those, so they have a separate file and
  /// cannot rotate entries out of the other.
  std::string refusals_path;
  size_t max_waiting = 8192;        ///< Entries; further ones are dropped, and the log counts them.
  double refusals_per_second = 10;  ///< Written refusals; the next written one counts the rest.
  double refusals_burst = 100;
};

/// Thread-safe. audit.log has at most 32 MiB, the log of refusals 8 MiB; four older files of each
/// are kept. Only their owner can read them. A thread of the log writes the entries in order.
class AuditLog {
 public:
  /// FAILED_PRECONDITION: a file cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(AuditOptions options);
  /// Writes the waiting entries.
  virtual ~AuditLog() = default;
  /// Does not wait for the disk.
  virtual void Write(AuditEntry entry) = 0;
  /// Records a call without a valid token. Limits the rate, by the times of the entries.
  virtual void WriteUnknown(AuditEntry entry) = 0;
  /// Call it after the files were moved away: later entries go to new files with the same names. If
  /// these cannot be opened, the old files stay in use, and a warning is logged.
  virtual void Reopen() = 0;
  /// Waits until all earlier entries are in the files.
  virtual void Flush() = 0;
};

}  // namespace baton::access

#endif  // BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_
