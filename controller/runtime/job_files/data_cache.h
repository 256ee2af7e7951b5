// Cache of data files, with one copy in memory for all jobs that read them.
//
// Ten jobs that train on one file hold it once. All sets together have a bound: a job whose data
// find no room waits until other jobs end (the error says so), and holds no sets meanwhile.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_DATA_CACHE_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_DATA_CACHE_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "sdk/common/data_set/data_set.h"

namespace baton::controller {

/// Thread-safe. Sets may outlive it.
class DataCache {
 public:
  /// `max_bytes`: of all sets together, in memory.
  explicit DataCache(uint64_t max_bytes) : budget_(std::make_shared<ByteBudget>(max_bytes)) {}

  /// The set that `read` makes of `paths` with `options`; or an earlier one, if somebody holds it
  /// and no file has changed since (another file, size or time of change). Blocks, also while
  /// another caller reads the same files. RESOURCE_EXHAUSTED: others hold so much that there is no
  /// room; the message says for what, "room for …". `own`: bytes of sets that the caller holds.
  /// There is always room if nobody else holds a set.
  absl::StatusOr<std::shared_ptr<const DataSet>> Get(const std::vector<std::string>& paths,
                                                     const DataSetOptions& options, uint64_t own,
                                                     const std::function<DataSet()>& read);

  /// Bytes of all sets that somebody holds or is reading.
  uint64_t bytes() const { return budget_->bytes(); }

 private:
  // The count of all sets' bytes. Each set shares it, so it lives as long as they.
  class ByteBudget {
   public:
    explicit ByteBudget(uint64_t max_bytes) : max_bytes_(max_bytes) {}
    // False: there is no room beside what others hold.
    bool Take(uint64_t bytes, uint64_t own);
    void GiveBack(uint64_t bytes);
    uint64_t bytes() const;
    uint64_t max_bytes() const { return max_bytes_; }

   private:
    const uint64_t max_bytes_;
    mutable absl::Mutex mu_;
    uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  };
  struct Slot {
    absl::Mutex reading;  // held while the files are read
    std::weak_ptr<const DataSet> set ABSL_GUARDED_BY(reading);
    uint64_t bytes ABSL_GUARDED_BY(reading) = 0;  // of the set, once it was read

    // True if a job has the set.
    bool held() {
      absl::MutexLock lock(&reading);
      return !set.expired();
    }
  };

  std::shared_ptr<Slot> SlotOf(const std::string& key);
  absl::Status NoRoom(uint64_t bytes) const;

  const std::shared_ptr<ByteBudget> budget_;
  absl::Mutex mu_;
  std::map<std::string, std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_DATA_CACHE_H_
