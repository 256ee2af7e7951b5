// The work of an async job: its groups of responses, the batch, and the evaluation beside them.
//
// Owns these parts, and knows what they have in common: the job's row, a restart, the way back.
// The trajectories are the scheduler's, those of a batch that is taken the buffer's.
//
//   AsyncGroups: open, complete --> AsyncBatch: drawn, taken --> spent
//   AsyncEvaluation: one at a time, pinned to its version
//   Refresh: are unfinished responses of older weights made again by newer ones
//
// async_loop.h says when each of this is done.
#ifndef BATON_CONTROLLER_CORE_LOOP_ASYNC_WORK_H_
#define BATON_CONTROLLER_CORE_LOOP_ASYNC_WORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/job/events.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/loop/async_batch.h"
#include "controller/core/loop/async_evaluation.h"
#include "controller/core/loop/async_groups.h"
#include "controller/core/weights/refresh.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

class AsyncWork {
 public:
  explicit AsyncWork(const v1::JobSpec& spec);

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

  // ---- The work goes on.
  /// Begins what rollouts have room for.
  void Begin(JobParts& job);
  /// Newer weights are there: stops the responses of replicas that had better make them again.
  void RecallOutdated(JobParts& job);
  /// A response is made.
  void NoteGenerated(const TaskDone& event, JobParts& job);
  /// The trajectory made progress: its group may be complete, or the evaluation done. False:
  /// nothing follows from it for the trainer.
  bool NoteProgress(uint64_t trajectory, JobParts& job);
  /// Its payload is lost: its group is not complete any more.
  void NoteLost(const TrajectoryInfo& trajectory, JobParts& job);
  /// The next step begins. `metrics`: of the one that is done.
  void EndStep(const std::map<std::string, double>& metrics, JobParts& job);
  /// The job is about to go back to its newest checkpoint. What is open stays, but for an
  /// evaluation of a step that is undone.
  void RollBack(const std::string& reason, JobParts& job);
  /// All work ends.
  void Clear();

  /// staleness/* of the batch, buffer/* and refresh/*.
  std::map<std::string, double> Metrics(const JobParts& job) const;
  void Explain(const JobParts& job, WaitList& waits) const;

  AsyncGroups groups;
  AsyncBatch batch;
  AsyncEvaluation evaluation;
  Refresh refresh;

 private:
  void Recall(const std::string& worker, uint64_t updates, JobParts& job);

  bool refreshes_;  // spec.schedule.refresh
  // By rollout slot: for which newer version, and with how many responses, it was last asked
  // whether a refresh pays. It is asked again when a response ends, or a still newer version comes.
  std::map<uint64_t, std::pair<uint64_t, int>> judged_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASYNC_WORK_H_
