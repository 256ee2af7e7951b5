// The jobs of a controller, by their full names.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_TABLE_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/core/job/task.h"
#include "controller/runtime/job/job_runtime.h"

namespace baton::controller {

/// "projects/default/jobs/x" for "x"; a full name is left as it is.
std::string FullJobName(const std::string& name, const std::string& project = "default");

/// Thread-safe.
class JobTable {
 public:
  struct Entry {
    std::shared_ptr<JobRuntime> job;  ///< Null: there is no such job.
    int64_t order = 0;                ///< Of submission.
  };

  /// Jobs that no call may show yet, or any more, are found by Get, Has, Below and TakeAll only.
  Entry Get(const std::string& name) const;
  bool Has(const std::string& name) const { return Get(name).job != nullptr; }
  /// Null: there is no such job that calls may show.
  std::shared_ptr<JobRuntime> Find(const std::string& name) const;
  /// The job of the token; null: it does not exist any more.
  std::shared_ptr<JobRuntime> FindOf(const TaskToken& token) const;
  /// The jobs whose names begin with `prefix`, by name.
  std::vector<Entry> Below(const std::string& prefix) const;
  /// Greater than the order of every job so far.
  int64_t next_order() const;

  void Add(std::shared_ptr<JobRuntime> job, int64_t order);
  /// Adds the job unless there is one of its name. Returns the one that is in the table.
  std::shared_ptr<JobRuntime> AddIfAbsent(std::shared_ptr<JobRuntime> job, int64_t order);
  void Erase(const std::string& name);
  /// An order below next_order() from now on: that of a job which is not in the table.
  void KeepOrder(int64_t order);
  struct Ended {
    std::vector<std::shared_ptr<JobRuntime>> idle;  ///< Taken out of the table.
    size_t in_use = 0;                              ///< Left in it.
  };
  /// Takes out the jobs that have ended and are not used by any call or waiting work. Jobs that
  /// were quarantined stay, because their rows cannot be read again.
  Ended TakeEnded();
  /// Empties the table.
  std::vector<Entry> TakeAll();

 private:
  mutable absl::Mutex mu_;
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mu_);
  int64_t next_order_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_TABLE_H_
