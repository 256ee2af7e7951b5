#include "controller/core/dispatch/task_scheduler.h"

#include <algorithm>
#include <utility>

namespace baton::controller {

void TaskScheduler::AddWorker(const std::string& worker, int credits) {
  workers_[worker].credits = credits;  // one that is there already keeps what it runs
}

std::vector<uint64_t> TaskScheduler::RemoveWorker(const std::string& worker) {
  // The caller queues the worker's tasks again, because only the caller knows their next attempts.
  workers_.erase(worker);
  if (last_worker_ == worker) last_worker_.clear();
  return watch_.RemoveWorker(worker);
}

void TaskScheduler::SetEnabled(const std::string& worker, bool enabled) {
  auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.enabled = enabled;
}

void TaskScheduler::SetVersion(const std::string& worker, uint64_t version) {
  auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.version = version;
}

uint64_t TaskScheduler::version(const std::string& worker) const {
  auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.version;
}

void TaskScheduler::Enqueue(uint64_t trajectory, uint64_t group, const std::string& avoid,
                            uint64_t pin) {
  queue_.push_back({trajectory, group, avoid, pin});
}

void TaskScheduler::EnqueueFirst(uint64_t trajectory, uint64_t group, uint64_t pin) {
  queue_.push_front({trajectory, group, "", pin});
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
  if (it == workers_.end() || watch_.Has(trajectory)) return false;
  // This may exceed the worker's credits, but the worker runs the task already.
  Unqueue(trajectory);
  Run(trajectory, worker, /*place=*/0, it->second, now);
  return true;
}

void TaskScheduler::Run(uint64_t trajectory, const std::string& name, uint64_t place,
                        Worker& worker, absl::Time now) {
  ++worker.load;
  watch_.Begin(trajectory, name, place, now);
}

bool TaskScheduler::HasRoom(const Worker& worker, int share, uint64_t pin) const {
  const bool may = pin == 0 ? worker.enabled : worker.version == pin;
  return may && worker.load < worker.credits && worker.load < share;
}

// A fair share of all that is open, rounded up. Without it, the first replica that has the new
// weights would take as much as its credits allow, and the others would idle.
int TaskScheduler::Share() const {
  const int open = most_open_ > 0 ? most_open_ : static_cast<int>(queue_.size() + running().size());
  const int count = static_cast<int>(workers_.size());
  return std::max(1, (open + count - 1) / count);
}

TaskScheduler::Worker* TaskScheduler::Pick(const Queued& next, std::string* name) {
  if (workers_.empty()) return nullptr;
  const int share = Share();
  // Prefer the worker that has the prompt's KV already, unless the task failed there.
  if (next.group == last_group_ && !last_worker_.empty() && last_worker_ != next.avoid) {
    Worker& worker = workers_.at(last_worker_);
    if (HasRoom(worker, share, next.pin)) {
      *name = last_worker_;
      return &worker;
    }
  }
  if (Worker* const preferred = PreferredWorker(next, share, name)) return preferred;
  // Otherwise the least busy worker. The worker to avoid is taken only if no other one has room,
  // because a job with one worker must go on.
  Worker* best = nullptr;
  for (auto& [id, worker] : workers_) {
    if (!HasRoom(worker, share, next.pin)) continue;
    const bool better =
        best == nullptr || *name == next.avoid || (id != next.avoid && worker.load < best->load);
    if (better) {
      best = &worker;
      *name = id;
    }
  }
  return best;
}

TaskScheduler::Worker* TaskScheduler::PreferredWorker(const Queued& next, int share,
                                                      std::string* name) {
  const std::string preferred = affinity_.Of(next.group);
  if (preferred.empty() || preferred == next.avoid) return nullptr;
  const auto worker = workers_.find(preferred);
  if (worker == workers_.end() || !HasRoom(worker->second, share, next.pin)) return nullptr;
  *name = preferred;
  return &worker->second;
}

std::optional<TaskScheduler::Assignment> TaskScheduler::Next(absl::Time now) {
  if (!open_) return std::nullopt;
  bool others_wait = false;
  uint64_t pin_waits = 0;  // the pin of the first trajectory that waits for its version
  // In order: nothing overtakes a trajectory that cannot be placed now, so none waits for ever. But
  // pinned and unpinned trajectories wait for different workers, so neither kind holds up the
  // other.
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    const Queued next = *it;
    std::string name;
    if (next.pin == 0 ? others_wait : next.pin == pin_waits) continue;
    Worker* worker = Pick(next, &name);
    if (worker == nullptr) {
      others_wait |= next.pin == 0;
      if (next.pin != 0) pin_waits = next.pin;
      continue;
    }
    queue_.erase(it);
    Run(next.trajectory, name, ++places_, *worker, now);
    if (keeps_affinity_) affinity_.Note(next.group, name);
    last_group_ = next.group;
    last_worker_ = name;
    return Assignment{name, next.trajectory};
  }
  return std::nullopt;
}

bool TaskScheduler::HasFreePlace() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker.second.enabled && worker.second.load < worker.second.credits;
  });
}

bool TaskScheduler::HasRoom(uint64_t pin) const {
  if (!open_ || workers_.empty()) return false;
  const auto waits = [&](const Queued& queued) { return queued.pin == pin; };
  if (std::any_of(queue_.begin(), queue_.end(), waits)) return false;
  const int share = Share();
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return HasRoom(worker.second, share, pin); });
}

uint64_t TaskScheduler::PinnedVersion() const {
  for (const Queued& queued : queue_) {
    if (queued.pin != 0) return queued.pin;
  }
  return 0;
}

bool TaskScheduler::Finish(uint64_t trajectory) {
  const std::optional<std::string> name = watch_.End(trajectory);
  if (!name.has_value()) return false;
  --workers_.at(*name).load;
  return true;
}

std::map<uint64_t, TaskScheduler::Running> TaskScheduler::Clear() {
  queue_.clear();
  // The workers stay, with their credits, because they do the next work too.
  for (auto& [id, worker] : workers_) worker.load = 0;
  return watch_.Clear();
}

int TaskScheduler::load(const std::string& worker) const {
  auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.load;
}

std::vector<std::string> TaskScheduler::Idle() const {
  std::vector<std::string> idle;
  if (!open_ || !queue_.empty()) return idle;
  for (const auto& [name, worker] : workers_) {
    if (worker.enabled && worker.load == 0) idle.push_back(name);
  }
  return idle;
}

int TaskScheduler::Places(const std::string& worker) const {
  auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : std::min(it->second.credits, Share());
}

}  // namespace baton::controller
