#include "sdk/common/rpc/channel.h"

#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace baton {
namespace {

// A server waits longer than its clients: of two that cannot hear each other the client acts first.
constexpr KeepAlive kServerKeepAlive = {absl::Seconds(20), absl::Seconds(10)};

int InMilliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, options.own_connection ? 1 : 0);
  // gRPC takes the least back-off for the least time of an attempt to connect, too.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, InMilliseconds(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, InMilliseconds(options.max_backoff));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, InMilliseconds(options.keep_alive.time));
  // This sets the socket's TCP_USER_TIMEOUT, too: bytes that stay unacknowledged for so long end
  // the connection.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, InMilliseconds(options.keep_alive.timeout));
  // By default gRPC stops after two pings without data: a watch sends none.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

void KeepConnectionsAlive(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, InMilliseconds(kServerKeepAlive.time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             InMilliseconds(kServerKeepAlive.timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             InMilliseconds(kLeastPingInterval));
}

}  // namespace baton
