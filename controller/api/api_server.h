// All gRPC services on one address.
#ifndef BATON_CONTROLLER_API_API_SERVER_H_
#define BATON_CONTROLLER_API_API_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/api/access.h"
#include "controller/runtime/controller_interface.h"

namespace baton::api {

class ApiServer {
 public:
  /// Starts to serve `controller`, which outlives the server. `address` is "host:port"; port 0
  /// takes a free one. FailedPrecondition: the address is taken, or it is not loopback and
  /// `access` is open.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Start(
      const std::string& address, const Access& access,
      controller::ControllerInterface* controller);
  /// Ends all calls; waits for them.
  virtual ~ApiServer() = default;

  virtual int port() const = 0;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_API_SERVER_H_
