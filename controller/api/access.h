// Who may call. One check, used by every method.
#ifndef BATON_CONTROLLER_API_ACCESS_H_
#define BATON_CONTROLLER_API_ACCESS_H_

#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"

namespace baton::api {

/// Bearer tokens. Immutable, thread-safe.
class Access {
 public:
  /// Everybody may call: only for a server that listens on loopback.
  Access() = default;
  explicit Access(std::set<std::string> tokens) : tokens_(std::move(tokens)) {}
  /// One token a line; empty lines and those that begin with '#' are skipped. A file without a
  /// token is an error.
  static absl::StatusOr<Access> FromFile(const std::string& path);

  /// UNAUTHENTICATED (TOKEN) unless the call carries `authorization: Bearer TOKEN`.
  absl::Status Check(const grpc::ServerContextBase& context) const;
  bool open() const { return tokens_.empty(); }
  const std::set<std::string>& tokens() const { return tokens_; }

 private:
  std::set<std::string> tokens_;
};

/// True for "127.x.y.z:port", "[::1]:port", "localhost:port" and "unix:path".
bool IsLoopback(absl::string_view address);

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_ACCESS_H_
