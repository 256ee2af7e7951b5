// The update of a step: every role that trains learns from the batch, and the step is done.
//
// Owns what the groups have reported of the update so far, and how many metrics of theirs were too
// many.
//
//   the batch stands --Begin: a command to each group--> under way --the last group is done-->
//   the step is done: its metrics are told, the actor's weights are a new version
//
// A batch that filters left nothing of is a step as well, without an update.
#ifndef BATON_CONTROLLER_CORE_LOOP_POLICY_UPDATE_H_
#define BATON_CONTROLLER_CORE_LOOP_POLICY_UPDATE_H_

#include <cstddef>
#include <map>
#include <string>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/workers/rank_groups.h"

namespace baton::controller {

struct JobParts;

class PolicyUpdate {
 public:
  using Metrics = std::map<std::string, double>;

  void Restore(const store::v1::JobRow& row);
  /// Sets update_metrics.
  void Save(store::v1::JobRow* row) const;

  /// The batch stands: it is stored, and every group that trains in this step is commanded at once.
  void Begin(JobParts& job);
  /// All ranks of `group` have made the update; `metrics` is what rank 0 reported.
  void OnGroupDone(const Group& group, Metrics metrics, JobParts& job);
  /// The job went back: what was reported is of weights that are gone.
  void Forget() { reports_.clear(); }

 private:
  void FinishStep(bool updated, JobParts& job);
  Metrics StepMetrics(JobParts& job);
  void DropSurplusOf(Metrics* metrics, JobParts& job);

  Metrics reports_;           // of the groups that have done the update
  size_t dropped_names_ = 0;  // of metrics that updates reported since the last step
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_POLICY_UPDATE_H_
