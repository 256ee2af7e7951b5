// A machine with a relay that is a member of chains.
#ifndef BATON_TESTS_SUPPORT_RELAY_CHAIN_HOST_H_
#define BATON_TESTS_SUPPORT_RELAY_CHAIN_HOST_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "relay/segment/checksum_message.h"
#include "relay/server/chain_member.h"
#include "relay/transport/tcp_transport.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {

using chain::v1::Announce;
using chain::v1::ChainMessage;

inline constexpr char kName[] = "projects/default/jobs/addition";
inline constexpr char kSharedKey[] = "a-key-of-32-characters-or-more--";

inline bool Until(const std::function<bool()>& condition) {
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
inline std::string MakeVersion(uint64_t seed, int64_t floats) {
  const auto layout = SafetensorsLayout::Create({{"w", DType::kF32, {floats}}}).value();
  std::string bytes = layout.header();
  bytes.resize(static_cast<size_t>(layout.file_size()));
  std::mt19937_64 random(seed);
  for (size_t at = layout.header().size(); at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(random());
  }
  return bytes;
}

inline absl::Span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline Announce AnnounceOf(uint64_t version, const std::string& bytes,
                           const std::string& capability) {
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
  Encoding encoding = Encoding::kFull;
  ChainMemberOptions member;
};

/// A machine: a relay that is a member of chains.
class Host {
 public:
  explicit Host(std::unique_ptr<Transport> transport, HostOptions options = {})
      : dir_(TestFolder::InMemory()), key_(options.key), encoding_(options.encoding) {
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
    member_->Follow({kName, "", capability(), generation, relays, next, encoding_},
                    std::move(done));
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
  const Encoding encoding_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<ChainMember> member_;
  std::string address_;
};

inline std::unique_ptr<Host> MakeHost(HostOptions options = {}) {
  return std::make_unique<Host>(TcpTransport::Create({}).value(), std::move(options));
}

}  // namespace baton::relay

#endif  // BATON_TESTS_SUPPORT_RELAY_CHAIN_HOST_H_
