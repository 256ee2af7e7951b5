// The loop of every trainer's updates: for each epoch, for each mini-batch, clear the gradients;
// for each micro-batch run forward and backward; clip; one AdamW step. A step whose loss or
// gradient is not finite is skipped. The trainer says what a micro-batch computes.
#ifndef BATON_WORKERS_ENGINE_TRAINING_UPDATE_LOOP_H_
#define BATON_WORKERS_ENGINE_TRAINING_UPDATE_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/loss/rank_agreement.h"
#include "workers/engine/training/optimizer.h"

namespace baton::engine {

struct UpdateOptions {
  int64_t ppo_epochs = 1;
  /// Sequences per optimizer step, in order, pretraining texts not counted (MiniBatchEnd); 0: the
  /// whole batch.
  int64_t ppo_mini_batch_size = 0;
  int64_t max_token_len = 0;        ///< Micro-batch budget in tokens; 0: kDefaultMaxTokenLen.
  std::function<bool()> cancelled;  ///< Asked before each optimizer step; may be empty.
  /// Steps of the job before this one: what the learning rate's schedule counts.
  int64_t step = 0;
  /// The reason if this rank lacks tokens of its share. All ranks answer the error, so none of them
  /// waits for this one.
  absl::Status fetched;
  /// Told after each micro-batch of this rank: how many are done, and how many the update has over
  /// all its mini-batches and epochs; may be empty. Those of a skipped step count as done.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// InvalidArgument names the numbers that make no sense.
[[nodiscard]] absl::Status ValidateOptions(const UpdateOptions& options);

/// Tokens of prompts and responses.
double CountTokens(absl::Span<const TrainSequence> batch);

/// A contiguous part of the batch that makes one optimizer step.
struct MiniBatchPlan {
  std::string name;     ///< For messages: "mini-batch from sequence 8".
  bool masked = false;  ///< No token of the policy is in its loss: no step is made.
  std::vector<std::vector<int64_t>> micro_batches;  ///< Indices into the part; this rank's.
  double imbalance = 1;                             ///< Among the data ranks.
};

/// How far an update is, in this rank's micro-batches.
class MicroBatchCount {
 public:
  MicroBatchCount() = default;
  MicroBatchCount(absl::Span<const MiniBatchPlan* const> plan, const UpdateOptions& options);

  /// A step begins: all micro-batches of the steps before it are done, or were skipped.
  void BeginStep(const MiniBatchPlan& mini_batch);
  void DoneOne();

 private:
  std::function<void(int64_t done, int64_t total)> tell_;  ///< May be empty.
  int64_t done_ = 0;
  int64_t after_step_ = 0;  ///< Done when the step ends.
  int64_t total_ = 0;
};

/// The plans of a trainer's own mini-batches.
template <typename MiniBatch>
std::vector<const MiniBatchPlan*> PlanOf(const std::vector<MiniBatch>& mini_batches) {
  std::vector<const MiniBatchPlan*> plan;
  for (const MiniBatch& mini_batch : mini_batches) plan.push_back(&mini_batch);
  return plan;
}

/// The sequences of the batch that this rank trains on in these mini-batches, ascending.
template <typename MiniBatch>
absl::StatusOr<std::vector<int64_t>> ShareOf(const absl::StatusOr<std::vector<MiniBatch>>& plan) {
  if (!plan.ok()) return plan.status();
  return SequencesOf<MiniBatch>(*plan);
}

/// The work of one kind of update in a step.
struct UpdateWork {
  /// Sets the sums of the step to 0, and says where they are: they are added up over data ranks.
  absl::FunctionRef<absl::Span<double>()> clear_sums;
  /// Forward and backward of one micro-batch of the mini-batch of this index; adds to the gradients
  /// and to the sums. `last`: of the step.
  absl::FunctionRef<absl::Status(size_t mini_batch, const std::vector<int64_t>& indices, bool last)>
      accumulate;
  /// Adds what the sums of a step that was applied say to the totals.
  absl::FunctionRef<void(std::map<std::string, double>& totals)> add_metrics;
};

/// One thread at a time. All ranks that train one model make the same calls.
class UpdateLoop {
 public:
  UpdateLoop(std::unique_ptr<Optimizer> optimizer, Communicator* tensor_group,
             Communicator* data_group, torch::Device device)
      : ranks_(tensor_group, data_group, device), optimizer_(std::move(optimizer)) {}

  /// Before the steps of an update. `share`: the sequences that this rank trains on (ShareOf), or
  /// why it cannot plan the update; others may be remote. FailedPrecondition: an earlier update
  /// failed half way. InvalidArgument: the ranks were given different batches or options. An error
  /// in the plan or the share of one rank is the answer of all. Collective.
  [[nodiscard]] absl::Status Begin(absl::Span<const TrainSequence> batch,
                                   const absl::StatusOr<std::vector<int64_t>>& share,
                                   const UpdateOptions& options);
  /// As above, where every rank has the whole batch.
  [[nodiscard]] absl::Status BeginWhole(absl::Span<const TrainSequence> batch,
                                        const UpdateOptions& options);

  /// Plans this rank's micro-batches of a mini-batch whose items take so many rows (0: none).
  [[nodiscard]] absl::Status PlanMicro(const std::vector<int64_t>& lengths,
                                       const SequenceCost& cost, const UpdateOptions& options,
                                       MiniBatchPlan& mini_batch) const;

  /// The steps. Metrics are means over those that were applied, and `prefix` + {grad_norm, lr,
  /// optimizer_steps, skipped_steps}; with a data group perf/imbalance. Where every mini-batch is
  /// masked nothing is learned, and there are neither means nor lr. Errors as Trainer::Update.
  absl::StatusOr<std::map<std::string, double>> Run(absl::Span<const MiniBatchPlan* const> plan,
                                                    const UpdateOptions& options,
                                                    const std::string& prefix,
                                                    const UpdateWork& work);

  /// The reasons why steps of the last update were skipped, one line each.
  const std::vector<std::string>& skip_reasons() const { return skip_reasons_; }

  RankAgreement& ranks() { return ranks_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  absl::Status Agree(const UpdateDigests& digests, const absl::Status& planned);
  /// One optimizer step at `lr`, added to `totals`. An error means that it was not applied.
  absl::Status Step(size_t index, const MiniBatchPlan& mini_batch, const UpdateOptions& options,
                    double lr, const std::string& prefix, const UpdateWork& work,
                    std::map<std::string, double>& totals);

  RankAgreement ranks_;
  const std::unique_ptr<Optimizer> optimizer_;
  double last_learning_rate_ = 0;
  MicroBatchCount count_;   ///< Of the update in progress.
  bool half_done_ = false;  ///< An update has applied a step and has not ended well.
  std::vector<std::string> skip_reasons_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_TRAINING_UPDATE_LOOP_H_
