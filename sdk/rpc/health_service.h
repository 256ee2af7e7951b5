// grpc.health.v1.Health: whether this server answers.
#ifndef BATON_SDK_RPC_HEALTH_SERVICE_H_
#define BATON_SDK_RPC_HEALTH_SERVICE_H_

#include "grpcpp/impl/service_type.h"

namespace baton {

/// Check says SERVING; Watch says it once and stays open. Both speak for the server as a whole,
/// whatever service the request names: everybody may ask, so the request is not read (gRPC's own
/// service keeps one of any length).
class HealthService : public grpc::Service {
 public:
  HealthService();
};

}  // namespace baton

#endif  // BATON_SDK_RPC_HEALTH_SERVICE_H_
