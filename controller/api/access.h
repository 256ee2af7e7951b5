// The only access check of every method: it identifies the caller and checks the caller's
// permission in the project.
#ifndef BATON_CONTROLLER_API_ACCESS_H_
#define BATON_CONTROLLER_API_ACCESS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/access/audit_log.h"
#include "controller/access/token_table.h"
#include "controller/api/open_streams.h"
#include "grpcpp/server_context.h"
#include "sdk/common/rpc/connection_table.h"

namespace baton::api {

/// The action of a call.
struct Asked {
  const char* method;  ///< "JobService.CreateJob".
  access::Scope scope = access::Scope::kRead;
  /// A job's name, full or short; or "projects/P" for a call about a project; empty: neither.
  std::string resource;
  bool about_jobs = true;  ///< False: a resource of another kind, e.g. "tokens/ID", of no project.
};

/// A call that may go on. Handlers use `resource` and `project`, never the request's strings,
/// because only these two are checked, and paths are built from them.
struct Granted {
  access::Caller caller;
  std::string method;
  std::string peer;
  std::string resource;  ///< A short job name is completed with the caller's project.
  /// The project of the resource; without one, the caller's own ("*": all). A valid id.
  std::string project;
  bool changes = false;  ///< The call may change something, so the audit log records its outcome.
};

/// Copies share the tables and the log. Thread-safe.
class Access {
 public:
  /// Allows every call to every caller: only for a server that listens on loopback.
  Access() : Access(std::make_shared<access::TokenTable>()) {}
  /// `audit` may be null.
  explicit Access(std::shared_ptr<access::TokenTable> tokens,
                  std::shared_ptr<access::AuditLog> audit = nullptr)
      : tokens_(std::move(tokens)),
        audit_(std::move(audit)),
        streams_(std::make_shared<OpenStreams>(tokens_)) {}

  /// The same, for a server with these tables: each check tells them which caller a connection
  /// belongs to.
  Access WithConnectionTables(std::vector<std::shared_ptr<ConnectionTable>> tables) const;

  /// UNAUTHENTICATED (TOKEN, TOKEN_EXPIRED) unless the call carries `authorization: Bearer TOKEN`;
  /// PERMISSION_DENIED (SCOPE, PROJECT); INVALID_ARGUMENT (NAME_INVALID) for a project or job that
  /// is not a valid id; RESOURCE_EXHAUSTED (CONNECTIONS). The audit log records refusals.
  absl::StatusOr<Granted> Check(const grpc::ServerContextBase& context, const Asked& asked) const;
  /// The check before the request is read: UNAUTHENTICATED, RESOURCE_EXHAUSTED (CONNECTIONS), or OK
  /// for every token with any scope.
  /// The log of refusals records refusals.
  [[nodiscard]] absl::Status CheckCaller(const grpc::ServerContextBase& context,
                                         const std::string& method) const;
  /// True if the caller shows a token with any scope; for gRPC's own services.
  bool KnowsCaller(const grpc::ServerContextBase& context) const;
  /// Reports the outcome of a call; the audit log records it if the call may have changed
  /// something.
  void Ended(const Granted& granted, const absl::Status& outcome) const;

  /// CheckCaller, for GuardedService.
  auto Guard() const {
    return [access = *this](const grpc::ServerContextBase& context, const std::string& method) {
      return access.CheckCaller(context, method);
    };
  }

  bool open() const { return tokens_->open(); }
  access::TokenTable& tokens() const { return *tokens_; }
  /// Calls that stay open register here, so that they end with their caller's token.
  OpenStreams& streams() const { return *streams_; }

 private:
  absl::Status Know(const grpc::ServerContextBase& context, const access::Caller& caller) const;

  std::shared_ptr<access::TokenTable> tokens_;
  std::shared_ptr<access::AuditLog> audit_;
  std::shared_ptr<OpenStreams> streams_;
  std::vector<std::shared_ptr<ConnectionTable>> tables_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_ACCESS_H_
