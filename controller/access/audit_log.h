// Who did what, and who was refused: one JSON object a line.
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
  std::string peer;      ///< Address, as gRPC tells it.
  std::string method;    ///< "JobService.CreateJob".
  std::string resource;  ///< A job, a token, a worker, a project; may be empty.
  absl::Status outcome;
};

struct AuditOptions {
  std::string path;  ///< Log of calls with a valid token.
  /// Log of calls without one. Every caller can make those, so they have a file of their own: they
  /// cannot rotate entries out of the other.
  std::string refusals_path;
  size_t max_waiting = 8192;        ///< Entries; more are dropped, and counted in the log.
  double refusals_per_second = 10;  ///< Of the refusals; more are counted in the next one.
  double refusals_burst = 100;
};

/// Thread-safe. Each file has at most 32 MiB, of the refusals 8; four older ones are kept beside
/// it, for their owner alone. Entries are written on a thread of the log's own, in order.
class AuditLog {
 public:
  /// FAILED_PRECONDITION: a file cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(AuditOptions options);
  /// Writes out what waits.
  virtual ~AuditLog() = default;
  /// Does not wait for the disk.
  virtual void Write(AuditEntry entry) = 0;
  /// The same for a caller without a valid token. Limits the rate, by the entries' own times.
  virtual void WriteUnknown(AuditEntry entry) = 0;
  /// The files were moved away: what is written from now on goes to new ones of their names. When
  /// they cannot be opened, the old ones stay, and a warning is logged.
  virtual void Reopen() = 0;
  /// Waits until what was written before is in the files.
  virtual void Flush() = 0;
};

}  // namespace baton::access

#endif  // BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_
