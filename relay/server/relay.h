// The relay itself: segment files and the rules of their life; requests drive it.
//
// Two threads: the strand owns the table of segments, the leases and the waiting Acquires. The file
// thread owns the files and does slow work (reserving memory, checksums). Requests are posted and
// answered later; no call blocks.
#ifndef BATON_RELAY_SERVER_RELAY_H_
#define BATON_RELAY_SERVER_RELAY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/relay_service.pb.h"
#include "boost/asio/basic_waitable_timer.hpp"
#include "boost/asio/thread_pool.hpp"
#include "relay/segment/segment_pool.h"
#include "relay/segment/segment_table.h"
#include "sdk/common/base/clock.h"

namespace baton::relay {

struct RelayOptions {
  SegmentPoolOptions pool;
  int keep = 2;                                    ///< Sealed versions kept per job.
  absl::Duration default_ttl = absl::Minutes(10);  ///< For a lease request without a ttl.
  absl::Duration max_ttl = absl::Hours(24);        ///< Longer leases are cut to this.
  absl::Duration max_wait = absl::Minutes(10);     ///< Longer waits of Acquire are cut to this.
  /// Shared with the controller (sdk/common/contracts/shared_key.h): Begin, Commit, Seal and Drop
  /// then require the job's capability. Empty: they do not.
  std::string capability_key;
};

/// Thread-safe. Errors are those of relay_service.proto, with their reasons. `done` is called once,
/// on a thread of the relay, and must not block.
class Relay {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  /// Errors of SegmentPool::Create; INVALID_ARGUMENT: keep below 1.
  static absl::StatusOr<std::unique_ptr<Relay>> Create(RelayOptions options);
  /// Ends waiting Acquires with UNAVAILABLE and removes every file.
  ~Relay();

  void Begin(v1::BeginRequest request, Done<v1::BeginResponse> done);
  void Commit(v1::CommitRequest request, Done<v1::CommitResponse> done);
  void Seal(v1::SealRequest request, Done<v1::SealResponse> done);
  /// Returns a ticket for CancelAcquire.
  uint64_t Acquire(v1::AcquireRequest request, Done<v1::AcquireResponse> done);
  /// Ends the Acquire with CANCELLED, if it still waits.
  void CancelAcquire(uint64_t ticket);
  void Release(v1::ReleaseRequest request, Done<v1::ReleaseResponse> done);
  void Drop(v1::DropRequest request, Done<v1::DropResponse> done);
  void List(v1::ListRequest request, Done<v1::ListResponse> done);

  /// OK, or PERMISSION_DENIED (CAPABILITY): what Begin says of the capability.
  absl::Status CheckCapability(const std::string& job, const std::string& job_uid,
                               const std::string& capability) const;
  /// Called for each version that is sealed from now on, before the answer of Seal, on a thread of
  /// the relay. `fork`: as Begin got it. Null: nobody is called.
  using Sealed = std::function<void(const v1::SegmentInfo& segment, bool fork)>;
  void ObserveSealed(Sealed sealed);

 private:
  struct Waiter {
    v1::AcquireRequest request;
    Done<v1::AcquireResponse> done;
    absl::Time deadline;
  };
  struct OpenFile {
    std::unique_ptr<SharedFile> file;
    std::string header;  ///< As given to Begin.
  };

  Relay(RelayOptions options, std::unique_ptr<SegmentPool> pool);

  // On the file thread.
  absl::StatusOr<std::string> AllocateFile(const std::string& segment_id,
                                           const v1::BeginRequest& request);
  absl::Status Verify(const std::string& segment_id,
                      const std::vector<TensorDigest>& digests) const;
  void CloseFile(const RetiredSegment& segment);

  // `versions`: the result of VersionsOf. OK, or PERMISSION_DENIED (CAPABILITY).
  absl::Status MayPublish(const std::string& versions, const std::string& capability) const;

  // On the strand.
  absl::Status MayChange(const std::string& segment_id, const std::string& capability) const;
  void Reserve(const v1::BeginRequest& request, const TensorShapes& tensors,
               Done<v1::BeginResponse> done);
  void Opened(const std::string& segment_id, const TensorShapes& tensors,
              const absl::StatusOr<std::string>& path, const Done<v1::BeginResponse>& done);
  void Verified(const std::string& segment_id, const absl::Status& verified,
                const Done<v1::SealResponse>& done);
  absl::StatusOr<v1::AcquireResponse> TryAcquire(const v1::AcquireRequest& request);
  void Dispose(std::vector<RetiredSegment> retired);
  void ServeWaiters();
  void Tick();
  void RearmTimer();

  const RelayOptions options_;
  const RealClock clock_;
  std::atomic<uint64_t> next_ticket_{1};

  // Owned by the file thread.
  const std::unique_ptr<SegmentPool> pool_;
  std::map<std::string, OpenFile> files_;  ///< By segment id.

  // Owned by the strand.
  SegmentTable table_;
  std::map<uint64_t, Waiter> waiters_;  ///< By ticket; tickets grow, so the first comes first.
  Sealed sealed_;                       ///< May be null.

  boost::asio::thread_pool file_thread_{1};
  boost::asio::thread_pool strand_{1};
  boost::asio::basic_waitable_timer<BootClock> timer_{strand_};
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_RELAY_H_
