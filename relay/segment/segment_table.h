// The rules of a segment's life, apart from files, clocks and threads.
//
//   Begin ──> RESERVED ──Open──> WRITING ──StartSeal──> SEALING ──FinishSeal──> SEALED ──> retired
//                │                  │  <──AbortSeal───────┘                       ^  │
//                └──────────────────┴───── Abandon, or a Begin of the same job    Acquire, Release
//
// - Readers see SEALED segments only.
// - The newest `keep` sealed versions of a job and every leased one stay; others are retired.
// - A retired segment's memory may be used again only if no process can have it mapped: every
//   lease was given back, and no writer had it.
#ifndef BATON_RELAY_SEGMENT_SEGMENT_TABLE_H_
#define BATON_RELAY_SEGMENT_SEGMENT_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "relay/segment/checksum.h"

namespace baton::relay {

struct SealedSegment {
  std::string segment_id;
  std::string job;
  uint64_t version = 0;
  std::string path;
  uint64_t size_bytes = 0;
  std::vector<TensorDigest> tensors;  ///< Sorted by name.
  int leases = 0;
};

/// A segment that the table has forgotten; its file is the caller's to recycle or to remove.
struct RetiredSegment {
  std::string segment_id;
  bool recyclable = false;
};

/// Not thread-safe; pure: time comes in with the call.
class SegmentTable {
 public:
  struct Options {
    int keep = 2;           ///< Sealed versions kept per job, at least 1.
    std::string id_prefix;  ///< Makes ids of two relays differ.
  };
  struct Begun {
    std::string segment_id;
    std::vector<RetiredSegment> retired;
  };
  struct Lease {
    std::string lease_id;
    SealedSegment segment;
  };

  explicit SegmentTable(Options options) : options_(std::move(options)) {}

  /// Reserves a segment. A job has one unsealed segment at most: an older one, whatever its
  /// version, is retired, and its segment id is unknown from now on. With `fork`, this version and
  /// all newer ones that are sealed are dropped first: no reader finds them any more, and they go
  /// when their leases do. AlreadyExists: the version is sealed. FailedPrecondition: a newer one
  /// is. InvalidArgument: empty job, size 0, world_size < 1. An error changes nothing.
  absl::StatusOr<Begun> Begin(const std::string& job, uint64_t version, uint64_t size_bytes,
                              int world_size, bool fork);
  /// What Begin would say, without doing it; if it would succeed, the bytes it would set free.
  absl::StatusOr<uint64_t> CheckBegin(const std::string& job, uint64_t version, uint64_t size_bytes,
                                      int world_size, bool fork) const;
  /// The file exists and has these tensors. NotFound when the segment was superseded.
  [[nodiscard]] absl::Status Open(const std::string& segment_id, const std::string& path,
                                  absl::Span<const std::string> tensors);
  /// RESERVED, WRITING or SEALING ends; unknown ids are ignored.
  void Abandon(const std::string& segment_id);

  /// A rank has written these tensors, or boxes of them; repeating it replaces what it said.
  /// NotFound: no such segment. InvalidArgument: rank or tensor out of range.
  /// FailedPrecondition: not WRITING.
  [[nodiscard]] absl::Status Commit(const std::string& segment_id, int rank,
                                    absl::Span<const TensorDigest> tensors);

  /// What has to be verified. FailedPrecondition: a rank or a tensor is missing, or two ranks give
  /// one tensor two checksums. Unavailable: being sealed already. NotFound.
  absl::StatusOr<std::vector<TensorDigest>> StartSeal(const std::string& segment_id);
  /// Verified: visible from now on. NotFound when superseded meanwhile.
  absl::StatusOr<std::vector<RetiredSegment>> FinishSeal(const std::string& segment_id);
  /// Not verified: back to WRITING.
  void AbortSeal(const std::string& segment_id);
  /// The job whose segment it is, sealed or not; nullopt: there is none of this id.
  std::optional<std::string> JobOf(const std::string& segment_id) const;
  /// The segment, if it is sealed.
  std::optional<SealedSegment> FindSealed(const std::string& segment_id) const;

  /// No `version`: the newest. NotFound names what there is. `ttl` > 0.
  absl::StatusOr<Lease> Acquire(const std::string& job, std::optional<uint64_t> version,
                                const std::string& holder, absl::Duration ttl, absl::Time now);
  /// NotFound: no such lease, or it has ended.
  absl::StatusOr<std::vector<RetiredSegment>> Release(const std::string& lease_id);
  /// The segment cannot be found any more; it goes when its leases do. Unknown ids are ignored.
  std::vector<RetiredSegment> Drop(const std::string& segment_id);
  /// Ends the leases whose time is over at `now`.
  std::vector<RetiredSegment> Expire(absl::Time now);
  /// When the next lease ends by itself.
  std::optional<absl::Time> NextExpiry() const;

  /// Sealed segments by job and version; of all jobs when `job` is empty.
  std::vector<SealedSegment> List(const std::string& job) const;

 private:
  enum class State { kReserved, kWriting, kSealing, kSealed };
  struct Record {
    State state = State::kReserved;
    SealedSegment segment;
    int world_size = 1;
    std::set<std::string> tensor_names;
    std::map<int, std::vector<TensorDigest>> commits;  ///< By rank.
    bool dropped = false;                              ///< By a fork.
    bool lease_expired = false;                        ///< Someone may still have it mapped.
  };
  struct LeaseRecord {
    std::string segment_id;
    std::string holder;
    absl::Time expiry;
  };

  absl::StatusOr<Record*> Find(const std::string& segment_id);
  absl::Status CheckCommits(const Record& record, std::vector<TensorDigest>* merged) const;
  const Record* FindVersion(const std::string& job, std::optional<uint64_t> version) const;
  std::vector<RetiredSegment> RetireUnsealed(const std::string& job);
  std::vector<RetiredSegment> RetireSealed(const std::string& job);

  const Options options_;
  std::map<std::string, Record> records_;  ///< By segment id.
  std::map<std::string, LeaseRecord> leases_;
  uint64_t next_id_ = 1;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SEGMENT_TABLE_H_
