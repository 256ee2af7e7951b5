// A store in memory. For tests and the simulator.
#ifndef BATON_CONTROLLER_STORE_MEMORY_STORE_H_
#define BATON_CONTROLLER_STORE_MEMORY_STORE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/store/store.h"

namespace baton::store {

/// Commits at once, on the caller's thread. `FailWith` makes it refuse writes like a full disk;
/// `CutPower` makes it lose unsynced commits like a disk.
class MemoryStore : public Store {
 public:
  explicit MemoryStore(size_t max_row_bytes = kMaxRowBytes) : max_row_bytes_(max_row_bytes) {}

  size_t max_row_bytes() const override { return max_row_bytes_; }
  using Store::Commit;
  void Commit(std::vector<Write> writes, Durability durability, Done done) override;
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override;
  absl::StatusOr<std::vector<Row>> Scan(absl::string_view table,
                                        const ScanOptions& options) override;
  absl::Status health() const override;

  /// Not OK: commits wait, with this as `health()`. OK: the waiting commits are written, in order.
  void FailWith(absl::Status status);

  /// Number of commits that a power cut may lose: those after the newest of Durability::kPowerCut.
  size_t unsynced() const;
  /// The power is cut: of these commits the first `kept` are left; waiting commits are lost,
  /// unanswered.
  void CutPower(size_t kept);

 private:
  using Table = std::map<std::string, std::string>;
  struct Waiting {
    std::vector<Write> writes;
    Durability durability;
    Done done;
    absl::Status refused;  ///< Nothing is written.
  };
  void Apply(const std::vector<Write>& writes, Durability durability)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_row_bytes_;
  mutable absl::Mutex mu_;
  std::map<std::string, Table> tables_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  // The writes that undo each unsynced commit, in the order of commits.
  std::vector<std::vector<Write>> undo_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_MEMORY_STORE_H_
