// The shared memory of one relay: hands out files, takes them back, uses them again.
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
  uint64_t max_bytes = 0;  ///< Of all files together; 0: as much as the directory has.
};

/// Not thread-safe. Every file is removed at destruction; the files handed out must be gone then.
class SegmentPool {
 public:
  /// Removes what dead pools of the same prefix left, then checks that `max_bytes` fits into what
  /// the directory can hold: ResourceExhausted naming both. NotFound and so on name the directory.
  static absl::StatusOr<std::unique_ptr<SegmentPool>> Create(SegmentPoolOptions options);

  /// A file of exactly this size under a name never used before. Memory comes, in this order, from
  /// a recycled file that fits (its pages are faulted in; a fresh one costs several times the
  /// copy), from what is free, from recycled files that do not fit. ResourceExhausted naming the
  /// bytes needed and free, before anything is touched.
  absl::StatusOr<std::unique_ptr<SharedFile>> Allocate(uint64_t size_bytes);

  /// ResourceExhausted as by Allocate, if `freed_bytes` came back first.
  [[nodiscard]] absl::Status CheckFits(uint64_t size_bytes, uint64_t freed_bytes) const;

  /// Keeps the file for reuse. No process may have it mapped any more.
  void Recycle(std::unique_ptr<SharedFile> file);
  /// Removes the file. Mappings that others still have stay valid.
  void Discard(std::unique_ptr<SharedFile> file);

  /// What Allocate can give: free and recycled bytes.
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
  uint64_t used_bytes_ = 0;                            ///< Handed out and recycled.
  uint64_t next_ = 1;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SEGMENT_POOL_H_
