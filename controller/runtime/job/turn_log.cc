#include "controller/runtime/job/turn_log.h"

#include <algorithm>
#include <utility>

#include "controller/runtime/rows/job_rows.h"
#include "controller/runtime/rows/tables.h"

namespace baton::controller {

TurnLog::TurnLog(const JobScope* scope, JobThreads* threads, bool stored,
                 std::function<void(const Effect&)> leave)
    : scope_(scope),
      threads_(threads),
      leave_(std::move(leave)),
      stored_(stored),
      spec_written_(stored),
      visible_(stored),
      durable_(std::make_shared<const v1::Job>(scope->core.Durable())),
      progress_(scope->core.Progress()) {}

std::vector<store::Write> TurnLog::RowsOf(const Effects& effects) {
  TurnRows rows = RowsOfTurn(scope_->core, effects, scope_->context->kept);
  if (!rows.job) return std::move(rows.writes);
  changed_ = std::make_shared<const v1::Job>(scope_->core.Durable());
  if (!std::exchange(spec_written_, true)) {
    rows.writes.push_back({kSpecTable, scope_->name, scope_->submitted->SerializeAsString()});
  }
  return std::move(rows.writes);
}

void TurnLog::Finish(Effects effects, std::vector<store::Write> writes,
                     std::function<void()> after) {
  if (closed_) {
    effects.clear();
    writes.clear();
    changed_ = nullptr;
  }
  const store::Durability durability = DurabilityOf(writes);
  Turn turn;
  turn.effects = std::move(effects);
  turn.durable = std::exchange(changed_, nullptr);
  turn.progress = scope_->core.Progress();
  turn.after = std::move(after);
  turn.committed = writes.empty();
  turns_.push_back(std::move(turn));
  if (!writes.empty()) Commit(std::move(writes), durability);
  Flush();
}

void TurnLog::Commit(std::vector<store::Write> writes, store::Durability durability) {
  auto done = [this, held = threads_->Hold()](const absl::Status& status) {
    // The controller stops: no effect may leave any more.
    if (!status.ok()) return;
    threads_->OnStrand([this] { Committed(); });
  };
  scope_->context->store->Commit(std::move(writes), durability, std::move(done));
}

// Commits are answered in order.
void TurnLog::Committed() {
  const auto oldest =
      std::find_if(turns_.begin(), turns_.end(), [](const Turn& turn) { return !turn.committed; });
  if (oldest != turns_.end()) oldest->committed = true;
  Flush();
}

void TurnLog::Flush() {
  if (flushing_) return;  // a turn that is leaving began another one, which must come after it
  flushing_ = true;
  for (auto next = NextToLeave(); next != turns_.end(); next = NextToLeave()) {
    Turn turn = std::move(*next);
    turns_.erase(next);
    Leave(turn);
  }
  flushing_ = false;
}

// Lets the oldest turn leave once it is committed; turns leave in order.
std::deque<TurnLog::Turn>::iterator TurnLog::NextToLeave() {
  const auto committed =
      std::find_if(turns_.begin(), turns_.end(), [](const Turn& turn) { return turn.committed; });
  return committed == turns_.begin() ? committed : turns_.end();
}

void TurnLog::Leave(Turn& turn) {
  {
    absl::MutexLock lock(&mu_);
    if (turn.durable != nullptr) durable_ = std::move(turn.durable);
    progress_ = std::move(turn.progress);
  }
  // Before the effects leave, because their answers must find the job.
  if (!std::exchange(stored_, true)) visible_ = true;
  for (const Effect& effect : turn.effects) {
    if (scope_->context->observer != nullptr) {
      scope_->context->observer->OnEffect(scope_->core, effect);
    }
    leave_(effect);
  }
  if (turn.after) turn.after();
}

// A turn that threw while it left began with flushing_.
std::vector<std::function<void()>> TurnLog::TakeAll() {
  changed_ = nullptr;
  flushing_ = false;
  {
    absl::MutexLock lock(&mu_);
    durable_ = std::make_shared<const v1::Job>(scope_->core.Durable());
    progress_ = scope_->core.Progress();
  }
  std::vector<std::function<void()>> answers;
  for (Turn& turn : std::exchange(turns_, {})) {
    if (turn.after) answers.push_back(std::move(turn.after));
  }
  return answers;
}

v1::Job TurnLog::Snapshot() const {
  v1::Job job = Brief();
  job.MergeFrom(*scope_->submitted);
  return job;
}

v1::Job TurnLog::Brief() const {
  std::shared_ptr<const v1::Job> durable;
  v1::Job progress;
  {
    absl::MutexLock lock(&mu_);
    durable = durable_;
    progress = progress_;
  }
  v1::Job job = *durable;  // copied without the lock
  job.MergeFrom(progress);
  return job;
}

v1::Job::State TurnLog::state() const {
  absl::MutexLock lock(&mu_);
  return durable_->state();
}

}  // namespace baton::controller
