// Virtual time: what happens next, and to which process.
//
// Things happen in the order of their time, then of their planning. Plans of a process that died
// never happen; those of a hung process happen when it moves again.
#ifndef BATON_TESTS_SIMULATION_PARTS_SCHEDULER_H_
#define BATON_TESTS_SIMULATION_PARTS_SCHEDULER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace baton::simulation {

/// Index of a process; kWorld never dies.
using ProcessId = size_t;
inline constexpr ProcessId kWorld = 0;

class Scheduler {
 public:
  Scheduler() : processes_(1) {}

  absl::Time now() const { return now_; }
  ProcessId AddProcess() {
    processes_.push_back({});
    return processes_.size() - 1;
  }
  bool alive(ProcessId process) const { return processes_[process].alive; }
  uint64_t life(ProcessId process) const { return processes_[process].life; }
  bool hung(ProcessId process) const { return processes_[process].hung_until > now_; }
  /// The process dies, and everything it planned with it.
  void Kill(ProcessId process) {
    processes_[process].alive = false;
    ++processes_[process].life;
    processes_[process].hung_until = absl::InfinitePast();
  }
  void Start(ProcessId process) { processes_[process].alive = true; }
  /// Until then, or longer where it hangs already: what waits keeps its order.
  void Hang(ProcessId process, absl::Time until) {
    absl::Time& hung_until = processes_[process].hung_until;
    hung_until = std::max(hung_until, until);
  }

  void At(absl::Time time, ProcessId process, std::function<void()> work) {
    items_.push(
        {time < now_ ? now_ : time, next_++, process, processes_[process].life, std::move(work)});
  }
  void After(absl::Duration delay, ProcessId process, std::function<void()> work) {
    At(now_ + delay, process, std::move(work));
  }

  /// The next thing happens. False: nothing is planned.
  bool RunOne() {
    while (!items_.empty()) {
      Item item = std::move(const_cast<Item&>(items_.top()));
      items_.pop();
      now_ = item.time;
      const Process& process = processes_[item.process];
      if (item.life != process.life || !process.alive) continue;
      if (process.hung_until > now_) {
        item.time = process.hung_until;  // keeps its place among what waits with it
        items_.push(std::move(item));
        continue;
      }
      item.work();
      return true;
    }
    return false;
  }

 private:
  struct Process {
    bool alive = true;
    uint64_t life = 0;
    absl::Time hung_until = absl::InfinitePast();
  };
  struct Item {
    absl::Time time;
    uint64_t number;
    ProcessId process;
    uint64_t life;
    std::function<void()> work;
    friend bool operator<(const Item& a, const Item& b) {  // the earliest on top
      return std::make_pair(b.time, b.number) < std::make_pair(a.time, a.number);
    }
  };

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  uint64_t next_ = 0;
  std::vector<Process> processes_;
  std::priority_queue<Item> items_;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_SCHEDULER_H_
