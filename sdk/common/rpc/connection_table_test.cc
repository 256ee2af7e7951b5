#include "sdk/common/rpc/connection_table.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

/// Both ends of a connection over loopback. The peer's address is of our choice, in 127.0.0.0/8.
class Pair {
 public:
  explicit Pair(const std::string& from = "127.0.0.1") {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = At("127.0.0.1");
    socklen_t size = sizeof(address);
    ::bind(listener, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener, 1);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    client_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in own = At(from);
    ::bind(client_, reinterpret_cast<sockaddr*>(&own), sizeof(own));
    ::connect(client_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::getsockname(client_, reinterpret_cast<sockaddr*>(&own), &size);
    peer_ = absl::StrCat("ipv4:", from, ":", ntohs(own.sin_port));
    server_ = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  ~Pair() {
    ::close(client_);
    CloseServer();
  }
  /// As gRPC does when a connection ends.
  void CloseServer() {
    if (server_ >= 0) ::close(std::exchange(server_, -1));
  }
  int fd() const { return server_; }
  const std::string& peer() const { return peer_; }
  /// The server's side has been shut down.
  bool ended() const {
    pollfd one = {client_, POLLIN, 0};
    char byte = 0;
    return ::poll(&one, 1, 0) > 0 && ::recv(client_, &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  static sockaddr_in At(const std::string& host) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    return address;
  }
  int client_ = -1, server_ = -1;
  std::string peer_;
};

class ConnectionTableTest : public ::testing::Test {
 protected:
  ConnectionTableTest() { SilenceLog(); }
  Pair& Enter(const std::string& from = "127.0.0.1") {
    pairs_.push_back(std::make_unique<Pair>(from));
    EXPECT_TRUE(table_.Enter(pairs_.back()->fd()));
    return *pairs_.back();
  }

  // 16 connections: 8 strangers of an address, 4 known of a project, 14 known together.
  ConnectionTable table_{16};
  std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST_F(ConnectionTableTest, ClosesTheOldestUnknownConnectionOfAnAddress) {
  const Pair& first = Enter();
  const Pair& other = Enter("127.0.0.2");
  std::vector<const Pair*> later;
  for (int i = 0; i < 7; ++i) later.push_back(&Enter());
  EXPECT_FALSE(first.ended());
  later.push_back(&Enter());
  EXPECT_TRUE(first.ended());
  EXPECT_FALSE(other.ended());
  for (const Pair* stays : later) EXPECT_FALSE(stays->ended());
}

TEST_F(ConnectionTableTest, KnownConnectionsAreNeverClosedForStrangers) {
  const Pair& known = Enter();
  ASSERT_TRUE(table_.Know(known.peer(), "a", false).ok());
  for (int i = 0; i < 200; ++i) Enter(absl::StrCat("127.0.1.", i % 100 + 1));
  EXPECT_FALSE(known.ended());
  const ConnectionTable::Counts counts = table_.counts();
  EXPECT_EQ(counts.open, 16);
  EXPECT_EQ(counts.strangers_closed, 201u - 16u);
  EXPECT_EQ(counts.refused, 0u);
}

TEST_F(ConnectionTableTest, ClosesAnUnknownConnectionOfTheBusiestAddress) {
  Pair& crowd = Enter("127.0.0.9");
  Enter("127.0.0.9");
  std::vector<const Pair*> single;
  for (int i = 0; i < 14; ++i) single.push_back(&Enter(absl::StrCat("127.0.2.", i + 1)));
  Enter("127.0.0.3");
  EXPECT_TRUE(crowd.ended());
  for (const Pair* one : single) EXPECT_FALSE(one->ended());
}

TEST_F(ConnectionTableTest, AProjectHasAShareAndTheLastOnesAreReserved) {
  for (const char* project : {"a", "b", "c"}) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(table_.Know(Enter().peer(), project, false).ok());
    const absl::Status more = table_.Know(Enter().peer(), project, true);
    EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ErrorReason(more), "CONNECTIONS");
  }
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(table_.Know(Enter().peer(), "d", false).ok());
  EXPECT_FALSE(table_.Know(Enter().peer(), "d", false).ok());  // 14 are known
  EXPECT_TRUE(table_.Know(Enter().peer(), "d", true).ok());    // a worker
  const Pair& admin = Enter();
  EXPECT_TRUE(table_.Know(admin.peer(), "*", true).ok());
  EXPECT_TRUE(table_.Know(admin.peer(), "*", true).ok());  // its next call
}

TEST_F(ConnectionTableTest, ForgetsConnectionsThatGrpcClosed) {
  std::vector<Pair*> old;
  for (int i = 0; i < 4; ++i) {
    old.push_back(&Enter());
    ASSERT_TRUE(table_.Know(old.back()->peer(), "a", false).ok());
  }
  const Pair& late = Enter();
  EXPECT_FALSE(table_.Know(late.peer(), "a", false).ok());
  old[1]->CloseServer();
  // The table looks at its connections ten times a second at most.
  absl::Status known;
  for (int i = 0; i < 1000 && !(known = table_.Know(late.peer(), "a", false)).ok(); ++i) {
    ::poll(nullptr, 0, 5);
  }
  EXPECT_TRUE(known.ok()) << known;
}

// The number of a descriptor that gRPC has closed is soon another file's, which must not suffer.
TEST_F(ConnectionTableTest, ADescriptorOfTheSameNumberIsNotTheSameConnection) {
  Pair& gone = Enter();
  const int number = gone.fd();
  Pair other;
  gone.CloseServer();
  ASSERT_EQ(::dup2(other.fd(), number), number);
  for (int i = 0; i < 9; ++i) Enter();  // the oldest stranger would be the one of that number
  EXPECT_FALSE(other.ended());
  ::close(number);
}

TEST_F(ConnectionTableTest, AcceptsPeersThatItDoesNotKnow) {
  EXPECT_TRUE(table_.Know("unix:/run/baton", "a", false).ok());
}

}  // namespace
}  // namespace baton
