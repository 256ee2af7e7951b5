// What every Transport does. A test of a transport includes this and instantiates TransportContract
// with its backend.
#ifndef BATON_RELAY_TRANSPORT_TRANSPORT_CONTRACT_TEST_H_
#define BATON_RELAY_TRANSPORT_TRANSPORT_CONTRACT_TEST_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/transport/transport.h"

namespace baton::relay {

/// Two transports that reach each other.
class TransportBackend {
 public:
  virtual ~TransportBackend() = default;
  /// Messages of at most kMostMessageBytes.
  virtual std::unique_ptr<Transport> NewTransport() = 0;
  virtual std::string AnyAddress() const = 0;
  /// Until the condition holds; false: it does not, after a long time.
  virtual bool Until(const std::function<bool()>& condition) = 0;
};

inline constexpr uint64_t kMostMessageBytes = 100'000;

/// Writes down what it hears. Thread-safe.
class RecordingHandler : public ConnectionHandler {
 public:
  void OnMessage(std::string message) override { Add("message " + message.substr(0, 20)); }
  void OnPut(const PutArrival& put) override {
    Add(absl::StrCat("put ", put.region, " ", put.offset, " ", put.size_bytes, " ", put.xxh3));
  }
  void OnClosed(const absl::Status& status) override {
    Add(absl::StrCat("closed ", absl::StatusCodeToString(status.code())));
  }
  std::vector<std::string> heard() const {
    absl::MutexLock lock(&mu_);
    return heard_;
  }
  bool Heard(const std::string& what) const {
    absl::MutexLock lock(&mu_);
    return std::find(heard_.begin(), heard_.end(), what) != heard_.end();
  }

 private:
  void Add(std::string what) {
    absl::MutexLock lock(&mu_);
    heard_.push_back(std::move(what));
  }
  mutable absl::Mutex mu_;
  std::vector<std::string> heard_ ABSL_GUARDED_BY(mu_);
};

struct NamedBackend {
  std::string name;
  std::function<std::unique_ptr<TransportBackend>()> make;
};

class TransportContract : public ::testing::TestWithParam<NamedBackend> {
 protected:
  struct End {
    std::unique_ptr<Transport> transport;
    std::shared_ptr<Connection> connection;
    std::shared_ptr<RecordingHandler> handler = std::make_shared<RecordingHandler>();
  };

  void SetUp() override {
    backend_ = GetParam().make();
    sender_.transport = backend_->NewTransport();
    receiver_.transport = backend_->NewTransport();
  }
  void TearDown() override {
    sender_.connection = receiver_.connection = nullptr;
    sender_.transport = nullptr;
    receiver_.transport = nullptr;
  }

  /// On the transport's thread; after it ran.
  void On(End& end, const std::function<void()>& call) {
    auto done = std::make_shared<Flag>();
    end.transport->Post([call, done] {
      call();
      done->Set();
    });
    ASSERT_TRUE(backend_->Until([done] { return done->IsSet(); }));
  }

  void Join() {
    auto joined = std::make_shared<Flag>(), met = std::make_shared<Flag>();
    const auto address = receiver_.transport->Listen(
        backend_->AnyAddress(), [this, met](std::shared_ptr<Connection> connection) {
          receiver_.connection = connection;
          connection->Start(receiver_.handler);
          met->Set();
        });
    ASSERT_TRUE(address.ok()) << address.status();
    sender_.transport->Connect(*address, [this, joined](auto connection) {
      if (connection.ok()) {
        sender_.connection = *connection;
        sender_.connection->Start(sender_.handler);
      }
      joined->Set();
    });
    ASSERT_TRUE(backend_->Until([&] { return joined->IsSet() && met->IsSet(); }));
    ASSERT_NE(sender_.connection, nullptr);
  }

  absl::StatusCode ConnectCode(const std::string& address) {
    auto ended = std::make_shared<Flag>();
    auto code = std::make_shared<absl::StatusCode>();
    sender_.transport->Connect(address, [ended, code](auto connection) {
      *code = connection.status().code();
      ended->Set();
    });
    EXPECT_TRUE(backend_->Until([ended] { return ended->IsSet(); }));
    return *code;
  }

  void OfferMemory(uint64_t region, uint64_t bytes) {
    On(receiver_,
       [&] { receiver_.connection->Offer(region, absl::MakeSpan(memory_).subspan(100, bytes)); });
  }
  void Put(
      uint64_t region, uint64_t offset, absl::Span<const uint8_t> bytes,
      std::function<void()> done = [] {}) {
    On(sender_, [&] { sender_.connection->Put(region, offset, bytes, /*xxh3=*/7, done); });
  }
  void Send(End& from, const std::string& text) {
    On(from, [&] { from.connection->Send(text); });
  }
  bool Hears(const End& end, const std::string& what) {
    return backend_->Until([&] { return end.handler->Heard(what); });
  }
  /// What lies outside of [100, 100 + bytes) is as it was.
  void ExpectUntouchedBut(uint64_t bytes) {
    EXPECT_TRUE(std::all_of(memory_.begin(), memory_.begin() + 100, [](int b) { return b == 1; }));
    EXPECT_TRUE(std::all_of(memory_.begin() + 100 + static_cast<int64_t>(bytes), memory_.end(),
                            [](int b) { return b == 1; }));
  }

  class Flag {
   public:
    void Set() {
      absl::MutexLock lock(&mu_);
      ++times_;
    }
    bool IsSet() const { return times() > 0; }
    int times() const {
      absl::MutexLock lock(&mu_);
      return times_;
    }

   private:
    mutable absl::Mutex mu_;
    int times_ ABSL_GUARDED_BY(mu_) = 0;
  };

  std::vector<uint8_t> memory_ = std::vector<uint8_t>(3'000'000, 1);
  const std::vector<uint8_t> bytes_ = std::vector<uint8_t>(2'000'000, 9);
  std::unique_ptr<TransportBackend> backend_;
  End sender_, receiver_;
};

TEST_P(TransportContract, MessagesAndPutsArriveInTheirOrder) {
  Join();
  OfferMemory(3, 2'000'000);
  Send(sender_, "first");
  auto done = std::make_shared<Flag>();
  Put(3, 0, absl::MakeSpan(bytes_).first(1'500'000), [done] { done->Set(); });
  Put(3, 1'500'000, absl::MakeSpan(bytes_).first(500'000), [done] { done->Set(); });
  Send(sender_, "last");
  ASSERT_TRUE(Hears(receiver_, "message last"));
  EXPECT_THAT(receiver_.handler->heard(),
              ::testing::ElementsAre("message first", "put 3 0 1500000 7", "put 3 1500000 500000 7",
                                     "message last"));
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), memory_.begin() + 100));
  ExpectUntouchedBut(2'000'000);
  EXPECT_TRUE(backend_->Until([&] { return done->times() == 2; }));
}

TEST_P(TransportContract, BothEndsSpeakAtOnce) {
  Join();
  for (int i = 0; i < 20; ++i) {
    Send(sender_, absl::StrCat("down ", i));
    Send(receiver_, absl::StrCat("up ", i));
  }
  EXPECT_TRUE(Hears(receiver_, "message down 19"));
  EXPECT_TRUE(Hears(sender_, "message up 19"));
  Send(sender_, "");
  EXPECT_TRUE(Hears(receiver_, "message "));
}

TEST_P(TransportContract, APutOutsideOfItsRegionEndsTheConnection) {
  Join();
  OfferMemory(1, 1000);
  Put(1, 900, absl::MakeSpan(bytes_).first(101));
  EXPECT_TRUE(Hears(receiver_, "closed OUT_OF_RANGE"));
  EXPECT_TRUE(Hears(sender_, "closed UNAVAILABLE"));
  ExpectUntouchedBut(0);
}

TEST_P(TransportContract, AnOffsetThatOverflowsIsOutside) {
  Join();
  OfferMemory(1, 1000);
  Put(1, ~uint64_t{0} - 10, absl::MakeSpan(bytes_).first(100));
  EXPECT_TRUE(Hears(receiver_, "closed OUT_OF_RANGE"));
  ExpectUntouchedBut(0);
}

TEST_P(TransportContract, APutIntoWhatWasNotOfferedEndsTheConnection) {
  Join();
  OfferMemory(1, 1000);
  Put(2, 0, absl::MakeSpan(bytes_).first(10));
  EXPECT_TRUE(Hears(receiver_, "closed OUT_OF_RANGE"));
}

TEST_P(TransportContract, ProtectedBytesStayAsTheyAre) {
  Join();
  OfferMemory(1, 1000);
  On(receiver_, [&] { receiver_.connection->Protect(1, 500); });
  Put(1, 400, absl::MakeSpan(bytes_).first(100));
  ASSERT_TRUE(Hears(receiver_, "put 1 400 100 7"));
  ExpectUntouchedBut(0);
  Put(1, 450, absl::MakeSpan(bytes_).first(100));
  EXPECT_TRUE(Hears(receiver_, "closed FAILED_PRECONDITION"));
  ExpectUntouchedBut(0);
}

TEST_P(TransportContract, WithdrawnMemoryIsNotWritten) {
  Join();
  OfferMemory(1, 2'000'000);
  On(receiver_, [&] { receiver_.connection->Withdraw(1); });
  Put(1, 0, bytes_);
  Send(sender_, "after");
  ASSERT_TRUE(Hears(receiver_, "message after"));
  EXPECT_THAT(receiver_.handler->heard(), ::testing::ElementsAre("message after"));
  ExpectUntouchedBut(0);
}

TEST_P(TransportContract, WhatWasSentBeforeCloseArrives) {
  Join();
  On(sender_, [&] {
    sender_.connection->Send("farewell");
    sender_.connection->Close(absl::AbortedError("enough"));
    sender_.connection->Send("too late");
  });
  EXPECT_TRUE(Hears(sender_, "closed ABORTED"));
  ASSERT_TRUE(Hears(receiver_, "closed UNAVAILABLE"));
  EXPECT_THAT(receiver_.handler->heard(),
              ::testing::ElementsAre("message farewell", "closed UNAVAILABLE"));
}

TEST_P(TransportContract, DoneIsCalledOnceAlsoAfterTheEnd) {
  Join();
  auto done = std::make_shared<Flag>();
  On(sender_, [&] {  // the peer does not take them: nothing was offered
    for (int i = 0; i < 10; ++i) {
      sender_.connection->Put(1, 0, bytes_, 7, [done] { done->Set(); });
    }
  });
  ASSERT_TRUE(Hears(sender_, "closed UNAVAILABLE"));
  Put(1, 0, bytes_, [done] { done->Set(); });
  EXPECT_TRUE(backend_->Until([&] { return done->times() == 11; }));
}

TEST_P(TransportContract, ATooLongMessageEndsTheConnection) {
  Join();
  Send(sender_, std::string(kMostMessageBytes, 'x'));
  EXPECT_TRUE(Hears(receiver_, "message " + std::string(20, 'x')));
  Send(sender_, std::string(kMostMessageBytes + 1, 'x'));
  EXPECT_TRUE(Hears(sender_, "closed INVALID_ARGUMENT"));
}

TEST_P(TransportContract, ATransportThatGoesClosesItsConnections) {
  Join();
  sender_.connection = nullptr;
  sender_.transport = nullptr;
  EXPECT_TRUE(Hears(sender_, "closed CANCELLED"));
  EXPECT_TRUE(Hears(receiver_, "closed UNAVAILABLE"));
}

TEST_P(TransportContract, ConnectSaysWhyItFails) {
  EXPECT_EQ(ConnectCode("nonsense"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ConnectCode("127.0.0.1:1"), absl::StatusCode::kUnavailable);
}

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_TRANSPORT_CONTRACT_TEST_H_
