// The dispatcher of a worker: passes each task from the controller to its handler, and the
// handler's output to the ledger.
#ifndef BATON_SDK_WORKER_DISPATCHER_H_
#define BATON_SDK_WORKER_DISPATCHER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "sdk/worker/group_sequencer.h"
#include "sdk/worker/log_queue.h"
#include "sdk/worker/role_runner.h"
#include "sdk/worker/task_context.h"
#include "sdk/worker/task_ledger.h"
#include "sdk/worker/worker.h"

namespace baton {

/// Knows the roles (registered and held), their methods and threads, and the order of group
/// commands. Registration happens before the first task; all other methods are thread-safe.
class Dispatcher : public TaskSink, public std::enable_shared_from_this<Dispatcher> {
 public:
  Dispatcher(std::shared_ptr<TaskLedger> ledger, std::shared_ptr<LogQueue> logs)
      : ledger_(std::move(ledger)), logs_(std::move(logs)) {}

  absl::Status AddRole(absl::string_view role, RoleOptions options);
  absl::Status AddMethod(absl::string_view role, absl::string_view method, int credits,
                         TaskHandler handler, AsyncTaskHandler async, MethodOptions options);

  void Start();  ///< Starts the threads.
  void Stop();   ///< Calls Fence, then waits for every handler.

  /// A task arrived. A task with a known token is ignored, or its result is sent again.
  void Dispatch(v1::Task task);
  /// The controller does not need the task any more; the task still ends with a result.
  void Cancel(absl::string_view token);
  /// Applies Welcome.release.
  void Release(const v1::RoleHeld& held);
  /// Abandons every task and releases every role.
  void Fence();

  /// The role that has been ending since before `begun`, and has not ended; empty: none. Ending
  /// begins when its release, or an assignment to another job, has come.
  std::string RoleEndingSince(SteadyClock::time_point begun) const;

  /// Fills in methods, held roles, running tasks and unacknowledged results.
  void Describe(v1::Hello& hello) const;

  /// See Worker::ReportTrouble.
  void ReportTrouble(absl::string_view role, absl::string_view message);
  /// The next report of a held role that was not sent to the controller yet. False: none.
  bool NextTrouble(v1::RoleTrouble& trouble);
  /// After a (re)connect: the newest report of each role must be sent again.
  void SendTroubleAgain();

  // TaskSink.
  void OnProgress(TaskContext& context, absl::Span<const int32_t> tokens,
                  absl::Span<const float> log_probs,
                  absl::Span<const float> sampling_log_probs) override;
  void OnWorkDone(TaskContext& context, uint32_t done, uint32_t total) override;
  void OnFinished(TaskContext& context, absl::StatusOr<v1::TaskResult> result) override;
  void OnPolicyVersion(TaskContext& context, uint64_t policy_version) override;

 private:
  struct Method {
    int credits = 1;
    TaskHandler handler;
    AsyncTaskHandler async;
    MethodOptions options;
  };
  /// The newest report of a role.
  struct Trouble {
    std::string message;
    bool due = true;
  };
  struct Role {
    RoleOptions options;
    std::map<std::string, Method> methods;
    std::unique_ptr<RoleRunner> runner;
  };
  using Context = std::shared_ptr<TaskContext>;

  /// The end of a role that is under way.
  struct Ending {
    std::string what;
    SteadyClock::time_point begun;
  };

  uint64_t BeginEnding(absl::string_view role, absl::string_view job, absl::string_view why);
  void EndEnding(uint64_t ending);
  void Apply(GroupSequencer::Decision decision);
  void Launch(const Context& context);
  /// `ending`: of a task that ends what the role does; else 0.
  void RunTask(Role& role, const Context& context, uint64_t ending);
  absl::StatusOr<v1::TaskResult> RunAssign(Role& role, TaskContext& context, uint64_t ending);
  void RunMethod(const Method& method, const Context& context);
  absl::Status CheckHeld(const v1::Task& task) const;
  /// Releases the role. If it was the last role on its pool, also forgets the pool's order, unless
  /// `keep_pool`, a task of that pool, goes on. Returns the job that held the role, or empty.
  std::string TakeHeld(const std::string& role, const v1::Task* keep_pool = nullptr);
  void DropOtherJobs(const v1::Task& assign);
  void DropRole(const std::string& name);
  bool PoolIsHeld(const std::string& job, const std::string& pool) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  GroupSequencer::Decision Advance(const v1::Task& task, bool ok) ABSL_LOCKS_EXCLUDED(mu_);

  /// Assigns log lines to the job of a held role.
  void TellLogs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<TaskLedger> ledger_;
  const std::shared_ptr<LogQueue> logs_;
  std::map<std::string, Role> roles_;  ///< Constant after Start.

  mutable absl::Mutex mu_;
  std::map<std::string, v1::RoleHeld> held_ ABSL_GUARDED_BY(mu_);  ///< By role.
  std::map<std::string, Trouble> troubles_ ABSL_GUARDED_BY(mu_);   ///< By role.
  GroupSequencer sequencer_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Ending> endings_ ABSL_GUARDED_BY(mu_);
  uint64_t next_ending_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_DISPATCHER_H_
