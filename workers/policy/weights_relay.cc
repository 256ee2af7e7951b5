#include "workers/policy/weights_relay.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/channel_credentials.h"

namespace baton::policy {
namespace {

constexpr absl::Duration kWait = absl::Seconds(1);
constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);
constexpr size_t kRemembered = 16;  // segments of a job: more than any relay keeps

/// Repeats `call` while the relay cannot be reached.
absl::Status WhileUnavailable(const absl::Notification& cancelled,
                              absl::FunctionRef<absl::Status()> call) {
  const absl::Time give_up = BootNow() + kPatience;
  bool told = false;
  if (cancelled.HasBeenNotified()) return absl::CancelledError("cancelled before it began");
  while (true) {
    const absl::Status status = call();
    // A relay that stops cancels its calls; this one was not cancelled here.
    const bool stops = absl::IsCancelled(status) && !cancelled.HasBeenNotified();
    if (!absl::IsUnavailable(status) && !stops) return status;
    if (BootNow() >= give_up) {
      return Annotate(status, absl::StrCat("not reached for ", absl::FormatDuration(kPatience),
                                           "; is baton-relay running?"));
    }
    if (!std::exchange(told, true)) {
      Log(LogLevel::kWarn, "the relay cannot be reached yet",
          {{"error", std::string(status.message())}});
    }
    if (cancelled.WaitForNotificationWithTimeout(kRetryDelay)) {
      return absl::CancelledError("no caller waits for it any more");
    }
  }
}

/// NotFound unless the file that was joined is the version of this layout.
absl::Status CheckHeader(absl::Span<const uint8_t> bytes, const relay::SafetensorsLayout& layout) {
  const std::string& header = layout.header();
  const bool same =
      bytes.size() >= header.size() && std::memcmp(bytes.data(), header.data(), header.size()) == 0;
  return same ? absl::OkStatus() : absl::NotFoundError("the file there is another version");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightsRelay>> WeightsRelay::Create(const RelayChoice& choice,
                                                                   const std::string& holder) {
  std::unique_ptr<WeightsRelay> relay(new WeightsRelay(choice, holder));
  BATON_RETURN_IF_ERROR(relay->ClientOf("").status());
  return relay;
}

absl::StatusOr<const relay::RelayClient*> WeightsRelay::ClientOf(const std::string& named) {
  absl::MutexLock lock(&mu_);
  if (!choice_.fixed && !named.empty()) named_ = named;
  const std::string address = named_.empty() ? choice_.address : named_;
  std::unique_ptr<relay::RelayClient>& client = clients_[address];
  if (client != nullptr) return client.get();
  BATON_RETURN_IF_ERROR(MayShowToken(choice_.token, address, TlsFiles(), choice_.insecure));
  relay::RelayClientOptions options;
  options.address = address;
  options.token = choice_.token;
  BATON_ASSIGN_OR_RETURN(client, relay::RelayClient::Create(std::move(options)));
  return client.get();
}

absl::StatusOr<WeightsRelay::Writer> WeightsRelay::Begin(const Publication& what,
                                                         const relay::SafetensorsLayout& layout,
                                                         int writers,
                                                         const absl::Notification& cancelled) {
  relay::PublishOptions options;
  options.job = what.job;
  options.policy_version = what.version;
  options.header = layout.header();
  options.size_bytes = layout.file_size();
  options.world_size = writers;
  options.fork = what.fork;
  options.capability = what.capability;
  options.job_uid = what.job_uid;
  options.keep_versions = what.keep_versions;
  BATON_ASSIGN_OR_RETURN(const relay::RelayClient* const client, ClientOf(what.relay));
  Writer writer;
  BATON_RETURN_IF_ERROR(WhileUnavailable(cancelled, [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(writer, client->Begin(options));
    return absl::OkStatus();
  }));
  // Now, and not once it is sealed: a version that never is would keep its memory.
  absl::MutexLock lock(&mu_);
  Begun& begun = begun_[what.job];
  begun.capability = what.capability;
  begun.relay = what.relay;
  begun.segments.push_back(writer->place().segment_id);
  if (begun.segments.size() > kRemembered) begun.segments.pop_front();
  return writer;
}

absl::StatusOr<WeightsRelay::Writer> WeightsRelay::Join(const Publication& what,
                                                        const relay::SegmentPlace& place,
                                                        const relay::SafetensorsLayout& layout) {
  BATON_ASSIGN_OR_RETURN(const relay::RelayClient* const client, ClientOf(what.relay));
  BATON_ASSIGN_OR_RETURN(auto writer, client->Join(place, layout.file_size(), what.capability));
  BATON_RETURN_IF_ERROR(CheckHeader(writer->bytes(), layout));
  return writer;
}

absl::Status WeightsRelay::Commit(relay::SegmentWriter& writer, int rank,
                                  absl::Span<const relay::TensorDigest> digests) {
  const absl::Status status = writer.Commit(rank, digests);
  // A relay that has gone takes its segments along.
  return absl::IsUnavailable(status) ? absl::NotFoundError(status.message()) : status;
}

absl::Status WeightsRelay::Seal(relay::SegmentWriter& writer, const absl::Notification& cancelled) {
  return WhileUnavailable(cancelled, [&]() { return writer.Seal().status(); });
}

absl::Status WeightsRelay::Load(const Version& what, const absl::Notification& cancelled,
                                absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> use) {
  relay::AcquireOptions options;
  options.job = what.job;
  options.job_uid = what.job_uid;
  options.policy_version = what.version;
  options.holder = holder_;
  options.wait = kWait;
  BATON_ASSIGN_OR_RETURN(const relay::RelayClient* const client, ClientOf(what.relay));
  std::unique_ptr<relay::LeasedSegment> segment;
  BATON_RETURN_IF_ERROR(WhileUnavailable(cancelled, [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(segment, client->Acquire(options));
    return absl::OkStatus();
  }));
  return use(segment->bytes());
}

void WeightsRelay::Forget(const std::string& job) {
  Begun begun;
  {
    absl::MutexLock lock(&mu_);
    begun = std::exchange(begun_[job], {});
    begun_.erase(job);
  }
  if (begun.segments.empty()) return;
  // A relay that is gone has forgotten them too.
  const auto client = ClientOf(begun.relay);
  if (!client.ok()) return;
  (*client)->Drop({begun.segments.begin(), begun.segments.end()}, begun.capability).IgnoreError();
}

}  // namespace baton::policy
