// The rules of a segment's life, without files, clocks and threads.
//
// clang-format off
//   Begin ──> RESERVED ──Open──> WRITING ──StartSeal──> SEALING ──FinishSeal──> SEALED ──> retired
//                │                  │  <──AbortSeal───────┘                       ^  │
//                └──────────────────┴───── Abandon, or a Begin of the same job    Acquire, Release
//                                   └───── Expire: its writer is gone
// clang-format on
//
// - Readers see SEALED segments only.
// - The newest `keep` sealed versions of a job stay, every leased version, and those that the job
//   asked for (Keep); others are retired.
// - A retired segment's memory may be reused only if no process can have it mapped: every lease was
//   released, and no writer had it.
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
#include "relay/segment/segment_header.h"

namespace baton::relay {

struct SealedSegment {
  std::string segment_id;
  std::string job;
  uint64_t version = 0;
  std::string path;
  uint64_t size_bytes = 0;
  std::vector<TensorDigest> tensors;  ///< By name; the boxes of one by rank.
  int leases = 0;
  bool fork = false;  ///< As Begin got it.
};

/// A segment that the table has removed; the caller recycles or removes its file.
struct RetiredSegment {
  std::string segment_id;
  bool recyclable = false;
};

/// Not thread-safe. Pure: each call brings its time.
class SegmentTable {
 public:
  struct Options {
    int keep = 2;           ///< Sealed versions kept per job, at least 1.
    std::string id_prefix;  ///< Makes the ids of two relays differ.
    /// The longest time for writing a segment before it is sealed. Without it nothing would end a
    /// segment whose writer died and whose job publishes no more.
    absl::Duration unsealed_ttl = absl::Hours(1);
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

  /// Reserves a segment. A job has at most one unsealed segment: an older one of any version is
  /// retired, and its segment id becomes unknown. With `fork`, this version and all newer sealed
  /// ones are dropped first: readers cannot find them any more, and they are retired when their
  /// leases end. AlreadyExists: the version is sealed. FailedPrecondition: a newer version is
  /// sealed. InvalidArgument: empty job, size 0, world_size not in [1, 4096]. An error changes
  /// nothing.
  absl::StatusOr<Begun> Begin(const std::string& job, uint64_t version, uint64_t size_bytes,
                              int world_size, bool fork);
  /// The effect that Begin would have on the memory of the job's earlier versions.
  struct Room {
    uint64_t freed_bytes = 0;
    uint64_t kept_bytes = 0;  ///< The newest earlier versions, which stay until this one is sealed.
  };
  /// The error that Begin would give, without doing it.
  absl::StatusOr<Room> CheckBegin(const std::string& job, uint64_t version, uint64_t size_bytes,
                                  int world_size, bool fork) const;
  /// Sealed versions of the job that stay beside the newest ones until the next call for the job.
  /// Those that are not there are ignored.
  std::vector<RetiredSegment> Keep(const std::string& job, const std::vector<uint64_t>& versions);
  /// What the job's last Keep named.
  std::vector<uint64_t> KeptOf(const std::string& job) const;
  /// The file exists and has these tensors. NotFound: the segment was superseded.
  [[nodiscard]] absl::Status Open(const std::string& segment_id, const std::string& path,
                                  const TensorShapes& tensors, absl::Time now);
  /// Ends RESERVED, WRITING or SEALING; unknown ids are ignored.
  void Abandon(const std::string& segment_id);

  /// A rank has written these boxes. A repeated call replaces the rank's earlier one. NotFound: no
  /// such segment. InvalidArgument: rank out of range, no such tensor, a box outside of it,
  /// elements that are named twice, or more than 64 boxes of a tensor. FailedPrecondition: not
  /// WRITING.
  [[nodiscard]] absl::Status Commit(const std::string& segment_id, int rank,
                                    absl::Span<const TensorDigest> tensors);

  /// The digests to verify. FailedPrecondition: a rank or a part of a tensor is missing, or two
  /// ranks gave different checksums for one box. Unavailable: it is being sealed already. NotFound.
  absl::StatusOr<std::vector<TensorDigest>> StartSeal(const std::string& segment_id);
  /// The digests are right: the segment is visible from now on. NotFound: it was superseded
  /// meanwhile.
  absl::StatusOr<std::vector<RetiredSegment>> FinishSeal(const std::string& segment_id);
  /// The digests are wrong: back to WRITING.
  void AbortSeal(const std::string& segment_id);
  /// The job of the segment, sealed or not; nullopt: unknown id.
  std::optional<std::string> JobOf(const std::string& segment_id) const;
  /// The segment, if it is sealed.
  std::optional<SealedSegment> FindSealed(const std::string& segment_id) const;

  /// Absent `version`: the newest. NotFound names the existing versions. `ttl` > 0.
  absl::StatusOr<Lease> Acquire(const std::string& job, std::optional<uint64_t> version,
                                const std::string& holder, absl::Duration ttl, absl::Time now);
  /// NotFound: no such lease, or it has ended.
  absl::StatusOr<std::vector<RetiredSegment>> Release(const std::string& lease_id);
  /// Hides the segment from readers; it is retired when its leases end. Unknown ids are ignored.
  std::vector<RetiredSegment> Drop(const std::string& segment_id);
  /// Ends the leases that have expired at `now`, and the segments that were not sealed in time.
  std::vector<RetiredSegment> Expire(absl::Time now);
  /// The time at which the next lease or unsealed segment expires.
  std::optional<absl::Time> NextExpiry() const;

  /// Sealed segments by job and version; of all jobs when `job` is empty.
  std::vector<SealedSegment> List(const std::string& job) const;

 private:
  enum class State { kReserved, kWriting, kSealing, kSealed };
  struct Record {
    State state = State::kReserved;
    SealedSegment segment;
    int world_size = 1;
    TensorShapes tensors;
    absl::Time opened = absl::InfiniteFuture();
    std::map<int, std::vector<TensorDigest>> commits;  ///< By rank.
    bool dropped = false;                              ///< By a fork.
    bool lease_expired = false;                        ///< A process may still have it mapped.
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
  std::map<std::string, std::set<uint64_t>> kept_;  ///< By job; of jobs with a sealed version.
  uint64_t next_id_ = 1;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SEGMENT_TABLE_H_
