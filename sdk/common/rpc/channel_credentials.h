// TLS for channels and servers, from files.
#ifndef BATON_SDK_COMMON_RPC_CHANNEL_CREDENTIALS_H_
#define BATON_SDK_COMMON_RPC_CHANNEL_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "sdk/common/rpc/tls_files.h"

namespace baton {

/// The longest time until a replaced file counts.
inline constexpr absl::Duration kTlsRefresh = absl::Seconds(10);

/// Without TLS when no file is given. Files that are replaced count for connections that are made
/// afterwards, without a restart. NotFound names a file that cannot be read; InvalidArgument:
/// a certificate without its key.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& files);
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files, absl::Duration refresh = kTlsRefresh);

/// Whether a token may be shown at `address`. FAILED_PRECONDITION: it would leave this machine in
/// clear text, and `insecure` does not allow that.
[[nodiscard]] absl::Status MayShowToken(const std::string& token, const std::string& address,
                                        const TlsFiles& tls, bool insecure);

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_CHANNEL_CREDENTIALS_H_
