// Rows that list the jobs in the order of their submission (kOrderTable), so that a page's cost
// depends only on its length, however many jobs have ended.
//
// A job has two such rows, one among its project's and one among all; they are written with its
// first row and deleted with its last. They also say which call made the job, because that call's
// row is deleted with the job. The value: the job's name, a line break, the key of the call in
// kRequestTable (empty: the call had no request id).
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_ORDER_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_ORDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/store/store.h"

namespace baton::controller {

std::vector<store::Write> RowsOfOrder(const std::string& job, int64_t order,
                                      const std::string& request_key);
std::vector<store::Write> DeletedOrder(const std::string& job, int64_t order);

/// The rows of the project's jobs ("*": of all) whose order is below `before`, the newest first.
store::ScanOptions OrderedJobs(const std::string& project, int64_t before);
std::string JobOfOrder(const store::Row& row);
/// The key of the call that made the job; empty: it had no request id, or is no longer kept.
/// Blocks.
absl::StatusOr<std::string> RequestThatMade(store::Store& store, const std::string& job,
                                            int64_t order);

/// Check that the rows of the order are exactly those of the jobs that were added. Sets of jobs are
/// compared by their hashes.
class OrderCheck {
 public:
  void Add(const std::string& job, int64_t order);
  /// Blocks.
  absl::StatusOr<bool> Agrees(store::Store& store) const;

 private:
  uint64_t count_ = 0, hashes_ = 0;
};

/// Writes all rows of the order anew, and deletes requests that made jobs which do not exist any
/// more: where a job's row was damaged, its order is not known when the job is deleted. Blocks.
absl::Status WriteOrder(store::Store& store);

/// Passes the rows of `scan` to `take`, in pieces, until it returns false or no rows are left.
/// Blocks.
absl::Status ScanInPieces(store::Store& store, const char* table, store::ScanOptions scan,
                          const std::function<bool(const store::Row&)>& take);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_ORDER_H_
