// A sender of versions that does as a test wants.
#ifndef BATON_TESTS_SUPPORT_RELAY_CHAIN_SENDER_H_
#define BATON_TESTS_SUPPORT_RELAY_CHAIN_SENDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "relay/segment/checksum.h"
#include "relay/transport/tcp_transport.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/relay/chain_host.h"

namespace baton::relay {

/// A sender that does as the test wants.
class Sender {
 public:
  explicit Sender(const std::string& address) {
    transport_->Connect(address, [ear = ear_](auto connection) {
      absl::MutexLock lock(&ear->mu);
      ear->connection = *connection;
      ear->connection->Start(ear);
    });
    EXPECT_TRUE(Holds([&] { return ear_->connection != nullptr; }));
  }
  ~Sender() {
    absl::MutexLock lock(&ear_->mu);
    ear_->connection = nullptr;
  }

  void Send(const Announce& announce) {
    ChainMessage message;
    *message.mutable_announce() = announce;
    transport_->Post([connection = connection(), text = message.SerializeAsString()] {
      connection->Send(text);
    });
  }
  void Put(const std::string& version, uint64_t offset, uint64_t bytes, uint64_t lie = 0) {
    const uint64_t region = Last(&ChainMessage::has_resume).resume().region();
    const auto chunk = AsBytes(version).subspan(offset, bytes);
    transport_->Post([connection = connection(), region, offset, chunk, lie] {
      connection->Put(region, offset, chunk, Xxh3(chunk) + lie, [] {});
    });
  }
  bool Hears(bool (ChainMessage::*kind)() const) {
    return Holds([&] { return Find(kind) != nullptr; });
  }
  ChainMessage Last(bool (ChainMessage::*kind)() const) {
    EXPECT_TRUE(Hears(kind));
    absl::MutexLock lock(&ear_->mu);
    const ChainMessage* found = Find(kind);
    return found == nullptr ? ChainMessage() : *found;
  }
  absl::Status Refusal() { return FromProto(Last(&ChainMessage::has_refused).refused().status()); }
  bool IsAcknowledged(uint64_t bytes) {
    return Holds([&] {
      const ChainMessage* found = Find(&ChainMessage::has_received);
      return found != nullptr && found->received().offset() == bytes;
    });
  }
  bool IsClosed() {
    return Holds([&] { return ear_->closed; });
  }

 private:
  struct Ear : ConnectionHandler {
    void OnMessage(std::string bytes) override {
      absl::MutexLock lock(&mu);
      heard.emplace_back();
      EXPECT_TRUE(heard.back().ParseFromString(bytes));
    }
    void OnPut(const PutArrival&) override {}
    void OnClosed(const absl::Status&) override {
      absl::MutexLock lock(&mu);
      closed = true;
    }
    absl::Mutex mu;
    std::shared_ptr<Connection> connection;
    std::vector<ChainMessage> heard;
    bool closed = false;
  };

  bool Holds(const std::function<bool()>& condition) {
    return Until([&] {
      absl::MutexLock lock(&ear_->mu);
      return condition();
    });
  }
  /// The last one of a kind.
  const ChainMessage* Find(bool (ChainMessage::*kind)() const) const {
    for (auto it = ear_->heard.rbegin(); it != ear_->heard.rend(); ++it) {
      if (((*it).*kind)()) return &*it;
    }
    return nullptr;
  }
  std::shared_ptr<Connection> connection() const {
    absl::MutexLock lock(&ear_->mu);
    return ear_->connection;
  }

  const std::shared_ptr<Ear> ear_ = std::make_shared<Ear>();
  const std::unique_ptr<Transport> transport_ = TcpTransport::Create({}).value();
};

}  // namespace baton::relay

#endif  // BATON_TESTS_SUPPORT_RELAY_CHAIN_SENDER_H_
