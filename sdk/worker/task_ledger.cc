#include "sdk/worker/task_ledger.h"

#include <algorithm>
#include <utility>

#include "sdk/common/messages/bounded_texts.h"

namespace baton {
namespace {

absl::Duration Until(SteadyClock::time_point time) {
  return std::max(absl::ZeroDuration(), absl::FromChrono(time - SteadyClock::now()));
}

}  // namespace

bool TaskLedger::Begin(const std::shared_ptr<TaskContext>& context) {
  const v1::Task& task = context->task();
  absl::MutexLock lock(&mu_);
  if (running_.count(task.task_token()) > 0) return false;
  if (results_.count(task.task_token()) > 0) {
    results_due_.push_back(task.task_token());
    work_.Signal();
    return false;
  }
  Running& running = running_[task.task_token()];
  running.context = context;
  const auto& resumed = task.generate();
  running.tokens.assign(resumed.resume_tokens().begin(), resumed.resume_tokens().end());
  running.log_probs.assign(resumed.resume_log_probs().begin(), resumed.resume_log_probs().end());
  running.log_probs.resize(running.tokens.size());
  if (resumed.resume_sampling_log_probs_size() == resumed.resume_tokens_size()) {
    running.sampling_log_probs.assign(resumed.resume_sampling_log_probs().begin(),
                                      resumed.resume_sampling_log_probs().end());
  }
  if (!running.tokens.empty()) {  // The controller has them; they matter after its restart.
    running.cuts.push_back(running.tokens.size());
    running.next_chunk = 1;
  }
  return true;
}

void TaskLedger::AddProgress(const TaskContext& context, absl::Span<const int32_t> tokens,
                             absl::Span<const float> log_probs,
                             absl::Span<const float> sampling_log_probs) {
  if (tokens.empty() || tokens.size() != log_probs.size()) return;
  if (!sampling_log_probs.empty() && sampling_log_probs.size() != tokens.size()) return;
  absl::MutexLock lock(&mu_);
  Running* const found = RunningOf(context);
  if (found == nullptr) return;
  Running& task = *found;
  const std::string& token = context.task().task_token();
  const size_t cut = task.cuts.empty() ? 0 : task.cuts.back();
  if (task.tokens.size() == cut) StartTimer(token);
  if (task.sampling_log_probs.empty() && !sampling_log_probs.empty()) {
    task.sampling_log_probs = task.log_probs;  // of the tokens before
  } else if (!task.sampling_log_probs.empty() && sampling_log_probs.empty()) {
    sampling_log_probs = log_probs;
  }
  task.sampling_log_probs.insert(task.sampling_log_probs.end(), sampling_log_probs.begin(),
                                 sampling_log_probs.end());
  task.tokens.insert(task.tokens.end(), tokens.begin(), tokens.end());
  task.log_probs.insert(task.log_probs.end(), log_probs.begin(), log_probs.end());
  if (task.tokens.size() - cut >= options_.progress_tokens) {
    CutChunk(token, task);
  }
}

void TaskLedger::NoteDone(const TaskContext& context, uint32_t done, uint32_t total) {
  if (total == 0 || done > total) return;
  absl::MutexLock lock(&mu_);
  Running* const task = RunningOf(context);
  if (task == nullptr) return;
  task->done = done;
  task->total = total;
  if (!std::exchange(task->done_waits, true)) StartTimer(context.task().task_token());
}

TaskLedger::Running* TaskLedger::RunningOf(const TaskContext& context) {
  const auto it = running_.find(context.task().task_token());
  const bool runs = it != running_.end() && it->second.context.get() == &context;
  return runs ? &it->second : nullptr;
}

void TaskLedger::StartTimer(const std::string& token) {
  timers_.emplace_back(SteadyClock::now() + absl::ToChronoNanoseconds(options_.progress_interval),
                       token);
  if (timers_.size() == 1) work_.Signal();
}

void TaskLedger::CutChunk(const std::string& token, Running& task) {
  if (task.tokens.size() == (task.cuts.empty() ? 0 : task.cuts.back())) return;
  task.cuts.push_back(task.tokens.size());
  List(token, task);
}

void TaskLedger::List(const std::string& token, Running& task) {
  if (task.listed) return;
  task.listed = true;
  due_.push_back(token);
  work_.Signal();
}

void TaskLedger::Finish(const TaskContext& context, v1::TaskResult result) {
  const std::string& token = context.task().task_token();
  BoundResult(&result);
  result.set_task_token(token);
  absl::MutexLock lock(&mu_);
  const auto it = running_.find(token);
  const bool other = it != running_.end() && it->second.context.get() != &context;
  if (it == running_.end() || other) return;
  running_.erase(it);
  results_[token] = std::move(result);
  results_due_.push_back(token);
  work_.Signal();
}

void TaskLedger::Acknowledge(absl::string_view token) {
  absl::MutexLock lock(&mu_);
  results_.erase(std::string(token));
}

std::shared_ptr<TaskContext> TaskLedger::Find(absl::string_view token) const {
  absl::MutexLock lock(&mu_);
  const auto it = running_.find(std::string(token));
  return it == running_.end() ? nullptr : it->second.context;
}

std::vector<std::shared_ptr<TaskContext>> TaskLedger::AbandonAll() {
  std::vector<std::shared_ptr<TaskContext>> contexts;
  absl::MutexLock lock(&mu_);
  for (auto& [token, task] : running_) contexts.push_back(std::move(task.context));
  running_.clear();
  return contexts;
}

void TaskLedger::Describe(v1::Hello& hello) const {
  absl::MutexLock lock(&mu_);
  for (const auto& [token, task] : running_) {
    v1::RunningTask* running = hello.add_running();
    running->set_task_token(token);
    running->set_offset(static_cast<uint32_t>(task.tokens.size()));
  }
  for (const auto& [token, result] : results_) hello.add_unacknowledged(token);
}

void TaskLedger::SendAgain() {
  absl::MutexLock lock(&mu_);
  results_due_.clear();
  for (const auto& [token, result] : results_) results_due_.push_back(token);
  due_.clear();
  for (auto& [token, task] : running_) {
    task.next_chunk = 0;
    task.listed = false;
    task.done_due = task.total > 0;
    if (!task.cuts.empty() || task.done_due) List(token, task);
  }
  work_.Signal();
}

void TaskLedger::CutDue(SteadyClock::time_point now) {
  while (!timers_.empty() && timers_.front().first <= now) {
    const auto it = running_.find(timers_.front().second);
    if (it != running_.end()) {
      CutChunk(it->first, it->second);
      if (std::exchange(it->second.done_waits, false)) {
        it->second.done_due = true;
        List(it->first, it->second);
      }
    }
    timers_.pop_front();
  }
}

bool TaskLedger::NextChunk(v1::Progress& progress) {
  while (!due_.empty()) {
    const auto it = running_.find(due_.front());
    if (it != running_.end() && std::exchange(it->second.done_due, false)) {
      progress.set_task_token(it->first);
      progress.set_done(it->second.done);
      progress.set_total(it->second.total);
      return true;
    }
    if (it == running_.end() || it->second.next_chunk == it->second.cuts.size()) {
      if (it != running_.end()) it->second.listed = false;
      due_.pop_front();
      continue;
    }
    Running& task = it->second;
    const size_t begin = task.next_chunk == 0 ? 0 : task.cuts[task.next_chunk - 1];
    const size_t end = task.cuts[task.next_chunk++];
    progress.set_task_token(it->first);
    progress.set_offset(static_cast<uint32_t>(begin));
    progress.mutable_tokens()->Add(task.tokens.begin() + begin, task.tokens.begin() + end);
    progress.mutable_log_probs()->Add(task.log_probs.begin() + begin, task.log_probs.begin() + end);
    if (!task.sampling_log_probs.empty()) {
      progress.mutable_sampling_log_probs()->Add(task.sampling_log_probs.begin() + begin,
                                                 task.sampling_log_probs.begin() + end);
    }
    return true;
  }
  return false;
}

bool TaskLedger::Next(SteadyClock::time_point now, v1::WorkerMessage& message) {
  message.Clear();
  absl::MutexLock lock(&mu_);
  while (!results_due_.empty()) {
    const auto it = results_.find(results_due_.front());
    results_due_.pop_front();
    if (it == results_.end()) continue;
    *message.mutable_result() = it->second;
    return true;
  }
  CutDue(now);
  if (!due_.empty() && NextChunk(*message.mutable_progress())) return true;
  message.Clear();
  return false;
}

void TaskLedger::Wait(SteadyClock::time_point until) {
  absl::MutexLock lock(&mu_);
  if (!timers_.empty()) until = std::min(until, timers_.front().first);
  if (!woken_ && results_due_.empty() && due_.empty()) {
    work_.WaitWithTimeout(&mu_, Until(until));
  }
  woken_ = false;
}

void TaskLedger::Wake() {
  absl::MutexLock lock(&mu_);
  woken_ = true;
  work_.Signal();
}

size_t TaskLedger::running() const {
  absl::MutexLock lock(&mu_);
  return running_.size();
}

size_t TaskLedger::unacknowledged() const {
  absl::MutexLock lock(&mu_);
  return results_.size();
}

}  // namespace baton
