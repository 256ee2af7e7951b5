// The service grpc.health.v1.Health, which says whether this server answers.
#ifndef BATON_SDK_COMMON_RPC_HEALTH_SERVICE_H_
#define BATON_SDK_COMMON_RPC_HEALTH_SERVICE_H_

#include <functional>

#include "absl/status/status.h"
#include "grpcpp/impl/service_type.h"

namespace baton {

inline constexpr char kHealthCheckMethod[] = "/grpc.health.v1.Health/Check";
/// The key of initial metadata by which an answer of Check says why the server cannot work now.
inline constexpr char kNotReadyKey[] = "baton-not-ready-bin";

/// Check says SERVING; Watch says it once and stays open. Both speak for the server as a whole,
/// whatever service the request names: everybody may ask, so the request is not read (gRPC's own
/// service keeps one of any length). SERVING says that the process lives: a supervisor that probes
/// it restarts it otherwise. A process that lives but cannot work for now says so under
/// kNotReadyKey.
class HealthService : public grpc::Service {
 public:
  /// `ready` is called on gRPC's threads and must not block; OK, or why the server cannot work.
  explicit HealthService(std::function<absl::Status()> ready = absl::OkStatus);
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_HEALTH_SERVICE_H_
