// From a task that arrived to its handler, and from there to the ledger.
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

/// Knows the roles (registered, held), their methods and threads, and the order of group commands.
/// Registration happens before the first task; everything else is thread-safe.
class Dispatcher : public TaskSink, public std::enable_shared_from_this<Dispatcher> {
 public:
  Dispatcher(std::shared_ptr<TaskLedger> ledger, std::shared_ptr<LogQueue> logs)
      : ledger_(std::move(ledger)), logs_(std::move(logs)) {}

  absl::Status AddRole(absl::string_view role, RoleOptions options);
  absl::Status AddMethod(absl::string_view role, absl::string_view method, int credits,
                         TaskHandler handler, AsyncTaskHandler async, MethodOptions options);

  void Start();  ///< Makes the threads.
  void Stop();   ///< Fence, then waits for every handler.

  /// A task arrived. Known tokens are ignored or answered again.
  void Dispatch(v1::Task task);
  void Cancel(absl::string_view token);   ///< The controller no longer wants it; it still answers.
  void Abandon(absl::string_view token);  ///< Its result is not waited for either.
  /// Welcome.release.
  void Release(const v1::RoleHeld& held);
  /// Abandons every task and releases every role.
  void Fence();

  /// Fills in methods, roles held, running tasks and unacknowledged results.
  void Describe(v1::Hello& hello) const;

  // TaskSink.
  void OnProgress(TaskContext& context, absl::Span<const int32_t> tokens,
                  absl::Span<const float> log_probs,
                  absl::Span<const float> sampling_log_probs) override;
  void OnFinished(TaskContext& context, absl::StatusOr<v1::TaskResult> result) override;
  void OnPolicyVersion(TaskContext& context, uint64_t policy_version) override;

 private:
  struct Method {
    int credits = 1;
    TaskHandler handler;
    AsyncTaskHandler async;
    MethodOptions options;
  };
  struct Role {
    RoleOptions options;
    std::map<std::string, Method> methods;
    std::unique_ptr<RoleRunner> runner;
  };
  using Context = std::shared_ptr<TaskContext>;

  void Apply(GroupSequencer::Decision decision);
  void Launch(const Context& context);
  void RunTask(Role& role, const Context& context);
  absl::StatusOr<v1::TaskResult> RunAssign(Role& role, TaskContext& context);
  void RunMethod(const Method& method, const Context& context);
  absl::Status CheckHeld(const v1::Task& task) const;
  /// Takes the role away and, if it was the last on its pool, forgets the pool's order (unless
  /// `keep_pool`, a task of that pool, goes on). The job it was held for, or empty.
  std::string TakeHeld(const std::string& role, const v1::Task* keep_pool = nullptr);
  void DropOtherJobs(const v1::Task& assign);
  void DropRole(const std::string& name);
  bool PoolIsHeld(const std::string& job, const std::string& pool) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  GroupSequencer::Decision Advance(const v1::Task& task, bool ok) ABSL_LOCKS_EXCLUDED(mu_);

  /// Log lines belong to the job of a role that is held.
  void TellLogs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<TaskLedger> ledger_;
  const std::shared_ptr<LogQueue> logs_;
  std::map<std::string, Role> roles_;  ///< Constant after Start.

  mutable absl::Mutex mu_;
  std::map<std::string, v1::RoleHeld> held_ ABSL_GUARDED_BY(mu_);  ///< By role.
  GroupSequencer sequencer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_DISPATCHER_H_
