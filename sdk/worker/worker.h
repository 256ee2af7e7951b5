// Embeds a Baton worker in any program: it connects to a controller, offers roles and methods,
// runs the tasks it is sent and streams their output. docs/worker-protocol.md has the rules that
// this class keeps for its user:
//
//   auto worker = baton::Worker::Create(options);
//   (*worker)->RegisterMethod("reward", "compute_reward", 64, Judge);
//   absl::Status status = (*worker)->Run();          // until Stop
//
// - It reconnects for ever. Running tasks go on meanwhile; afterwards the controller hears what
//   still runs, and every result is sent again until it is acknowledged.
// - Without an acknowledged heartbeat for the length of its lease the worker fences itself: every
//   task is cancelled, every role released, because the controller may have given them to others.
// - A controller whose epoch is lower than one already seen is refused.
// - Group commands (Task.order) run in order and are never skipped.
// - "assign_role" and "release_role" are served for every registered role.
#ifndef BATON_SDK_WORKER_WORKER_H_
#define BATON_SDK_WORKER_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/base/tls_files.h"
#include "sdk/worker/task_context.h"

namespace baton {

struct WorkerOptions {
  std::string controller;  ///< host:port. Required.
  std::string worker_id;   ///< 1–63 of a–z, 0–9, `-`, `.`. Empty: made of host name and pid.
  std::string token;       ///< Bearer token; empty: none is sent.
  TlsFiles tls;            ///< None: the connection is not encrypted.
  bool insecure = false;   ///< The token may leave this machine in clear text.
  std::vector<std::string> features;  ///< worker_service.proto: Hello.features.
  std::string device = "cpu";         ///< "cpu" or "cuda".
  std::string group_store;            ///< worker_service.proto: Hello.group_store.
  /// Ships this process's log lines (INFO and above) to the controller while Run is active. One
  /// worker of a process may.
  bool forward_log = false;
  absl::Duration min_backoff = absl::Milliseconds(100);  ///< Between connection attempts …
  absl::Duration max_backoff = absl::Seconds(1);         ///< … doubling up to this.
  absl::Duration progress_interval = absl::Milliseconds(100);
  int progress_tokens = 64;
};

/// Runs one task. The status of the result is filled in from the return value; CANCELLED is
/// customary when `context.cancelled()`. Exceptions derived from std::exception become INTERNAL.
using TaskHandler =
    std::function<absl::StatusOr<v1::TaskResult>(const v1::Task& task, TaskContext& context)>;

/// Starts one task and returns at once; someone calls `context->Finish` later, from any thread.
using AsyncTaskHandler = std::function<void(std::shared_ptr<TaskContext> context)>;

struct RoleOptions {
  /// Handlers of the role that may run at the same time. Tasks start in the order of arrival;
  /// assign_role, release_role and group commands always run alone.
  int threads = 1;
  /// Builds the role's state; null: there is none. After an error the role is not held.
  TaskHandler on_assign;
  /// Drops the role's state: released, fenced, assigned anew, or the worker stops. Runs alone;
  /// asynchronous tasks that still run are this function's to end.
  std::function<void(const std::string& job)> on_release;
};

struct MethodOptions {
  /// False: served although the role is not held (Task.job is then anybody's).
  bool needs_role = true;
  /// Runs on the thread that reads from the controller, without a hop. It must not block, and
  /// must not be a group command.
  bool on_reader_thread = false;
};

class Worker {
 public:
  /// INVALID_ARGUMENT lists every bad option.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Worker>> Create(WorkerOptions options);
  /// Stop; Run must have returned.
  ~Worker();

  // Before Run. ALREADY_EXISTS for a second registration of the same name; credits (the most tasks
  // the controller may have outstanding) are at least 1. Registering a method registers its role.
  absl::Status RegisterRole(absl::string_view role, RoleOptions options);
  absl::Status RegisterMethod(absl::string_view role, absl::string_view method, int credits,
                              TaskHandler handler, MethodOptions options = {});
  absl::Status RegisterAsyncMethod(absl::string_view role, absl::string_view method, int credits,
                                   AsyncTaskHandler handler, MethodOptions options = {});

  /// Serves until Stop, then releases all roles and returns OK. Returns early, with an error, only
  /// when the controller refuses the first Hello for good: UNAUTHENTICATED, PERMISSION_DENIED,
  /// INVALID_ARGUMENT, UNIMPLEMENTED, or FAILED_PRECONDITION (PROTOCOL_VERSION). Once.
  absl::Status Run();

  /// Thread-safe; may be called before Run.
  void Stop();

  /// True while the controller has this worker attached. Thread-safe.
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
