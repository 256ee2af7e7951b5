// The scheduler of the work in progress: it has each response of the open prompt groups and of the
// evaluation generated and scored.
//
// Owns the trajectories (TrajectoryTable has a diagram of their states), the queue of each role
// that works on them, how they are begun (Admission), made (TrajectoryGenerations) and scored
// (TrajectoryScores), and the wait for the experience log (PayloadWait).
//
//   admitted --> TrajectoryGenerations --> stored --> TrajectoryScores --> READY
//
// A failed attempt goes to another worker if there is one.
//
// Calls whose consequences go beyond the trajectories return what follows (WorkVerdict).
// running_tasks.h says what happens to tasks whose workers come back or are lost.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_SCHEDULER_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/dispatch/role_queues.h"
#include "controller/core/job/events.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/trajectories/admission.h"
#include "controller/core/trajectories/trajectory_generations.h"
#include "controller/core/trajectories/trajectory_scores.h"
#include "controller/core/trajectories/trajectory_table.h"
#include "controller/core/trajectories/work_context.h"

namespace baton::controller {

/// A job's wait for the experience log: payloads that the log has not taken yet fill their budget.
/// Meanwhile the job begins no generation; running ones go on. The runtime checks again at every
/// tick and after every write of the log.
///
///   no wait --more bytes than the budget--> waits --no more than the budget--> no wait
class PayloadWait {
 public:
  void Heard(const PayloadsWait& event, absl::Time now);
  bool waits() const { return wait_.has_value(); }
  /// `work`: the name of the step or the evaluation that waits.
  void Explain(const std::string& work, WaitList& waits) const;

 private:
  struct Wait {
    PayloadsWait event;  // the bytes that were waiting when the wait began
    absl::Time since;
  };
  std::optional<Wait> wait_;
};

class TrajectoryScheduler {
 public:
  using Context = WorkContext;
  using Verdict = WorkVerdict;
  using Next = WorkVerdict::Next;

  TrajectoryScheduler(std::shared_ptr<const v1::Job> submitted, const JobCoreOptions& options);

  // ---- The work in progress.
  /// A step or an evaluation begins, of at least so many responses: errors of rewards are counted
  /// anew.
  void BeginWork(bool evaluates, uint64_t responses);
  /// Adds the trajectories of a prompt index, and queues what can be done next with each.
  void AddGroup(std::vector<TrajectoryInfo> made);
  /// A batch selects these READY trajectories: queues the scores that are made at the
  /// selection. False: there are none.
  bool Select(const std::vector<TrajectoryInfo*>& selected);
  /// The batch is given up: scores that were made at its selection are stopped for `reason` and
  /// forgotten.
  void Deselect(const std::vector<TrajectoryInfo*>& selected, const std::string& reason,
                const Context& context);
  /// Takes a group that no batch consumes out of the work; its responses are not needed in memory
  /// any more. All of them are READY, and their rows are kept as long as those of the step.
  void SpendGroup(uint64_t prompt_index, const Context& context);
  /// Takes trajectories out of the work and forgets their responses; their running tasks are
  /// stopped for `reason`.
  void DropAll(const std::vector<TrajectoryInfo*>& dropped, const std::string& reason,
               const Context& context);
  /// Ends the work; running tasks are stopped for `reason`.
  void Clear(const std::string& reason, const Context& context);
  /// True if nothing is left to generate; only scores may be missing.
  bool AllGenerated() const;

  // ---- Tasks.
  /// Gives workers the tasks that can begin.
  void Dispatch(const Context& context);
  Verdict OnGenerated(const TaskDone& event, const Context& context);
  /// `late`: no worker answered, so the attempt is given up.
  Verdict OnScored(const TaskDone& event, bool late, const Context& context);
  /// The payload is lost: the response is generated again, for the same prompt index. The others of
  /// its group keep their scores, because the new response will be the same.
  void GenerateAnew(TrajectoryInfo& trajectory, const Context& context);

  TrajectoryTable& table() { return table_; }
  const TrajectoryTable& table() const { return table_; }
  RoleQueues& queues() { return queues_; }
  const RoleQueues& queues() const { return queues_; }
  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }
  TrajectoryGenerations& generations() { return generations_; }
  const TrajectoryGenerations& generations() const { return generations_; }
  TrajectoryScores& scores() { return scores_; }
  const TrajectoryScores& scores() const { return scores_; }
  /// The argument of calls of `generations` and `scores`.
  TrajectoryWork Work() { return {table_, queues_, admission_}; }
  PayloadWait& payload_wait() { return payload_wait_; }
  const PayloadWait& payload_wait() const { return payload_wait_; }
  /// The time of the last response.
  absl::Time generated_at() const { return generated_at_; }

 private:
  void Enqueue(TrajectoryInfo& trajectory);
  /// Stops a unit of work of a role, and takes it out of its queue.
  void Withdraw(const std::string& role, uint64_t work, const std::string& reason,
                const Context& context);

  std::shared_ptr<const v1::Job> submitted_;
  JobCoreOptions options_;
  TrajectoryTable table_;
  RoleQueues queues_;
  Admission admission_;
  TrajectoryGenerations generations_;
  TrajectoryScores scores_;
  PayloadWait payload_wait_;
  absl::Time generated_at_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_SCHEDULER_H_
