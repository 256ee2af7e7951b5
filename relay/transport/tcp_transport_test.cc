#include "relay/transport/tcp_transport.h"

#include <cstdlib>

#include "absl/time/clock.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/write.hpp"
#include "relay/transport/transport_contract_test.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/test_folder.h"

namespace baton::relay {
namespace {

using boost::asio::ip::tcp;

class TcpBackend : public TransportBackend {
 public:
  explicit TcpBackend(bool tls = false) {
    if (!tls) return;
    Make("peer");
    files_ = {folder_.path("peer.pem"), folder_.path("peer.pem"), folder_.path("peer.key")};
  }
  /// A self-signed certificate, which is its own authority.
  void Make(const std::string& name) const {
    const std::string command =
        absl::StrCat("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=", name,
                     " -addext subjectAltName=IP:127.0.0.1 -keyout ", folder_.path(name + ".key"),
                     " -out ", folder_.path(name + ".pem"), " 2>/dev/null");
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::unique_ptr<Transport> NewTransport() override { return New({}); }
  std::unique_ptr<Transport> New(TcpOptions options) const {
    options.limits.message_bytes = kMostMessageBytes;
    options.tls = files_;
    return TcpTransport::Create(options).value();
  }
  std::string AnyAddress() const override { return "127.0.0.1:0"; }
  bool Until(const std::function<bool()>& condition) override {
    const absl::Time deadline = BootNow() + absl::Seconds(30);
    while (!condition()) {
      if (BootNow() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }
  const TestFolder folder_;
  TlsFiles files_;
};

INSTANTIATE_TEST_SUITE_P(
    Tcp, TransportContract,
    ::testing::Values(NamedBackend{"tcp", [] { return std::make_unique<TcpBackend>(); }},
                      NamedBackend{"tls", [] { return std::make_unique<TcpBackend>(true); }}),
    [](const auto& info) { return info.param.name; });

/// A peer that does as the test wants, on blocking sockets.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) : socket_(io_) {
    const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  }
  void Write(const std::string& bytes) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(bytes), error);
  }
  /// The peer has closed.
  bool ReadsToTheEnd() {
    boost::system::error_code error;
    char bytes[4096];
    while (!error) socket_.read_some(boost::asio::buffer(bytes), error);
    return error == boost::asio::error::eof || error == boost::asio::error::connection_reset;
  }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_;
};

class TcpTransportTest : public ::testing::Test {
 protected:
  void Listen(TcpOptions options) {
    transport_ = backend_.New(options);
    address_ =
        transport_->Listen("127.0.0.1:0", [this](auto connection) { connection->Start(handler_); })
            .value();
  }
  bool Hears(const std::string& what) {
    return backend_.Until([&] { return handler_->Heard(what); });
  }
  TcpBackend backend_;
  std::shared_ptr<RecordingHandler> handler_ = std::make_shared<RecordingHandler>();
  std::unique_ptr<Transport> transport_;
  std::string address_;
};

TEST_F(TcpTransportTest, ASilentPeerIsGone) {
  Listen({.silence = absl::Milliseconds(300)});
  RawPeer peer(address_);
  EXPECT_TRUE(Hears("closed DEADLINE_EXCEEDED"));
}

TEST_F(TcpTransportTest, IdleEndsTellEachOtherThatTheyAreThere) {
  Listen({.silence = absl::Milliseconds(300)});
  auto other = backend_.New({.silence = absl::Milliseconds(300)});
  auto heard = std::make_shared<RecordingHandler>();
  other->Connect(address_, [heard](auto connection) { (*connection)->Start(heard); });
  const absl::Time end = BootNow() + absl::Seconds(1);
  EXPECT_TRUE(backend_.Until([&] { return BootNow() > end; }));
  EXPECT_TRUE(heard->heard().empty());
  EXPECT_TRUE(handler_->heard().empty());
}

TEST_F(TcpTransportTest, RefusesAPeerThatIsNoRelay) {
  Listen({});
  RawPeer peer(address_);
  peer.Write("GET / HTTP/1.1\r\nHost: a-relay-is-no-web-server\r\n\r\n");
  EXPECT_TRUE(Hears("closed INVALID_ARGUMENT"));
  EXPECT_TRUE(peer.ReadsToTheEnd());
}

TEST_F(TcpTransportTest, HoldsAsManyConnectionsAsItIsTold) {
  Listen({.accepted = 2});
  auto first = std::make_unique<RawPeer>(address_), second = std::make_unique<RawPeer>(address_);
  EXPECT_TRUE(RawPeer(address_).ReadsToTheEnd());
  first = nullptr;
  ASSERT_TRUE(Hears("closed UNAVAILABLE"));
  RawPeer third(address_);
  third.Write(std::string(40, 'x'));
  EXPECT_TRUE(Hears("closed INVALID_ARGUMENT"));
}

TEST_F(TcpTransportTest, ListenSaysWhyItFails) {
  Listen({});
  EXPECT_TRUE(absl::IsUnavailable(transport_->Listen(address_, nullptr).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(transport_->Listen("7080", nullptr).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(transport_->Listen("host:99999", nullptr).status()));
}

TEST(TcpTlsTest, AnEndThatTheOtherDoesNotTrustIsRefused) {
  TcpBackend trusted(/*tls=*/true), stranger(/*tls=*/true);
  auto listening = trusted.NewTransport(), calling = stranger.NewTransport();
  auto handler = std::make_shared<RecordingHandler>();
  const auto address =
      listening->Listen("127.0.0.1:0", [&](auto connection) { connection->Start(handler); });
  absl::Mutex mu;
  absl::Status status;
  calling->Connect(*address, [&](auto connection) {
    absl::MutexLock lock(&mu);
    status = connection.status();
  });
  EXPECT_TRUE(trusted.Until([&] {
    absl::MutexLock lock(&mu);
    return absl::IsUnauthenticated(status);
  })) << status;
  EXPECT_TRUE(handler->heard().empty());
}

TEST(TcpTlsTest, NamesTheFileThatCannotBeUsed) {
  const auto transport = TcpTransport::Create({.tls = {"missing.pem", "a.pem", "a.key"}});
  EXPECT_TRUE(absl::IsInvalidArgument(transport.status()));
  EXPECT_THAT(std::string(transport.status().message()), ::testing::HasSubstr("missing.pem"));
}

}  // namespace
}  // namespace baton::relay
