// Puts a training batch together: what responses bring along and what was scored, filtered and
// with its advantages.
#ifndef BATON_CONTROLLER_RUNTIME_BATCH_BUILDER_H_
#define BATON_CONTROLLER_RUNTIME_BATCH_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/events.h"
#include "sdk/base/options.h"
#include "sdk/data_set/data_set.h"

namespace baton::controller {

struct BuiltBatch {
  BatchBuilt event;  ///< Its step and incarnation are those asked for.
  std::vector<v1::Trajectory> trajectories;
};

/// `payloads` are those of `ask.trajectories`, in their order, with the columns of their score
/// nodes. Adds `advantages` (one number, or one a token) and, where critics learn, `returns`
/// and `cost_returns`. Where the actor made `old_log_prob`, that is the policy of the KL in the
/// reward, and its distance from `rollout_log_prob` a metric.
/// An error names the response and the column. Pure.
absl::StatusOr<BuiltBatch> MakeBatch(const v1::Dataflow& dataflow, const BuildBatch& ask,
                                     std::vector<v1::Trajectory> payloads);

/// The examples of kind sft and reward_model as they are.
BuiltBatch MakePlainBatch(const BuildBatch& ask, std::vector<v1::Trajectory> payloads);

/// Appends data.pretrain_batch_size of `texts`, which the actor imitates beside the task. Which
/// ones, the seed and the step (from 1) alone decide, each once an epoch: a batch that is built
/// again has the same. Nothing for no texts.
void AddPretraining(const v1::DataSpec& data, const DataSet& texts, int64_t step,
                    std::vector<v1::Trajectory>* batch);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_BATCH_BUILDER_H_
