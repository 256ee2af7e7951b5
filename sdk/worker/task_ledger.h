// What a worker owes the controller: its running tasks with their output so far, and the results
// that the controller has not acknowledged. It outlives every connection.
#ifndef BATON_SDK_WORKER_TASK_LEDGER_H_
#define BATON_SDK_WORKER_TASK_LEDGER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/base/clock.h"
#include "sdk/worker/task_context.h"

namespace baton {

/// Leases and timers run on it, never on the wall clock.
using SteadyClock = BootClock;

struct TaskLedgerOptions {
  absl::Duration progress_interval = absl::Milliseconds(100);
  size_t progress_tokens = 64;  ///< Sent sooner when so many wait.
};

/// Thread-safe. Progress is cut into chunks once and for all: after a reconnect the same chunks
/// are sent again from the first, so whatever prefix the controller still has, the next chunk fits
/// (it ignores those whose offset is not the length it knows).
class TaskLedger {
 public:
  explicit TaskLedger(TaskLedgerOptions options) : options_(options) {}

  /// True: new, and running from now on. False: the token is known; if its task has ended, the
  /// result is sent again.
  bool Begin(const std::shared_ptr<TaskContext>& context);

  /// The next tokens of a running task; unknown tasks are ignored, and so is a call whose columns
  /// differ in length. No `sampling_log_probs`: those are `log_probs`.
  void AddProgress(const TaskContext& context, absl::Span<const int32_t> tokens,
                   absl::Span<const float> log_probs,
                   absl::Span<const float> sampling_log_probs = {});

  /// Ends a running task: keeps the result until Acknowledge, unless it was abandoned.
  void Finish(const TaskContext& context, v1::TaskResult result);

  void Acknowledge(absl::string_view token);

  /// Null when no such task runs.
  std::shared_ptr<TaskContext> Find(absl::string_view token) const;

  /// The task is not wanted: it runs on until its handler ends it, and its output is dropped, also
  /// when the same token has come again meanwhile.
  /// Returns the context to cancel (with no lock held), or null.
  std::shared_ptr<TaskContext> Abandon(absl::string_view token);
  std::vector<std::shared_ptr<TaskContext>> AbandonAll();

  /// Fills in `running` and `unacknowledged`.
  void Describe(v1::Hello& hello) const;

  /// After a (re)connect: everything that was sent before is due again.
  void SendAgain();

  /// The next message that is due, oldest result first. False: none now.
  bool Next(SteadyClock::time_point now, v1::WorkerMessage& message);

  /// Blocks until something may be due, Wake is called or `until` has come.
  void Wait(SteadyClock::time_point until);
  void Wake();

  /// Counts for tests and Describe-like uses.
  size_t running() const;
  size_t unacknowledged() const;

 private:
  struct Running {
    std::shared_ptr<TaskContext> context;
    std::vector<int32_t> tokens;            ///< Resumed ones included.
    std::vector<float> log_probs;           ///< One per token.
    std::vector<float> sampling_log_probs;  ///< One per token; empty: the same.
    std::vector<size_t> cuts;               ///< Ends of the chunks, ascending.
    size_t next_chunk = 0;                  ///< The first that still has to be sent.
    bool listed = false;                    ///< In due_.
  };

  void CutChunk(const std::string& token, Running& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void List(const std::string& token, Running& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CutDue(SteadyClock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool NextChunk(v1::Progress& progress) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const TaskLedgerOptions options_;

  mutable absl::Mutex mu_;
  absl::CondVar work_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Running> running_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, v1::TaskResult> results_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> results_due_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> due_ ABSL_GUARDED_BY(mu_);  ///< Tasks with chunks to send.
  /// When the tokens that wait must be cut into a chunk; times ascend.
  std::deque<std::pair<SteadyClock::time_point, std::string>> timers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_TASK_LEDGER_H_
