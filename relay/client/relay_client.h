// The client that publishes policy versions into the local relay, and loads them from it.
//
//   trainer:  auto writer = client->Begin({job, version, layout.header(), layout.file_size()});
//             … write (*writer)->bytes() …
//             (*writer)->Commit(0, WholeTensors(layout.entries())); (*writer)->Seal();
//   rollout:  auto weights = client->Acquire({job, version, "worker-3"});
//             LoadModelFrom((*weights)->bytes(), model);
#ifndef BATON_RELAY_CLIENT_RELAY_CLIENT_H_
#define BATON_RELAY_CLIENT_RELAY_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "baton/v1/relay_service.pb.h"
#include "relay/segment/checksum.h"
#include "relay/segment/shared_file.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_reader.h"

namespace baton::relay {

struct RelayClientOptions {
  std::string address;  ///< host:port of the relay on this machine. Required.
  std::string token;    ///< Bearer token; empty: none is sent.
  absl::Duration timeout = absl::Seconds(30);       ///< For each call, without its wait …
  absl::Duration seal_timeout = absl::Minutes(10);  ///< … and for calls that touch every byte.
};

struct PublishOptions {
  std::string job;
  uint64_t policy_version = 0;
  /// The first bytes of the safetensors file (SafetensorsLayout::header()).
  std::string header;
  int64_t size_bytes = 0;  ///< Size of the whole file.
  int world_size = 1;      ///< Ranks that will commit.
  /// Drops this version and newer ones first. Set it at the first publish after assign_role: the
  /// job may have gone back to an earlier step, and its versions then come again.
  bool fork = false;
  /// From task `publish`, for a relay that shares a key with the controller.
  std::string capability;
  std::string job_uid;  ///< Task.job_uid; empty: versions are kept under the job's name alone.
  /// Earlier versions that the relay keeps beside the newest ones until the next Begin; at most 8.
  std::vector<uint64_t> keep_versions;
};

struct AcquireOptions {
  std::string job;
  std::optional<uint64_t> policy_version;      ///< Absent: the newest.
  std::string holder;                          ///< The holder's name, for messages.
  absl::Duration wait = absl::ZeroDuration();  ///< For the version to appear.
  absl::Duration ttl = absl::Minutes(10);      ///< The lease ends by itself after this.
  std::string job_uid;                         ///< As PublishOptions'.
};

class RelayClient;

/// Tells the ranks that write a segment together where to find it.
struct SegmentPlace {
  std::string segment_id;
  std::string path;  ///< On the machine of the relay.
};

/// A segment in the making, from Begin to Seal, as one of its writers has it. Destroyed before
/// Seal, it is simply left: the next Begin of the job replaces it. One thread at a time.
class SegmentWriter {
 public:
  /// The whole file, header in place; until Commit.
  absl::Span<uint8_t> bytes() const { return file_->bytes(); }
  SegmentPlace place() const { return {segment_id_, path_}; }
  const std::string& segment_id() const { return segment_id_; }

  /// This rank has written these boxes: computes their checksums, unmaps the bytes and reports.
  /// Once.
  [[nodiscard]] absl::Status Commit(int rank, absl::Span<const TensorBox> boxes);
  /// The same with checksums that were computed while the bytes were written (BoxDigests).
  [[nodiscard]] absl::Status Commit(int rank, absl::Span<const TensorDigest> digests);
  /// All ranks have committed; readers may have it from now on. May be repeated when the answer was
  /// lost.
  absl::StatusOr<v1::SegmentInfo> Seal();

 private:
  friend class RelayClient;
  SegmentWriter(const RelayClient* client, std::string segment_id, std::string capability,
                std::unique_ptr<SharedFile> file)
      : client_(client),
        segment_id_(std::move(segment_id)),
        capability_(std::move(capability)),
        path_(file->path()),
        file_(std::move(file)) {}

  const RelayClient* const client_;
  const std::string segment_id_;
  const std::string capability_;
  const std::string path_;
  std::unique_ptr<SharedFile> file_;
};

/// A sealed version, mapped read-only, its checksums verified once. Gives the lease back at
/// destruction (with a short deadline; a relay that is gone is no error). Immutable.
class LeasedSegment {
 public:
  ~LeasedSegment();
  LeasedSegment(const LeasedSegment&) = delete;
  LeasedSegment& operator=(const LeasedSegment&) = delete;

  absl::Span<const uint8_t> bytes() const { return file_->bytes(); }
  const SafetensorsView& view() const { return *view_; }
  uint64_t policy_version() const { return info_.policy_version(); }
  const v1::SegmentInfo& info() const { return info_; }

 private:
  friend class RelayClient;
  LeasedSegment(const RelayClient* client, std::string lease_id, v1::SegmentInfo info)
      : client_(client), lease_id_(std::move(lease_id)), info_(std::move(info)) {}

  const RelayClient* const client_;
  const std::string lease_id_;
  const v1::SegmentInfo info_;
  std::optional<MappedFile> file_;
  std::optional<SafetensorsView> view_;
};

/// Thread-safe. Outlives the writers and segments it gives out. Errors of the relay keep their
/// reason (sdk/common/rpc/error.h: VERSION_SEALED, SHARED_MEMORY, SHARED_MEMORY_SIZE, CHECKSUM,
/// INCOMPLETE, SEGMENT_NOT_FOUND, VERSION_NOT_FOUND, LEASE_NOT_FOUND, CAPABILITY); a relay that can
/// not be reached is UNAVAILABLE naming the address.
class RelayClient {
 public:
  /// Connects lazily. INVALID_ARGUMENT: no address.
  static absl::StatusOr<std::unique_ptr<RelayClient>> Create(RelayClientOptions options);
  ~RelayClient();

  absl::StatusOr<std::unique_ptr<SegmentWriter>> Begin(const PublishOptions& options) const;
  /// Another rank's end of a segment that one of them has begun. NOT_FOUND: its file is not on this
  /// machine.
  absl::StatusOr<std::unique_ptr<SegmentWriter>> Join(const SegmentPlace& place, int64_t size_bytes,
                                                      const std::string& capability) const;

  /// DATA_LOSS when the mapped bytes are not those that were sealed.
  absl::StatusOr<std::unique_ptr<LeasedSegment>> Acquire(const AcquireOptions& options) const;
  /// Readers must not find these segments (SegmentInfo.segment_id), all of one job, any more.
  [[nodiscard]] absl::Status Drop(const std::vector<std::string>& segment_ids,
                                  const std::string& capability = "") const;
  absl::StatusOr<v1::ListResponse> List(const std::string& job = "") const;

 private:
  friend class SegmentWriter;
  friend class LeasedSegment;
  struct Rpc;
  explicit RelayClient(std::unique_ptr<Rpc> rpc);
  const std::unique_ptr<Rpc> rpc_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_CLIENT_RELAY_CLIENT_H_
