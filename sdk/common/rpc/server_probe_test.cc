#include "sdk/common/rpc/server_probe.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/health_service.h"

namespace baton {
namespace {

using What = ServerSeen::What;

class ServerProbeTest : public ::testing::Test {
 protected:
  /// A server with this service alone.
  std::string Serve(grpc::Service* service) {
    int port = 0;
    grpc::EnableDefaultHealthCheckService(false);  // another test may have left it on
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    return absl::StrCat("127.0.0.1:", port);
  }
  static ServerSeen Look(const std::string& address) {
    return LookAtServer(address, grpc::InsecureChannelCredentials(), absl::Milliseconds(500));
  }

  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ServerProbeTest, ReportsAReadyServer) {
  HealthService health;
  EXPECT_EQ(Look(Serve(&health)).what, What::kReady);
}

TEST_F(ServerProbeTest, ReportsAServerThatIsNotReady) {
  HealthService health([] { return absl::UnavailableError("the disk is full: 0 bytes … left"); });
  const ServerSeen seen = Look(Serve(&health));
  EXPECT_EQ(seen.what, What::kNotReady);
  EXPECT_EQ(seen.detail, "the disk is full: 0 bytes … left");
}

TEST_F(ServerProbeTest, ReportsAForeignServer) {
  grpc::Service nothing;
  EXPECT_EQ(Look(Serve(&nothing)).what, What::kOther);
}

// As a stopped process is: the kernel accepts, and nobody says a word.
TEST_F(ServerProbeTest, ReportsAServerThatDoesNotAnswer) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(fd, 16), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string place = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Look(place).what, What::kSilent);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  ::close(fd);
  EXPECT_EQ(Look(place).what, What::kNothingListens);
}

TEST_F(ServerProbeTest, ReportsAnUnreachableHost) {
  EXPECT_EQ(Look("host.invalid:7077").what, What::kAway);
  EXPECT_EQ(Look("nonsense").what, What::kAway);
}

}  // namespace
}  // namespace baton
