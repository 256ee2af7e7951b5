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
                     LinkExperience experience, Broken broken, Encode encode)
    : transport_(transport),
      order_(std::move(order)),
      options_(options),
      broken_(std::move(broken)),
      encode_(std::move(encode)),
      experience_(experience),
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
  NoteBusy();
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
  base_ = nullptr;
  if (connection_ != nullptr) connection_->Close(absl::CancelledError("the chain has changed"));
}

void ChainLink::Enqueue(std::shared_ptr<ChainSource> source) {
  const std::string& id = source->segment_id;
  if (stopped_ || std::find(known_.begin(), known_.end(), id) != known_.end()) return;
  known_.push_back(id);
  if (known_.size() > kMostKnown) known_.pop_front();
  if (source->version.chunk_bytes() == 0) {
    source->version.set_chunk_bytes(
        ChunkBytes(order_.relays, source->version.size_bytes(), experience_.cost));
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
  delta_ = nullptr;
  sends_delta_ = false;
  phase_ = Phase::kIdle;
  NoteBusy();
  if (queue_.empty() || connection_ == nullptr) return;
  const ChainSource& source = *queue_.front();
  meter_.Announce(source.segment_id, transport_->Now());
  if (EncodesFirst(source)) return;
  transfer_.emplace(source.version.size_bytes(), source.version.chunk_bytes(),
                    options_.window_bytes);
  delta_ = source.delta;
  phase_ = Phase::kAnnounced;
  ChainMessage message;
  chain::v1::Announce* announce = message.mutable_announce();
  *announce = source.version;
  if (delta_ != nullptr) *announce->mutable_delta() = delta_->about;
  announce->set_transfer(++transfer_id_);
  announce->set_generation(order_.generation);
  announce->set_capability(order_.capability);
  SetDeadline();
  Send(message);
}

/// A version that is complete here goes as what differs from the last one that the next relay has,
/// where that pays. True: the delta is made, and the version announced after that.
bool ChainLink::EncodesFirst(const ChainSource& source) {
  const uint64_t size = source.version.size_bytes();
  const bool may = base_ != nullptr && source.delta == nullptr && !source.delta_tried &&
                   source.verified == size && !source.version.fork();
  if (!may || !experience_.choice.Tries(order_.encoding, experience_.cost.seconds_per_byte())) {
    return false;
  }
  phase_ = Phase::kEncoding;
  deadline_ = absl::InfiniteFuture();
  queue_.front()->delta_tried = true;
  encode_(base_, queue_.front(),
          [weak = weak_from_this(), front = queue_.front()](const MadeDelta& made) {
            if (const auto self = weak.lock()) self->Encoded(front, made);
          });
  return true;
}

void ChainLink::Encoded(const SourcePtr& source, const MadeDelta& made) {
  const uint64_t size = source->version.size_bytes();
  const uint64_t delta_size = made.delta == nullptr ? 0 : made.delta->bytes.size();
  experience_.choice.Observe(size, delta_size, made.time);
  if (phase_ != Phase::kEncoding) return;  // the connection broke, or the chain has changed
  if (made.delta != nullptr) {
    made.delta->about.set_chunk_bytes(ChunkBytes(order_.relays, delta_size, experience_.cost));
    source->delta = made.delta;
  }
  AnnounceNext();
}

void ChainLink::OnMessage(std::string bytes) {
  ChainMessage message;
  if (!message.ParseFromString(bytes)) {
    return connection_->Close(absl::InvalidArgumentError("what came is no message of a relay"));
  }
  if (message.has_probe_answer()) {
    experience_.cost.ObserveRoundTrip(transport_->Now() - probed_);
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
  // Once chunks of the delta go, another answer can but ask for the whole version.
  const bool whole_after_all = phase_ == Phase::kSending && sends_delta_ && !resume.delta();
  if (phase_ != Phase::kAnnounced && !whole_after_all) return;
  if (resume.delta() && delta_ == nullptr) {
    return connection_->Close(absl::InvalidArgumentError("the delta that it asks for is not here"));
  }
  const chain::v1::Announce& version = queue_.front()->version;
  sends_delta_ = resume.delta();
  if (sends_delta_) {
    transfer_.emplace(delta_->about.size_bytes(), delta_->about.chunk_bytes(),
                      options_.window_bytes);
  } else {
    transfer_.emplace(version.size_bytes(), version.chunk_bytes(), options_.window_bytes);
  }
  if (const auto resumed = transfer_->Resume(resume.offset()); !resumed.ok()) {
    return connection_->Close(resumed);
  }
  phase_ = Phase::kSending;
  region_ = resume.region();
  resumed_at_ = transport_->Now();
  resumed_from_ = resume.offset();
  whole_at_start_ = sends_delta_ ? delta_->verified == delta_->about.size_bytes()
                                 : queue_.front()->verified == version.size_bytes();
  Pump();
}

void ChainLink::Pump() {
  if (!queue_.empty() && queue_.front()->failed) return AnnounceNext();
  if (phase_ != Phase::kSending || connection_ == nullptr) return;
  const std::shared_ptr<ChainSource>& source = queue_.front();
  if (sends_delta_ && source->delta != delta_) return AnnounceNext();  // it was given up
  const absl::Span<const uint8_t> all = sends_delta_ ? delta_->bytes : source->bytes;
  transfer_->Extend(sends_delta_ ? delta_->verified : source->verified);
  while (const auto chunk = transfer_->Next()) {
    const auto bytes = all.subspan(chunk->offset, chunk->size_bytes);
    put_bytes_ += chunk->size_bytes;
    meter_.Sent(chunk->size_bytes);
    connection_->Put(region_, chunk->offset, bytes, Xxh3(bytes), [source, delta = delta_] {});
  }
  SetDeadline();
}

void ChainLink::OnReceived(uint64_t offset) {
  if (phase_ != Phase::kSending) return;
  if (const auto status = transfer_->Acknowledge(offset); !status.ok()) {
    return connection_->Close(status);
  }
  if (transfer_->complete() && whole_at_start_) {
    experience_.cost.ObserveTransfer(offset - resumed_from_, transport_->Now() - resumed_at_);
    whole_at_start_ = false;
  }
  Pump();
}

void ChainLink::OnSealed() {
  if (!awaits_answer()) return;
  last_error_ = absl::OkStatus();
  NoteHop();
  queue_.front()->delta = nullptr;
  if (order_.encoding != Encoding::kFull) base_ = queue_.front();
  queue_.pop_front();
  AnnounceNext();
}

void ChainLink::NoteHop() {
  if (phase_ != Phase::kSending) return;  // the version was there
  const chain::v1::Announce& version = queue_.front()->version;
  meter_.Arrived(version.policy_version(), version.size_bytes(), transport_->Now());
  Log(LogLevel::kDebug, "a version is visible at the next relay",
      {{"job", version.job()},
       {"version", version.policy_version()},
       {"relay", order_.next},
       {"size_bytes", meter_.last().size_bytes},
       {"sent_bytes", meter_.last().sent_bytes},
       {"seconds", absl::ToDoubleSeconds(meter_.last().time)}});
}

void ChainLink::OnRefused(const absl::Status& status) {
  if (!awaits_answer()) return;
  last_error_ = status;
  phase_ = Phase::kIdle;
  NoteBusy();
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
  NoteBusy();
  const absl::Time now = transport_->Now();
  if (phase_ == Phase::kAnnounced || transfer_->complete()) {
    deadline_ = now + options_.answer_deadline;
  } else {
    deadline_ = transfer_->in_flight() > 0 ? now + options_.chunk_deadline : absl::InfiniteFuture();
  }
}

void ChainLink::NoteBusy() {
  meter_.Busy(phase_ == Phase::kSending && transfer_->in_flight() > 0, transport_->Now());
}

void ChainLink::Send(const ChainMessage& message) {
  connection_->Send(message.SerializeAsString());
}

}  // namespace baton::relay
