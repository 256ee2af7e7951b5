#include "sdk/common/rpc/channel.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/health_service.h"

namespace baton {
namespace {

/// Carries one connection to a port until it is frozen: then both sides hear nothing, and no end.
class FreezingLink {
 public:
  explicit FreezingLink(int to_port) : listener_(Socket()) {
    sockaddr_in own = Loopback(0);
    socklen_t size = sizeof(own);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&own), size);
    ::listen(listener_, 1);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
    thread_ = std::thread([this, to_port] { Carry(to_port); });
  }
  ~FreezingLink() {
    stopped_ = true;
    thread_.join();
    for (int fd : {listener_, near_, far_}) ::close(fd);
  }
  void Freeze() { frozen_ = true; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  static int Socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }
  static bool Readable(int fd) {
    pollfd one = {fd, POLLIN, 0};
    return ::poll(&one, 1, 5) > 0;
  }
  static void Copy(int from, int to) {
    char bytes[4096];
    if (!Readable(from)) return;
    const ssize_t n = ::recv(from, bytes, sizeof(bytes), 0);
    if (n > 0) ::send(to, bytes, static_cast<size_t>(n), MSG_NOSIGNAL);
  }
  void Carry(int to_port) {
    while (!stopped_ && !Readable(listener_)) continue;
    if (stopped_) return;
    near_ = ::accept(listener_, nullptr, nullptr);
    far_ = Socket();
    const sockaddr_in far = Loopback(to_port);
    ::connect(far_, reinterpret_cast<const sockaddr*>(&far), sizeof(far));
    while (!stopped_) {
      if (frozen_) {
        absl::SleepFor(absl::Milliseconds(5));
        continue;
      }
      Copy(near_, far_);
      Copy(far_, near_);
    }
  }

  const int listener_;
  int near_ = -1, far_ = -1;  // of the thread, until it is joined
  int port_ = 0;
  std::atomic<bool> stopped_{false}, frozen_{false};
  std::thread thread_;
};

// The service says one word at once, and then nothing more.
TEST(ChannelTest, EndsAnIdleStreamWhenThePeerFallsSilent) {
  HealthService health;
  int port = 0;
  grpc::EnableDefaultHealthCheckService(false);  // another test may have left it on
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&health);
  KeepConnectionsAlive(builder);
  const auto server = builder.BuildAndStart();
  FreezingLink link(port);
  ChannelOptions options;
  options.own_connection = true;
  options.keep_alive = {absl::Seconds(1), absl::Seconds(1)};
  const auto channel = MakeChannel(link.address(), grpc::InsecureChannelCredentials(), options);

  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const absl::Time begin = absl::Now();
  context.set_deadline(absl::ToChronoTime(begin + absl::Seconds(30)));
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer word;
  call->Read(&word, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  link.Freeze();
  call->Read(&word, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_FALSE(ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
}

}  // namespace
}  // namespace baton
