// Ownership of files in a directory that outlives its processes.
#ifndef BATON_RELAY_SEGMENT_INSTANCE_LOCK_H_
#define BATON_RELAY_SEGMENT_INSTANCE_LOCK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::relay {

/// Marks a running instance by a locked file `<prefix>-<instance>.lock`. The kernel releases the
/// lock when the process ends, in whatever way. So if a lock can be taken, its instance is dead.
/// Process ids are not used, because they are reused and differ between containers.
///
///   <prefix>-<instance>.lock               instance: 12 hexadecimal digits, random
///   <prefix>-<instance>-<n>.safetensors    its segments
class InstanceLock {
 public:
  /// `prefix`: 1–64 of a–z, A–Z, 0–9, `-`, `_`, `.`; InvalidArgument otherwise.
  static absl::StatusOr<std::unique_ptr<InstanceLock>> Create(const std::string& directory,
                                                              const std::string& prefix);
  InstanceLock(const InstanceLock&) = delete;
  InstanceLock& operator=(const InstanceLock&) = delete;
  /// Removes the lock file; the segments must be removed before.
  ~InstanceLock();

  const std::string& instance() const { return instance_; }
  /// The path of segment `n` of this instance.
  std::string SegmentPath(uint64_t n) const;

 private:
  InstanceLock(std::string directory, std::string prefix, std::string instance, int fd)
      : directory_(std::move(directory)),
        prefix_(std::move(prefix)),
        instance_(std::move(instance)),
        fd_(fd) {}

  const std::string directory_;
  const std::string prefix_;
  const std::string instance_;
  const int fd_;
};

/// Removes the segments and locks of dead instances with this prefix, and of no others. Returns the
/// removed paths.
absl::StatusOr<std::vector<std::string>> RemoveOrphans(const std::string& directory,
                                                       absl::string_view prefix);

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_INSTANCE_LOCK_H_
