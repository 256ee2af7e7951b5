// Construction of a training batch from responses and their scores: filters them and adds
// advantages.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_BATCH_BUILDER_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_BATCH_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/algorithms/estimator_spec.h"
#include "controller/core/job/events.h"
#include "controller/core/prompts/prompt_source.h"
#include "controller/runtime/payloads/batch_part.h"
#include "sdk/common/data_set/data_set.h"
#include "sdk/common/schema/options.h"

namespace baton::controller {

struct BuiltBatch {
  BatchBuilt event;  ///< Its step and incarnation are those of the request.
  BatchEntries entries;
};

/// Payloads of responses, shared by the entries of a batch.
using SharedPayloads = std::vector<std::shared_ptr<const v1::Trajectory>>;

/// Builds the batch of `ask` from one payload after the other, so that only one of them must be in
/// memory. Of each it keeps the columns from which advantages are computed: per-token log-probs,
/// values and advantages. Pure.
///
/// Adds `advantages` (one number, or one per token) and, where critics learn, `returns` and
/// `cost_returns`. If the actor made `old_log_prob`, the KL in the reward uses it as the policy,
/// and its distance from `rollout_log_prob` becomes a metric.
class BatchBuilder {
 public:
  /// `dataflow` and `ask` outlive the builder. INVALID_ARGUMENT: the advantage node's options.
  static absl::StatusOr<BatchBuilder> Create(const v1::Dataflow& dataflow, const BuildBatch& ask);
  BatchBuilder(BatchBuilder&&);
  ~BatchBuilder();

  /// Adds the payload of the next one of `ask.trajectories`, with the columns of its score nodes.
  /// `cached`: the same in memory; expired: it is only in the experience log.
  void Add(const v1::Trajectory& payload, std::weak_ptr<const PackedPayload> cached);
  /// Call once all payloads are added. The entries say where their payloads are in the experience
  /// log. An error names the response and the column.
  absl::StatusOr<BuiltBatch> Finish();

 private:
  struct Taken;  // of one payload
  BatchBuilder(const BuildBatch& ask, const EstimatorSpec& spec);

  const BuildBatch* ask_;
  EstimatorSpec spec_;
  std::vector<std::unique_ptr<Taken>> taken_;
};

/// The examples of kind sft and reward_model, unchanged.
BuiltBatch MakePlainBatch(const BuildBatch& ask, SharedPayloads payloads);

/// data.pretrain_batch_size of `texts`, which the actor imitates in addition to its task. Only the
/// seed and the step (from 1) decide which texts; each is used once per epoch. So a batch that is
/// built again has the same texts. None if there are no texts.
class Pretraining {
 public:
  Pretraining(const v1::DataSpec& data, std::shared_ptr<const DataSet> texts, int64_t step);

  /// Appends at most `most` of them; true: all are appended.
  bool AddSome(uint64_t most, BatchEntries* batch);

 private:
  const std::shared_ptr<const DataSet> texts_;
  const int64_t step_;
  const uint64_t count_;  // of a step
  PromptSource order_;
  uint64_t next_ = 0;  // of count_
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_BATCH_BUILDER_H_
