// Server of all gRPC services, on one address, or with a separate address for workers.
#ifndef BATON_CONTROLLER_API_API_SERVER_H_
#define BATON_CONTROLLER_API_API_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/api/access.h"
#include "controller/api/upload_places.h"
#include "controller/runtime/controller/controller_interface.h"
#include "sdk/common/rpc/connection_limits.h"
#include "sdk/common/rpc/connection_table.h"
#include "sdk/common/rpc/tls_files.h"

namespace baton::api {

struct ApiOptions {
  /// Workers attach and fetch batches only here. Empty: at the users' address.
  std::string worker_address;
  TlsFiles tls;                  ///< For both addresses.
  bool insecure = false;         ///< Tokens may travel in clear text beyond this machine.
  ConnectionLimits connections;  ///< For each address.
  UploadLimits uploads;
};

class ApiServer {
 public:
  /// Starts to serve `controller`, which outlives the server. Addresses are "host:port"; port 0
  /// takes a free one. FailedPrecondition: an address is taken; or it is not loopback and either
  /// `access` is open, or there is no TLS and not `insecure`. Errors of the TLS files: see
  /// MakeServerCredentials.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Start(
      const std::string& address, const Access& access, controller::ControllerInterface* controller,
      const ApiOptions& options = {});
  /// Ends all calls and waits for them.
  virtual ~ApiServer() = default;

  virtual int port() const = 0;
  /// The port of the workers' address; 0: there is no separate one.
  virtual int worker_port() const = 0;
  /// Counts of both addresses together.
  virtual ConnectionTable::Counts connections() const = 0;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_API_SERVER_H_
