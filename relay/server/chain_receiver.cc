#include "relay/server/chain_receiver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "relay/chain/chunk_size.h"
#include "relay/delta/delta.h"
#include "relay/delta/delta_choice.h"
#include "relay/segment/checksum.h"
#include "relay/segment/checksum_message.h"
#include "relay/weights/mapped_file.h"
#include "sdk/common/base/log.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

using chain::v1::Announce;
using chain::v1::ChainMessage;

constexpr char kHolder[] = "chain of relays";
constexpr absl::Duration kLeaseTtl = absl::Hours(1);
constexpr absl::Duration kSweep = absl::Minutes(1);
constexpr size_t kMostInbound = 64;
constexpr std::ptrdiff_t kMostDeltas = 4;  // at once: they are in memory beside the segments

/// The reason that programs read, for each error of InboundTransfer.
absl::Status ChunkError(const absl::Status& status) {
  const char* reason = absl::IsDataLoss(status)     ? "CHUNK_CHECKSUM"
                       : absl::IsOutOfRange(status) ? "CHUNK_OUTSIDE"
                                                    : "CHUNK_GAP";
  return MakeError(status.code(), reason, status.message());
}

}  // namespace

/// One connection from another relay.
class ChainReceiver::Peer : public ConnectionHandler, public std::enable_shared_from_this<Peer> {
 public:
  Peer(std::weak_ptr<ChainReceiver> receiver, std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), receiver_(std::move(receiver)) {}

  void OnMessage(std::string bytes) override {
    const auto receiver = receiver_.lock();
    ChainMessage message;
    if (receiver == nullptr) return;
    if (!message.ParseFromString(bytes)) {
      return Close(absl::InvalidArgumentError("what came is no message of a relay"));
    }
    if (message.has_probe()) {
      ChainMessage answer;
      answer.mutable_probe_answer();
      Send(answer);
    } else if (message.has_announce()) {
      receiver->OnAnnounce(shared_from_this(), message.announce());
    }
  }
  void OnPut(const PutArrival& put) override {
    if (const auto receiver = receiver_.lock()) receiver->OnPut(shared_from_this(), put);
  }
  void OnClosed(const absl::Status& status) override {
    connection_ = nullptr;
    if (const auto receiver = receiver_.lock()) receiver->Detach(shared_from_this());
  }

  void Send(const ChainMessage& message) {
    if (connection_ != nullptr) connection_->Send(message.SerializeAsString());
  }
  void Refuse(uint64_t transfer, const absl::Status& status) {
    ChainMessage message;
    message.mutable_refused()->set_transfer(transfer);
    *message.mutable_refused()->mutable_status() = ToProto(status);
    Send(message);
  }
  void Close(const absl::Status& status) {
    if (connection_ != nullptr) connection_->Close(status);
  }
  uint64_t Offer(const InboundPtr& inbound) {
    if (connection_ == nullptr) return 0;
    const uint64_t region = next_region_++;
    connection_->Offer(region, inbound->target());
    connection_->Protect(region, inbound->transfer->verified());
    regions_[region] = inbound;
    return region;
  }
  void Protect(uint64_t region, uint64_t bytes) {
    if (connection_ != nullptr) connection_->Protect(region, bytes);
  }
  void Withdraw(uint64_t region) {
    if (connection_ != nullptr) connection_->Withdraw(region);
    regions_.erase(region);
  }
  InboundPtr InboundOf(uint64_t region) const {
    const auto it = regions_.find(region);
    return it == regions_.end() ? nullptr : it->second.lock();
  }

 private:
  std::shared_ptr<Connection> connection_;  ///< Null when it is closed.
  const std::weak_ptr<ChainReceiver> receiver_;
  uint64_t next_region_ = 1;
  std::map<uint64_t, std::weak_ptr<Inbound>> regions_;
};

ChainReceiver::ChainReceiver(Relay* relay, Transport* transport, std::shared_ptr<Mailbox> mailbox,
                             std::shared_ptr<boost::asio::thread_pool> file_thread,
                             ChainReceiverOptions options, Events events)
    : relay_(relay),
      transport_(transport),
      mailbox_(std::move(mailbox)),
      file_thread_(std::move(file_thread)),
      options_(options),
      events_(std::move(events)) {}

ChainReceiver::Key ChainReceiver::KeyOf(const Announce& version) {
  return {absl::StrCat(version.job(), "#", version.job_uid()), version.policy_version()};
}

ChainReceiver::~ChainReceiver() {
  for (const auto& [key, inbound] : inbound_) {
    if (const auto peer = inbound->peer.lock()) peer->Withdraw(inbound->region);
  }
}

void ChainReceiver::Accept(std::shared_ptr<Connection> connection) {
  auto peer = std::make_shared<Peer>(weak_from_this(), connection);
  connection->Start(peer);
}

std::vector<std::shared_ptr<ChainSource>> ChainReceiver::Arriving(
    const std::string& job, const std::string& job_uid) const {
  std::vector<std::shared_ptr<ChainSource>> sources;
  for (const auto& [key, inbound] : inbound_) {
    const bool of_job = inbound->version.job() == job && inbound->version.job_uid() == job_uid;
    if (of_job && inbound->source != nullptr) sources.push_back(inbound->source);
  }
  return sources;
}

absl::Status ChainReceiver::CheckAnnounce(const Announce& announce) const {
  if (const absl::Status may =
          relay_->CheckCapability(announce.job(), announce.job_uid(), announce.capability());
      !may.ok()) {
    return may;
  }
  const uint64_t known = events_.generation(announce.job(), announce.job_uid());
  if (announce.generation() < known) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "STALE_CHAIN",
        absl::StrCat("this relay has order ", known, " for the chain of ", announce.job(),
                     ", and the sender acts by order ", announce.generation()));
  }
  if (announce.size_bytes() == 0 || announce.chunk_bytes() == 0 ||
      announce.chunk_bytes() > kMostChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a version of ", announce.size_bytes(), " bytes in chunks of ",
                     announce.chunk_bytes(), ", which are to be in [1, ", kMostChunkBytes, "]"));
  }
  if (inbound_.size() >= kMostInbound && inbound_.count(KeyOf(announce)) == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this relay receives ", kMostInbound, " versions at once already"));
  }
  return absl::OkStatus();
}

void ChainReceiver::OnAnnounce(const std::shared_ptr<Peer>& peer, const Announce& announce) {
  if (const absl::Status checked = CheckAnnounce(announce); !checked.ok()) {
    return peer->Refuse(announce.transfer(), checked);
  }
  const auto it = inbound_.find(KeyOf(announce));
  if (it != inbound_.end()) {
    const InboundPtr inbound = it->second;
    const Announce& before = inbound->version;
    if (inbound->peer.lock() == peer && inbound->transfer_id == announce.transfer()) return;
    if (Fingerprint(before.size_bytes(), before.tensors()) ==
        Fingerprint(announce.size_bytes(), announce.tensors())) {
      // The relay before may be another one now, which has no delta, or another one.
      const bool arrives = inbound->phase == Phase::kOpening || inbound->phase == Phase::kReceiving;
      const bool same = before.delta().SerializeAsString() == announce.delta().SerializeAsString();
      if (arrives && !same) TakeWhole(inbound);
      Attach(inbound, peer, announce.transfer());
      if (inbound->phase == Phase::kReceiving) OfferTo(inbound);
      return;
    }
    Drop(inbound);
  }
  auto inbound = std::make_shared<Inbound>(announce);
  inbound_[KeyOf(announce)] = inbound;
  Attach(inbound, peer, announce.transfer());
  LookFor(inbound);
}

void ChainReceiver::Attach(const InboundPtr& inbound, const std::shared_ptr<Peer>& peer,
                           uint64_t transfer_id) {
  const auto before = inbound->peer.lock();
  if (before != nullptr) {
    before->Withdraw(inbound->region);
    if (before != peer) {
      before->Refuse(inbound->transfer_id,
                     absl::AbortedError("another relay brings this version now"));
    }
  }
  inbound->peer = peer;
  inbound->transfer_id = transfer_id;
  inbound->region = 0;
  inbound->connection = inbound->transfer->Attach();
  inbound->detached = absl::InfiniteFuture();
}

/// Whether the version is here already: then not a byte of it travels.
void ChainReceiver::LookFor(const InboundPtr& inbound) {
  v1::AcquireRequest request;
  request.set_job(inbound->version.job());
  request.set_job_uid(inbound->version.job_uid());
  request.set_policy_version(inbound->version.policy_version());
  request.set_holder(kHolder);
  relay_->Acquire(request, [weak = weak_from_this(), mailbox = mailbox_, inbound](auto found) {
    mailbox->Post([weak, inbound, found = std::move(found)] {
      if (const auto self = weak.lock()) self->Looked(inbound, found);
    });
  });
}

void ChainReceiver::Looked(const InboundPtr& inbound,
                           const absl::StatusOr<v1::AcquireResponse>& found) {
  if (!found.ok()) {
    if (!absl::IsNotFound(found.status())) return Refuse(inbound, found.status());
    return LookForBase(inbound);
  }
  const RelayLease lease(relay_, found->lease_id());
  const v1::SegmentInfo& segment = found->segment();
  if (Fingerprint(segment.size_bytes(), segment.tensors()) !=
      Fingerprint(inbound->version.size_bytes(), inbound->version.tensors())) {
    return Begin(inbound);
  }
  SealedHere(inbound, absl::OkStatus(), "");
}

/// Of what may be announced, a delta that can be of use and for which there is memory.
bool ChainReceiver::TakesDelta(const Announce& version) const {
  const chain::v1::Delta& delta = version.delta();
  const auto most = static_cast<double>(version.size_bytes()) * DeltaChoice::kMostShare;
  const auto deltas = std::count_if(inbound_.begin(), inbound_.end(), [](const auto& inbound) {
    return inbound.second->delta != nullptr;
  });
  return version.has_delta() && delta.size_bytes() > 0 &&
         static_cast<double>(delta.size_bytes()) <= most && delta.chunk_bytes() > 0 &&
         delta.chunk_bytes() <= kMostChunkBytes && deltas < kMostDeltas;
}

/// A delta is of use if its base is here: the same version with the same weights.
void ChainReceiver::LookForBase(const InboundPtr& inbound) {
  const Announce& version = inbound->version;
  if (!TakesDelta(version) || inbound->dropped) return Begin(inbound);
  v1::AcquireRequest request;
  request.set_job(version.job());
  request.set_job_uid(version.job_uid());
  request.set_policy_version(version.delta().base_version());
  request.set_holder(kHolder);
  *request.mutable_ttl() = ToProto(kLeaseTtl);
  relay_->Acquire(request, [weak = weak_from_this(), mailbox = mailbox_, inbound](auto found) {
    mailbox->Post([weak, inbound, found = std::move(found)] {
      if (const auto self = weak.lock()) self->FoundBase(inbound, found);
    });
  });
}

void ChainReceiver::FoundBase(const InboundPtr& inbound,
                              const absl::StatusOr<v1::AcquireResponse>& found) {
  if (!found.ok()) return Begin(inbound);
  auto base = std::make_shared<DeltaBase>();
  base->lease = std::make_unique<RelayLease>(relay_, found->lease_id());
  base->path = found->segment().path();
  const chain::v1::Delta& delta = inbound->version.delta();
  const uint64_t fingerprint =
      Fingerprint(found->segment().size_bytes(), found->segment().tensors());
  if (TakesDelta(inbound->version) && fingerprint == delta.base_fingerprint()) {
    inbound->base = std::move(base);
    inbound->delta = std::make_shared<ChainDelta>(delta);
    inbound->transfer.emplace(delta.size_bytes());
    inbound->connection = inbound->transfer->Attach();
  }
  Begin(inbound);
}

void ChainReceiver::Begin(const InboundPtr& inbound) {
  if (inbound->dropped) return;
  v1::BeginRequest request;
  request.set_job(inbound->version.job());
  request.set_job_uid(inbound->version.job_uid());
  request.set_policy_version(inbound->version.policy_version());
  request.set_header(inbound->version.header());
  request.set_size_bytes(inbound->version.size_bytes());
  request.set_world_size(1);
  request.set_fork(inbound->version.fork());
  request.set_capability(inbound->version.capability());
  *request.mutable_keep_versions() = inbound->version.keep_versions();
  relay_->Begin(request, [weak = weak_from_this(), mailbox = mailbox_, inbound](auto begun) {
    mailbox->Post([weak, inbound, begun = std::move(begun)] {
      if (const auto self = weak.lock()) self->Begun(inbound, begun);
    });
  });
}

void ChainReceiver::Begun(const InboundPtr& inbound,
                          const absl::StatusOr<v1::BeginResponse>& begun) {
  if (!begun.ok()) return Refuse(inbound, begun.status());
  inbound->segment_id = begun->segment_id();
  if (inbound->dropped) return Drop(inbound);
  // Begin has ended the segment of the job that was not sealed yet.
  for (const auto& [key, other] : std::map<Key, InboundPtr>(inbound_)) {
    const bool replaced = other != inbound && key.first == KeyOf(inbound->version).first &&
                          other->phase != Phase::kOpening;
    if (replaced && other->phase == Phase::kReceiving) {
      Refuse(other, absl::AbortedError("a newer version of the job has come"));
    }
  }
  boost::asio::post(
      *file_thread_, [weak = weak_from_this(), mailbox = mailbox_, inbound, path = begun->path(),
                      size_bytes = inbound->version.size_bytes(), delta = inbound->delta] {
        absl::StatusOr<std::shared_ptr<SharedFile>> file = SharedFile::Open(path, size_bytes);
        if (file.ok() && delta != nullptr) delta->bytes.resize(delta->about.size_bytes());
        mailbox->Post([weak, inbound, file = std::move(file)] {
          if (const auto self = weak.lock()) self->Opened(inbound, file);
        });
      });
}

void ChainReceiver::Opened(const InboundPtr& inbound,
                           absl::StatusOr<std::shared_ptr<SharedFile>> file) {
  if (inbound->dropped) return Drop(inbound);
  if (!file.ok()) return Refuse(inbound, file.status());
  inbound->file = *std::move(file);
  inbound->phase = Phase::kReceiving;
  auto source = std::make_shared<ChainSource>();
  source->segment_id = inbound->segment_id;
  source->version = inbound->version;
  source->version.clear_delta();
  source->bytes = inbound->file->bytes();
  source->delta = inbound->delta;
  source->mapping = inbound->file;
  inbound->source = source;
  OfferTo(inbound);
  events_.arriving(source);
}

void ChainReceiver::OfferTo(const InboundPtr& inbound) {
  const auto peer = inbound->peer.lock();
  if (peer == nullptr) return;
  inbound->region = peer->Offer(inbound);
  ChainMessage message;
  message.mutable_resume()->set_transfer(inbound->transfer_id);
  message.mutable_resume()->set_region(inbound->region);
  message.mutable_resume()->set_offset(inbound->transfer->verified());
  message.mutable_resume()->set_delta(inbound->delta != nullptr);
  peer->Send(message);
}

void ChainReceiver::OnPut(const std::shared_ptr<Peer>& peer, const PutArrival& put) {
  const InboundPtr inbound = peer->InboundOf(put.region);
  if (inbound == nullptr || inbound->phase != Phase::kReceiving) return;
  const Chunk chunk{put.offset, put.size_bytes};
  // The bytes in memory, as they are now: what is acknowledged has been written.
  const uint64_t found = inbound->transfer->IsNew(inbound->connection, chunk)
                             ? Xxh3(inbound->target().subspan(put.offset, put.size_bytes))
                             : 0;
  const uint64_t before = inbound->transfer->verified();
  const auto arrival = inbound->transfer->Arrive(inbound->connection, chunk, put.xxh3, found);
  if (!arrival.ok()) {
    const absl::Status error = ChunkError(arrival.status());
    Log(LogLevel::kWarn, "a chunk is refused",
        {{"job", inbound->version.job()},
         {"version", inbound->version.policy_version()},
         {"error", error.message()}});
    return peer->Close(error);
  }
  const uint64_t verified = inbound->transfer->verified();
  peer->Protect(put.region, verified);
  (inbound->delta == nullptr ? inbound->source->verified : inbound->delta->verified) = verified;
  verified_bytes_ += verified - before;
  Acknowledge(inbound);
  if (verified > before) events_.changed(inbound->version.job(), inbound->version.job_uid());
  if (!inbound->transfer->complete()) return;
  inbound->delta == nullptr ? Seal(inbound) : Apply(inbound);
}

void ChainReceiver::Acknowledge(const InboundPtr& inbound) {
  const auto peer = inbound->peer.lock();
  if (peer == nullptr) return;
  ChainMessage message;
  message.mutable_received()->set_transfer(inbound->transfer_id);
  message.mutable_received()->set_offset(inbound->transfer->verified());
  peer->Send(message);
}

void ChainReceiver::Apply(const InboundPtr& inbound) {
  inbound->phase = Phase::kApplying;
  if (const auto peer = inbound->peer.lock()) peer->Withdraw(inbound->region);
  boost::asio::post(*file_thread_, [weak = weak_from_this(), mailbox = mailbox_, inbound,
                                    base = inbound->base, delta = inbound->delta] {
    absl::Status applied;
    if (Xxh3(delta->bytes) != delta->about.xxh3()) {
      applied = absl::DataLossError("the delta has another checksum than its sender said");
    } else if (const auto file = MappedFile::Open(base->path); !file.ok()) {
      applied = file.status();
    } else {
      applied = ApplyDelta(file->bytes(), delta->bytes, inbound->file->bytes());
    }
    mailbox->Post([weak, inbound, applied] {
      const auto self = weak.lock();
      if (self == nullptr || inbound->dropped) return;
      applied.ok() ? self->Seal(inbound) : self->AskForWhole(inbound, applied);
    });
  });
}

/// The delta did not make the version: its sender is asked for all of it.
void ChainReceiver::AskForWhole(const InboundPtr& inbound, const absl::Status& reason) {
  Log(LogLevel::kWarn, "a delta did not make the version, which is asked for whole",
      {{"job", inbound->version.job()},
       {"version", inbound->version.policy_version()},
       {"error", reason.message()}});
  TakeWhole(inbound);
  inbound->phase = Phase::kReceiving;
  if (inbound->peer.expired()) return Abandon(inbound);
  OfferTo(inbound);
}

/// From now on all bytes of the version are awaited, by the relays behind this one too.
void ChainReceiver::TakeWhole(const InboundPtr& inbound) {
  inbound->version.clear_delta();  // nor is its base looked for, if it has not been found yet
  if (inbound->delta == nullptr) return;
  if (const auto peer = inbound->peer.lock()) peer->Withdraw(inbound->region);
  inbound->delta = nullptr;
  inbound->base = nullptr;
  if (inbound->source != nullptr) {
    inbound->source->delta = nullptr;
    events_.changed(inbound->version.job(), inbound->version.job_uid());
  }
  inbound->transfer.emplace(inbound->version.size_bytes());
  inbound->connection = inbound->transfer->Attach();
}

void ChainReceiver::Seal(const InboundPtr& inbound) {
  inbound->phase = Phase::kSealing;
  if (const auto peer = inbound->peer.lock()) peer->Withdraw(inbound->region);
  const auto report = [weak = weak_from_this(), mailbox = mailbox_, inbound](
                          const absl::Status& status, const std::string& lease_id) {
    mailbox->Post([weak, inbound, status, lease_id] {
      if (const auto self = weak.lock()) self->SealedHere(inbound, status, lease_id);
    });
  };
  v1::CommitRequest commit;
  commit.set_segment_id(inbound->segment_id);
  commit.set_capability(inbound->version.capability());
  *commit.mutable_tensors() = inbound->version.tensors();
  v1::SealRequest seal;
  seal.set_segment_id(inbound->segment_id);
  seal.set_capability(inbound->version.capability());
  // The lease is asked for in the same turn in which the version is sealed, so its memory stays.
  v1::AcquireRequest acquire;
  acquire.set_job(inbound->version.job());
  acquire.set_job_uid(inbound->version.job_uid());
  acquire.set_policy_version(inbound->version.policy_version());
  acquire.set_holder(kHolder);
  *acquire.mutable_ttl() = ToProto(kLeaseTtl);
  Relay* const relay = relay_;
  relay->Commit(commit, [relay, seal, acquire, report](auto committed) {
    if (!committed.ok()) return report(committed.status(), "");
    relay->Seal(seal, [relay, acquire, report](auto sealed) {
      if (!sealed.ok()) return report(sealed.status(), "");
      relay->Acquire(acquire, [report](auto lease) {
        report(absl::OkStatus(), lease.ok() ? lease->lease_id() : "");
      });
    });
  });
}

void ChainReceiver::SealedHere(const InboundPtr& inbound, const absl::Status& status,
                               std::string lease_id) {
  std::shared_ptr<RelayLease> lease;
  if (!lease_id.empty()) lease = std::make_shared<RelayLease>(relay_, std::move(lease_id));
  if (absl::IsDataLoss(status) && inbound->delta != nullptr && !inbound->dropped) {
    return AskForWhole(inbound, status);
  }
  if (!status.ok()) return Refuse(inbound, status);
  if (inbound->source != nullptr) {
    inbound->source->lease = lease;
    inbound->source->verified = inbound->version.size_bytes();
    events_.changed(inbound->version.job(), inbound->version.job_uid());
  }
  const auto it = inbound_.find(KeyOf(inbound->version));
  if (it != inbound_.end() && it->second == inbound) inbound_.erase(it);
  const auto peer = inbound->peer.lock();
  if (peer == nullptr) return;
  ChainMessage message;
  message.mutable_sealed()->set_transfer(inbound->transfer_id);
  peer->Send(message);
}

void ChainReceiver::Refuse(const InboundPtr& inbound, const absl::Status& status) {
  if (const auto peer = inbound->peer.lock()) peer->Refuse(inbound->transfer_id, status);
  Drop(inbound);
}

void ChainReceiver::Drop(const InboundPtr& inbound) {
  inbound->dropped = true;
  if (const auto peer = inbound->peer.lock()) peer->Withdraw(inbound->region);
  if (!inbound->segment_id.empty()) {
    v1::DropRequest request;
    request.add_segment_ids(inbound->segment_id);
    request.set_capability(inbound->version.capability());
    relay_->Drop(request, [](const auto&) {});
  }
  const auto it = inbound_.find(KeyOf(inbound->version));
  if (it != inbound_.end() && it->second == inbound) inbound_.erase(it);
  if (inbound->source == nullptr) return;
  inbound->source->failed = true;
  events_.changed(inbound->version.job(), inbound->version.job_uid());
}

void ChainReceiver::Detach(const std::shared_ptr<Peer>& peer) {
  for (const auto& [key, inbound] : inbound_) {
    if (inbound->peer.lock() != peer) continue;
    inbound->peer.reset();
    inbound->region = 0;
    // Perhaps because of the delta, which then is not tried again.
    if (inbound->phase == Phase::kReceiving && inbound->transfer->verified() == 0) {
      TakeWhole(inbound);
    }
    Abandon(inbound);
  }
}

/// Unless a sender comes, it is dropped after a while.
void ChainReceiver::Abandon(const InboundPtr& inbound) {
  inbound->detached = transport_->Now();
  transport_->After(options_.abandoned_after + kSweep, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Sweep();
  });
}

void ChainReceiver::Sweep() {
  const absl::Time now = transport_->Now();
  for (const auto& [key, inbound] : std::map<Key, InboundPtr>(inbound_)) {
    if (now - inbound->detached >= options_.abandoned_after &&
        inbound->phase == Phase::kReceiving) {
      Drop(inbound);
    }
  }
}

}  // namespace baton::relay
