// A pool of processes that check models and data of submissions, with the queue for them.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_CHECKER_POOL_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_CHECKER_POOL_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/calls/fair_queue.h"
#include "controller/runtime/submit/checker_process.h"

namespace baton::controller {

/// Checks run in a few long-lived processes. A process is started when it is needed and ended when
/// it has been idle for a while. Projects take turns, and no two projects may use all processes, so
/// slow checks of two projects delay no third one. Thread-safe.
class CheckerPool {
 public:
  struct Options {
    std::string program;  ///< Empty: Post is never called.
    /// The most processes at once. A project may use fewer than half of them, but at least one.
    int processes = 5;
    /// `limit` bounds one check once it has a process; `queue_limit` bounds its wait before. Their
    /// sum is less than a client's deadline for the call (10 minutes).
    absl::Duration limit = absl::Minutes(6);
    absl::Duration queue_limit = absl::Minutes(3);
    absl::Duration idle = absl::Minutes(1);  ///< An idle process is ended after so long.
    int checks = 200;                        ///< A process is replaced after so many checks.
  };
  explicit CheckerPool(Options options);
  ~CheckerPool();

  /// Calls `done` from a thread of its own, which must not be blocked, with the result of
  /// CheckerProcess::Check. Errors of the pool: RESOURCE_EXHAUSTED (CHECKS_WAITING): no process was
  /// free within `queue_limit`. CANCELLED: `gone` answered true, so the check was not begun or was
  /// ended. Drops `done` after Stop. `begin` may be null. The same thread calls it when a process
  /// takes the request. It may complete the request, so a waiting request need not reserve
  /// anything.
  using Begin = std::function<void(CheckerProcess::Request*)>;
  void Post(const std::string& project, CheckerProcess::Request request, Begin begin,
            CallerGone gone, Callback<v1::ValidateJobResponse> done);
  /// Kills the processes. Afterwards no `done` is called.
  void Stop();

  /// The number of processes, busy or idle.
  int running() const;

 private:
  struct Waiting {
    std::string project;
    CheckerProcess::Request request;
    Begin begin;
    CallerGone gone;
    absl::Time deadline;  // of its wait in the queue
    Callback<v1::ValidateJobResponse> done;
  };
  struct Idle {
    std::unique_ptr<CheckerProcess> process;
    int checks = 0;  // that it has done so far
    absl::Time since;
  };

  bool stopping() const;
  void Work();
  void RunOne(std::unique_ptr<Waiting> next, Idle process);
  void Look();
  absl::Time NextLook() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Late(const Waiting& waiting) const;

  const Options options_;

  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int busy_ ABSL_GUARDED_BY(mu_) = 0;
  FairQueue<std::unique_ptr<Waiting>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mu_);  // the most recently used one is the last
  std::vector<std::thread> threads_;             // A process dies with the thread that started it.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_CHECKER_POOL_H_
