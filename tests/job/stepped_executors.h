// The executors and the clock of a job for SimulatedJob, on the caller's thread. The caller decides
// when slow work ends.
#ifndef BATON_TESTS_JOB_STEPPED_EXECUTORS_H_
#define BATON_TESTS_JOB_STEPPED_EXECUTORS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "controller/ports/executor.h"
#include "sdk/common/base/clock.h"

namespace baton::controller {

/// Work runs in Settle, in the order of its posting. Two kinds of work wait until RunSlow chooses
/// them: reads of data files, and the work for the disk that follows a call of
/// MakeNextDiskWorkSlow, with all that is posted behind it. Not thread-safe. Outlives what runs on
/// it.
class SteppedExecutors : public Executors, public Clock {
 public:
  absl::Time Now() const override { return now_; }
  std::unique_ptr<Executor> NewStrand() override {
    return std::make_unique<Queue>(this, &SteppedExecutors::AddReady);
  }
  std::unique_ptr<Executor> NewDiskStrand() override {
    return std::make_unique<Queue>(this, &SteppedExecutors::AddDisk);
  }
  void PostRead(Executor::Work work) override { AddReady(std::move(work)); }
  void PostDataRead(const std::string& /*job*/, std::function<uint64_t()> bytes,
                    Executor::Work work) override {
    (void)bytes();
    data_.push_back(std::move(work));
  }

  void MakeNextDiskWorkSlow() { next_is_slow_ = true; }
  /// Time passes. Run what is due with Settle.
  void Advance(absl::Duration time) { now_ += time; }
  /// Runs all that is not slow, and what it posts.
  void Settle() {
    while (RunOne()) {
    }
  }
  /// The number of pieces of slow work that could end now.
  size_t slow() const {
    return (data_.empty() ? 0 : 1) + (disk_.empty() || !disk_.front().slow ? 0 : 1);
  }
  /// Ends one of them: `which` is below slow().
  void RunSlow(size_t which) {
    if (which == 0 && !data_.empty()) return RunFront(data_);
    disk_.front().slow = false;
  }
  /// The process dies: nothing that waits ever runs.
  void Drop() {
    // The dropped work may hold the job, whose end posts nothing.
    const auto ready = std::exchange(ready_, {});
    const auto data = std::exchange(data_, {});
    const auto disk = std::exchange(disk_, {});
    const auto later = std::exchange(later_, {});
    next_is_slow_ = false;
  }

 private:
  struct DiskWork {
    Executor::Work work;
    bool slow = false;
  };
  class Queue : public Executor {
   public:
    using Add = void (SteppedExecutors::*)(Work);
    Queue(SteppedExecutors* executors, Add add) : executors_(*executors), add_(add) {}
    void Post(Work work) override { (executors_.*add_)(std::move(work)); }
    void PostAfter(absl::Duration delay, Work work) override {
      executors_.later_.emplace(executors_.now_ + delay, [this, work = std::move(work)]() mutable {
        Post(std::move(work));
      });
    }

   private:
    SteppedExecutors& executors_;
    const Add add_;
  };

  void AddReady(Executor::Work work) { ready_.push_back(std::move(work)); }
  void AddDisk(Executor::Work work) {
    disk_.push_back({std::move(work), std::exchange(next_is_slow_, false)});
  }
  static void RunFront(std::deque<Executor::Work>& queue) {
    const Executor::Work work = std::move(queue.front());
    queue.pop_front();
    work();
  }
  bool RunOne() {
    if (!later_.empty() && later_.begin()->first <= now_) {
      const Executor::Work work = std::move(later_.begin()->second);
      later_.erase(later_.begin());
      work();
    } else if (!ready_.empty()) {
      RunFront(ready_);
    } else if (!disk_.empty() && !disk_.front().slow) {
      const DiskWork next = std::move(disk_.front());
      disk_.pop_front();
      next.work();
    } else {
      return false;
    }
    return true;
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::deque<Executor::Work> ready_;  // for strands and readers
  std::deque<Executor::Work> data_;   // reads of data files
  std::deque<DiskWork> disk_;
  std::multimap<absl::Time, Executor::Work> later_;
  bool next_is_slow_ = false;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_JOB_STEPPED_EXECUTORS_H_
