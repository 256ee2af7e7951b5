#include "controller/core/rollout_manager.h"

#include <algorithm>
#include <utility>

namespace baton::controller {

void RolloutManager::AddWorker(const std::string& worker, int credits) {
  workers_[worker] = Worker{credits, 0, false};
}

std::vector<uint64_t> RolloutManager::RemoveWorker(const std::string& worker) {
  std::vector<uint64_t> lost;
  for (const auto& [trajectory, running] : running_) {
    if (running.worker == worker) lost.push_back(trajectory);
  }
  for (uint64_t trajectory : lost) running_.erase(trajectory);
  workers_.erase(worker);
  if (last_worker_ == worker) last_worker_.clear();
  return lost;
}

void RolloutManager::SetEnabled(const std::string& worker, bool enabled) {
  auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.enabled = enabled;
}

void RolloutManager::Enqueue(uint64_t trajectory, uint64_t group) {
  queue_.push_back({trajectory, group});
}

void RolloutManager::EnqueueFirst(uint64_t trajectory, uint64_t group) {
  queue_.push_front({trajectory, group});
}

bool RolloutManager::Adopt(uint64_t trajectory, const std::string& worker, absl::Time now) {
  auto it = workers_.find(worker);
  if (it == workers_.end() || running_.count(trajectory) > 0) return false;
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(),
                              [&](const Queued& q) { return q.trajectory == trajectory; }),
               queue_.end());
  running_[trajectory] = Running{worker, now, now};
  ++it->second.load;
  return true;
}

bool RolloutManager::HasRoom(const Worker& worker, int share) const {
  return worker.enabled && worker.load < worker.credits && worker.load < share;
}

RolloutManager::Worker* RolloutManager::Pick(uint64_t group, std::string* name) {
  if (workers_.empty()) return nullptr;
  const int open = static_cast<int>(queue_.size() + running_.size());
  const int count = static_cast<int>(workers_.size());
  const int share = (open + count - 1) / count;
  if (group == last_group_ && !last_worker_.empty()) {
    Worker& worker = workers_.at(last_worker_);
    if (HasRoom(worker, share)) {
      *name = last_worker_;
      return &worker;
    }
  }
  Worker* best = nullptr;
  for (auto& [id, worker] : workers_) {
    if (!HasRoom(worker, share)) continue;
    if (best == nullptr || worker.load < best->load) {
      best = &worker;
      *name = id;
    }
  }
  return best;
}

std::optional<RolloutManager::Assignment> RolloutManager::Next(absl::Time now) {
  if (queue_.empty()) return std::nullopt;
  const Queued next = queue_.front();
  std::string name;
  Worker* worker = Pick(next.group, &name);
  if (worker == nullptr) return std::nullopt;
  queue_.pop_front();
  ++worker->load;
  running_[next.trajectory] = Running{name, now, now};
  last_group_ = next.group;
  last_worker_ = name;
  return Assignment{name, next.trajectory};
}

void RolloutManager::Progressed(uint64_t trajectory, absl::Time now) {
  auto it = running_.find(trajectory);
  if (it != running_.end()) it->second.progressed = now;
}

bool RolloutManager::Finish(uint64_t trajectory) {
  auto it = running_.find(trajectory);
  if (it == running_.end()) return false;
  auto worker = workers_.find(it->second.worker);
  if (worker != workers_.end()) --worker->second.load;
  running_.erase(it);
  return true;
}

std::map<uint64_t, RolloutManager::Running> RolloutManager::Clear() {
  queue_.clear();
  for (auto& [id, worker] : workers_) worker.load = 0;
  return std::exchange(running_, {});
}

int RolloutManager::load(const std::string& worker) const {
  auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.load;
}

std::vector<uint64_t> RolloutManager::StalledSince(absl::Time before) const {
  std::vector<uint64_t> stalled;
  for (const auto& [trajectory, running] : running_) {
    if (running.progressed < before) stalled.push_back(trajectory);
  }
  return stalled;
}

}  // namespace baton::controller
