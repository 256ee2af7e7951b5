// The strands and threads that the work of one job runs on.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_JOB_THREADS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_JOB_THREADS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/ports/executor.h"
#include "controller/runtime/job/job_scope.h"

namespace baton::controller {

/// Posts the work of a job. Posted work holds the job. If work throws, only this job is
/// quarantined. Any thread may post.
class JobThreads {
 public:
  using Work = std::function<void()>;

  /// `hold` returns a reference that keeps the job alive. `quarantine` is called on the strand,
  /// with what was thrown.
  JobThreads(const JobScope* scope, std::function<std::shared_ptr<void>()> hold,
             std::function<void(const std::string& thrown)> quarantine);

  /// A reference that keeps the job alive.
  std::shared_ptr<void> Hold() const { return hold_(); }
  /// Runs work that belongs to the strand here and now.
  void TakeTurn(const Work& work);

  /// On the job's strand, which never blocks.
  void OnStrand(Work work);
  void OnStrandAfter(absl::Duration delay, Work work);
  /// On the job's disk strand, which alone touches its files.
  void OnDisk(Work work);
  /// Runs `slice` on the disk strand until it returns true, each time as work of its own, so that
  /// the disk threads serve other jobs in between.
  void InSlices(std::function<bool()> slice);
  /// On the threads that read the store for watchers.
  void OnReaders(Work work);
  /// On the threads that read data files; `data` says how many bytes.
  void OnDataReaders(const v1::DataSpec& data, Work work);

 private:
  void Guard(const Work& work);

  const JobScope* const scope_;
  const std::function<std::shared_ptr<void>()> hold_;
  const std::function<void(const std::string&)> quarantine_;
  const std::unique_ptr<Executor> strand_;
  const std::unique_ptr<Executor> disk_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_JOB_THREADS_H_
