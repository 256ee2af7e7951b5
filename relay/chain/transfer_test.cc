// Both ends of a transfer, alone and joined by a link that a seed breaks.
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/chain/inbound_transfer.h"
#include "relay/chain/outbound_transfer.h"

namespace baton::relay {
namespace {

using Arrival = InboundTransfer::Arrival;

TEST(InboundTransferTest, VerifiedBytesAreTheFirstOnes) {
  InboundTransfer transfer(100);
  const uint64_t connection = transfer.Attach();
  EXPECT_EQ(*transfer.Arrive(connection, {0, 40}, 1, 1), Arrival::kVerified);
  EXPECT_EQ(transfer.verified(), 40u);
  EXPECT_EQ(transfer.Arrive(connection, {60, 40}, 1, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(transfer.Arrive(connection, {30, 40}, 1, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(transfer.verified(), 40u);
  EXPECT_EQ(*transfer.Arrive(connection, {40, 60}, 1, 1), Arrival::kVerified);
  EXPECT_TRUE(transfer.complete());
}

TEST(InboundTransferTest, AWrongChecksumVerifiesNothing) {
  InboundTransfer transfer(100);
  const uint64_t connection = transfer.Attach();
  EXPECT_EQ(transfer.Arrive(connection, {0, 40}, 1, 2).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(transfer.verified(), 0u);
}

TEST(InboundTransferTest, AChunkBehindTheEndIsAnError) {
  InboundTransfer transfer(100);
  const uint64_t connection = transfer.Attach();
  for (const Chunk chunk : {Chunk{0, 101}, Chunk{101, 1}, Chunk{~uint64_t{0}, 2}, Chunk{0, 0}}) {
    EXPECT_EQ(transfer.Arrive(connection, chunk, 1, 1).status().code(),
              absl::StatusCode::kOutOfRange);
  }
  EXPECT_EQ(transfer.verified(), 0u);
}

TEST(InboundTransferTest, DuplicatesAndOldConnectionsChangeNothing) {
  InboundTransfer transfer(100);
  const uint64_t old = transfer.Attach();
  EXPECT_TRUE(transfer.IsNew(old, {0, 40}));
  EXPECT_EQ(*transfer.Arrive(old, {0, 40}, 1, 1), Arrival::kVerified);
  EXPECT_FALSE(transfer.IsNew(old, {0, 40}));
  EXPECT_EQ(*transfer.Arrive(old, {0, 40}, 1, 1), Arrival::kDuplicate);
  const uint64_t now = transfer.Attach();
  EXPECT_FALSE(transfer.IsNew(old, {40, 10}));
  EXPECT_EQ(*transfer.Arrive(old, {40, 10}, 1, 1), Arrival::kStale);
  EXPECT_EQ(transfer.verified(), 40u);
  EXPECT_EQ(*transfer.Arrive(now, {40, 10}, 1, 1), Arrival::kVerified);
}

TEST(OutboundTransferTest, SendsWhatIsHereUpToTheWindow) {
  OutboundTransfer transfer(100, 30, 60);
  EXPECT_FALSE(transfer.Next().has_value());  // nobody has said where to begin
  ASSERT_TRUE(transfer.Resume(0).ok());
  EXPECT_FALSE(transfer.Next().has_value());
  transfer.Extend(29);
  EXPECT_FALSE(transfer.Next().has_value());  // no whole chunk
  transfer.Extend(95);
  EXPECT_EQ(transfer.Next()->end(), 30u);
  EXPECT_EQ(transfer.Next()->end(), 60u);
  EXPECT_FALSE(transfer.Next().has_value());  // the window
  ASSERT_TRUE(transfer.Acknowledge(30).ok());
  EXPECT_EQ(transfer.Next()->end(), 90u);
  ASSERT_TRUE(transfer.Acknowledge(90).ok());
  EXPECT_FALSE(transfer.Next().has_value());  // the last bytes are not here
  transfer.Extend(100);
  EXPECT_EQ(transfer.Next()->size_bytes, 10u);
  ASSERT_TRUE(transfer.Acknowledge(100).ok());
  EXPECT_TRUE(transfer.complete());
}

TEST(OutboundTransferTest, GoesOnWhereTheReceiverSays) {
  OutboundTransfer transfer(100, 30, 1000);
  transfer.Extend(100);
  ASSERT_TRUE(transfer.Resume(45).ok());
  EXPECT_EQ(transfer.Next()->offset, 45u);
  transfer.Pause();
  EXPECT_FALSE(transfer.Next().has_value());
  ASSERT_TRUE(transfer.Resume(50).ok());
  EXPECT_EQ(transfer.Next()->offset, 50u);
  EXPECT_EQ(transfer.Resume(101).code(), absl::StatusCode::kOutOfRange);
}

TEST(OutboundTransferTest, RefusesAnAcknowledgementOfWhatWasNotSent) {
  OutboundTransfer transfer(100, 30, 1000);
  transfer.Extend(100);
  ASSERT_TRUE(transfer.Resume(0).ok());
  transfer.Next();
  EXPECT_EQ(transfer.Acknowledge(31).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(transfer.Acknowledge(30).ok());
  EXPECT_TRUE(transfer.Acknowledge(10).ok());  // late
  EXPECT_EQ(transfer.acknowledged(), 30u);
}

TEST(OutboundTransferTest, AWindowSmallerThanAChunkDoesNotStop) {
  OutboundTransfer transfer(100, 60, 10);
  transfer.Extend(100);
  ASSERT_TRUE(transfer.Resume(0).ok());
  EXPECT_TRUE(transfer.Next().has_value());
  EXPECT_FALSE(transfer.Next().has_value());
}

/// A version on its way through a relay in the middle: first -> middle -> last. Links lose, double
/// and break; bytes on them may be damaged.
class ChainModel {
 public:
  explicit ChainModel(uint64_t seed) : random_(seed) {
    size_ = 1 + random_() % 5000;
    for (uint64_t i = 0; i < size_; ++i) version_ += static_cast<char>(random_());
    for (int i = 0; i < 2; ++i) links_.emplace_back(size_, 1 + random_() % 700, random_() % 3000);
    memory_.assign(2, std::string(size_, '?'));
    links_[0].out.Extend(size_);
    for (Link& link : links_) Connect(link);
  }

  /// One thing happens. False: a rule is broken.
  void Step(bool calm) {
    Link& link = links_[random_() % 2];
    const size_t index = static_cast<size_t>(&link - links_.data());
    const uint64_t chance = random_() % 100;
    if (!calm && chance < 3) return Connect(link);
    if (index == 1) link.out.Extend(links_[0].in.verified());
    if (chance < 50) {
      if (const auto chunk = link.out.Next()) Send(index, *chunk, calm);
    } else if (chance < 80) {
      Receive(index);
    } else if (!link.acknowledged.empty()) {
      const uint64_t bytes = link.acknowledged.front();
      link.acknowledged.pop_front();
      ASSERT_TRUE(link.out.Acknowledge(bytes).ok());
    }
    // A loss leaves nothing in flight that anyone knows of: the sender's deadline ends the
    // connection.
    const bool stuck = link.chunks.empty() && link.acknowledged.empty() && link.out.in_flight() > 0;
    if (stuck) Connect(link);
  }

  void CheckRules() const {
    for (size_t i = 0; i < 2; ++i) {
      const uint64_t verified = links_[i].in.verified();
      ASSERT_EQ(memory_[i].compare(0, verified, version_, 0, verified), 0) << "corrupt at " << i;
      ASSERT_LE(links_[i].out.acknowledged(), verified) << "acknowledged before it was verified";
    }
    ASSERT_LE(links_[1].in.verified(), links_[0].in.verified()) << "forwarded before it was here";
  }
  bool complete() const { return links_[1].out.complete() && links_[0].out.complete(); }

 private:
  struct Flying {
    uint64_t connection;
    Chunk chunk;
    std::string bytes;
  };
  struct Link {
    Link(uint64_t size, uint64_t chunk, uint64_t window) : out(size, chunk, window), in(size) {}
    OutboundTransfer out;
    InboundTransfer in;
    uint64_t connection = 0;
    std::deque<Flying> chunks;
    std::deque<uint64_t> acknowledged;
  };

  static uint64_t Sum(const std::string& bytes) { return std::hash<std::string>()(bytes); }

  void Connect(Link& link) {
    link.out.Pause();
    // What an old connection still carries arrives or not; its answers do not.
    if (random_() % 2 == 0) link.chunks.clear();
    link.acknowledged.clear();
    link.connection = link.in.Attach();
    ASSERT_TRUE(link.out.Resume(link.in.verified()).ok());
  }

  void Send(size_t index, const Chunk& chunk, bool calm) {
    const std::string& from = index == 0 ? version_ : memory_[0];
    Flying flying{links_[index].connection, chunk, from.substr(chunk.offset, chunk.size_bytes)};
    const uint64_t chance = calm ? 99 : random_() % 100;
    if (chance < 3) return;
    links_[index].chunks.push_back(flying);
    if (chance < 6) links_[index].chunks.push_back(flying);
  }

  void Receive(size_t index) {
    Link& link = links_[index];
    if (link.chunks.empty()) return;
    Flying flying = link.chunks.front();
    link.chunks.pop_front();
    const uint64_t sent = Sum(flying.bytes);
    if (random_() % 50 == 0) flying.bytes[0] ^= 1;
    // As a transport does: what is verified is not written, nor by an old connection.
    if (link.in.IsNew(flying.connection, flying.chunk) &&
        flying.chunk.offset >= link.in.verified()) {
      memory_[index].replace(flying.chunk.offset, flying.bytes.size(), flying.bytes);
    }
    const auto arrival = link.in.Arrive(flying.connection, flying.chunk, sent, Sum(flying.bytes));
    if (!arrival.ok()) return Connect(link);
    if (*arrival != Arrival::kStale) link.acknowledged.push_back(link.in.verified());
  }

  std::mt19937_64 random_;
  uint64_t size_ = 0;
  std::string version_;
  std::vector<Link> links_;
  std::vector<std::string> memory_;  ///< Of the middle and the last relay.
};

TEST(ChainModelTest, EverySeedEndsWithTheVersionWhole) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    ChainModel model(seed);
    for (int step = 0; step < 3000 && !model.complete(); ++step) {
      model.Step(/*calm=*/false);
      model.CheckRules();
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
    for (int step = 0; step < 200'000 && !model.complete(); ++step) model.Step(/*calm=*/true);
    model.CheckRules();
    ASSERT_TRUE(model.complete()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace baton::relay
