// The shared memory of one relay: allocates files, takes them back and reuses them.
#ifndef BATON_RELAY_SEGMENT_SEGMENT_POOL_H_
#define BATON_RELAY_SEGMENT_SEGMENT_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "relay/segment/instance_lock.h"
#include "relay/segment/shared_file.h"

namespace baton::relay {

struct SegmentPoolOptions {
  std::string directory = "/dev/shm";
  std::string prefix = "baton-relay";
  uint64_t max_bytes = 0;  ///< Limit for all files together; 0: the capacity of the directory.
};

/// Not thread-safe. The destructor removes every file; allocated files must be destroyed before.
class SegmentPool {
 public:
  /// Removes what dead pools with the same prefix left. Then checks that `max_bytes` fits into the
  /// directory; if not, ResourceExhausted names both sizes. NotFound and similar errors name the
  /// directory.
  static absl::StatusOr<std::unique_ptr<SegmentPool>> Create(SegmentPoolOptions options);

  /// A file of exactly this size, under a name that was never used before. Memory comes, in this
  /// order, from a recycled file that fits (its pages are faulted in; a fresh file costs several
  /// times the copy), from free memory, from recycled files that do not fit. ResourceExhausted
  /// names the bytes needed and free; then nothing was changed.
  absl::StatusOr<std::unique_ptr<SharedFile>> Allocate(uint64_t size_bytes);

  /// OUT_OF_RANGE, with what to do: `size_bytes` beside `kept_bytes` are more than the directory
  /// and `max_bytes` hold, so whatever is freed, they never fit.
  [[nodiscard]] absl::Status CheckCapacity(uint64_t size_bytes, uint64_t kept_bytes) const;
  /// The error that Allocate would give if `freed_bytes` were free.
  [[nodiscard]] absl::Status CheckFits(uint64_t size_bytes, uint64_t freed_bytes) const;

  /// Keeps the file for reuse. No process may still have it mapped.
  void Recycle(std::unique_ptr<SharedFile> file);
  /// Removes the file. Existing mappings in other processes stay valid.
  void Discard(std::unique_ptr<SharedFile> file);

  /// The most that Allocate can give: free and recycled bytes.
  uint64_t free_bytes() const;
  uint64_t used_bytes() const { return used_bytes_; }
  const std::string& instance() const { return lock_->instance(); }
  const std::vector<std::string>& orphans_removed() const { return orphans_removed_; }

 private:
  SegmentPool(SegmentPoolOptions options, std::unique_ptr<InstanceLock> lock,
              std::vector<std::string> orphans)
      : options_(std::move(options)),
        lock_(std::move(lock)),
        orphans_removed_(std::move(orphans)) {}

  std::unique_ptr<SharedFile> TakeRecycled(uint64_t size_bytes);
  uint64_t UnusedBytes() const;

  const SegmentPoolOptions options_;
  const std::unique_ptr<InstanceLock> lock_;
  const std::vector<std::string> orphans_removed_;
  std::vector<std::unique_ptr<SharedFile>> recycled_;  ///< Oldest first.
  uint64_t used_bytes_ = 0;                            ///< Allocated and recycled bytes.
  uint64_t next_ = 1;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SEGMENT_POOL_H_
