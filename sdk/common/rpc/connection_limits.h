// The limits of a server's connections.
#ifndef BATON_SDK_COMMON_RPC_CONNECTION_LIMITS_H_
#define BATON_SDK_COMMON_RPC_CONNECTION_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "grpcpp/server_builder.h"

namespace baton {

/// A stream that its connection's age ends is resumed by its peer on another connection: a worker
/// attaches again within its lease, a watch goes on after its last revision.
struct ConnectionLimits {
  int connections = 4096;                        ///< For one address at once (ConnectionTable).
  size_t quota_bytes = size_t{2} << 30;          ///< Of gRPC's buffers; beyond it, calls are ended.
  int streams = 1000;                            ///< Calls at once of one connection; others wait.
  absl::Duration handshake = absl::Seconds(10);  ///< Until TLS and HTTP/2 are agreed on.
  absl::Duration idle = absl::Minutes(10);       ///< Without a call.
  absl::Duration age = absl::Hours(24);  ///< Age at which a connection takes no new call …
  absl::Duration age_grace = absl::Minutes(10);  ///< … and its calls end.
};

/// Also bounds the bytes that are taken of a call whose request is not read yet, at 4 MiB, whatever
/// the connection's speed.
void LimitConnections(grpc::ServerBuilder& builder, const ConnectionLimits& limits);

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_CONNECTION_LIMITS_H_
