// One check, used by every method: who calls, may they do that, to this project?
#ifndef BATON_CONTROLLER_API_ACCESS_H_
#define BATON_CONTROLLER_API_ACCESS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/access/audit_log.h"
#include "controller/access/token_book.h"
#include "controller/api/open_streams.h"
#include "grpcpp/server_context.h"

namespace baton::api {

/// What a call is about to do.
struct Asked {
  const char* method;  ///< "JobService.CreateJob".
  access::Scope scope = access::Scope::kRead;
  /// A job's name, full or short; or "projects/P" for what concerns a project; empty: neither.
  std::string resource;
  bool about_jobs = true;  ///< False: a resource of another kind, e.g. "tokens/ID", of no project.
};

/// A call that may go on. Handlers act on `resource` and `project`, never on the request's strings:
/// these two are checked, and paths are made of them.
struct Granted {
  access::Caller caller;
  std::string method;
  std::string peer;
  std::string resource;  ///< A short job name is completed with the caller's project.
  std::string project;   ///< Of the resource; without one, the caller's own ("*": all). An id.
  bool changes = false;  ///< It may change something: its outcome is told to the audit log.
};

/// Copies share the book and the log. Thread-safe.
class Access {
 public:
  /// Everybody may call everything: only for a server that listens on loopback.
  Access() : Access(std::make_shared<access::TokenBook>()) {}
  /// `audit` may be null.
  explicit Access(std::shared_ptr<access::TokenBook> tokens,
                  std::shared_ptr<access::AuditLog> audit = nullptr)
      : tokens_(std::move(tokens)),
        audit_(std::move(audit)),
        streams_(std::make_shared<OpenStreams>(tokens_)) {}

  /// UNAUTHENTICATED (TOKEN, TOKEN_EXPIRED) unless the call carries `authorization: Bearer TOKEN`;
  /// PERMISSION_DENIED (SCOPE, PROJECT); INVALID_ARGUMENT (NAME_INVALID) for a project or job that
  /// is no id. Refusals are told to the audit log.
  absl::StatusOr<Granted> Check(const grpc::ServerContextBase& context, const Asked& asked) const;
  /// The same before the request is read: UNAUTHENTICATED, or OK for every token that opens
  /// anything. Told to the log of refusals.
  [[nodiscard]] absl::Status CheckCaller(const grpc::ServerContextBase& context,
                                         const std::string& method) const;
  /// Whether the caller shows a token that opens anything; for gRPC's own services.
  bool KnowsCaller(const grpc::ServerContextBase& context) const;
  /// The outcome of a call: told to the audit log when it may have changed something.
  void Ended(const Granted& granted, const absl::Status& outcome) const;

  /// CheckCaller, for GuardedService.
  auto Guard() const {
    return [access = *this](const grpc::ServerContextBase& context, const std::string& method) {
      return access.CheckCaller(context, method);
    };
  }

  bool open() const { return tokens_->open(); }
  access::TokenBook& tokens() const { return *tokens_; }
  /// Where calls that stay open are told, so that they end with their caller's token.
  OpenStreams& streams() const { return *streams_; }

 private:
  std::shared_ptr<access::TokenBook> tokens_;
  std::shared_ptr<access::AuditLog> audit_;
  std::shared_ptr<OpenStreams> streams_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_ACCESS_H_
