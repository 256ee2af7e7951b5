// One task, as its handler sees it.
#ifndef BATON_SDK_WORKER_TASK_CONTEXT_H_
#define BATON_SDK_WORKER_TASK_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "baton/v1/worker_service.pb.h"

namespace baton {

class TaskContext;

/// Receives a task's output. The worker implements it; so may a test of a handler. Methods may be
/// called from any thread.
class TaskSink {
 public:
  virtual ~TaskSink() = default;
  virtual void OnProgress(TaskContext& context, absl::Span<const int32_t> tokens,
                          absl::Span<const float> log_probs,
                          absl::Span<const float> sampling_log_probs) = 0;
  virtual void OnWorkDone(TaskContext& context, uint32_t done, uint32_t total) = 0;
  virtual void OnFinished(TaskContext& context, absl::StatusOr<v1::TaskResult> result) = 0;
  virtual void OnPolicyVersion(TaskContext& context, uint64_t policy_version) = 0;
};

/// Shared by the worker and the task's handler. Thread-safe. It may outlive the worker; its output
/// is then discarded.
class TaskContext {
 public:
  TaskContext(v1::Task task, std::weak_ptr<TaskSink> sink);

  /// The task as the controller sent it.
  const v1::Task& task() const { return task_; }

  /// True once the result is not needed any more: the controller cancelled the task, or the worker
  /// lost its lease. The handler should finish soon, with any status (CANCELLED is usual).
  bool cancelled() const;

  /// Runs `callback` once when the task is cancelled, on the thread that cancels it; at once if the
  /// task is cancelled already. The callback must not block. It is dropped when the task finishes.
  void OnCancel(std::function<void()> callback);

  /// Method generate: the next response tokens with their log-probs (one each) under the full
  /// softmax at the sampling temperature. Where top-k or top-p cut something, also the log-probs
  /// under the distribution sampled from (empty: the same). The first call continues after
  /// Generate.resume_tokens. Output is collected and sent every 100 ms or 64 tokens.
  void SendProgress(absl::Span<const int32_t> tokens, absl::Span<const float> log_probs,
                    absl::Span<const float> sampling_log_probs = {});

  /// Method update: how many of its micro-batches are done, for people who watch the job. The
  /// newest call counts, and is sent every 100 ms. Ignored: a `total` of 0, and a larger `done`.
  void ReportDone(uint32_t done, uint32_t total);

  /// The policy version that the task's role holds from now on. The controller learns it when the
  /// worker reconnects.
  void ReportPolicyVersion(uint64_t policy_version);

  /// Ends the task. Calls after the first do nothing. An error becomes the result's status.
  void Finish(absl::StatusOr<v1::TaskResult> result);
  bool finished() const;

  /// For the worker: marks the task as cancelled.
  void Cancel();

 private:
  const v1::Task task_;
  const std::weak_ptr<TaskSink> sink_;

  mutable absl::Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_TASK_CONTEXT_H_
