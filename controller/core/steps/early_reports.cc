#include "controller/core/steps/early_reports.h"

#include <algorithm>
#include <utility>

#include "sdk/common/base/mutant.h"

namespace baton::controller {

void EarlyReports::NoteTasks(const WorkerBack& event) {
  for (const auto* refs : {&event.running, &event.unacked}) {
    for (const TaskRef& ref : *refs) {
      // Role tasks and commands belong to WorkerSlots and GroupCommands, which restore them from
      // rows.
      const bool noted = IsTrajectoryTask(ref.kind) || Mutant("early-role-tasks-noted");
      if (noted) running_.push_back({event.worker, ref});
    }
  }
}

bool EarlyReports::Told(const std::string& worker, const TaskRef& ref) const {
  return std::any_of(running_.begin(), running_.end(), [&](const Running& running) {
    return running.worker == worker && running.ref == ref;
  });
}

void EarlyReports::NoteResult(const TaskDone& event) {
  for (TaskDone& known : results_) {
    if (known.worker == event.worker && known.ref == event.ref) {
      known = event;
      return;
    }
  }
  results_.push_back(event);
}

std::vector<EarlyReports::Running> EarlyReports::TakeTasks() { return std::exchange(running_, {}); }

void EarlyReports::Forget(const std::string& worker) {
  const auto of_worker = [&](const auto& told) { return told.worker == worker; };
  if (Mutant("early-reports-of-a-lost-worker")) return;
  std::erase_if(results_, of_worker);
  std::erase_if(running_, of_worker);
}

void EarlyReports::Drop(const std::string& reason, EffectSink& out) {
  for (const Running& running : running_) {
    if (!Mutant("early-work-runs-on")) out.Do(StopTask{running.worker, running.ref, reason});
  }
  // A worker keeps a result until it is acknowledged.
  for (const TaskDone& early : results_) out.Do(AckResult{early.worker, early.ref});
  results_.clear();
  running_.clear();
}

}  // namespace baton::controller
