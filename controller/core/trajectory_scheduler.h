// Draws the prompts of a step or an evaluation, and has each response generated and scored.
//
// Owns the trajectories in progress (TrajectoryTable draws their states), the draws that are not
// made yet, the numbers that name the trajectories' tasks (BirthNumbers), the queue of each role
// that works on them, the rewards that failed, and the wait for the experience log (PayloadWait).
//
//   drawn --> rollout queue --> generated --> queue of each score node, as its inputs exist -->
//   READY
//                  ^                |                 ^                                  |
//                  +-- a failure ---+                 +--------- a failure -------------+
//
// A failed attempt goes to another worker while there is one. A failure counts against
// max_attempts unless it is nobody's fault: a cancelled task, a worker with other weights, a lost
// worker or rank, or a result that an earlier controller may have counted already.
//
// Calls that need more than the trajectories answer what follows (Verdict); JobCore does it.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORY_SCHEDULER_H_
#define BATON_CONTROLLER_CORE_TRAJECTORY_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/birth_numbers.h"
#include "controller/core/effect_sink.h"
#include "controller/core/experience_buffer.h"
#include "controller/core/job_core_options.h"
#include "controller/core/payload_wait.h"
#include "controller/core/policy_versions.h"
#include "controller/core/prompt_data.h"
#include "controller/core/reward_errors.h"
#include "controller/core/role_queues.h"
#include "controller/core/step_draws.h"
#include "controller/core/step_metrics.h"
#include "controller/core/trajectory_table.h"
#include "controller/core/wait_list.h"

namespace baton::controller {

class TrajectoryScheduler {
 public:
  /// The parts that it works with in a turn.
  struct Context {
    EffectSink& out;
    ExperienceBuffer& buffer;
    PromptData& data;
    const PolicyVersions& versions;
    /// The work was under way before a restart: results and workers look for its trajectories, so
    /// all of them are made at once.
    bool resumes = false;
  };
  /// What follows from a result.
  enum class Next {
    kDone,          ///< The trajectory goes on.
    kAgain,         ///< It is tried again.
    kGroupBroken,   ///< It is tried again, and the ranks that worked on it miss one of theirs.
    kWrongVersion,  ///< The rollout holds other weights. The caller sees to that; then Retry.
    kFails,         ///< The job fails.
  };
  struct Verdict {
    Next next = Next::kDone;
    absl::Status status;  ///< Why the job fails.
  };

  TrajectoryScheduler(std::shared_ptr<const v1::Job> submitted, const JobCoreOptions& options);

  // ---- The work in progress.
  void BeginStep(const Context& context);
  void BeginEvaluation(const Context& context);
  /// Makes trajectories of draws() that are not made yet, after AddRound or Replace of them.
  void DrawMore(const Context& context);
  /// Ends the work; what still runs is stopped for `reason`.
  void Clear(const std::string& reason, const Context& context);
  /// All prompts are drawn, and all trajectories READY.
  bool Done() const { return draws_.done() && table_.AllReady(); }
  /// Trajectories of the work, drawn or not.
  uint64_t Total() const;
  /// Only scores are missing.
  bool AllGenerated() const;
  /// "step 3" or "the evaluation of step 2".
  std::string WorkName(const EffectSink& out) const;

  // ---- Tasks.
  /// Gives out what can be done.
  void Dispatch(const Context& context);
  /// More tokens of a response are known.
  void Progressed(const TaskProgressed& event, absl::Time now);
  Verdict OnGenerated(const TaskDone& event, const Context& context);
  /// `late`: nobody answered, and the attempt is given up.
  Verdict OnScored(const TaskDone& event, bool late, const Context& context);
  void RetryGenerate(TrajectoryInfo& trajectory, const absl::Status& status,
                     const std::string& failed_on, const Context& context);
  /// The task is wanted of that worker, which plays the task's role.
  bool Wants(const std::string& worker, const TaskRef& ref) const;
  /// A worker that came back runs the task `ref`, with weights of `version`: that stays its own if
  /// nobody has begun it since. `hybrid`: it samples the weights that it trains.
  void Adopt(const std::string& worker, const TaskRef& ref, uint64_t version, bool hybrid,
             const Context& context);
  /// The worker works for the role no more. `stop`: why it is told to stop; empty: it is lost.
  void TakeBack(const std::string& role, const std::string& worker, const std::string& stop,
                EffectSink& out);
  /// The worker runs this no more. It is first in the queue again.
  void Requeue(const std::string& role, uint64_t work, const EffectSink& out);
  /// The payload is lost: the response is generated again, with the same draw. Those of its group
  /// keep what they have, for the response that comes will be the same.
  void GenerateAnew(TrajectoryInfo& trajectory, const Context& context);

  // ---- Deadlines.
  /// Generations that do not move go to another worker. An error: one of them did not move on
  /// max_attempts workers.
  absl::Status CheckGenerations(const Context& context);
  /// Scores of that role that are due.
  std::vector<uint64_t> StalledScores(const std::string& role, absl::Time now) const;
  /// Such a score as a result that failed; nothing: it runs no more.
  std::optional<TaskDone> LateScore(const std::string& role, uint64_t work,
                                    const EffectSink& out) const;

  TrajectoryTable& table() { return table_; }
  const TrajectoryTable& table() const { return table_; }
  RoleQueues& queues() { return queues_; }
  const RoleQueues& queues() const { return queues_; }
  StepDraws& draws() { return draws_; }
  const StepDraws& draws() const { return draws_; }
  BirthNumbers& births() { return births_; }
  const BirthNumbers& births() const { return births_; }
  RewardErrors& errors() { return errors_; }
  const RewardErrors& errors() const { return errors_; }
  PayloadWait& payload_wait() { return payload_wait_; }
  const PayloadWait& payload_wait() const { return payload_wait_; }
  const StepTimes& times() const { return times_; }
  /// Trajectories of one draw of the work.
  uint64_t PerDraw() const;
  /// Names of scores that were too many since the last call.
  size_t TakeDroppedNames() { return std::exchange(dropped_names_, 0); }

  /// The task of `queue` that has not moved for longest stands for all that run.
  void ExplainOldest(const RoleQueue& queue, const std::string& kind, absl::Duration limit,
                     const std::string& action, const EffectSink& out, WaitList& waits) const;

 private:
  const v1::JobSpec& spec() const { return submitted_->effective_spec(); }
  const ScoreGraph& graph() const { return table_.graph(); }
  bool is_rl() const { return spec().kind() == v1::JOB_KIND_RL; }
  void Begin(bool evaluates, const Context& context);
  void Make(v1::Purpose purpose, uint64_t draw, uint32_t sample, uint64_t prompt, uint64_t birth,
            const Context& context);
  void EnqueueNext(TrajectoryInfo& trajectory);
  void EnqueueNode(TrajectoryInfo& trajectory, uint32_t node, const std::string& avoid = "");
  void StartGenerate(const RolloutManager::Assignment& assignment, const Context& context);
  void StartScore(const std::string& role, const RolloutManager::Assignment& assignment,
                  EffectSink& out);
  void RetryScore(TrajectoryInfo& trajectory, uint32_t node, const absl::Status& status,
                  const std::string& failed_on, const EffectSink& out);
  struct ScoreError {
    std::string error;  // "": the node made its output
    bool infra;         // it says nothing of the response
    bool lacks_mates;   // nor of the response: some of its group lack the node's inputs
  };
  Verdict KeepScore(TrajectoryInfo& trajectory, const TaskDone& event, const ScoreError& failed,
                    const std::map<std::string, double>& metrics, const Context& context);

  std::shared_ptr<const v1::Job> submitted_;
  JobCoreOptions options_;
  TrajectoryTable table_;
  RoleQueues queues_;
  StepDraws draws_;
  BirthNumbers births_;
  RewardErrors errors_;
  PayloadWait payload_wait_;
  StepTimes times_;
  bool evaluates_ = false;    // the work is an evaluation
  size_t dropped_names_ = 0;  // of scores that workers reported beyond their limit
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORY_SCHEDULER_H_
