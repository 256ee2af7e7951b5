#include "relay/server/relay.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "boost/asio/post.hpp"
#include "relay/segment/checksum_message.h"
#include "relay/segment/segment_header.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

using boost::asio::post;

constexpr int kMostKeptVersions = 8;

/// Adds to an error of the table or the pool the reason that its code has in one RPC.
absl::Status WithReason(const absl::Status& status,
                        std::initializer_list<std::pair<absl::StatusCode, const char*>> reasons) {
  for (const auto& [code, reason] : reasons) {
    if (status.code() == code) return MakeError(code, reason, status.message());
  }
  return status;
}

absl::Status BeginError(const absl::Status& status) {
  return WithReason(status, {{absl::StatusCode::kAlreadyExists, "VERSION_SEALED"},
                             {absl::StatusCode::kFailedPrecondition, "VERSION_NOT_NEWER"},
                             {absl::StatusCode::kResourceExhausted, "SHARED_MEMORY"},
                             {absl::StatusCode::kOutOfRange, "SHARED_MEMORY_SIZE"},
                             {absl::StatusCode::kNotFound, "SEGMENT_NOT_FOUND"}});
}

absl::Status SealError(const absl::Status& status) {
  return WithReason(status, {{absl::StatusCode::kFailedPrecondition, "INCOMPLETE"},
                             {absl::StatusCode::kDataLoss, "CHECKSUM"},
                             {absl::StatusCode::kNotFound, "SEGMENT_NOT_FOUND"}});
}

/// The key of a job's versions in the table: the job's name, and its uid if given. So a job never
/// sees versions of an earlier job with the same name. INVALID_ARGUMENT: the name has a '#'.
absl::StatusOr<std::string> VersionsOf(const std::string& job, const std::string& uid) {
  if (absl::StrContains(job, '#')) {
    return absl::InvalidArgumentError(absl::StrCat("job: '", job, "' has a '#'"));
  }
  return uid.empty() ? job : absl::StrCat(job, "#", uid);
}

/// Splits the key into name and uid.
std::pair<std::string, std::string> JobOfVersions(const std::string& versions) {
  return absl::StrSplit(versions, absl::MaxSplits('#', 1));
}

/// `table`: that of the segment.
v1::SegmentInfo ToInfo(const SealedSegment& segment, const SegmentTable& table) {
  v1::SegmentInfo info;
  info.set_segment_id(segment.segment_id);
  const auto [job, uid] = JobOfVersions(segment.job);
  info.set_job(job);
  info.set_job_uid(uid);
  info.set_policy_version(segment.version);
  info.set_path(segment.path);
  info.set_size_bytes(segment.size_bytes);
  info.set_leases(segment.leases);
  AddChecksums(segment.tensors, info.mutable_tensors());
  const std::vector<uint64_t> kept = table.KeptOf(segment.job);
  info.mutable_keep_versions()->Assign(kept.begin(), kept.end());
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Relay>> Relay::Create(RelayOptions options) {
  if (options.keep < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--keep: ", options.keep, " is below 1"));
  }
  BATON_ASSIGN_OR_RETURN(auto pool, SegmentPool::Create(options.pool));
  for (const std::string& path : pool->orphans_removed()) {
    Log(LogLevel::kInfo, "orphan removed", {{"path", path}});
  }
  return std::unique_ptr<Relay>(new Relay(std::move(options), std::move(pool)));
}

Relay::Relay(RelayOptions options, std::unique_ptr<SegmentPool> pool)
    : options_(std::move(options)),
      pool_(std::move(pool)),
      table_({options_.keep, pool_->instance()}) {}

Relay::~Relay() {
  // Running work moves between the two threads; a joined thread drops posted work.
  post(strand_, [this] {
    timer_.cancel();
    for (auto& [ticket, waiter] : waiters_) {
      waiter.done(absl::UnavailableError("the relay is shutting down"));
    }
    waiters_.clear();
  });
  strand_.join();
  file_thread_.join();
}

absl::Status Relay::MayPublish(const std::string& versions, const std::string& capability) const {
  const std::string& key = options_.capability_key;
  const auto [job, uid] = JobOfVersions(versions);
  if (key.empty() || SameSecret(capability, PublishCapability(key, job, uid))) {
    return absl::OkStatus();
  }
  const char* wrong = capability.empty()
                          ? "there is no capability; the controller gives it with task publish, if "
                            "started with --relay-capability-key-file and this relay's key"
                          : "this capability is another job's, perhaps of an earlier job of "
                            "this name, or made with another key than this "
                            "relay's";
  return MakeError(absl::StatusCode::kPermissionDenied, "CAPABILITY",
                   absl::StrCat("publishing for ", job, ": ", wrong));
}

// A segment that is gone needs no change.
absl::Status Relay::MayChange(const std::string& segment_id, const std::string& capability) const {
  const auto job = table_.JobOf(segment_id);
  return job.has_value() ? MayPublish(*job, capability) : absl::OkStatus();
}

void Relay::Begin(v1::BeginRequest request, Done<v1::BeginResponse> done) {
  const auto versions = VersionsOf(request.job(), request.job_uid());
  if (!versions.ok()) return done(versions.status());
  if (const auto s = MayPublish(*versions, request.capability()); !s.ok()) return done(s);
  if (request.keep_versions_size() > kMostKeptVersions) {
    return done(
        absl::InvalidArgumentError(absl::StrCat("keep_versions: ", request.keep_versions_size(),
                                                " versions, at most ", kMostKeptVersions)));
  }
  request.set_job(*versions);  // from here on
  post(strand_, [this, request = std::move(request), done = std::move(done)] {
    const auto room = table_.CheckBegin(request.job(), request.policy_version(),
                                        request.size_bytes(), request.world_size(), request.fork());
    if (!room.ok()) return done(BeginError(room.status()));
    post(file_thread_, [this, request, done, room = *room] {
      absl::Status fits = pool_->CheckCapacity(request.size_bytes(), room.kept_bytes);
      if (fits.ok()) fits = pool_->CheckFits(request.size_bytes(), room.freed_bytes);
      if (!fits.ok()) return done(BeginError(fits));
      const auto tensors = CheckSegmentHeader(request.header(), request.size_bytes());
      if (!tensors.ok()) return done(tensors.status());
      post(strand_, [this, request, tensors = *tensors, done] { Reserve(request, tensors, done); });
    });
  });
}

void Relay::Reserve(const v1::BeginRequest& request, const TensorShapes& tensors,
                    Done<v1::BeginResponse> done) {
  auto begun = table_.Begin(request.job(), request.policy_version(), request.size_bytes(),
                            request.world_size(), request.fork());
  if (!begun.ok()) return done(BeginError(begun.status()));
  Dispose(std::move(begun->retired));
  Dispose(
      table_.Keep(request.job(), {request.keep_versions().begin(), request.keep_versions().end()}));
  post(file_thread_, [this, request, tensors, done = std::move(done), id = begun->segment_id] {
    auto path = AllocateFile(id, request);
    post(strand_, [this, id, tensors, path, done] { Opened(id, tensors, path, done); });
  });
}

absl::StatusOr<std::string> Relay::AllocateFile(const std::string& segment_id,
                                                const v1::BeginRequest& request) {
  BATON_ASSIGN_OR_RETURN(auto file, pool_->Allocate(request.size_bytes()));
  std::memcpy(file->bytes().data(), request.header().data(), request.header().size());
  const std::string path = file->path();
  files_[segment_id] = {std::move(file), request.header()};
  return path;
}

void Relay::Opened(const std::string& segment_id, const TensorShapes& tensors,
                   const absl::StatusOr<std::string>& path, const Done<v1::BeginResponse>& done) {
  if (!path.ok()) {
    table_.Abandon(segment_id);
    return done(BeginError(path.status()));
  }
  // The segment was superseded while its file was made; the call that did so has handled the file
  // too.
  if (const auto opened = table_.Open(segment_id, *path, tensors, clock_.Now()); !opened.ok()) {
    return done(BeginError(opened));
  }
  RearmTimer();
  v1::BeginResponse response;
  response.set_segment_id(segment_id);
  response.set_path(*path);
  done(std::move(response));
}

void Relay::Commit(v1::CommitRequest request, Done<v1::CommitResponse> done) {
  post(strand_, [this, request = std::move(request), done = std::move(done)] {
    const absl::Status may = MayChange(request.segment_id(), request.capability());
    if (!may.ok()) return done(may);
    const absl::Status status =
        table_.Commit(request.segment_id(), request.rank(), ReadChecksums(request.tensors()));
    if (!status.ok()) {
      return done(WithReason(status, {{absl::StatusCode::kNotFound, "SEGMENT_NOT_FOUND"},
                                      {absl::StatusCode::kFailedPrecondition, "NOT_WRITING"}}));
    }
    done(v1::CommitResponse());
  });
}

void Relay::Seal(v1::SealRequest request, Done<v1::SealResponse> done) {
  post(strand_, [this, id = request.segment_id(), capability = request.capability(),
                 done = std::move(done)] {
    if (const absl::Status may = MayChange(id, capability); !may.ok()) return done(may);
    if (const auto sealed = table_.FindSealed(id)) {  // A retry whose first answer was lost.
      v1::SealResponse response;
      *response.mutable_segment() = ToInfo(*sealed, table_);
      return done(std::move(response));
    }
    const auto digests = table_.StartSeal(id);
    if (!digests.ok()) return done(SealError(digests.status()));
    post(file_thread_, [this, id, digests = *digests, done] {
      const absl::Status verified = Verify(id, digests);
      post(strand_, [this, id, verified, done] { Verified(id, verified, done); });
    });
  });
}

absl::Status Relay::Verify(const std::string& segment_id,
                           const std::vector<TensorDigest>& digests) const {
  const auto it = files_.find(segment_id);
  if (it == files_.end()) return absl::NotFoundError(absl::StrCat("no segment ", segment_id));
  const absl::Span<const uint8_t> bytes = it->second.file->bytes();
  const std::string& header = it->second.header;
  if (std::memcmp(bytes.data(), header.data(), header.size()) != 0) {
    return absl::DataLossError("the header was overwritten with another one");
  }
  BATON_ASSIGN_OR_RETURN(const auto view, SafetensorsView::Parse(bytes));
  return VerifyTensors(view, digests);
}

void Relay::Verified(const std::string& segment_id, const absl::Status& verified,
                     const Done<v1::SealResponse>& done) {
  if (!verified.ok()) {
    table_.AbortSeal(segment_id);
    Log(LogLevel::kWarn, "seal refused", {{"segment", segment_id}, {"error", verified.message()}});
    return done(SealError(verified));
  }
  auto retired = table_.FinishSeal(segment_id);
  if (!retired.ok()) return done(SealError(retired.status()));
  Dispose(*std::move(retired));
  const auto sealed = table_.FindSealed(segment_id);
  v1::SealResponse response;
  if (sealed) *response.mutable_segment() = ToInfo(*sealed, table_);
  Log(LogLevel::kInfo, "version sealed",
      {{"job", response.segment().job()},
       {"version", response.segment().policy_version()},
       {"bytes", response.segment().size_bytes()}});
  if (sealed && sealed_) sealed_(response.segment(), sealed->fork);
  done(std::move(response));
  ServeWaiters();
}

uint64_t Relay::Acquire(v1::AcquireRequest request, Done<v1::AcquireResponse> done) {
  const uint64_t ticket = next_ticket_++;
  post(strand_, [this, ticket, request = std::move(request), done = std::move(done)] {
    auto response = TryAcquire(request);
    const absl::Duration wait = FromProto(request.wait());
    if (response.ok() || !absl::IsNotFound(response.status()) || wait <= absl::ZeroDuration()) {
      done(std::move(response));
    } else {
      waiters_[ticket] = {request, done, clock_.Now() + std::min(wait, options_.max_wait)};
    }
    RearmTimer();
  });
  return ticket;
}

void Relay::CancelAcquire(uint64_t ticket) {
  post(strand_, [this, ticket] {
    const auto it = waiters_.find(ticket);
    if (it == waiters_.end()) return;
    it->second.done(absl::CancelledError("the caller has gone"));
    waiters_.erase(it);
  });
}

absl::StatusOr<v1::AcquireResponse> Relay::TryAcquire(const v1::AcquireRequest& request) {
  Dispose(table_.Expire(clock_.Now()));
  std::optional<uint64_t> version;
  if (request.has_policy_version()) version = request.policy_version();
  const absl::Duration ttl = request.has_ttl() ? FromProto(request.ttl()) : options_.default_ttl;
  BATON_ASSIGN_OR_RETURN(const std::string versions, VersionsOf(request.job(), request.job_uid()));
  auto lease = table_.Acquire(versions, version, request.holder(), std::min(ttl, options_.max_ttl),
                              clock_.Now());
  if (!lease.ok()) {
    return WithReason(lease.status(), {{absl::StatusCode::kNotFound, "VERSION_NOT_FOUND"}});
  }
  v1::AcquireResponse response;
  response.set_lease_id(lease->lease_id);
  *response.mutable_segment() = ToInfo(lease->segment, table_);
  return response;
}

void Relay::Release(v1::ReleaseRequest request, Done<v1::ReleaseResponse> done) {
  post(strand_, [this, id = request.lease_id(), done = std::move(done)] {
    auto retired = table_.Release(id);
    if (!retired.ok()) {
      return done(WithReason(retired.status(), {{absl::StatusCode::kNotFound, "LEASE_NOT_FOUND"}}));
    }
    Dispose(*std::move(retired));
    done(v1::ReleaseResponse());
  });
}

void Relay::Drop(v1::DropRequest request, Done<v1::DropResponse> done) {
  post(strand_, [this, request = std::move(request), done = std::move(done)] {
    for (const std::string& id : request.segment_ids()) {  // all or nothing
      if (const auto may = MayChange(id, request.capability()); !may.ok()) return done(may);
    }
    for (const std::string& id : request.segment_ids()) Dispose(table_.Drop(id));
    done(v1::DropResponse());
  });
}

void Relay::List(v1::ListRequest request, Done<v1::ListResponse> done) {
  post(strand_, [this, job = request.job(), done = std::move(done)] {
    Dispose(table_.Expire(clock_.Now()));
    v1::ListResponse response;
    for (const SealedSegment& segment : table_.List("")) {
      if (!job.empty() && JobOfVersions(segment.job).first != job) {
        continue;
      }
      *response.add_segments() = ToInfo(segment, table_);
    }
    post(file_thread_, [this, response, done]() mutable {
      response.set_free_bytes(pool_->free_bytes());
      done(std::move(response));
    });
  });
}

absl::Status Relay::CheckCapability(const std::string& job, const std::string& job_uid,
                                    const std::string& capability) const {
  BATON_ASSIGN_OR_RETURN(const std::string versions, VersionsOf(job, job_uid));
  return MayPublish(versions, capability);
}

void Relay::ObserveSealed(Sealed sealed) {
  post(strand_, [this, sealed = std::move(sealed)] { sealed_ = sealed; });
}

void Relay::Dispose(std::vector<RetiredSegment> retired) {
  if (retired.empty()) return;
  post(file_thread_, [this, retired = std::move(retired)] {
    for (const RetiredSegment& segment : retired) CloseFile(segment);
  });
}

void Relay::CloseFile(const RetiredSegment& segment) {
  const auto it = files_.find(segment.segment_id);
  if (it == files_.end()) return;  // The segment's file could not be made.
  if (segment.recyclable) {
    pool_->Recycle(std::move(it->second.file));
  } else {
    pool_->Discard(std::move(it->second.file));
  }
  files_.erase(it);
}

void Relay::ServeWaiters() {
  const absl::Time now = clock_.Now();
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    auto response = TryAcquire(it->second.request);
    if (absl::IsNotFound(response.status()) && it->second.deadline > now) {
      ++it;
      continue;
    }
    it->second.done(std::move(response));
    it = waiters_.erase(it);
  }
  RearmTimer();
}

void Relay::Tick() {
  Dispose(table_.Expire(clock_.Now()));
  ServeWaiters();
}

void Relay::RearmTimer() {
  absl::Time next = table_.NextExpiry().value_or(absl::InfiniteFuture());
  for (const auto& [ticket, waiter] : waiters_) next = std::min(next, waiter.deadline);
  timer_.cancel();
  if (next == absl::InfiniteFuture()) return;
  timer_.expires_after(absl::ToChronoNanoseconds(
      std::clamp(next - clock_.Now(), absl::ZeroDuration(), absl::Hours(1))));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
}

}  // namespace baton::relay
