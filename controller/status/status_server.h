// The HTTP server: status for people, probes and Prometheus. It only reads.
#ifndef BATON_CONTROLLER_STATUS_STATUS_SERVER_H_
#define BATON_CONTROLLER_STATUS_STATUS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/access/token_table.h"
#include "controller/runtime/controller/controller_interface.h"
#include "controller/status/http_session.h"

namespace baton::status {

struct StatusOptions {
  /// Callers need a token with the scope `read` (Bearer, or as the password of Basic); the probes
  /// need none. With an open table, every caller may read, and the address must be loopback.
  std::shared_ptr<const access::TokenTable> tokens = std::make_shared<access::TokenTable>();
  HttpLimits limits;
  /// Samples for /metrics beside those of the controller, taken on the
  /// server's thread. Null: none.
  MoreGauges gauges;
  /// Tokens may travel in clear text beyond this machine.
  bool insecure = false;
};

/// Serves on its own thread until it is destroyed.
class StatusServer {
 public:
  /// `address` is "host:port" with a numeric host or "localhost"; port 0 takes a free one.
  /// `controller` outlives the server. InvalidArgument: not an address. FailedPrecondition: the
  /// address is taken; or it is not loopback and there are no tokens, or not `insecure`.
  static absl::StatusOr<std::unique_ptr<StatusServer>> Start(
      const std::string& address, controller::ControllerInterface* controller,
      StatusOptions options = {});
  /// Closes all connections.
  virtual ~StatusServer() = default;

  virtual int port() const = 0;
};

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_STATUS_SERVER_H_
