// The batch of an async job: drawn from complete groups, scored where the dataflow asks for it, and
// taken out of the work.
//
// Owns which groups are in it. Its trajectories are the scheduler's until they are taken, and the
// buffer's after that.
//
//   complete groups --Take--> drawn: scores of the draw are made --> taken: the update learns
//        ^                               |                               |           |
//        +------ GiveBack: the job goes back, or a payload is lost ------+           v
//                                                                              Consume: spent
//   restored: of an update that a restart interrupted, until its responses are there --> taken
#ifndef BATON_CONTROLLER_CORE_LOOP_ASYNC_BATCH_H_
#define BATON_CONTROLLER_CORE_LOOP_ASYNC_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/events.h"
#include "controller/core/trajectories/step_metrics.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

class AsyncBatch {
 public:
  void Restore(const store::v1::JobRow& row);
  /// The draws that an update may be learning from.
  std::set<uint64_t> Draws() const;

  /// The responses of the restored batch are made of their rows. Those of other draws, and all of
  /// them unless the update has begun, forget what was made at their draw.
  void Stand(JobParts& job);
  /// What was made of a stored trajectory at its draw is kept, or forgotten.
  void Recall(const JobParts& job, TrajectoryInfo& trajectory) const;

  /// Draws the groups of the next batch, and takes them out of the work once the scores are there
  /// that are made at the draw. False: that is not so yet, or there are not enough groups.
  bool Take(JobParts& job);
  /// The same of the batch that an update has begun with before a restart.
  bool TakeRestored(JobParts& job);
  /// All its groups are complete, or taken.
  bool HasRestored(const JobParts& job) const;
  /// Payloads of the batch are lost that a restarted controller has not taken yet.
  bool LosesRestored(const PayloadLost& event, const JobParts& job) const;
  /// The draw is given up: its groups are complete, as before it.
  void Undraw(const std::string& reason, JobParts& job);
  /// The batch is given up: its groups are complete again.
  void GiveBack(const std::string& reason, JobParts& job);
  /// The step is done: the draws of its batch are spent.
  void Consume(JobParts& job);
  /// The next step begins.
  void EndStep(JobParts& job);
  void Clear();

  /// Of the step: since the last one was done, and when its batch was complete.
  const StepTimes& times() const { return times_; }
  /// Adds staleness/* of the batch; share_K: of its responses with staleness K.
  void AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const;
  void Explain(const JobParts& job, WaitList& waits) const;

 private:
  bool Draw(JobParts& job);
  void TakeOut(std::vector<uint64_t> draws, JobParts& job);

  std::vector<uint64_t> drawn_;  // groups of the next batch, while scores of the draw are made
  size_t scored_ = 0;            // so many of drawn_, the first ones, have them
  std::vector<uint64_t> taken_;  // groups of the batch that left the work
  // Those of the update that a restart interrupted, not yet taken; ascending.
  std::vector<uint64_t> restored_;
  StepTimes times_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASYNC_BATCH_H_
