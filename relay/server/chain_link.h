// The link of a job's chain from this relay to the next one: sends versions, one after the other.
#ifndef BATON_RELAY_SERVER_CHAIN_LINK_H_
#define BATON_RELAY_SERVER_CHAIN_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/chain/v1/chain.pb.h"
#include "relay/chain/chunk_size.h"
#include "relay/chain/hop_meter.h"
#include "relay/chain/outbound_transfer.h"
#include "relay/delta/delta_choice.h"
#include "relay/server/chain_source.h"
#include "relay/transport/transport.h"

namespace baton::relay {

/// Who comes after this relay in a job's chain. Orders of a job have growing generations.
struct ChainOrder {
  std::string job, job_uid;
  std::string capability;  ///< The job's; relays that share a key with the controller ask for it.
  uint64_t generation = 0;
  int relays = 2;    ///< In the chain, the first one included.
  std::string next;  ///< Its address; empty: this relay is the last one.
  Encoding encoding = Encoding::kFull;
};

struct ChainLinkOptions {
  uint64_t window_bytes = 16 << 20;  ///< Sent and not yet acknowledged.
  /// For an answer to what takes long there: to reserve memory, to verify a version.
  absl::Duration answer_deadline = absl::Minutes(10);
  absl::Duration chunk_deadline = absl::Seconds(30);  ///< For the next acknowledgement.
  /// Between attempts to connect; doubles up to the most.
  absl::Duration retry = absl::Milliseconds(100), most_retry = absl::Seconds(5);
  absl::Duration room_retry = absl::Seconds(2);  ///< After a receiver had no room.
};

/// What a link has learned, with which the next link of the job's chain goes on.
struct LinkExperience {
  LinkCost cost;
  DeltaChoice choice;
};

/// Lives on the transport's thread. Keeps its queue while the connection is broken, and goes on at
/// the offset that the receiver names.
class ChainLink : public ConnectionHandler, public std::enable_shared_from_this<ChainLink> {
 public:
  using Broken = std::function<void(const absl::Status&)>;
  using SourcePtr = std::shared_ptr<ChainSource>;
  struct MadeDelta {
    std::shared_ptr<ChainDelta> delta;  ///< Null: it is too large, or there can be none.
    absl::Duration time;
  };
  /// Makes the delta of two complete versions; answers on the transport's thread.
  using Encode =
      std::function<void(SourcePtr base, SourcePtr next, std::function<void(MadeDelta)>)>;

  /// `broken`: the connection broke, or could not be made; the link tries again by itself.
  ChainLink(Transport* transport, ChainOrder order, ChainLinkOptions options,
            LinkExperience experience, Broken broken, Encode encode);

  /// Connects. Once.
  void Start();
  /// A version that the link had already is ignored.
  void Enqueue(std::shared_ptr<ChainSource> source);
  /// More of some version is verified here, or one has failed.
  void Pump();
  /// Ends the link.
  void Stop();

  const LinkExperience& experience() const { return experience_; }
  bool connected() const { return connection_ != nullptr; }
  const absl::Status& last_error() const { return last_error_; }
  uint64_t put_bytes() const { return put_bytes_; }
  const ChainHop& last_hop() const { return meter_.last(); }

  void OnMessage(std::string message) override;
  void OnPut(const PutArrival& put) override;
  void OnClosed(const absl::Status& status) override;

 private:
  enum class Phase { kIdle, kEncoding, kAnnounced, kSending };

  bool awaits_answer() const { return phase_ == Phase::kAnnounced || phase_ == Phase::kSending; }
  void Connect();
  void Failed(const absl::Status& status);
  void Tick();
  void DropOldest();
  void AnnounceNext();
  bool EncodesFirst(const ChainSource& source);
  void Encoded(const SourcePtr& source, const MadeDelta& made);
  void OnResume(const chain::v1::Resume& resume);
  void OnReceived(uint64_t offset);
  void OnSealed();
  void NoteHop();
  void OnRefused(const absl::Status& status);
  void SetDeadline();
  void NoteBusy();
  void Send(const chain::v1::ChainMessage& message);

  Transport* const transport_;
  const ChainOrder order_;
  const ChainLinkOptions options_;
  const Broken broken_;
  const Encode encode_;
  LinkExperience experience_;

  std::shared_ptr<Connection> connection_;  ///< Null while there is none.
  absl::Duration retry_;
  bool stopped_ = false;
  absl::Status last_error_;
  absl::Time probed_;

  std::deque<SourcePtr> queue_;  ///< The first one is on its way.
  SourcePtr base_;  ///< The last one that the next relay has; null where versions go whole.
  std::deque<std::string> known_;  ///< Segment ids of the newest ones enqueued.
  Phase phase_ = Phase::kIdle;
  uint64_t transfer_id_ = 0;
  uint64_t region_ = 0;
  std::optional<OutboundTransfer> transfer_;
  std::shared_ptr<ChainDelta> delta_;  ///< Announced; null: the version goes whole.
  bool sends_delta_ = false;           ///< The receiver has taken it.
  absl::Time deadline_ = absl::InfiniteFuture();
  absl::Time resumed_at_;
  uint64_t resumed_from_ = 0;
  bool whole_at_start_ = false;  ///< The pace is that of the link, not of what arrives here.
  uint64_t put_bytes_ = 0;
  HopMeter meter_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_CHAIN_LINK_H_
