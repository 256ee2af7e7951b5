// Jobs that have ended: rows, not objects, so that running jobs alone bound the controller's
// memory.
//
// A job leaves memory when it has ended and nothing uses its object any more (DropIdle). A call
// that needs the object loads it from its rows again (Find), as a restart would; most calls need
// only the rows (Describe). There is never more than one object of a job, and a job changes only by
// its object, so a job that is being loaded cannot change meanwhile.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_ENDED_JOBS_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_ENDED_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/job/runtime_context.h"

namespace baton::controller {

/// Thread-safe.
class EndedJobs {
 public:
  /// Objects of ended jobs at once; further calls wait until some are dropped.
  static constexpr size_t kMostLoaded = 16;
  /// Calls that may wait; further ones are refused.
  static constexpr size_t kMostWaiting = 1000;

  using Found = std::function<void(absl::StatusOr<std::shared_ptr<JobRuntime>>)>;

  /// All arguments outlive this, and no work is left in the executors when it is destroyed.
  EndedJobs(const RuntimeContext* context, JobTable* jobs, JobRestorer* restorer);

  /// Calls `found` with the object of the job of that full name: at once if it is in memory, else
  /// on a thread of readers. NOT_FOUND (JOB_NOT_FOUND). RESOURCE_EXHAUSTED (JOBS_BUSY): too many
  /// calls for ended jobs wait.
  void Find(const std::string& name, Found found);
  /// The answer of GetJob. NOT_FOUND (JOB_NOT_FOUND); DATA_LOSS: the rows are damaged. Blocks.
  absl::StatusOr<v1::Job> Describe(const std::string& name) const;
  /// True if the name is taken, also by a job that no call may show yet. Blocks. If the store does
  /// not answer, the name counts as taken.
  bool Exists(const std::string& name) const;
  /// Drops the objects that nothing uses, and loads what waits. The jobs are destroyed here, which
  /// may block on their files.
  void DropIdle();

  /// A job was made, or found in the store (1), or deleted (-1).
  void Count(const std::string& job, int64_t more);
  /// The number of a project's jobs, in memory or not.
  int64_t JobsOf(const std::string& project) const;

 private:
  void LoadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  /// True: as many jobs are in memory as allowed.
  bool Load(const std::string& name);

  const RuntimeContext* const context_;
  JobTable* const jobs_;
  JobRestorer* const restorer_;

  mutable absl::Mutex mu_;
  std::map<std::string, int64_t> jobs_of_ ABSL_GUARDED_BY(mu_);             // by project
  std::map<std::string, std::vector<Found>> waiting_ ABSL_GUARDED_BY(mu_);  // by job
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mu_);  // of the jobs in waiting_ not yet begun
  size_t calls_ ABSL_GUARDED_BY(mu_) = 0;               // in waiting_
  size_t loading_ ABSL_GUARDED_BY(mu_) = 0;             // on a thread of readers, or posted
  size_t in_memory_ ABSL_GUARDED_BY(mu_) = 0;           // objects of ended jobs, since DropIdle
};

absl::Status NoSuchJob(const std::string& name);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_ENDED_JOBS_H_
