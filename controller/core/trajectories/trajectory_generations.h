// Generation of responses: which rollout makes a response, with which weights, and what follows
// from a failed attempt.
//
// Owns the cost of the rollouts' engine steps (StepCost), and the counts of their drafts
// (SpeculationCounts). For one response:
//
// clang-format off
//   queued --Start--> GENERATING --its result came--> stored: TrajectoryScores goes on with it
//     ^                  |
//     +------------------+ Retry: it failed or stalled, and may do better elsewhere
//     +------------------+ Recall, and it has ended: newer weights make it again
// clang-format on
//
// A failure counts against max_attempts. These do not: a cancelled task, a worker with other
// weights, a lost worker or rank, and a result that an earlier controller may have counted already.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_GENERATIONS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_GENERATIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/events.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/trajectories/speculation_counts.h"
#include "controller/core/trajectories/step_cost.h"
#include "controller/core/trajectories/trajectory_work.h"
#include "controller/core/trajectories/work_context.h"

namespace baton::controller {

class TrajectoryGenerations {
 public:
  using Work = TrajectoryWork;

  TrajectoryGenerations(std::shared_ptr<const v1::Job> submitted, const JobCoreOptions& options);

  /// `avoid`: a rollout that gets the trajectory only if no other one has room; "": none.
  void Enqueue(const TrajectoryInfo& trajectory, const std::string& avoid, const Work& work) const;
  /// A rollout has room for the response.
  void Start(const TaskScheduler::Assignment& assignment, const Work& work,
             const WorkContext& context) const;
  /// More tokens of a response are known.
  void Progressed(const TaskProgressed& event, const Work& work, absl::Time now) const;
  /// Next::kDone: the trajectory's row is put, and it is SCORING or READY.
  WorkVerdict OnGenerated(const TaskDone& event, const Work& work, const WorkContext& context);
  void Retry(TrajectoryInfo& trajectory, const absl::Status& status, const std::string& failed_on,
             const Work& work, const WorkContext& context) const;
  /// Stops a response that a rollout makes, for `reason`, and queues it before all others once it
  /// has ended. Its tokens are then a draft for newer weights.
  void Recall(uint64_t trajectory, const std::string& reason, const Work& work,
              const WorkContext& context) const;
  /// The worker's stream broke, so the stop of recalled responses may be lost: sends it once more.
  void RepeatRecalls(const std::string& worker, const Work& work, const WorkContext& context) const;
  /// Moves stalled generations to another worker. An error: one of them stalled on max_attempts
  /// workers.
  absl::Status CheckStalls(const Work& work, const WorkContext& context) const;

  /// Counts of drafts.
  SpeculationCounts& speculation() { return speculation_; }
  /// Cost of the steps of the rollouts' engines.
  const StepCost& step_cost() const { return step_cost_; }

 private:
  void NotePace(const TaskDone& event, absl::Duration took, const Work& work);
  void TakeBack(TrajectoryInfo& trajectory, const Work& work, const WorkContext& context) const;
  void TakeVersion(TrajectoryInfo& trajectory, uint64_t version, const WorkContext& context) const;

  std::shared_ptr<const v1::Job> submitted_;
  JobCoreOptions options_;
  bool drafts_;  // tokens of older weights are drafts for newer ones (schedule.refresh)
  SpeculationCounts speculation_;
  StepCost step_cost_;
  bool all_measure_steps_ = true;  // each rollout that made a response so far did
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_GENERATIONS_H_
