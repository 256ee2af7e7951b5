// Scoring of responses: which node scores a response next, and what follows from a failed score.
//
// Owns the rewards that failed (RewardErrors), and how many names of scores were too many. A
// response that is stored goes through the score nodes of the dataflow, each as soon as its inputs
// exist. For a node's task on one response:
//
// clang-format off
//   queued --> sent to a worker --its output came--> kept, and the next nodes are queued
//     ^              |
//     +--------------+ it failed, but may do better elsewhere
//                    |
//                    +--> it failed for good: a reward is error_reward or missing;
//                         for any other node, the job fails
// clang-format on
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_SCORES_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_SCORES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/trajectories/reward_errors.h"
#include "controller/core/trajectories/trajectory_work.h"
#include "controller/core/trajectories/work_context.h"

namespace baton::controller {

class TrajectoryScores {
 public:
  using Work = TrajectoryWork;

  TrajectoryScores(std::shared_ptr<const v1::Job> submitted, const JobCoreOptions& options);

  /// The response is stored. What can be scored next is queued, or it is READY.
  void Enqueue(TrajectoryInfo& trajectory, const Work& work) const;
  /// Queues the scores that can be made next for the trajectory or its group.
  void EnqueueNext(TrajectoryInfo& trajectory, const Work& work) const;
  /// A worker has room for the score.
  void Start(const std::string& role, const TaskScheduler::Assignment& assignment, const Work& work,
             EffectSink& out) const;
  /// `late`: no worker answered, so the attempt is given up.
  WorkVerdict OnScored(const TaskDone& event, bool late, const Work& work,
                       const WorkContext& context);

  /// Scores of that role that are overdue.
  std::vector<uint64_t> Stalled(const std::string& role, const RoleQueues& queues,
                                absl::Time now) const;
  /// An overdue score as a failed result; nullopt: it runs no more.
  std::optional<TaskDone> Late(const std::string& role, uint64_t score, const Work& work) const;

  RewardErrors& errors() { return errors_; }
  const RewardErrors& errors() const { return errors_; }
  /// Names of scores that were too many since the last call.
  size_t TakeDroppedNames() { return std::exchange(dropped_names_, 0); }

 private:
  struct ScoreError {
    std::string error;  // "": the node made its output
    bool infra;         // the error says nothing about the response
    bool lacks_inputs;  // nor does this: some of its group lack the node's inputs
  };
  void EnqueueNode(TrajectoryInfo& trajectory, uint32_t node, const std::string& avoid,
                   const Work& work) const;
  void Retry(TrajectoryInfo& trajectory, uint32_t node, const absl::Status& status,
             const std::string& failed_on, const Work& work, const EffectSink& out) const;
  std::map<std::string, double> ScoresIn(const TaskDone& event, const std::string& made);
  WorkVerdict Keep(TrajectoryInfo& trajectory, const TaskDone& event, const ScoreError& failed,
                   const std::map<std::string, double>& metrics, const Work& work,
                   const WorkContext& context);

  std::shared_ptr<const v1::Job> submitted_;
  JobCoreOptions options_;
  RewardErrors errors_;
  size_t dropped_names_ = 0;  // of scores that workers reported beyond their limit
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_SCORES_H_
