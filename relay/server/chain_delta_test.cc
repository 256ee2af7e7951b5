// Versions that travel as what differs from the one before, between real relays over TCP, and over
// connections that a seed breaks.
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/delta/delta.h"
#include "sdk/common/base/log.h"
#include "tests/support/relay/chain_host.h"
#include "tests/support/relay/chain_sender.h"
#include "tests/support/relay/memory_network.h"

namespace baton::relay {
namespace {

constexpr int64_t kFloats = 500'000;  // 2 MB
constexpr uint64_t kChunk = 64 << 10;

/// The version after `before`: one of `nth` numbers is another one.
std::string Trained(std::string before, uint64_t nth = 4001) {
  std::mt19937_64 random(nth);
  for (size_t at = before.size() - 4 * kFloats; at < before.size(); at += 4) {
    if (random() % nth == 0) before[at] = static_cast<char>(before[at] + 1 + random() % 255);
  }
  return before;
}

std::string DeltaOf(const std::string& base, const std::string& next) {
  const auto delta = EncodeDelta(AsBytes(base), AsBytes(next), 1 << 30).value();
  return {delta.begin(), delta.end()};
}

/// Version 8 as `delta` of `base`, which is version 7.
Announce AnnounceDelta(const std::string& base, const std::string& next, const std::string& delta,
                       const std::string& capability) {
  Announce announce = AnnounceOf(8, next, capability);
  chain::v1::Delta& about = *announce.mutable_delta();
  about.set_base_version(7);
  about.set_base_fingerprint(Fingerprint(base.size(), AnnounceOf(7, base, capability).tensors()));
  about.set_size_bytes(delta.size());
  about.set_xxh3(Xxh3(AsBytes(delta)));
  about.set_chunk_bytes(kChunk);
  return announce;
}

class ChainDeltaTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { SilenceLog(); }
  static HostOptions Deltas() {
    HostOptions options;
    options.encoding = Encoding::kDelta;
    return options;
  }
  const std::string base_ = MakeVersion(1, kFloats);
  const std::string next_ = Trained(base_);
};

TEST_F(ChainDeltaTest, EveryHopCarriesWhatDiffers) {
  auto a = MakeHost(Deltas()), b = MakeHost(Deltas()), c = MakeHost(Deltas());
  ASSERT_TRUE(c->Follow(1, "").ok());
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  ASSERT_TRUE(a->Follow(1, b->address()).ok());
  a->Publish(7, base_);
  ASSERT_TRUE(Until([&] { return c->Has(7); }));
  std::string version = base_;
  for (uint64_t number = 8; number < 12; ++number) {
    version = Trained(version, 4000 + number);
    const uint64_t before_a = a->Report().put_bytes, before_b = b->Report().put_bytes;
    a->Publish(number, version);
    ASSERT_TRUE(Until([&] { return c->Has(number) && b->Has(number); }));
    EXPECT_TRUE(b->Read(number) == version);
    EXPECT_TRUE(c->Read(number) == version);
    EXPECT_LT(a->Report().put_bytes - before_a, version.size() / 20);
    EXPECT_EQ(b->Report().put_bytes - before_b, a->Report().put_bytes - before_a);
  }
}

TEST_F(ChainDeltaTest, VersionsThatDifferInAllGoWhole) {
  auto a = MakeHost(Deltas()), b = MakeHost(Deltas());
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(7, base_);
  ASSERT_TRUE(Until([&] { return b->Has(7); }));
  const std::string other = MakeVersion(2, kFloats);
  a->Publish(8, other);
  ASSERT_TRUE(Until([&] { return b->Has(8); }));
  EXPECT_TRUE(b->Read(8) == other);
  EXPECT_EQ(a->Report().put_bytes, base_.size() + other.size());
}

TEST_F(ChainDeltaTest, WithEncodingFullEveryVersionGoesWhole) {
  auto a = MakeHost(), b = MakeHost();
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(7, base_);
  ASSERT_TRUE(Until([&] { return b->Has(7); }));
  a->Publish(8, next_);
  ASSERT_TRUE(Until([&] { return b->Has(8); }));
  EXPECT_EQ(a->Report().put_bytes, base_.size() + next_.size());
}

TEST_F(ChainDeltaTest, ARelayWithoutTheBaseGetsTheVersionWhole) {
  auto a = MakeHost(Deltas()), b = MakeHost(Deltas()), c = MakeHost(Deltas());
  ASSERT_TRUE(b->Follow(1, "").ok());
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(7, base_);
  ASSERT_TRUE(Until([&] { return b->Has(7); }));
  Sender late(b->address());  // the next version is on its way when c joins
  const std::string delta = DeltaOf(base_, next_);
  late.Send(AnnounceDelta(base_, next_, delta, b->capability()));
  EXPECT_TRUE(late.Last(&ChainMessage::has_resume).resume().delta());
  // c has another version 7.
  c->Publish(7, MakeVersion(9, kFloats));
  ASSERT_TRUE(b->Follow(2, c->address(), 3).ok());
  late.Put(delta, 0, delta.size());
  EXPECT_TRUE(late.Hears(&ChainMessage::has_sealed));
  EXPECT_TRUE(Until([&] { return c->Has(8); }));
  EXPECT_TRUE(b->Read(8) == next_);
  EXPECT_TRUE(c->Read(8) == next_);
  EXPECT_GE(b->Report().put_bytes, next_.size());
}

TEST_F(ChainDeltaTest, ADeltaOfOtherWeightsIsNotTaken) {
  auto b = MakeHost(Deltas());
  b->Publish(7, MakeVersion(9, kFloats));
  const std::string delta = DeltaOf(base_, next_);
  Sender sender(b->address());
  sender.Send(AnnounceDelta(base_, next_, delta, b->capability()));
  EXPECT_FALSE(sender.Last(&ChainMessage::has_resume).resume().delta());
}

TEST_F(ChainDeltaTest, ADeltaGoesOnWhereItsConnectionBroke) {
  auto b = MakeHost(Deltas());
  b->Publish(7, base_);
  const std::string next = Trained(base_, 5);
  const std::string delta = DeltaOf(base_, next);
  ASSERT_GT(delta.size(), 2 * kChunk);
  const Announce announce = AnnounceDelta(base_, next, delta, b->capability());
  {
    Sender sender(b->address());
    sender.Send(announce);
    sender.Put(delta, 0, kChunk);
    ASSERT_TRUE(sender.IsAcknowledged(kChunk));
    sender.Put(delta, kChunk, kChunk, /*lie=*/1);
    ASSERT_TRUE(sender.IsClosed());
  }
  Sender again(b->address());
  again.Send(announce);
  const auto resume = again.Last(&ChainMessage::has_resume).resume();
  EXPECT_TRUE(resume.delta());
  EXPECT_EQ(resume.offset(), kChunk);
  again.Put(delta, kChunk, delta.size() - kChunk);
  EXPECT_TRUE(again.Hears(&ChainMessage::has_sealed));
  EXPECT_TRUE(b->Read(8) == next);
  EXPECT_EQ(b->ReceivedBytes(), delta.size());
}

// The relay before is another one now, which has the version whole.
TEST_F(ChainDeltaTest, AnotherSenderWithoutTheDeltaBringsTheVersionWhole) {
  auto b = MakeHost(Deltas()), c = MakeHost(Deltas());
  b->Publish(7, base_);
  c->Publish(7, base_);
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  const std::string next = Trained(base_, 5);
  const std::string delta = DeltaOf(base_, next);
  Sender first(b->address());
  first.Send(AnnounceDelta(base_, next, delta, b->capability()));
  first.Put(delta, 0, kChunk);
  ASSERT_TRUE(Until([&] { return c->ReceivedBytes() == kChunk; })) << "c gets the delta as well";
  Sender second(b->address());
  second.Send(AnnounceOf(8, next, b->capability()));
  EXPECT_FALSE(second.Last(&ChainMessage::has_resume).resume().delta());
  second.Put(next, 0, next.size());
  EXPECT_TRUE(second.Hears(&ChainMessage::has_sealed));
  EXPECT_TRUE(Until([&] { return c->Has(8); }));
  EXPECT_TRUE(c->Read(8) == next);
}

// Chunks with the right checksums: only the tensors' own say that they make another version.
TEST_F(ChainDeltaTest, ADeltaThatDoesNotMakeTheVersionIsFollowedByAllOfIt) {
  const std::string wrong = DeltaOf(base_, Trained(next_, 3001));
  const std::string none(1000, 7);
  for (const std::string& delta : {wrong, none}) {
    auto b = MakeHost(Deltas());
    b->Publish(7, base_);
    Sender sender(b->address());
    sender.Send(AnnounceDelta(base_, next_, delta, b->capability()));
    ASSERT_TRUE(sender.Last(&ChainMessage::has_resume).resume().delta());
    sender.Put(delta, 0, delta.size());
    ASSERT_TRUE(Until([&] { return !sender.Last(&ChainMessage::has_resume).resume().delta(); }));
    EXPECT_FALSE(b->Has(8));
    EXPECT_EQ(sender.Last(&ChainMessage::has_resume).resume().offset(), 0u);
    sender.Put(next_, 0, next_.size());
    EXPECT_TRUE(sender.Hears(&ChainMessage::has_sealed));
    EXPECT_TRUE(b->Read(8) == next_);
  }
}

// It is not needed: all of the version comes instead.
TEST_F(ChainDeltaTest, ADeltaThatCanBeOfNoUseIsNotTaken) {
  auto b = MakeHost(Deltas());
  b->Publish(7, base_);
  const std::string delta = DeltaOf(base_, next_);
  for (const auto& [size, chunk] : {std::pair<uint64_t, uint64_t>(0, kChunk),
                                    {next_.size(), kChunk},
                                    {delta.size(), 0},
                                    {delta.size(), 1 << 30}}) {
    Announce announce = AnnounceDelta(base_, next_, delta, b->capability());
    announce.mutable_delta()->set_size_bytes(size);
    announce.mutable_delta()->set_chunk_bytes(chunk);
    Sender sender(b->address());
    sender.Send(announce);
    EXPECT_FALSE(sender.Last(&ChainMessage::has_resume).resume().delta());
  }
}

// A relay in the middle keeps no more versions than the newest ones, whatever orders come.
TEST_F(ChainDeltaTest, ARelayInTheMiddleKeepsNoOldBase) {
  auto a = MakeHost(Deltas()), b = MakeHost(Deltas()), c = MakeHost(Deltas());
  ASSERT_TRUE(b->Follow(1, c->address()).ok());
  ASSERT_TRUE(a->Follow(1, b->address()).ok());
  a->Publish(1, base_);
  ASSERT_TRUE(Until([&] { return c->Has(1); }));
  ASSERT_TRUE(b->Follow(2, c->address()).ok());
  ASSERT_TRUE(a->Follow(2, b->address()).ok());
  std::string version = base_;
  for (uint64_t number = 2; number < 6; ++number) {
    version = Trained(version, 1000 + number);
    a->Publish(number, version);
    ASSERT_TRUE(Until([&] { return c->Has(number) && b->Has(number); }));
  }
  EXPECT_TRUE(Until([&] { return !b->Has(1) && !b->Has(2); }));
}

// The receiver lacked the base. The sender's connection breaks, and another one has no delta.
TEST_F(ChainDeltaTest, AVersionThatArrivesWholeGoesOnWhereItStopped) {
  auto b = MakeHost(Deltas());
  const std::string delta = DeltaOf(base_, next_);
  {
    Sender sender(b->address());
    sender.Send(AnnounceDelta(base_, next_, delta, b->capability()));
    ASSERT_FALSE(sender.Last(&ChainMessage::has_resume).resume().delta());
    sender.Put(next_, 0, kChunk);
    ASSERT_TRUE(sender.IsAcknowledged(kChunk));
  }
  Sender other(b->address());
  other.Send(AnnounceOf(8, next_, b->capability()));
  EXPECT_EQ(other.Last(&ChainMessage::has_resume).resume().offset(), kChunk);
  other.Put(next_, kChunk, next_.size() - kChunk);
  EXPECT_TRUE(other.Hears(&ChainMessage::has_sealed));
  EXPECT_TRUE(b->Read(8) == next_);
}

// A peer that does not know deltas sends the version where the delta is to go.
TEST_F(ChainDeltaTest, ADeltaWithWhichNothingArrivesIsNotTriedAgain) {
  auto b = MakeHost(Deltas());
  b->Publish(7, base_);
  const std::string delta = DeltaOf(base_, next_);
  const Announce announce = AnnounceDelta(base_, next_, delta, b->capability());
  {
    Sender sender(b->address());
    sender.Send(announce);
    ASSERT_TRUE(sender.Last(&ChainMessage::has_resume).resume().delta());
    sender.Put(next_, 0, next_.size());
    ASSERT_TRUE(sender.IsClosed());
  }
  Sender again(b->address());
  again.Send(announce);
  EXPECT_FALSE(again.Last(&ChainMessage::has_resume).resume().delta());
}

// While a version travels, others are left out. The next one is a delta of what the receiver has.
TEST_F(ChainDeltaTest, TheBaseIsTheLastVersionThatTheNextRelayHas) {
  auto a = MakeHost(Deltas()), b = MakeHost(Deltas());
  b->Publish(1, base_);
  a->Publish(1, base_);
  std::string version = base_;
  for (uint64_t number = 2; number < 9; ++number) {  // two of them are kept
    version = Trained(version, 1000 + number);
    a->Publish(number, version);
  }
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  ASSERT_TRUE(Until([&] { return b->Has(8); }));
  const uint64_t before = a->Report().put_bytes;
  a->Publish(9, Trained(version, 999));
  ASSERT_TRUE(Until([&] { return b->Has(9); }));
  EXPECT_LT(a->Report().put_bytes - before, base_.size() / 20);
}

// After a rollback the base is gone on every host.
TEST_F(ChainDeltaTest, TheFirstVersionAfterARollbackGoesWhole) {
  auto a = MakeHost(Deltas()), b = MakeHost(Deltas());
  ASSERT_TRUE(a->Follow(1, b->address(), 2).ok());
  a->Publish(7, base_);
  a->Publish(8, next_);
  ASSERT_TRUE(Until([&] { return b->Has(8); }));
  const uint64_t before = a->Report().put_bytes;
  const std::string other = Trained(base_, 999);
  a->Publish(8, other, /*fork=*/true);
  ASSERT_TRUE(Until([&] { return b->Read(8) == other; }));
  EXPECT_EQ(a->Report().put_bytes - before, other.size());
}

// Frames are late, lost and doubled, and connections break.
TEST_F(ChainDeltaTest, EverySeedBringsEveryVersionToTheLastRelay) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const bool calm = seed == 1;
    MemoryNetwork network(
        seed, calm ? NetworkFaults() : NetworkFaults{.lost = 0.02, .twice = 0.05, .cut = 0.01});
    HostOptions options = Deltas();
    options.member.link.chunk_deadline = absl::Milliseconds(500);
    options.member.link.answer_deadline = absl::Seconds(20);
    options.member.link.window_bytes = 200'000;
    Host a(network.NewTransport(), options), b(network.NewTransport(), options),
        c(network.NewTransport(), options);
    b.TellToFollow(1, c.address(), 3, [](const auto&) {});
    a.TellToFollow(1, b.address(), 3, [](const auto&) {});
    network.Run(absl::Milliseconds(1));
    std::string version = base_;
    for (uint64_t number = 1; number <= 3; ++number) {
      version = Trained(version, 20 + number);
      a.Publish(number, version);
      int steps = 0;
      const auto arrived = [&](Host& host) {
        return Until([&] {
          network.Run(absl::Milliseconds(10));
          if (++steps == 3000) network.Calm();
          const std::string found = host.Read(number);
          EXPECT_TRUE(found.empty() || found == version) << "seed " << seed;
          return !found.empty();
        });
      };
      ASSERT_TRUE(arrived(c) && arrived(b)) << "seed " << seed << " version " << number;
    }
    if (!calm) continue;
    uint64_t sent = 0;
    a.member().Report(kName, "", [&](const ChainReport& report) { sent = report.put_bytes; });
    ASSERT_TRUE(Until([&] {
      network.Run(absl::Milliseconds(1));
      return sent > 0;
    }));
    EXPECT_LT(sent, 2 * version.size()) << "two of three went as deltas";
  }
}

}  // namespace
}  // namespace baton::relay
