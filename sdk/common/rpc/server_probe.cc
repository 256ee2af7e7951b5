#include "sdk/common/rpc/server_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/health_service.h"

namespace baton {
namespace {

using What = ServerSeen::What;

// 0, or the error of a TCP connection to this address.
int TryToConnect(const addrinfo& address, absl::Duration limit) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = ::connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waits = {fd, POLLOUT, 0};
    socklen_t size = sizeof(error);
    const int ready = ::poll(&waits, 1, static_cast<int>(absl::ToInt64Milliseconds(limit)));
    if (ready <= 0) {
      error = ETIMEDOUT;
    } else {
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  ::close(fd);
  return error;
}

// Whether something listens at an address where gRPC got no answer. (gRPC tells that in its text
// alone.)
ServerSeen LookAtPort(absl::string_view address, absl::Duration limit) {
  if (absl::StartsWith(address, "unix:")) return {What::kSilent, ""};
  for (absl::string_view scheme : {"ipv4:", "ipv6:", "dns:///", "dns:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {What::kAway, "the address is not HOST:PORT"};
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = ::getaddrinfo(std::string(host).c_str(),
                                    std::string(address.substr(colon + 1)).c_str(), &hints, &found);
  if (unknown != 0) return {What::kAway, ::gai_strerror(unknown)};
  int error = ETIMEDOUT;
  for (const addrinfo* one = found; one != nullptr && error != 0; one = one->ai_next) {
    error = TryToConnect(*one, limit);
  }
  ::freeaddrinfo(found);
  if (error == 0) return {What::kSilent, ""};
  if (error == ECONNREFUSED) return {What::kNothingListens, ""};
  return {What::kAway, std::strerror(error)};
}

}  // namespace

ServerSeen LookAtServer(const std::string& address,
                        const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                        absl::Duration limit) {
  ChannelOptions options;
  options.own_connection = true;  // not one on which an earlier attempt waits
  const auto channel = MakeChannel(address, credentials, options);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  absl::Notification answered;
  grpc::GenericStub(channel).UnaryCall(&context, kHealthCheckMethod, {}, &request, &answer,
                                       [&](grpc::Status given) {
                                         status = std::move(given);
                                         answered.Notify();
                                       });
  answered.WaitForNotification();  // the call has a deadline
  if (status.ok()) {
    const auto& metadata = context.GetServerInitialMetadata();
    const auto why = metadata.find(kNotReadyKey);
    if (why == metadata.end()) return {What::kReady, ""};
    return {What::kNotReady, std::string(why->second.data(), why->second.size())};
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return LookAtPort(address, limit);
  }
  const absl::Status other = FromGrpc(status);
  return {What::kOther, other.ToString(absl::StatusToStringMode::kWithNoExtraData)};
}

}  // namespace baton
