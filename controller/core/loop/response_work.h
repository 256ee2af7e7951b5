// The responses of a step or an evaluation: the work in progress.
//
// Owns whether the trajectories of the work stand, and what workers told a restarted controller
// before that (EarlyReports). The trajectories are the scheduler's; this says what follows from
// each of them for the rest of the job.
//
//   nothing --Begin: the trajectories are made--> under way --all READY--> the batch is built, or
//      ^                                           |     ^                 the evaluation ends
//      |                                           |     +-- payloads are lost, or groups are drawn
//      +-- Clear: it is done, or it is given up ---+         in place of others
//
// Work that a restart interrupted is begun again: responses that are stored are taken as they are,
// and what workers still run or have just finished finds its place.
#ifndef BATON_CONTROLLER_CORE_LOOP_RESPONSE_WORK_H_
#define BATON_CONTROLLER_CORE_LOOP_RESPONSE_WORK_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/job/activities.h"
#include "controller/core/job/events.h"
#include "controller/core/trajectories/early_reports.h"
#include "controller/core/trajectories/experience_buffer.h"
#include "controller/core/trajectories/trajectory_scheduler.h"

namespace baton::controller {

struct JobParts;

class ResponseWork {
 public:
  /// The trajectories of the work stand. True as well after work has ended: nothing is expected of
  /// an earlier controller any more.
  bool begun() const { return begun_; }
  EarlyReports& early() { return early_; }
  const EarlyReports& early() const { return early_; }
  /// The step or the evaluation was under way before a restart, as rows or workers say.
  bool UnderWay(const ExperienceBuffer& buffer) const {
    return !buffer.found().empty() || !early_.empty();
  }

  /// `what`: kGenerate, a step; or kEvaluate.
  void Begin(Activity what, JobParts& job);
  /// The trajectories of all that an async job has open are made.
  void Stand(JobParts& job);
  /// Prompts were added to the draws: their responses are asked for.
  void GoOn(JobParts& job);
  /// Ends the work: its trajectories are forgotten, and what still runs is stopped for `reason`.
  void Clear(const std::string& reason, JobParts& job);

  /// The result of a generation or a score, which is wanted of its worker.
  void OnGenerated(const TaskDone& event, JobParts& job);
  void OnScored(const TaskDone& event, bool late, JobParts& job);
  /// A worker came back that plays a role of the work. `first_time`: since a controller began.
  void OnWorkerBack(const WorkerBack& event, bool first_time, JobParts& job);
  /// Payloads that are gone are generated again, with the same draws. False: none of them belongs
  /// to the work. An error: one is lost too often.
  absl::StatusOr<bool> OnPayloadLost(const PayloadLost& event, JobParts& job);

  /// The batch of the update to `step` is lost: how often that happened without getting past it.
  uint32_t LoseBatch(int64_t step) {
    if (step > lost_at_) lost_batches_ = 0;
    lost_at_ = std::max(lost_at_, step);
    return ++lost_batches_;
  }

  /// Generations that do not move, and scores that are due, go to other workers. False: the job
  /// failed over one of them.
  bool CheckDeadlines(JobParts& job);

 private:
  TrajectoryScheduler::Verdict OnWrongVersion(const TaskDone& event, JobParts& job);
  void MaybeAllReady(JobParts& job);
  /// A response was generated or scored: what follows for the step.
  void GoOnAfter(const TaskDone& event, JobParts& job);
  void BeginReplay(JobParts& job);
  void CheckScoreDeadlines(JobParts& job);
  void AdoptRunning(JobParts& job);
  void StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running, JobParts& job);

  bool begun_ = false;
  uint32_t lost_batches_ = 0;  // of updates …
  int64_t lost_at_ = 0;        // … without getting past this step
  EarlyReports early_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_RESPONSE_WORK_H_
