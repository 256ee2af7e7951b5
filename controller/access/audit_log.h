// Who did what, and who was refused: one JSON object a line.
#ifndef BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_
#define BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_

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

/// Thread-safe. Appends to a file of at most 32 MiB; four older ones are kept beside it.
class AuditLog {
 public:
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);
  virtual ~AuditLog() = default;
  /// Written out before it returns.
  virtual void Write(const AuditEntry& entry) = 0;
};

}  // namespace baton::access

#endif  // BATON_CONTROLLER_ACCESS_AUDIT_LOG_H_
