// A Baton worker to embed in any program. The worker connects to a controller, offers roles and
// methods, runs the tasks that it gets and streams their output. docs/worker-protocol.md has the
// rules; this class follows them for its user:
//
//   auto worker = baton::Worker::Create(options);
//   (*worker)->RegisterMethod("reward", "compute_brevity", 64, Judge);
//   absl::Status status = (*worker)->Run();          // until Stop
//
// - It reconnects forever. Running tasks go on meanwhile. Afterwards it reports them to the
//   controller, and sends every result again until it is acknowledged.
// - If no heartbeat is acknowledged for the length of the lease, the worker fences itself: it
//   cancels every task and releases every role, because the controller may have given them to
//   others.
// - It refuses a controller with a lower epoch than one that it has seen.
// - Group commands (Task.order) run in order, and none is skipped.
// - "assign_role" and "release_role" are served for every registered role.
#ifndef BATON_SDK_WORKER_WORKER_H_
#define BATON_SDK_WORKER_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/common/rpc/tls_files.h"
#include "sdk/worker/task_context.h"

namespace baton {

struct WorkerOptions {
  std::string controller;  ///< host:port. Required.
  std::string worker_id;   ///< 1–63 of a–z, 0–9, `-`, `.`. Empty: host name and pid.
  std::string token;       ///< Bearer token; empty: none is sent.
  TlsFiles tls;            ///< No files: the connection is not encrypted.
  bool insecure = false;   ///< The token may leave this machine in clear text.
  std::vector<std::string> features;  ///< worker_service.proto: Hello.features.
  std::string device = "cpu";         ///< "cpu" or "cuda".
  std::string group_store;            ///< worker_service.proto: Hello.group_store.
  std::string memory_id;              ///< worker_service.proto: Hello.memory_id.
  /// Role relay alone: where others reach it …
  std::optional<v1::RelayPlace> relay = std::nullopt;
  /// … and who hears its orders, and which jobs are over; on a thread of the worker. Must not
  /// block.
  std::function<void(const v1::RelayOrders& orders)> on_relay_orders = nullptr;
  std::function<void(const v1::RelayForget& forget)> on_relay_forget = nullptr;
  /// Sends this process's log lines (INFO and above) to the controller while Run is active. Only
  /// one worker of a process may do so.
  bool forward_log = false;
  absl::Duration min_backoff = absl::Milliseconds(100);  ///< Between connection attempts …
  absl::Duration max_backoff = absl::Seconds(1);         ///< … doubling up to this.
  absl::Duration progress_interval = absl::Milliseconds(100);
  int progress_tokens = 64;
  /// A role must end within this once it is released, or given to another job: its handlers return,
  /// and then on_release does. The controller waits 30 s.
  absl::Duration role_end_limit = absl::Seconds(20);
  /// Called once, on a thread of the worker, when a role did not end in time; `what` says which.
  /// Only the end of the process ends such a handler, so this should end the process, and whatever
  /// started it should start it again. Null: an error is logged, and the worker plays no other role
  /// meanwhile.
  std::function<void(absl::string_view what)> on_stuck;
};

/// Runs one task. The return value gives the status of the result; CANCELLED is usual when
/// `context.cancelled()`. An exception derived from std::exception becomes INTERNAL.
using TaskHandler =
    std::function<absl::StatusOr<v1::TaskResult>(const v1::Task& task, TaskContext& context)>;

/// Starts one task and returns at once. Later, any thread calls `context->Finish`.
using AsyncTaskHandler = std::function<void(std::shared_ptr<TaskContext> context)>;

struct RoleOptions {
  /// The number of handlers of the role that may run at the same time. Tasks start in the order of
  /// arrival; assign_role, release_role and group commands always run alone.
  int threads = 1;
  /// Creates the role's state; null: there is no state. After an error the role is not held.
  TaskHandler on_assign;
  /// Destroys the role's state: the role was released, fenced or assigned again, or the worker
  /// stops. Runs alone; it must end asynchronous tasks that still run.
  std::function<void(const std::string& job)> on_release;
};

struct MethodOptions {
  /// False: the method is served even if the role is not held (Task.job may then be any job).
  bool needs_role = true;
  /// Runs on the thread that reads from the controller, without a thread switch. It must not block,
  /// and must not be a group command.
  bool on_reader_thread = false;
};

class Worker {
 public:
  /// INVALID_ARGUMENT lists every bad option.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Worker>> Create(WorkerOptions options);
  /// Calls Stop; Run must have returned.
  ~Worker();

  // Call before Run. ALREADY_EXISTS for a second registration of the same name. Credits (the most
  // open tasks that the controller may give) are at least 1. Registering a method registers its
  // role.
  absl::Status RegisterRole(absl::string_view role, RoleOptions options);
  absl::Status RegisterMethod(absl::string_view role, absl::string_view method, int credits,
                              TaskHandler handler, MethodOptions options = {});
  absl::Status RegisterAsyncMethod(absl::string_view role, absl::string_view method, int credits,
                                   AsyncTaskHandler handler, MethodOptions options = {});

  /// Serves until Stop, then releases all roles and returns OK. Returns early, with an error, only
  /// when the controller finally refuses the first Hello: UNAUTHENTICATED, PERMISSION_DENIED,
  /// INVALID_ARGUMENT, UNIMPLEMENTED, or FAILED_PRECONDITION (PROTOCOL_VERSION). Call it once.
  absl::Status Run();

  /// Tells the user of the job that holds `role` why this worker cannot work. `baton why` and
  /// `baton watch` show `message`, which should say what is wrong and what to do. It is shown until
  /// the role's next report or release; an empty message ends it. May be called from on_assign.
  /// Thread-safe; does not block.
  void ReportTrouble(absl::string_view role, absl::string_view message);

  /// Role relay: tells the controller what the relay has. The newest report is told, again after
  /// each reconnect. Thread-safe; does not block.
  void ReportRelay(v1::RelayReport report);

  /// Thread-safe; may be called before Run.
  void Stop();

  /// True while the worker is attached to the controller. Thread-safe.
  bool attached() const;
  const std::string& worker_id() const;
  const WorkerOptions& options() const;

 private:
  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_WORKER_H_
