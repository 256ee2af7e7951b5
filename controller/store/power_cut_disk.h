// A disk for tests that forgets what was not synced when the power is cut.
//
// A VFS of SQLite in front of the real one: it notes the writes and syncs of each file. CutInto
// then makes the files that a power cut at this moment would leave: everything synced, and any of
// the later writes, because a disk may write them in any order.
#ifndef BATON_CONTROLLER_STORE_POWER_CUT_DISK_H_
#define BATON_CONTROLLER_STORE_POWER_CUT_DISK_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton::store {

/// Databases that are opened while this object lives are on it. One at a time. Thread-safe.
class PowerCutDisk {
 public:
  PowerCutDisk();
  ~PowerCutDisk();
  PowerCutDisk(const PowerCutDisk&) = delete;

  /// Writes into `folder` the remaining content of every file, under its own name.
  void CutInto(const std::string& folder, std::mt19937& random);
  int64_t syncs() const;

  // Calls of the VFS.
  void Opened(const std::string& path);
  void Written(const std::string& path, uint64_t offset, const std::string& bytes);
  void Truncated(const std::string& path, uint64_t size);
  void Synced(const std::string& path);
  void Deleted(const std::string& path);

 private:
  struct Change {
    bool truncate = false;
    uint64_t offset = 0;  // or the size
    std::string bytes;
  };
  struct File {
    std::string synced;
    std::vector<Change> unsynced;
  };
  static void Apply(const Change& change, std::string& content);

  mutable absl::Mutex mu_;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(mu_);
  int64_t syncs_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_POWER_CUT_DISK_H_
