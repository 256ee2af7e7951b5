// What workers tell of a step before a restarted controller has its trajectories again.
//
// Owns the results that came too early, and the tasks that workers which came back still run or
// have results of. A restarted controller hears of both before it knows whether they are wanted:
// its data must be read and its roles complete first. Once the step's trajectories stand, JobCore
// takes everything out of here, in the order in which it came.
//
//   told by a worker --the step's trajectories stand--> adopted or stopped, handled as a result
//                    --the step ends without them-----> stopped, acknowledged and dropped
//                    --the worker is lost-------------> dropped
#ifndef BATON_CONTROLLER_CORE_STEPS_EARLY_REPORTS_H_
#define BATON_CONTROLLER_CORE_STEPS_EARLY_REPORTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/effect_sink.h"
#include "controller/core/job/events.h"

namespace baton::controller {

class EarlyReports {
 public:
  /// What a worker that came back runs, until it is known whether that is wanted.
  struct Running {
    std::string worker;
    TaskRef ref;
  };

  /// A worker came back for the first time: it runs these, or is about to send their results.
  void NoteTasks(const WorkerBack& event);
  /// A result that came before its step can take it. A worker sends a result again each time its
  /// stream is restored, so only the newest copy is kept.
  void NoteResult(const TaskDone& event);
  bool empty() const { return results_.empty() && running_.empty(); }
  /// The worker said that it has this task.
  bool Told(const std::string& worker, const TaskRef& ref) const;

  /// Workers run what is not taken yet.
  bool AnyRuns() const { return !running_.empty(); }
  std::vector<Running> TakeTasks();
  /// Calls handle(result) for each result of a group command, or for each of a trajectory; the
  /// others stay, even if the step ends over one of these.
  template <typename F>
  void Replay(bool commands, F handle) {
    std::vector<TaskDone> kept;
    for (TaskDone& early : std::exchange(results_, {})) {
      if (IsGroupCommand(early.ref.kind) == commands) {
        handle(early);  // which may find that it is still too early
      } else {
        kept.push_back(std::move(early));
      }
    }
    results_.insert(results_.end(), kept.begin(), kept.end());
  }
  /// The worker is lost. One that comes back under its name is another process, or was fenced: it
  /// runs nothing of this, and sends again what it has not seen acknowledged.
  void Forget(const std::string& worker);
  /// The step ends without any of it, for `reason`: what still runs is stopped.
  void Drop(const std::string& reason, EffectSink& out);

 private:
  std::vector<TaskDone> results_;
  std::vector<Running> running_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_EARLY_REPORTS_H_
