// The groups of an async job: from their draw to the batch.
//
// Owns which draws are open and spent (DrawLedger), which groups are complete and in which order,
// the evaluation beside the steps (PinnedEvaluation), and what was dropped since the last step. The
// trajectories are the scheduler's, those of a batch the buffer's.
//
//   a rollout has room, and MayBegin --> open --all READY--> complete --TakeBatch--> in the batch
//        ^                                |                      |                        |
//        +-- stale: drawn anew -----------+----------------------+                        v
//                                         +-- too few rewards, or nothing to learn --> spent
//
// Rollouts pull: a group is drawn when a replica has room, so it begins with the newest weights
// that are published. async_admission.h bounds how many are ahead of the trainer. async_loop.h says
// when each of this is done.
#ifndef BATON_CONTROLLER_CORE_ASYNC_WORK_H_
#define BATON_CONTROLLER_CORE_ASYNC_WORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/complete_groups.h"
#include "controller/core/draw_ledger.h"
#include "controller/core/events.h"
#include "controller/core/pinned_evaluation.h"
#include "controller/core/step_metrics.h"
#include "controller/core/trajectory.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

class AsyncWork {
 public:
  void Restore(const store::v1::JobRow& row);
  /// Sets spent, saved_spent, open_draws and evaluation.
  void Save(const JobParts& job, store::v1::JobRow* row) const;

  // ---- A restart.
  /// A trajectory row of an earlier controller belongs to what is open.
  bool Recalls(const store::v1::TrajectoryRow& row, uint32_t per_draw) const;
  /// The number is one of what is open.
  bool HasBirth(uint64_t birth, uint32_t per_draw) const;
  /// Makes the trajectories of all that is open, as far as they are stored.
  void Stand(JobParts& job);

  // ---- Groups.
  /// Draws groups while a rollout has room for them, and gives them out.
  void BeginGroups(JobParts& job);
  /// The trajectory made progress: its group may be complete, or the evaluation done. False:
  /// nothing follows from it for the trainer.
  bool NoteProgress(uint64_t trajectory, JobParts& job);
  /// Its payload is lost: its group is not complete any more.
  void NoteLost(const TrajectoryInfo& trajectory, JobParts& job);
  /// Payloads of the batch are lost that a restarted controller has not taken yet.
  bool LosesRestoredBatch(const PayloadLost& event, const JobParts& job) const;
  /// Draws the groups of the next batch, and takes them out of the work once the scores are there
  /// that are made at the draw. False: that is not so yet, or there are not enough groups.
  bool TakeBatch(JobParts& job);
  /// The same of the batch that an update has begun with before a restart.
  bool TakeRestoredBatch(JobParts& job);
  /// All its groups are complete, or taken.
  bool HasRestoredBatch() const;
  /// The batch is given up: its groups are complete again.
  void GiveBatchBack(const std::string& reason, JobParts& job);
  /// The step is done: the draws of its batch are spent.
  void Consume();
  /// The next step begins.
  void EndStep(JobParts& job);
  /// The job is about to go back to its newest checkpoint. What is open stays, but for an
  /// evaluation of a step that is undone.
  void RollBack(const std::string& reason, JobParts& job);
  /// All work ends.
  void Clear();

  // ---- The evaluation.
  void BeginEvaluation(JobParts& job);
  /// Gives it up: it is due again, if its step is still the newest one.
  void DropEvaluation(const std::string& reason, JobParts& job);
  const PinnedEvaluation& evaluation() const { return evaluation_; }

  DrawLedger& draws() { return draws_; }
  const DrawLedger& draws() const { return draws_; }
  /// Complete groups that wait for a batch.
  uint64_t complete() const { return complete_.size(); }
  /// Of the step: since the last one was done, and when its batch was complete.
  const StepTimes& times() const { return times_; }
  /// staleness/* of the batch (share_K: of its responses with staleness K), and buffer/*: what is
  /// open, complete, and was dropped since the last step.
  std::map<std::string, double> Metrics(const JobParts& job) const;
  void Explain(const JobParts& job, WaitList& waits) const;

 private:
  void Take(std::vector<uint64_t> draws, JobParts& job);
  bool DrawBatch(JobParts& job);
  /// The draw is given up: its groups are complete, as before it.
  void Undraw(const std::string& reason, JobParts& job);
  bool MayBeginGroup(const JobParts& job);
  void BeginGroup(JobParts& job);
  void DrawEvaluation(JobParts& job);
  void FinishEvaluationIfDone(JobParts& job);
  /// All responses of the group are READY: keeps it for a batch, or gives it up. False: the job
  /// failed.
  bool JudgeGroup(uint64_t draw, JobParts& job);
  void DropGroup(uint64_t draw, const std::string& reason, JobParts& job);
  void DropStaleGroup(uint64_t draw, JobParts& job);
  /// Drops groups that no batch may consume any more.
  void DropStale(JobParts& job);
  std::vector<uint64_t> Sample(const JobParts& job);

  DrawLedger draws_;
  PinnedEvaluation evaluation_;
  CompleteGroups complete_;
  std::vector<uint64_t> drawn_;     // groups of the next batch, while scores of the draw are made
  size_t scored_ = 0;               // so many of drawn_, the first ones, have them
  std::vector<uint64_t> taken_;     // groups of the batch that left the work
  std::vector<uint64_t> restored_;  // those of the update that a restart interrupted, not yet taken
  uint64_t judged_version_ = 0;     // DropStale has looked since this version was made
  uint64_t without_batch_ = 0;      // groups in a row that were given up for good
  uint64_t stale_groups_ = 0, stale_tokens_ = 0, untaught_groups_ = 0;  // since the last step
  StepTimes times_;
  absl::Time bounded_since_ = absl::InfinitePast();  // rollouts have room, and the bound has none
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_ASYNC_WORK_H_
