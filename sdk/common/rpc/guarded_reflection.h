// Reflection for callers who may call the other services.
#ifndef BATON_SDK_COMMON_RPC_GUARDED_REFLECTION_H_
#define BATON_SDK_COMMON_RPC_GUARDED_REFLECTION_H_

#include <functional>

#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"

namespace baton {

/// The server lists and describes its services, to callers that `may` lets; a call of others is
/// cancelled. gRPC implements this service itself and knows no tokens. `may` is called on gRPC's
/// threads.
void ServeReflection(grpc::ServerBuilder& builder,
                     std::function<bool(const grpc::ServerContextBase&)> may);

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_GUARDED_REFLECTION_H_
