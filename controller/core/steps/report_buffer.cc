#include "controller/core/steps/report_buffer.h"

#include <algorithm>
#include <utility>

namespace baton::controller {

void ReportBuffer::NoteTasks(const WorkerReconnected& event) {
  for (const auto* refs : {&event.running, &event.unacked}) {
    for (const TaskRef& ref : *refs) {
      // Role tasks and commands belong to WorkerSlots and GroupCommands, which restore them from
      // rows.
      if (IsTrajectoryTask(ref.kind)) running_.push_back({event.worker, ref});
    }
  }
}

bool ReportBuffer::Reported(const std::string& worker, const TaskRef& ref) const {
  return std::any_of(running_.begin(), running_.end(), [&](const Running& running) {
    return running.worker == worker && running.ref == ref;
  });
}

void ReportBuffer::NoteResult(const TaskDone& event) {
  for (TaskDone& known : results_) {
    if (known.worker == event.worker && known.ref == event.ref) {
      known = event;
      return;
    }
  }
  results_.push_back(event);
}

std::vector<ReportBuffer::Running> ReportBuffer::TakeTasks() { return std::exchange(running_, {}); }

std::vector<TaskDone> ReportBuffer::TakeResults() { return std::exchange(results_, {}); }

void ReportBuffer::Forget(const std::string& worker) {
  const auto of_worker = [&](const auto& report) { return report.worker == worker; };
  std::erase_if(results_, of_worker);
  std::erase_if(running_, of_worker);
}

void ReportBuffer::Drop(const std::string& reason, EffectSink& out) {
  for (const Running& running : running_) out.Do(StopTask{running.worker, running.ref, reason});
  // A worker keeps a result until it is acknowledged.
  for (const TaskDone& result : results_) out.Do(AckResult{result.worker, result.ref});
  results_.clear();
  running_.clear();
}

}  // namespace baton::controller
