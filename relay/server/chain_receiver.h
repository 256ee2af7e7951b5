// Versions that other relays send to this one.
#ifndef BATON_RELAY_SERVER_CHAIN_RECEIVER_H_
#define BATON_RELAY_SERVER_CHAIN_RECEIVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "baton/chain/v1/chain.pb.h"
#include "boost/asio/thread_pool.hpp"
#include "relay/chain/inbound_transfer.h"
#include "relay/segment/shared_file.h"
#include "relay/server/chain_source.h"
#include "relay/server/mailbox.h"
#include "relay/server/relay.h"
#include "relay/transport/transport.h"

namespace baton::relay {

struct ChainReceiverOptions {
  /// What arrived of a version is kept so long after its connection broke.
  absl::Duration abandoned_after = absl::Minutes(10);
};

/// Publishes at this relay what arrives, as a trainer would: Begin, write, Commit, Seal, with the
/// job's capability. So a version is visible here only when all of it is here and verified. Lives
/// on the transport's thread.
class ChainReceiver : public std::enable_shared_from_this<ChainReceiver> {
 public:
  struct Events {
    /// The newest generation of orders that is known for the job; 0: none.
    std::function<uint64_t(const std::string& job, const std::string& job_uid)> generation;
    /// A version begins to arrive: links may forward it from now on.
    std::function<void(std::shared_ptr<ChainSource>)> arriving;
    /// More of some version of the job is verified, or will never come.
    std::function<void(const std::string& job, const std::string& job_uid)> changed;
  };

  /// `relay` and `transport` outlive it. `mailbox` is that of the transport.
  ChainReceiver(Relay* relay, Transport* transport, std::shared_ptr<Mailbox> mailbox,
                std::shared_ptr<boost::asio::thread_pool> file_thread, ChainReceiverOptions options,
                Events events);

  ~ChainReceiver();

  void Accept(std::shared_ptr<Connection> connection);
  /// Versions of the job that arrive now.
  std::vector<std::shared_ptr<ChainSource>> Arriving(const std::string& job,
                                                     const std::string& job_uid) const;
  uint64_t verified_bytes() const { return verified_bytes_; }

 private:
  class Peer;
  enum class Phase { kOpening, kReceiving, kApplying, kSealing };
  /// A version that is here, under a lease.
  struct DeltaBase {
    std::unique_ptr<RelayLease> lease;
    std::string path;
  };
  /// A version that arrives: whole, or as a delta of one that is here.
  struct Inbound {
    explicit Inbound(const chain::v1::Announce& announce) : version(announce) {
      transfer.emplace(announce.size_bytes());
    }
    /// Where chunks go.
    absl::Span<uint8_t> target() const {
      return delta == nullptr ? file->bytes() : absl::MakeSpan(delta->bytes);
    }
    chain::v1::Announce version;  ///< As it was announced first.
    Phase phase = Phase::kOpening;
    std::optional<InboundTransfer> transfer;  ///< Never empty; of the version, or of its delta.
    std::shared_ptr<ChainDelta> delta;        ///< Null: the version arrives whole.
    std::shared_ptr<const DeltaBase> base;    ///< Of the delta.
    std::string segment_id;
    std::shared_ptr<SharedFile> file;
    std::shared_ptr<ChainSource> source;
    bool dropped = false;  ///< Another version has taken its place.
    // Who brings it.
    std::weak_ptr<Peer> peer;
    uint64_t transfer_id = 0;  ///< The peer's.
    uint64_t region = 0;       ///< 0: nothing is offered.
    uint64_t connection = 0;   ///< Of InboundTransfer.
    absl::Time detached = absl::InfiniteFuture();
  };
  using Key = std::pair<std::string, uint64_t>;  ///< Job with uid, and version.
  using InboundPtr = std::shared_ptr<Inbound>;
  static Key KeyOf(const chain::v1::Announce& version);

  void OnAnnounce(const std::shared_ptr<Peer>& peer, const chain::v1::Announce& announce);
  absl::Status CheckAnnounce(const chain::v1::Announce& announce) const;
  void Attach(const InboundPtr& inbound, const std::shared_ptr<Peer>& peer, uint64_t transfer_id);
  void LookFor(const InboundPtr& inbound);
  void Looked(const InboundPtr& inbound, const absl::StatusOr<v1::AcquireResponse>& found);
  bool TakesDelta(const chain::v1::Announce& version) const;
  void LookForBase(const InboundPtr& inbound);
  void FoundBase(const InboundPtr& inbound, const absl::StatusOr<v1::AcquireResponse>& found);
  void Begin(const InboundPtr& inbound);
  void Begun(const InboundPtr& inbound, const absl::StatusOr<v1::BeginResponse>& begun);
  void Opened(const InboundPtr& inbound, absl::StatusOr<std::shared_ptr<SharedFile>> file);
  void OfferTo(const InboundPtr& inbound);
  void OnPut(const std::shared_ptr<Peer>& peer, const PutArrival& put);
  void Acknowledge(const InboundPtr& inbound);
  void Apply(const InboundPtr& inbound);
  void AskForWhole(const InboundPtr& inbound, const absl::Status& reason);
  void TakeWhole(const InboundPtr& inbound);
  void Seal(const InboundPtr& inbound);
  void SealedHere(const InboundPtr& inbound, const absl::Status& status, std::string lease_id);
  void Refuse(const InboundPtr& inbound, const absl::Status& status);
  void Drop(const InboundPtr& inbound);
  void Detach(const std::shared_ptr<Peer>& peer);
  void Abandon(const InboundPtr& inbound);
  void Sweep();

  Relay* const relay_;
  Transport* const transport_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<boost::asio::thread_pool> file_thread_;
  const ChainReceiverOptions options_;
  const Events events_;
  std::map<Key, InboundPtr> inbound_;
  uint64_t verified_bytes_ = 0;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_CHAIN_RECEIVER_H_
