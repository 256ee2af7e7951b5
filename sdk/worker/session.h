// The worker's connection: one stream at a time, and a new one whenever it ends.
#ifndef BATON_SDK_WORKER_SESSION_H_
#define BATON_SDK_WORKER_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/dispatcher.h"
#include "sdk/worker/lease.h"
#include "sdk/worker/log_queue.h"
#include "sdk/worker/task_ledger.h"
#include "sdk/worker/worker.h"

namespace baton {

/// Three threads: Run's thread reads, one thread writes (per connection), one watches the lease. So
/// neither a blocked write nor a controller that hangs can keep the worker from fencing itself.
class Session {
 public:
  /// All arguments but `options` are shared with the worker's other parts and must outlive this.
  Session(const WorkerOptions& options, Dispatcher* dispatcher, TaskLedger* ledger, LogQueue* logs);

  /// See Worker::Run.
  absl::Status Run();
  void Stop();
  bool attached() const { return attached_; }
  /// See Worker::ReportRelay.
  void ReportRelay(v1::RelayReport report);

 private:
  using Time = SteadyClock::time_point;
  using Stream = grpc::ClientReaderWriterInterface<v1::WorkerMessage, v1::ControllerMessage>;

  absl::Status ServeOnce();
  absl::Status ServeStream(Stream& stream);
  v1::Hello MakeHello() const;
  absl::Status AcceptWelcome(const v1::Welcome& welcome, Time hello_sent);
  void HandleMessage(v1::ControllerMessage message);
  void WriteLoop(Stream& stream);
  bool NextMessage(Time now, v1::WorkerMessage& message);
  void WatchLoop();
  void ReportStuck(const std::string& role);
  void CancelStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool WaitBeforeRetry(absl::Duration delay);

  const WorkerOptions& options_;
  Dispatcher* const dispatcher_;
  TaskLedger* const ledger_;
  LogQueue* const logs_;
  const std::string instance_id_;

  std::atomic<bool> attached_{false};
  std::atomic<bool> writing_{false};  ///< The write loop must go on.
  std::atomic<uint64_t> epoch_{0};    ///< The largest epoch seen.
  bool ever_welcomed_ = false;        ///< Used by Run's thread only.

  /// Held while a task is dispatched and while all tasks are fenced, so that no task starts during
  /// the fencing. Locked before mu_.
  absl::Mutex dispatch_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  /// While true, no Hello is sent: it would list tasks that are about to be dropped.
  bool fencing_ ABSL_GUARDED_BY(mu_) = false;
  bool stuck_reported_ ABSL_GUARDED_BY(mu_) = false;
  /// The context of the open stream.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  /// The Hello must be accepted before this time.
  std::optional<Time> welcome_by_ ABSL_GUARDED_BY(mu_);
  Lease lease_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::RelayReport> relay_report_ ABSL_GUARDED_BY(mu_);
  bool relay_report_due_ ABSL_GUARDED_BY(mu_) = false;
  SteadyClock::duration heartbeat_interval_ ABSL_GUARDED_BY(mu_){};
  Time next_heartbeat_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_SESSION_H_
