#include "sdk/worker/task_context.h"

#include <utility>

namespace baton {

TaskContext::TaskContext(v1::Task task, std::weak_ptr<TaskSink> sink)
    : task_(std::move(task)), sink_(std::move(sink)) {}

bool TaskContext::cancelled() const {
  absl::MutexLock lock(&mu_);
  return cancelled_;
}

bool TaskContext::finished() const {
  absl::MutexLock lock(&mu_);
  return finished_;
}

void TaskContext::OnCancel(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mu_);
    if (finished_) return;
    if (!cancelled_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

void TaskContext::SendProgress(absl::Span<const int32_t> tokens, absl::Span<const float> log_probs,
                               absl::Span<const float> sampling_log_probs) {
  if (auto sink = sink_.lock()) sink->OnProgress(*this, tokens, log_probs, sampling_log_probs);
}

void TaskContext::ReportDone(uint32_t done, uint32_t total) {
  if (auto sink = sink_.lock()) sink->OnWorkDone(*this, done, total);
}

void TaskContext::ReportPolicyVersion(uint64_t policy_version) {
  if (auto sink = sink_.lock()) sink->OnPolicyVersion(*this, policy_version);
}

void TaskContext::Finish(absl::StatusOr<v1::TaskResult> result) {
  std::vector<std::function<void()>> forgotten;
  {
    absl::MutexLock lock(&mu_);
    if (finished_) return;
    finished_ = true;
    forgotten.swap(callbacks_);
  }
  if (auto sink = sink_.lock()) sink->OnFinished(*this, std::move(result));
}

void TaskContext::Cancel() {
  std::vector<std::function<void()>> callbacks;
  {
    absl::MutexLock lock(&mu_);
    if (cancelled_ || finished_) return;
    cancelled_ = true;
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) callback();
}

}  // namespace baton
