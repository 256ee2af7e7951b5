// Channels to Baton's servers, with the keep-alive by which each side notices that the other is
// away.
#ifndef BATON_SDK_COMMON_RPC_CHANNEL_H_
#define BATON_SDK_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/server_builder.h"

namespace baton {

/// The time after which a silent peer counts as lost. A peer may be away without a word: its link
/// is down, its machine is off, its process is stopped. Calls to it then end with UNAVAILABLE after
/// `time` + `timeout` at most, streams on which nothing is due too.
struct KeepAlive {
  absl::Duration time = absl::Seconds(10);     ///< Without a byte from the peer; then it is pinged.
  absl::Duration timeout = absl::Seconds(10);  ///< For its answer to the ping.
};
/// The keep-alive of clients of Baton's servers. A server cuts off peers that ping more often than
/// every kLeastPingInterval.
inline constexpr KeepAlive kClientKeepAlive;
inline constexpr absl::Duration kLeastPingInterval = absl::Seconds(5);

struct ChannelOptions {
  int max_message_bytes = -1;   ///< In each direction; -1: no limit.
  bool own_connection = false;  ///< Not shared with other channels of this process.
  /// Until a peer has accepted a connection and said its first word. One that accepts and says
  /// nothing is stopped, or is no server of gRPC.
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration max_backoff = absl::Seconds(2);  ///< Between attempts to connect.
  KeepAlive keep_alive = kClientKeepAlive;        ///< Another one is for tests.
};

/// The key of initial metadata that a server sends at once when it has taken a call that streams to
/// the caller: a caller that resumes a stream then knows that it goes on, though no message is due.
inline constexpr char kStreamOpenKey[] = "baton-stream";

/// All channels of Baton's programs are made here.
std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const ChannelOptions& options = {});

/// The server's side: it pings silent clients, and allows the pings of kClientKeepAlive.
void KeepConnectionsAlive(grpc::ServerBuilder& builder);

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_CHANNEL_H_
