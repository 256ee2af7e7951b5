// The shared state of a controller's parts: its options, its store, its jobs and its threads.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_CONTROLLER_SCOPE_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_CONTROLLER_SCOPE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "boost/asio/strand.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/runtime/calls/asio_executors.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/calls/data_readers.h"
#include "controller/runtime/calls/gate.h"
#include "controller/runtime/cluster/cluster_runtime.h"
#include "controller/runtime/cluster/ended_jobs.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/files/folder_bytes.h"
#include "controller/runtime/files/path_guard.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job/runtime_context.h"
#include "controller/runtime/job_files/disk_files.h"
#include "controller/runtime/rows/restore_marks.h"
#include "controller/runtime/submit/controller_options.h"
#include "controller/store/store.h"
#include "sdk/common/base/clock.h"

namespace baton::controller {

/// The controller fills it in before the first call, and it outlives all parts. All members are
/// thread-safe, or constant from the first call on.
struct ControllerScope {
  explicit ControllerScope(ControllerOptions given);

  /// The folder of a job, by its full name.
  std::string FolderOf(const std::string& job) const;
  /// Runs `work` on the strand that admits calls: one at a time, in order. It may block on the
  /// store and on files of submissions. Dropped once the controller stops.
  void OnAdmission(std::function<void()> work);
  /// Runs `work` on the thread of searches that nothing waits for.
  void OnRemover(std::function<void()> work);
  /// Calls `then` with the job of that name, or `refused` with the reason that there is none. An
  /// ended job is read from its rows first (ended_jobs.h).
  using Then = std::function<void(const std::shared_ptr<JobRuntime>&)>;
  void FindJob(const std::string& name, std::function<void(const absl::Status&)> refused,
               Then then) const;
  /// Answers with the job of that full name, once its changes so far are committed. May block on
  /// the store.
  void DescribeJob(const std::string& name, const Callback<v1::Job>& done) const;

  ControllerOptions options;
  const PathGuard paths;
  RealClock clock;
  std::unique_ptr<store::Store> store;
  FolderBytes folder_bytes;
  std::unique_ptr<RestoreMarks> marks;
  std::unique_ptr<DiskFiles> files;
  RuntimeContext context;

  JobTable jobs;  ///< Running jobs, and few others.
  std::unique_ptr<EndedJobs> ended;
  Gate gate;
  boost::asio::thread_pool cluster_thread{1};  ///< Separate: heartbeats do not wait for jobs.
  boost::asio::thread_pool disk;
  AsioExecutors executors;   ///< For jobs.
  DataReaders data_readers;  ///< For submissions; separate, so that jobs do not wait for them.
  boost::asio::thread_pool remover{1};
  boost::asio::strand<boost::asio::thread_pool::executor_type> admission;  ///< On `disk`.
  std::unique_ptr<ClusterRuntime> cluster;                                 ///< On `cluster_thread`.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_CONTROLLER_SCOPE_H_
