#include "controller/core/dispatch/task_watch.h"

#include <algorithm>
#include <utility>

namespace baton::controller {

void TaskWatch::Begin(uint64_t trajectory, const std::string& name, uint64_t place,
                      absl::Time now) {
  Running& running = running_[trajectory] = Running{name, now, now};
  running.place = place;
  workers_[name].waiting.emplace(place, trajectory);
}

std::optional<std::string> TaskWatch::End(uint64_t trajectory) {
  const auto it = running_.find(trajectory);
  if (it == running_.end()) return std::nullopt;
  std::string worker = std::move(it->second.worker);
  workers_.at(worker).waiting.erase({it->second.place, trajectory});
  running_.erase(it);
  return worker;
}

std::vector<uint64_t> TaskWatch::RemoveWorker(const std::string& worker) {
  std::vector<uint64_t> lost;
  for (const auto& [trajectory, running] : running_) {
    if (running.worker == worker) lost.push_back(trajectory);
  }
  for (const uint64_t trajectory : lost) running_.erase(trajectory);
  workers_.erase(worker);
  return lost;
}

std::map<uint64_t, TaskWatch::Running> TaskWatch::Clear() {
  for (auto& [name, worker] : workers_) worker.waiting.clear();
  return std::exchange(running_, {});
}

void TaskWatch::Progressed(uint64_t trajectory, absl::Time now) {
  const auto it = running_.find(trajectory);
  if (it == running_.end()) return;
  Running& running = it->second;
  running.progressed = now;
  Worker& worker = workers_.at(running.worker);
  worker.moved = now;
  if (std::exchange(running.moved, true)) return;
  // A worker takes responses from its queue in order. An overtaken response no longer waits: it
  // runs or hangs.
  auto& waiting = worker.waiting;
  waiting.erase({running.place, trajectory});
  while (!waiting.empty() && waiting.begin()->first < running.place) {
    running_.at(waiting.begin()->second).overtaken = now;
    waiting.erase(waiting.begin());
  }
}

void TaskWatch::Heard(const std::string& worker, absl::Time now) {
  const auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.heard = now;
}

void TaskWatch::Delay(absl::Duration duration, absl::Time now) {
  for (auto& [trajectory, running] : running_) {
    running.progressed = std::min(now, running.progressed + duration);
    if (running.overtaken <= now) running.overtaken = std::min(now, running.overtaken + duration);
  }
  for (auto& [id, worker] : workers_) worker.moved = std::min(now, worker.moved + duration);
}

absl::Time TaskWatch::StillSince(const Running& running) const {
  if (running.moved) return running.progressed;
  const absl::Time moved = workers_.at(running.worker).moved;
  return std::max(running.progressed, std::min(moved, running.overtaken));
}

std::vector<uint64_t> TaskWatch::StalledSince(absl::Time before) const {
  std::vector<uint64_t> stalled;
  for (const auto& [trajectory, running] : running_) {
    if (StillSince(running) < before) stalled.push_back(trajectory);
  }
  return stalled;
}

std::vector<std::string> TaskWatch::SilentSince(absl::Time before) const {
  std::map<std::string, bool> silent;
  for (const auto& [trajectory, running] : running_) {
    const bool hangs = running.progressed < before;
    // One response that moves, or one result since then, shows that the worker itself is alive.
    bool& all = silent.try_emplace(running.worker, true).first->second;
    all = all && hangs && workers_.at(running.worker).heard <= running.started;
  }
  std::vector<std::string> out;
  for (const auto& [worker, all] : silent) {
    if (all) out.push_back(worker);
  }
  return out;
}

}  // namespace baton::controller
