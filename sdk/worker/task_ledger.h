// The ledger of what a worker must still send to the controller: the output of its running tasks so
// far, and the results that are not acknowledged. The ledger outlives every connection.
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
#include "sdk/common/base/clock.h"
#include "sdk/worker/task_context.h"

namespace baton {

/// For leases and timers, which never use the wall clock.
using SteadyClock = BootClock;

struct TaskLedgerOptions {
  absl::Duration progress_interval = absl::Milliseconds(100);
  size_t progress_tokens = 64;  ///< Progress is sent earlier when so many tokens wait.
};

/// Thread-safe. Progress is cut into chunks that never change. After a reconnect the same chunks
/// are sent again from the first one. So whatever prefix the controller still has, one of the
/// chunks continues it (the controller ignores chunks whose offset is not the length that it
/// knows).
class TaskLedger {
 public:
  explicit TaskLedger(TaskLedgerOptions options) : options_(options) {}

  /// True: the task is new, and running from now on. False: the token is known; if its task has
  /// ended, the result is sent again.
  bool Begin(const std::shared_ptr<TaskContext>& context);

  /// The next tokens of a running task. Unknown tasks are ignored, and so is a call whose columns
  /// differ in length. Empty `sampling_log_probs`: equal to `log_probs`.
  void AddProgress(const TaskContext& context, absl::Span<const int32_t> tokens,
                   absl::Span<const float> log_probs,
                   absl::Span<const float> sampling_log_probs = {});

  /// Method update: micro-batches that are done, and all of them. Only the newest is sent. Ignored:
  /// an unknown task, a `total` of 0, and a larger `done`.
  void NoteDone(const TaskContext& context, uint32_t done, uint32_t total);

  /// Ends a running task. Keeps the result until Acknowledge, unless the task was abandoned. Its
  /// texts are cut to their bounds (sdk/common/messages/bounded_texts.h).
  void Finish(const TaskContext& context, v1::TaskResult result);

  void Acknowledge(absl::string_view token);

  /// Null when no such task runs.
  std::shared_ptr<TaskContext> Find(absl::string_view token) const;

  /// No running task is needed: each runs until its handler ends it, and its output is discarded,
  /// even if the same token has come again meanwhile. Returns the contexts to cancel (with no lock
  /// held).
  std::vector<std::shared_ptr<TaskContext>> AbandonAll();

  /// Fills in `running` and `unacknowledged`.
  void Describe(v1::Hello& hello) const;

  /// After a (re)connect: everything that was sent before must be sent again.
  void SendAgain();

  /// The next message to send, oldest result first. False: none now.
  bool Next(SteadyClock::time_point now, v1::WorkerMessage& message);

  /// Blocks until there may be a message to send, Wake is called, or `until` has come.
  void Wait(SteadyClock::time_point until);
  void Wake();

  /// Counts for tests.
  size_t running() const;
  size_t unacknowledged() const;

 private:
  struct Running {
    std::shared_ptr<TaskContext> context;
    std::vector<int32_t> tokens;            ///< Resumed tokens included.
    std::vector<float> log_probs;           ///< One per token.
    std::vector<float> sampling_log_probs;  ///< One per token; empty: equal to log_probs.
    std::vector<size_t> cuts;               ///< Ends of the chunks, ascending.
    size_t next_chunk = 0;                  ///< The first chunk that was not sent yet.
    uint32_t done = 0, total = 0;           ///< Micro-batches; a total of 0: none are known.
    bool done_waits = false;                ///< They wait for their timer.
    bool done_due = false;                  ///< They are to be sent.
    bool listed = false;                    ///< The task is in due_.
  };

  /// The running task of that context; null: it does not run, or was abandoned.
  Running* RunningOf(const TaskContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartTimer(const std::string& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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
  std::deque<std::string> due_ ABSL_GUARDED_BY(mu_);  ///< Tasks with unsent chunks or counts.
  /// The times at which waiting tokens must be cut into a chunk, or counts be sent, ascending.
  std::deque<std::pair<SteadyClock::time_point, std::string>> timers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_TASK_LEDGER_H_
