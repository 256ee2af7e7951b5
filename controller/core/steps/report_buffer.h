// Results and tasks that workers report before a restarted controller has restored the step's
// trajectories.
//
// Owns the results received before recovery, and the tasks that returning workers still run or have
// results of. A restarted controller gets both before it knows whether they are wanted: its data
// must be read and its roles complete first. Once the step's trajectories are restored, JobCore
// takes everything out of here, in the order in which it came.
//
//   reported --the step's trajectories are restored--> adopted or stopped, handled as a result
//            --the step ends without them-------------> stopped, acknowledged and dropped
//            --the worker is lost---------------------> dropped
#ifndef BATON_CONTROLLER_CORE_STEPS_REPORT_BUFFER_H_
#define BATON_CONTROLLER_CORE_STEPS_REPORT_BUFFER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/effect_sink.h"
#include "controller/core/job/events.h"

namespace baton::controller {

class ReportBuffer {
 public:
  /// A task of a worker that came back, until it is known whether the task is wanted.
  struct Running {
    std::string worker;
    TaskRef ref;
  };

  /// A worker came back for the first time: it runs these, or is about to send their results.
  void NoteTasks(const WorkerReconnected& event);
  /// Keeps a result that came before its step can take it. A worker sends a result again each time
  /// its stream is restored, so only the newest copy is kept.
  void NoteResult(const TaskDone& event);
  bool empty() const { return results_.empty() && running_.empty(); }
  /// True if the worker reported that it has this task.
  bool Reported(const std::string& worker, const TaskRef& ref) const;

  /// True if workers run tasks that are not taken out yet.
  bool AnyRuns() const { return !running_.empty(); }
  std::vector<Running> TakeTasks();
  /// Takes out the results of group commands, or those of trajectories, and calls handle(result)
  /// for each. The others stay, even if a result ends the step.
  template <typename F>
  void Replay(bool commands, F handle) {
    std::vector<TaskDone> kept;
    for (TaskDone& result : std::exchange(results_, {})) {
      if (IsGroupCommand(result.ref.kind) == commands) {
        handle(result);  // it may still be too early
      } else {
        kept.push_back(std::move(result));
      }
    }
    results_.insert(results_.end(), kept.begin(), kept.end());
  }
  /// The worker is lost. A worker that comes back under its name is another process, or was fenced:
  /// it runs none of these tasks, and sends unacknowledged results again.
  void Forget(const std::string& worker);
  /// The step ends without these reports, for `reason`: tasks that still run are stopped.
  void Drop(const std::string& reason, EffectSink& out);

 private:
  std::vector<TaskDone> results_;
  std::vector<Running> running_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_REPORT_BUFFER_H_
