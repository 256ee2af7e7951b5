// TLS for channels and servers, from files.
#ifndef BATON_SDK_RPC_CHANNEL_CREDENTIALS_H_
#define BATON_SDK_RPC_CHANNEL_CREDENTIALS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "sdk/base/tls_files.h"

namespace baton {

/// Without TLS when no file is given. NotFound names a file that cannot be read; InvalidArgument:
/// a certificate without its key.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& files);
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files);

}  // namespace baton

#endif  // BATON_SDK_RPC_CHANNEL_CREDENTIALS_H_
