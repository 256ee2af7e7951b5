// A store that forgets. For tests and the simulator.
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

/// Commits at once, on the caller's thread. `FailWith` makes it refuse writes like a full disk.
class MemoryStore : public Store {
 public:
  void Commit(std::vector<Write> writes, Done done) override;
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override;
  absl::StatusOr<std::vector<Row>> Scan(absl::string_view table,
                                        const ScanOptions& options) override;
  absl::Status health() const override;

  /// Not OK: commits wait, with this as `health()`. OK: what waits is written, in order.
  void FailWith(absl::Status status);

 private:
  using Table = std::map<std::string, std::string>;
  void Apply(const std::vector<Write>& writes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<std::string, Table> tables_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<std::vector<Write>, Done>> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_MEMORY_STORE_H_
