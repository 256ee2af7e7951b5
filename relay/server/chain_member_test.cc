// Real relays that send versions to each other, over TCP on the loopback interface; and over
// connections that a seed breaks.
#include "relay/server/chain_member.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/segment/checksum_message.h"
#include "relay/transport/tcp_transport.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/relay/memory_network.h"

namespace baton::relay {
namespace {

using chain::v1::Announce;
using chain::v1::ChainMessage;
using ::testing::HasSubstr;

constexpr char kName[] = "projects/default/jobs/addition";
constexpr char kSharedKey[] = "a-key-of-32-characters-or-more--";

bool Until(const std::function<bool()>& condition) {
  const absl::Time deadline = BootNow() + absl::Seconds(30);
  while (!condition()) {
    if (BootNow() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

/// Set once or more by another thread.
class Signal {
 public:
  void Set() {
    absl::MutexLock lock(&mu_);
    set_ = true;
  }
  bool Wait() {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&set_), absl::Seconds(30));
  }

 private:
  absl::Mutex mu_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

template <typename Request, typename Response>
absl::StatusOr<Response> Ask(Relay& relay, void (Relay::*method)(Request, Relay::Done<Response>),
                             const Request& request) {
  Signal done;
  absl::StatusOr<Response> result;
  (relay.*method)(request, [&](absl::StatusOr<Response> answer) {
    result = std::move(answer);
    done.Set();
  });
  EXPECT_TRUE(done.Wait());
  return result;
}

/// The bytes of a version: a safetensors file of random numbers.
std::string MakeVersion(uint64_t seed, int64_t floats) {
  const auto layout = SafetensorsLayout::Create({{"w", DType::kF32, {floats}}}).value();
  std::string bytes = layout.header();
  bytes.resize(static_cast<size_t>(layout.file_size()));
  std::mt19937_64 random(seed);
  for (size_t at = layout.header().size(); at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(random());
  }
  return bytes;
}

absl::Span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Announce AnnounceOf(uint64_t version, const std::string& bytes, const std::string& capability) {
  Announce announce;
  announce.set_transfer(1);
  announce.set_generation(1);
  announce.set_job(kName);
  announce.set_capability(capability);
  announce.set_policy_version(version);
  announce.set_size_bytes(bytes.size());
  announce.set_chunk_bytes(64 << 10);
  const auto view = SafetensorsView::Parse(AsBytes(bytes)).value();
  announce.set_header(bytes.substr(0, static_cast<size_t>(view.data_offset())));
  AddChecksums(DigestBoxes(view, WholeTensors(view.entries())).value(), announce.mutable_tensors());
  return announce;
}

struct HostOptions {
  std::string key = kSharedKey;
  uint64_t max_bytes = 0;
  ChainMemberOptions member;
};

/// A machine: a relay that is a member of chains.
class Host {
 public:
  explicit Host(std::unique_ptr<Transport> transport, HostOptions options = {})
      : dir_(TestFolder::InMemory()), key_(options.key) {
    RelayOptions relay;
    relay.pool.directory = dir_.path();
    relay.pool.max_bytes = options.max_bytes;
    relay.capability_key = key_;
    relay_ = Relay::Create(relay).value();
    member_ = std::make_unique<ChainMember>(relay_.get(), std::move(transport), options.member);
    address_ = member_->Listen("127.0.0.1:0").value();
  }
  ~Host() { Kill(); }
  /// Ends its connections, and the relay.
  void Kill() {
    member_ = nullptr;
    relay_ = nullptr;
  }

  const std::string& address() const { return address_; }
  Relay& relay() { return *relay_; }
  ChainMember& member() { return *member_; }
  std::string capability() const { return PublishCapability(key_, kName); }

  void Publish(uint64_t version, const std::string& bytes, bool fork = false,
               const std::vector<uint64_t>& keep = {}) {
    const Announce announce = AnnounceOf(version, bytes, capability());
    v1::BeginRequest begin;
    begin.set_job(kName);
    begin.set_policy_version(version);
    begin.set_header(announce.header());
    begin.set_size_bytes(bytes.size());
    begin.set_world_size(1);
    begin.set_fork(fork);
    begin.set_capability(capability());
    begin.mutable_keep_versions()->Assign(keep.begin(), keep.end());
    const auto begun = Ask(*relay_, &Relay::Begin, begin);
    ASSERT_TRUE(begun.ok()) << begun.status();
    const auto file = SharedFile::Open(begun->path(), bytes.size()).value();
    std::copy(bytes.begin(), bytes.end(), file->bytes().begin());
    v1::CommitRequest commit;
    commit.set_segment_id(begun->segment_id());
    commit.set_capability(capability());
    *commit.mutable_tensors() = announce.tensors();
    ASSERT_TRUE(Ask(*relay_, &Relay::Commit, commit).ok());
    v1::SealRequest seal;
    seal.set_segment_id(begun->segment_id());
    seal.set_capability(capability());
    const auto sealed = Ask(*relay_, &Relay::Seal, seal);
    ASSERT_TRUE(sealed.ok()) << sealed.status();
  }

  /// The bytes that a reader finds; empty: the version is not visible.
  std::string Read(uint64_t version) {
    const auto list = Ask(*relay_, &Relay::List, v1::ListRequest());
    for (const auto& segment : list->segments()) {
      if (segment.policy_version() != version) continue;
      const auto file = MappedFile::Open(segment.path());
      if (!file.ok()) return "";  // retired meanwhile
      const auto bytes = file->bytes();
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return "";
  }
  bool Has(uint64_t version) { return !Read(version).empty(); }

  void TellToFollow(uint64_t generation, const std::string& next, int relays,
                    std::function<void(absl::Status)> done) {
    member_->Follow({kName, "", capability(), generation, relays, next}, std::move(done));
  }
  absl::Status Follow(uint64_t generation, const std::string& next, int relays = 3) {
    Signal done;
    absl::Status result;
    TellToFollow(generation, next, relays, [&](absl::Status status) {
      result = std::move(status);
      done.Set();
    });
    EXPECT_TRUE(done.Wait());
    return result;
  }
  ChainReport Report() {
    Signal done;
    ChainReport result;
    member_->Report(kName, "", [&](ChainReport report) {
      result = std::move(report);
      done.Set();
    });
    EXPECT_TRUE(done.Wait());
    return result;
  }
  uint64_t ReceivedBytes() {
    Signal done;
    uint64_t result = 0;
    member_->ReceivedBytes([&](uint64_t bytes) {
      result = bytes;
      done.Set();
    });
    EXPECT_TRUE(done.Wait());
    return result;
  }

 private:
  const TestFolder dir_;
  const std::string key_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<ChainMember> member_;
  std::string address_;
};

std::unique_ptr<Host> MakeHost(HostOptions options = {}) {
  return std::make_unique<Host>(TcpTransport::Create({}).value(), std::move(options));
}

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
