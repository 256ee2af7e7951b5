// Tasks and results that workers report before a restarted controller can use them.
//
// Owns the generations and scores that returning workers still run or have results of, and the
// results of the update in progress. A restarted controller gets both before it knows whether they
// are wanted: its data must be read and its roles complete first. The tasks wait until the step's
// trajectories are restored, the results of the update until its batch is rebuilt. Then JobCore
// takes them out of here, in the order in which they came.
//
//   task   --the step's trajectories are restored--> adopted or stopped
//          --the step ends without it--------------> stopped
//   result --the batch is rebuilt------------------> handled
//          --the step ends without it--------------> acknowledged
//   both   --the worker is lost--------------------> dropped
//
// The results of generations and scores are not here: the caller holds them back until they can be
// used (JobCore::knows_trajectories).
#ifndef BATON_CONTROLLER_CORE_STEPS_REPORT_BUFFER_H_
#define BATON_CONTROLLER_CORE_STEPS_REPORT_BUFFER_H_

#include <string>
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
  /// Keeps the result of an update that came before its batch is rebuilt. A worker sends a result
  /// again each time its stream is restored, so only the newest copy is kept.
  void NoteResult(const TaskDone& event);
  /// True if the worker reported that it has this task.
  bool Reported(const std::string& worker, const TaskRef& ref) const;

  /// True if workers run tasks that are not taken out yet.
  bool AnyRuns() const { return !running_.empty(); }
  std::vector<Running> TakeTasks();
  std::vector<TaskDone> TakeResults();
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
