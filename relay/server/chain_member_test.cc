// Real relays that send versions to each other, over TCP on the loopback interface; and over
// connections that a seed breaks.
#include "relay/server/chain_member.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/log.h"
#include "tests/support/relay/chain_host.h"
#include "tests/support/relay/chain_sender.h"
#include "tests/support/relay/memory_network.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;

class ChainMemberTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { SilenceLog(); }
  const std::string version_ = MakeVersion(1, 500'000);  // 2 MB
};

TEST_F(ChainMemberTest, AVersionPassesDownTheChain) {
  auto a = MakeHost(), b = MakeHost(), c = MakeHost();
  ASSERT_TRUE(c->Follow(1, "").ok());
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  ASSERT_TRUE(a->Follow(1, b->address()).ok());
  a->Publish(7, version_);
  EXPECT_TRUE(Until([&] { return c->Has(7) && b->Has(7); }));
  EXPECT_TRUE(b->Read(7) == version_);
  EXPECT_TRUE(c->Read(7) == version_);
  const std::string next = MakeVersion(2, 500'000);
  a->Publish(8, next);
  EXPECT_TRUE(Until([&] { return c->Has(8); }));
  EXPECT_TRUE(c->Read(8) == next);
  EXPECT_EQ(a->Report().put_bytes, version_.size() + next.size());
  EXPECT_EQ(c->ReceivedBytes(), version_.size() + next.size());
}

TEST_F(ChainMemberTest, AnOrderSendsWhatIsThereAlready) {
  auto a = MakeHost(), b = MakeHost();
  a->Publish(1, version_);
  a->Publish(2, MakeVersion(2, 1000));
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  EXPECT_TRUE(Until([&] { return b->Has(1) && b->Has(2); }));
}

TEST_F(ChainMemberTest, AVersionIsForwardedBeforeItIsWholeAndVisibleOnlyThen) {
  auto b = MakeHost(), c = MakeHost();
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  Sender sender(b->address());
  sender.Send(AnnounceOf(7, version_, b->capability()));
  const uint64_t half = 16 * (64 << 10);
  sender.Put(version_, 0, half);
  EXPECT_TRUE(sender.IsAcknowledged(half));
  EXPECT_TRUE(Until([&] { return c->ReceivedBytes() == half; }));
  EXPECT_FALSE(b->Has(7));
  EXPECT_FALSE(c->Has(7));
  sender.Put(version_, half, version_.size() - half);
  EXPECT_TRUE(sender.Hears(&ChainMessage::has_sealed));
  EXPECT_TRUE(b->Has(7));
  EXPECT_TRUE(Until([&] { return c->Has(7); }));
  EXPECT_TRUE(c->Read(7) == version_);
}

TEST_F(ChainMemberTest, AWrongChecksumEndsTheConnectionAndWhatWasVerifiedStays) {
  auto b = MakeHost();
  Sender sender(b->address());
  sender.Send(AnnounceOf(7, version_, b->capability()));
  sender.Put(version_, 0, 100'000);
  ASSERT_TRUE(sender.IsAcknowledged(100'000));
  sender.Put(version_, 100'000, 100'000, /*lie=*/1);
  EXPECT_TRUE(sender.IsClosed());
  EXPECT_EQ(b->ReceivedBytes(), 100'000u);
  Sender again(b->address());
  again.Send(AnnounceOf(7, version_, b->capability()));
  EXPECT_EQ(again.Last(&ChainMessage::has_resume).resume().offset(), 100'000u);
  again.Put(version_, 100'000, version_.size() - 100'000);
  EXPECT_TRUE(again.Hears(&ChainMessage::has_sealed));
  EXPECT_TRUE(b->Read(7) == version_);
}

TEST_F(ChainMemberTest, BytesThatAreNotThoseOfTheTensorsAreNeverVisible) {
  auto b = MakeHost();
  Sender sender(b->address());
  sender.Send(AnnounceOf(7, version_, b->capability()));
  std::string other = version_;
  other.back() ^= 1;
  sender.Put(other, 0, other.size());  // its chunk's checksum is right
  EXPECT_EQ(ErrorReason(sender.Refusal()), "CHECKSUM");
  EXPECT_FALSE(b->Has(7));
}

TEST_F(ChainMemberTest, ARelayThatHasTheVersionSaysSoAtOnce) {
  auto a = MakeHost(), b = MakeHost();
  b->Publish(7, version_);
  a->Publish(7, version_);
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(8, MakeVersion(2, 1000));
  EXPECT_TRUE(Until([&] { return b->Has(8); }));
  EXPECT_EQ(a->Report().put_bytes, MakeVersion(2, 1000).size());
}

// The middle relay is killed when half of the version has passed through it.
TEST_F(ChainMemberTest, ABridgedChainGoesOnWhereItStopped) {
  auto a = MakeHost(), b = MakeHost(), c = MakeHost();
  a->Publish(7, version_);
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  Sender sender(b->address());
  sender.Send(AnnounceOf(7, version_, b->capability()));
  const uint64_t half = 16 * (64 << 10);
  sender.Put(version_, 0, half);
  ASSERT_TRUE(Until([&] { return c->ReceivedBytes() == half; }));
  b->Kill();
  ASSERT_TRUE(a->Follow(2, c->address()).ok());
  EXPECT_TRUE(Until([&] { return c->Has(7); }));
  EXPECT_TRUE(c->Read(7) == version_);
  EXPECT_EQ(a->Report().put_bytes, version_.size() - half);
  EXPECT_EQ(c->ReceivedBytes(), version_.size());
}

TEST_F(ChainMemberTest, AKilledRelayIsNoticedAndBridged) {
  HostOptions options;
  Signal broken;
  options.member.on_broken = [&](const ChainOrder&, const absl::Status&) { broken.Set(); };
  auto a = MakeHost(options), b = MakeHost(), c = MakeHost();
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  ASSERT_TRUE(a->Follow(1, b->address()).ok());
  const std::string large = MakeVersion(3, 5'000'000);
  a->Publish(7, large);
  ASSERT_TRUE(Until([&] { return c->ReceivedBytes() > 0; }));
  b->Kill();
  ASSERT_TRUE(broken.Wait());
  ASSERT_TRUE(a->Follow(2, c->address()).ok());
  EXPECT_TRUE(Until([&] { return c->Has(7); }));
  EXPECT_TRUE(c->Read(7) == large);
  EXPECT_EQ(c->ReceivedBytes(), large.size());
}

TEST_F(ChainMemberTest, ALinkTriesUntilTheNextRelayIsThere) {
  auto a = MakeHost();
  a->Publish(7, version_);
  std::string address;
  {
    auto gone = MakeHost();
    address = gone->address();
  }
  ASSERT_TRUE(a->Follow(1, address, 2).ok());
  ASSERT_TRUE(Until([&] { return absl::IsUnavailable(a->Report().last_error); }));
  auto late = std::make_unique<Host>(TcpTransport::Create({}).value());
  ASSERT_TRUE(late->member().Listen(address).ok());
  EXPECT_TRUE(Until([&] { return late->Has(7); }));
}

TEST_F(ChainMemberTest, AnOlderOrderIsRefused) {
  auto a = MakeHost(), b = MakeHost(), c = MakeHost();
  ASSERT_TRUE(a->Follow(2, b->address()).ok());
  for (const auto& [generation, next] :
       {std::pair(uint64_t{1}, c->address()), std::pair(uint64_t{2}, c->address())}) {
    const absl::Status status = a->Follow(generation, next);
    EXPECT_EQ(ErrorReason(status), "STALE_CHAIN") << status;
  }
  EXPECT_TRUE(a->Follow(2, b->address()).ok());  // repeated
  a->Publish(7, version_);
  EXPECT_TRUE(Until([&] { return b->Has(7); }));
  EXPECT_FALSE(c->Has(7));
}

TEST_F(ChainMemberTest, ASenderWithAnOlderOrderIsRefused) {
  auto b = MakeHost();
  ASSERT_TRUE(b->Follow(2, "").ok());
  Sender sender(b->address());
  sender.Send(AnnounceOf(7, version_, b->capability()));
  EXPECT_EQ(ErrorReason(sender.Refusal()), "STALE_CHAIN");
}

TEST_F(ChainMemberTest, ARelayWithoutTheJobsCapabilityGetsAndGivesNothing) {
  HostOptions other;
  other.key = "another-key-of-32-characters-----";
  auto a = MakeHost(), b = MakeHost(other);
  Signal done;
  a->member().Follow({kName, "", b->capability(), 1, 2, b->address()}, [&](absl::Status status) {
    EXPECT_EQ(ErrorReason(status), "CAPABILITY") << status;
    done.Set();
  });
  EXPECT_TRUE(done.Wait());
  a->Publish(7, version_);
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  EXPECT_TRUE(Until([&] { return ErrorReason(a->Report().last_error) == "CAPABILITY"; }));
  EXPECT_FALSE(b->Has(7));
  EXPECT_EQ(a->Report().put_bytes, 0u);
  // Neither does a relay say to such a sender what it has.
  Sender sender(a->address());
  sender.Send(AnnounceOf(7, version_, b->capability()));
  EXPECT_EQ(ErrorReason(sender.Refusal()), "CAPABILITY");
}

TEST_F(ChainMemberTest, AReceiverWithoutRoomSaysSoBeforeAByteIsSent) {
  HostOptions small;
  small.max_bytes = 1 << 20;
  auto a = MakeHost(), b = MakeHost(small);
  a->Publish(7, version_);
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  EXPECT_TRUE(Until([&] { return absl::IsOutOfRange(a->Report().last_error); }));
  const ChainReport report = a->Report();
  EXPECT_EQ(ErrorReason(report.last_error), "SHARED_MEMORY_SIZE");
  EXPECT_THAT(std::string(report.last_error.message()), HasSubstr("enlarge"));
  EXPECT_EQ(report.put_bytes, 0u);
}

TEST_F(ChainMemberTest, AVersionThatFindsNoRoomArrivesWhenThereIsSome) {
  HostOptions patient, tight;
  patient.member.link.room_retry = absl::Milliseconds(20);
  tight.max_bytes = 3'000'000;
  auto a = MakeHost(patient), b = MakeHost(tight);
  const std::string others = MakeVersion(9, 500'000);
  v1::BeginRequest begin;
  begin.set_job("other");
  begin.set_header(AnnounceOf(1, others, "").header());
  begin.set_size_bytes(others.size());
  begin.set_world_size(1);
  begin.set_capability(PublishCapability(kSharedKey, "other"));
  const auto begun = Ask(b->relay(), &Relay::Begin, begin);
  ASSERT_TRUE(begun.ok()) << begun.status();
  a->Publish(7, version_);
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  EXPECT_TRUE(Until([&] { return absl::IsResourceExhausted(a->Report().last_error); }));
  EXPECT_EQ(a->Report().put_bytes, 0u);
  v1::DropRequest drop;
  drop.add_segment_ids(begun->segment_id());
  drop.set_capability(begin.capability());
  ASSERT_TRUE(Ask(b->relay(), &Relay::Drop, drop).ok());
  EXPECT_TRUE(Until([&] { return b->Has(7); }));
}

TEST_F(ChainMemberTest, ARollbackReplacesTheVersionsOfTheOtherRelays) {
  auto a = MakeHost(), b = MakeHost();
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(5, version_);
  ASSERT_TRUE(Until([&] { return b->Has(5); }));
  const std::string other = MakeVersion(4, 2000);
  a->Publish(5, other, /*fork=*/true);
  EXPECT_TRUE(Until([&] { return b->Read(5) == other; }));
}

TEST_F(ChainMemberTest, VersionsThatRolloutsStillNeedAreKeptOnEveryHost) {
  auto a = MakeHost(), b = MakeHost();
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(1, version_);
  for (const uint64_t version : {2, 3, 4}) {
    a->Publish(version, MakeVersion(version, 1000), /*fork=*/false, {1});
    ASSERT_TRUE(Until([&] { return b->Has(version); })) << version;
  }
  EXPECT_TRUE(b->Has(1) && !b->Has(2)) << "beside the two newest ones";
}

TEST_F(ChainMemberTest, AForgottenJobIsSentToNobody) {
  auto a = MakeHost(), b = MakeHost();
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->member().Forget(kName, "");
  a->Publish(2, version_);
  EXPECT_EQ(a->Report().generation, 0u);
}

// Frames are late, lost and doubled, and connections break: the version arrives whole, or not yet.
TEST_F(ChainMemberTest, EverySeedBringsTheVersionToTheLastRelay) {
  const std::string version = MakeVersion(5, 100'000);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    MemoryNetwork network(seed, {.lost = 0.03, .twice = 0.05, .cut = 0.02});
    HostOptions options;
    options.member.link.chunk_deadline = absl::Milliseconds(500);
    options.member.link.answer_deadline = absl::Seconds(20);
    options.member.link.window_bytes = 200'000;
    Host a(network.NewTransport(), options), b(network.NewTransport(), options),
        c(network.NewTransport(), options);
    b.TellToFollow(1, c.address(), 3, [](const auto&) {});
    a.TellToFollow(1, b.address(), 3, [](const auto&) {});
    network.Run(absl::Milliseconds(1));
    a.Publish(3, version);
    // Other threads have their time; the virtual time goes on in small steps.
    int steps = 0;
    const bool arrived = Until([&] {
      network.Run(absl::Milliseconds(10));
      if (++steps == 3000) network.Calm();
      const std::string found = c.Read(3);
      EXPECT_TRUE(found.empty() || found == version) << "seed " << seed;
      return !found.empty();
    });
    ASSERT_TRUE(arrived) << "seed " << seed << " after " << network.frames() << " frames";
    const auto middle_has_it = [&] {  // it forwards chunks before its own copy is whole
      network.Run(absl::Milliseconds(10));
      return b.Read(3) == version;
    };
    EXPECT_TRUE(Until(middle_has_it)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace baton::relay
