#include "controller/core/task_scheduler.h"

#include <algorithm>
#include <utility>

#include "sdk/base/mutant.h"

namespace baton::controller {

void TaskScheduler::AddWorker(const std::string& worker, int credits) {
  workers_[worker] = Worker{credits};
}

std::vector<uint64_t> TaskScheduler::RemoveWorker(const std::string& worker) {
  std::vector<uint64_t> lost;
  for (const auto& [trajectory, running] : running_) {
    if (running.worker == worker) lost.push_back(trajectory);
  }
  for (uint64_t trajectory : lost) running_.erase(trajectory);
  // What it ran is the caller's to queue again: under which attempt, only the caller knows.
  workers_.erase(worker);
  if (last_worker_ == worker) last_worker_.clear();
  return lost;
}

void TaskScheduler::SetEnabled(const std::string& worker, bool enabled) {
  auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.enabled = enabled;
}

void TaskScheduler::Enqueue(uint64_t trajectory, uint64_t group, const std::string& avoid) {
  if (Mutant("newest-draw-first")) return EnqueueFirst(trajectory, group);
  queue_.push_back({trajectory, group, avoid});
}

void TaskScheduler::EnqueueFirst(uint64_t trajectory, uint64_t group) {
  queue_.push_front({trajectory, group, ""});
}

void TaskScheduler::Unqueue(uint64_t trajectory) {
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(),
                              [&](const Queued& q) { return q.trajectory == trajectory; }),
               queue_.end());
}

void TaskScheduler::Withdraw(uint64_t trajectory) {
  Unqueue(trajectory);
  Finish(trajectory);
}

bool TaskScheduler::Adopt(uint64_t trajectory, const std::string& worker, absl::Time now) {
  auto it = workers_.find(worker);
  if (it == workers_.end() || running_.count(trajectory) > 0) return false;
  // It may exceed the worker's credits: the worker runs it, whatever this controller would give.
  Unqueue(trajectory);
  running_[trajectory] = Running{worker, now, now};
  ++it->second.load;
  return true;
}

bool TaskScheduler::HasRoom(const Worker& worker, int share) const {
  return worker.enabled && worker.load < worker.credits && worker.load < share;
}

TaskScheduler::Worker* TaskScheduler::Pick(const Queued& next, std::string* name) {
  if (workers_.empty()) return nullptr;
  // A fair share of all that is open, rounded up. Without it, the first replica that has the new
  // weights would take as much as its credits allow, and the others would idle.
  const int open = static_cast<int>(queue_.size() + running_.size());
  const int count = static_cast<int>(workers_.size());
  const int share = (open + count - 1) / count;
  // The worker that has the prompt's KV already, unless the task failed there.
  if (next.group == last_group_ && !last_worker_.empty() && last_worker_ != next.avoid) {
    Worker& worker = workers_.at(last_worker_);
    if (HasRoom(worker, share)) {
      *name = last_worker_;
      return &worker;
    }
  }
  // The least busy one. The worker to avoid is taken if no other one has room: it is better than
  // none, and a job with one worker must go on.
  Worker* best = nullptr;
  for (auto& [id, worker] : workers_) {
    if (!HasRoom(worker, share)) continue;
    const bool better =
        best == nullptr || *name == next.avoid || (id != next.avoid && worker.load < best->load);
    if (better) {
      best = &worker;
      *name = id;
    }
  }
  return best;
}

std::optional<TaskScheduler::Assignment> TaskScheduler::Next(absl::Time now) {
  if (!open_ || queue_.empty()) return std::nullopt;
  // In order: nothing overtakes what cannot be placed now, so no response waits for ever.
  const Queued next = queue_.front();
  std::string name;
  Worker* worker = Pick(next, &name);
  if (worker == nullptr) return std::nullopt;
  queue_.pop_front();
  ++worker->load;
  running_[next.trajectory] = Running{name, now, now};
  last_group_ = next.group;
  last_worker_ = name;
  return Assignment{name, next.trajectory};
}

void TaskScheduler::Progressed(uint64_t trajectory, absl::Time now) {
  auto it = running_.find(trajectory);
  if (it != running_.end()) it->second.progressed = now;
}

void TaskScheduler::Delay(absl::Duration duration, absl::Time now) {
  for (auto& [trajectory, running] : running_) {
    running.progressed = std::min(now, running.progressed + duration);
  }
}

void TaskScheduler::Heard(const std::string& worker, absl::Time now) {
  auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.heard = now;
}

bool TaskScheduler::Finish(uint64_t trajectory) {
  auto it = running_.find(trajectory);
  if (it == running_.end()) return false;
  auto worker = workers_.find(it->second.worker);
  if (worker != workers_.end()) --worker->second.load;
  running_.erase(it);
  return true;
}

std::map<uint64_t, TaskScheduler::Running> TaskScheduler::Clear() {
  queue_.clear();
  // The workers stay, with their credits: the next work is for the same ones.
  for (auto& [id, worker] : workers_) worker.load = 0;
  return std::exchange(running_, {});
}

int TaskScheduler::load(const std::string& worker) const {
  auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.load;
}

std::vector<uint64_t> TaskScheduler::StalledSince(absl::Time before) const {
  std::vector<uint64_t> stalled;
  for (const auto& [trajectory, running] : running_) {
    if (running.progressed < before) stalled.push_back(trajectory);
  }
  return stalled;
}

std::vector<std::string> TaskScheduler::SilentSince(absl::Time before) const {
  std::map<std::string, bool> silent;
  for (const auto& [trajectory, running] : running_) {
    auto worker = workers_.find(running.worker);
    if (worker == workers_.end()) continue;
    const bool hangs = running.progressed < before;
    // One response that moves, or one result since then, says that the worker itself lives.
    bool& all = silent.try_emplace(running.worker, true).first->second;
    all = all && hangs && worker->second.heard <= running.started;
  }
  std::vector<std::string> out;
  for (const auto& [worker, all] : silent) {
    if (all) out.push_back(worker);
  }
  return out;
}

}  // namespace baton::controller
