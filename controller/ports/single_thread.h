// For tests, fuzz targets and benches: the executors and the clock of a controller in virtual time,
// on the caller's thread.
#ifndef BATON_CONTROLLER_PORTS_SINGLE_THREAD_H_
#define BATON_CONTROLLER_PORTS_SINGLE_THREAD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "controller/ports/executor.h"
#include "sdk/common/base/clock.h"

namespace baton::controller {

/// Work runs in the order of its time, then of its posting. Time passes only in Advance. Not
/// thread-safe. Outlives the objects that run on it; they may be held by waiting work, so call Drop
/// before the end.
class SingleThread : public Executors, public Clock {
 public:
  absl::Time Now() const override { return now_; }
  std::unique_ptr<Executor> NewStrand() override { return std::make_unique<Strand>(this); }
  std::unique_ptr<Executor> NewDiskStrand() override { return std::make_unique<Strand>(this); }
  void PostRead(Executor::Work work) override { Add(now_, std::move(work)); }
  void PostDataRead(const std::string& /*job*/, std::function<uint64_t()> bytes,
                    Executor::Work work) override {
    (void)bytes();
    Add(now_, std::move(work));
  }

  /// Runs one piece of work whose time has come. False: there is none.
  bool RunOne() {
    if (work_.empty() || work_.begin()->first.first > now_) return false;
    const Executor::Work work = std::move(work_.begin()->second);
    work_.erase(work_.begin());
    work();
    return true;
  }
  /// Runs all work whose time has come, and the work that it posts.
  void Settle() {
    while (RunOne()) {
    }
  }
  /// Time passes; work that was to wait runs when its time comes.
  void Advance(absl::Duration time) {
    const absl::Time end = now_ + time;
    for (Settle(); !work_.empty() && work_.begin()->first.first <= end; Settle()) {
      now_ = work_.begin()->first.first;
    }
    now_ = end;
  }
  /// The process dies: nothing that waits ever runs.
  void Drop() {
    while (!work_.empty()) work_.erase(work_.begin());
  }

 private:
  class Strand : public Executor {
   public:
    explicit Strand(SingleThread* thread) : thread_(*thread) {}
    void Post(Work work) override { thread_.Add(thread_.now_, std::move(work)); }
    void PostAfter(absl::Duration delay, Work work) override {
      thread_.Add(thread_.now_ + delay, std::move(work));
    }

   private:
    SingleThread& thread_;
  };

  void Add(absl::Time time, Executor::Work work) {
    work_.emplace(std::make_pair(time, next_++), std::move(work));
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  uint64_t next_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, Executor::Work> work_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_SINGLE_THREAD_H_
