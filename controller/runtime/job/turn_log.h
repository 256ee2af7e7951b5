// The log of one job's turns until they are committed, and the job as of its last committed turn.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_TURN_LOG_H_
#define BATON_CONTROLLER_RUNTIME_JOB_TURN_LOG_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Commits the rows of each turn, then lets its effects leave: an effect leaves only after the rows
/// of its turn are committed, and turns leave in order.
///
/// On the job's strand, unless a method says otherwise. The store commits on a thread of its own.
class TurnLog {
 public:
  /// `stored`: the job's rows are in the store. `leave` carries an effect out.
  TurnLog(const JobScope* scope, JobThreads* threads, bool stored,
          std::function<void(const Effect&)> leave);

  /// The rows for what the core has just done. The next finished turn shows the job as of these
  /// rows.
  std::vector<store::Write> RowsOf(const Effects& effects);
  /// Ends a turn. `after` runs behind its effects; null: nothing.
  void Finish(Effects effects, std::vector<store::Write> writes, std::function<void()> after);
  /// Runs `after` when all earlier turns are committed.
  void AfterAll(std::function<void()> after) { Finish({}, {}, std::move(after)); }
  /// While closed, a turn writes nothing, and none of its effects leaves.
  void SetClosed(bool closed) { closed_ = closed; }
  /// Drops all turns, and shows the core as it is. Returns the functions that the turns had to run
  /// behind their effects.
  std::vector<std::function<void()>> TakeAll();
  /// Drops all turns. Call it after the executors have ended.
  void Abandon() { turns_.clear(); }
  bool empty() const { return turns_.empty(); }

  // Any thread: the job as of its last committed turn.
  v1::Job Snapshot() const;
  /// The same without spec, effective_spec and dataflow, which may be large.
  v1::Job Brief() const;
  v1::Job::State state() const;
  /// True from the first commit of the job's row until Hide.
  bool visible() const { return visible_; }
  void Hide() { visible_ = false; }

 private:
  struct Turn {
    Effects effects;
    std::shared_ptr<const v1::Job> durable;  // after this turn; null: unchanged
    v1::Job progress;
    bool committed = false;
    std::function<void()> after;
  };

  void Commit(std::vector<store::Write> writes, store::Durability durability);
  void Committed();
  void Flush();
  std::deque<Turn>::iterator NextToLeave();
  void Leave(Turn& turn);

  // Constant.
  const JobScope* const scope_;
  JobThreads* const threads_;
  const std::function<void(const Effect&)> leave_;

  // On the strand.
  std::deque<Turn> turns_;
  std::shared_ptr<const v1::Job> changed_;  // set by the current turn; null: unchanged
  bool flushing_ = false, closed_ = false;
  bool stored_;        // the job's first row is committed
  bool spec_written_;  // the row of kSpecTable is written, or on its way

  std::atomic<bool> visible_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const v1::Job> durable_ ABSL_GUARDED_BY(mu_);
  v1::Job progress_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_TURN_LOG_H_
