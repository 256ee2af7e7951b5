// The trainer of a model with a scalar head: a critic on returns, a reward model on preferences.
//
// Updates are made as the policy's are (update_loop.h); the losses of micro-batches add up exactly.
// Ranks may train one model together, as there (trainer.h). Same model, optimizer state and batch:
// same bytes afterwards (CPU, one compute thread). One thread at a time; the model must not be used
// meanwhile. libtorch's exceptions become Status.
#ifndef BATON_WORKERS_ENGINE_SCALAR_SCALAR_TRAINER_H_
#define BATON_WORKERS_ENGINE_SCALAR_SCALAR_TRAINER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/loss/loss.h"
#include "workers/engine/scalar/scalar_loss.h"
#include "workers/engine/scalar/scalar_model.h"
#include "workers/engine/training/optimizer.h"
#include "workers/engine/training/update_loop.h"

namespace baton::engine {

/// Two responses to one prompt; people liked one of them better.
struct PreferencePair {
  TrainSequence chosen, rejected;  ///< Prompt and response; other columns are not looked at.
};

class ScalarTrainer {
 public:
  using Metrics = std::map<std::string, double>;

  /// As Trainer::Create.
  static absl::StatusOr<std::unique_ptr<ScalarTrainer>> Create(ScalarModel* model,
                                                               const OptimizerSpec& optimizer,
                                                               Communicator* data_group = nullptr);

  /// One batch for a critic. Needs `returns`, and `values` when the loss clips; the value of token
  /// t is as in ComputeValues. Metrics, means over the optimizer steps of this call:
  ///   critic/{vf_loss, vf_clipfrac, vpred_mean, grad_norm, lr, optimizer_steps, skipped_steps}
  ///   critic/vf_explained_var   1 - Var(R - V_old) / (Var(R) + 1e-5) over the batch, with `values`
  ///   perf/total_num_tokens, and with a data group perf/imbalance (trainer.h)
  /// vf_loss is aggregated by loss_agg_mode; vf_clipfrac and vpred_mean are means over unmasked
  /// tokens. Errors as Trainer::Update.
  absl::StatusOr<Metrics> UpdateValues(absl::Span<const TrainSequence> batch, const LossSpec& loss,
                                       const UpdateOptions& options);

  /// As Trainer::Share, of an UpdateValues.
  absl::StatusOr<std::vector<int64_t>> Share(absl::Span<const TrainSequence> batch,
                                             const LossSpec& loss,
                                             const UpdateOptions& options) const;

  /// One batch for a reward model; ppo_mini_batch_size counts pairs; the loss is their mean.
  ///   train/{loss, accuracy, margin, grad_norm, lr, optimizer_steps, skipped_steps}
  ///   perf/total_num_tokens
  /// A pair whose sides have equal scores counts half for the accuracy. Errors as Trainer::Update;
  /// InvalidArgument names a pair whose sides are the same tokens.
  absl::StatusOr<Metrics> UpdatePreferences(absl::Span<const PreferencePair> pairs,
                                            const UpdateOptions& options);

  /// The reasons why steps of the last update were skipped, one line each.
  const std::vector<std::string>& skip_reasons() const { return loop_.skip_reasons(); }

  [[nodiscard]] absl::Status SaveOptimizer(const std::string& path) const;
  [[nodiscard]] absl::Status LoadOptimizer(const std::string& path);
  int64_t optimizer_steps() const { return loop_.optimizer().step(); }

 private:
  /// A contiguous part of the batch that makes one optimizer step.
  struct MiniBatch : MiniBatchPlan {
    int64_t begin = 0, size = 0;
    double terms = 0;             ///< Unmasked tokens, or pairs.
    std::vector<double> weights;  ///< Weight of an unmasked token, per sequence.
  };
  /// A micro-batch's contribution to the metrics of its step, in the order of their names.
  using Sums = std::array<double, 3>;
  using Names = std::array<const char*, 3>;
  /// Adds the gradients of one micro-batch. `last`: of this optimizer step.
  using Accumulate = absl::FunctionRef<absl::Status(
      const MiniBatch& mini_batch, const std::vector<int64_t>& indices, bool last, Sums& sums)>;
  /// The total loss, of a micro-batch's scalars [M].
  using LossOf = absl::FunctionRef<absl::StatusOr<torch::Tensor>(const torch::Tensor& scalars)>;

  ScalarTrainer(ScalarModel* model, std::unique_ptr<Optimizer> optimizer, Communicator* data_group)
      : model_(model),
        loop_(std::move(optimizer), model->tensor_group(), data_group, model->device()) {}

  /// Over the whole batch, of which this rank has `share`. Absent where any sequence has no old
  /// values. Collective.
  absl::Status AddExplainedVariance(absl::Span<const TrainSequence> batch,
                                    absl::Span<const int64_t> share, Metrics& metrics);
  absl::StatusOr<std::vector<MiniBatch>> PlanValues(absl::Span<const TrainSequence> batch,
                                                    const LossSpec& loss,
                                                    const UpdateOptions& options) const;
  absl::StatusOr<Metrics> Run(const std::vector<MiniBatch>& plan, const UpdateOptions& options,
                              const std::string& prefix, const Names& names, Accumulate accumulate);
  absl::Status Backward(const PackedRows& packed, bool last, LossOf loss_of);

  ScalarModel* const model_;
  UpdateLoop loop_;
};

/// A report of how well a model tells chosen from rejected, without gradients.
struct PreferenceReport {
  double loss = 0;      ///< Mean of the Bradley-Terry loss.
  double accuracy = 0;  ///< Share of pairs with the chosen one ahead; equal scores count half.
  double margin = 0;    ///< Mean of r_chosen - r_rejected.
};
/// InvalidArgument for no pairs at all, and as UpdatePreferences.
absl::StatusOr<PreferenceReport> EvaluatePreferences(ScalarModel& model,
                                                     absl::Span<const PreferencePair> pairs,
                                                     int64_t max_token_len = 0);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SCALAR_SCALAR_TRAINER_H_
