#include "relay/server/chain_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "relay/segment/checksum.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

using chain::v1::ChainMessage;

constexpr size_t kMostKnown = 64;
// Versions that wait for the link at most, with the one that is on its way. A link that is slower
// than the trainer leaves out versions, the oldest first.
constexpr size_t kMostQueued = 4;
constexpr absl::Duration kTick = absl::Seconds(1);

}  // namespace

ChainLink::ChainLink(Transport* transport, ChainOrder order, ChainLinkOptions options,
                     LinkCost cost, Broken broken)
    : transport_(transport),
      order_(std::move(order)),
      options_(options),
      broken_(std::move(broken)),
      cost_(cost),
      retry_(options.retry) {}

void ChainLink::Start() {
  Connect();
  Tick();
}

void ChainLink::Connect() {
  transport_->Connect(order_.next, [weak = weak_from_this()](auto connection) {
    const auto self = weak.lock();
    if (self == nullptr || self->stopped_) {
      if (connection.ok()) (*connection)->Close(absl::CancelledError("the chain has changed"));
      return;
    }
    if (!connection.ok()) return self->Failed(connection.status());
    self->connection_ = *std::move(connection);
    self->connection_->Start(self);
    self->retry_ = self->options_.retry;
    ChainMessage message;
    message.mutable_probe();
    self->probed_ = self->transport_->Now();
    self->Send(message);
    self->AnnounceNext();
  });
}

void ChainLink::Failed(const absl::Status& status) {
  last_error_ = status;
  phase_ = Phase::kIdle;
  if (transfer_) transfer_->Pause();
  if (stopped_) return;
  broken_(status);
  const absl::Duration wait = retry_;
  retry_ = std::min(2 * retry_, options_.most_retry);
  transport_->After(wait, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && !self->stopped_) self->Connect();
  });
}

void ChainLink::OnClosed(const absl::Status& status) {
  connection_ = nullptr;
  Failed(status);
}

void ChainLink::Tick() {
  if (connection_ != nullptr && phase_ != Phase::kIdle && transport_->Now() > deadline_) {
    connection_->Close(absl::DeadlineExceededError(
        absl::StrCat("relay ", order_.next, " is there and does not get on")));
  }
  transport_->After(kTick, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && !self->stopped_) self->Tick();
  });
}

void ChainLink::Stop() {
  stopped_ = true;
  phase_ = Phase::kIdle;
  queue_.clear();
  if (connection_ != nullptr) connection_->Close(absl::CancelledError("the chain has changed"));
}

void ChainLink::Enqueue(std::shared_ptr<ChainSource> source) {
  const std::string& id = source->segment_id;
  if (stopped_ || std::find(known_.begin(), known_.end(), id) != known_.end()) return;
  known_.push_back(id);
  if (known_.size() > kMostKnown) known_.pop_front();
  if (source->version.chunk_bytes() == 0) {
    source->version.set_chunk_bytes(ChunkBytes(order_.relays, source->version.size_bytes(), cost_));
  }
  queue_.push_back(std::move(source));
  if (queue_.size() > kMostQueued) DropOldest();
  if (phase_ == Phase::kIdle) AnnounceNext();
}

// Not the one that is on its way, nor what rollouts still need.
void ChainLink::DropOldest() {
  const auto& kept = queue_.back()->version.keep_versions();
  for (size_t i = phase_ == Phase::kIdle ? 0 : 1; i + 1 < queue_.size(); ++i) {
    if (std::count(kept.begin(), kept.end(), queue_[i]->version.policy_version()) > 0) continue;
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void ChainLink::AnnounceNext() {
  while (!queue_.empty() && queue_.front()->failed) queue_.pop_front();
  transfer_.reset();
  phase_ = Phase::kIdle;
  if (queue_.empty() || connection_ == nullptr) return;
  const ChainSource& source = *queue_.front();
  transfer_.emplace(source.version.size_bytes(), source.version.chunk_bytes(),
                    options_.window_bytes);
  phase_ = Phase::kAnnounced;
  ChainMessage message;
  chain::v1::Announce* announce = message.mutable_announce();
  *announce = source.version;
  announce->set_transfer(++transfer_id_);
  announce->set_generation(order_.generation);
  announce->set_capability(order_.capability);
  SetDeadline();
  Send(message);
}

void ChainLink::OnMessage(std::string bytes) {
  ChainMessage message;
  if (!message.ParseFromString(bytes)) {
    return connection_->Close(absl::InvalidArgumentError("what came is no message of a relay"));
  }
  if (message.has_probe_answer()) {
    cost_.ObserveRoundTrip(transport_->Now() - probed_);
  } else if (message.has_resume() && message.resume().transfer() == transfer_id_) {
    OnResume(message.resume());
  } else if (message.has_received() && message.received().transfer() == transfer_id_) {
    OnReceived(message.received().offset());
  } else if (message.has_sealed() && message.sealed().transfer() == transfer_id_) {
    OnSealed();
  } else if (message.has_refused() && message.refused().transfer() == transfer_id_) {
    OnRefused(FromProto(message.refused().status()));
  }
}

void ChainLink::OnPut(const PutArrival&) {}  // nothing was offered

void ChainLink::OnResume(const chain::v1::Resume& resume) {
  if (phase_ != Phase::kAnnounced) return;
  if (const auto resumed = transfer_->Resume(resume.offset()); !resumed.ok()) {
    return connection_->Close(resumed);
  }
  phase_ = Phase::kSending;
  region_ = resume.region();
  resumed_at_ = transport_->Now();
  resumed_from_ = resume.offset();
  whole_at_start_ = queue_.front()->verified == queue_.front()->version.size_bytes();
  Pump();
}

void ChainLink::Pump() {
  if (!queue_.empty() && queue_.front()->failed) return AnnounceNext();
  if (phase_ != Phase::kSending || connection_ == nullptr) return;
  const std::shared_ptr<ChainSource>& source = queue_.front();
  transfer_->Extend(source->verified);
  while (const auto chunk = transfer_->Next()) {
    const auto bytes = source->bytes.subspan(chunk->offset, chunk->size_bytes);
    put_bytes_ += chunk->size_bytes;
    connection_->Put(region_, chunk->offset, bytes, Xxh3(bytes), [source] {});
  }
  SetDeadline();
}

void ChainLink::OnReceived(uint64_t offset) {
  if (phase_ != Phase::kSending) return;
  if (const auto status = transfer_->Acknowledge(offset); !status.ok()) {
    return connection_->Close(status);
  }
  if (transfer_->complete() && whole_at_start_) {
    cost_.ObserveTransfer(offset - resumed_from_, transport_->Now() - resumed_at_);
    whole_at_start_ = false;
  }
  Pump();
}

void ChainLink::OnSealed() {
  if (phase_ == Phase::kIdle) return;
  last_error_ = absl::OkStatus();
  queue_.pop_front();
  AnnounceNext();
}

void ChainLink::OnRefused(const absl::Status& status) {
  if (phase_ == Phase::kIdle) return;
  last_error_ = status;
  phase_ = Phase::kIdle;
  transfer_.reset();
  const auto& version = queue_.front()->version;
  Log(LogLevel::kWarn, "a relay does not take a version",
      {{"job", version.job()},
       {"version", version.policy_version()},
       {"relay", order_.next},
       {"error", status.message()}});
  if (ErrorReason(status) == "STALE_CHAIN") {
    return Stop();
  }
  if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) {
    transport_->After(options_.room_retry, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self != nullptr && self->phase_ == Phase::kIdle) self->AnnounceNext();
    });
    return;
  }
  queue_.pop_front();
  AnnounceNext();
}

/// Nobody waits for the receiver while this relay itself waits for more of the version.
void ChainLink::SetDeadline() {
  const absl::Time now = transport_->Now();
  if (phase_ == Phase::kAnnounced || transfer_->complete()) {
    deadline_ = now + options_.answer_deadline;
  } else {
    deadline_ = transfer_->in_flight() > 0 ? now + options_.chunk_deadline : absl::InfiniteFuture();
  }
}

void ChainLink::Send(const ChainMessage& message) {
  connection_->Send(message.SerializeAsString());
}

}  // namespace baton::relay
