// The trainer of a CausalLM: trains it on sequences with a prompt and a response, and scores them.
//
// Updates are made by UpdateLoop (update_loop.h). The loss is normalised over the whole mini-batch
// (aggregation.h), so how it is cut into micro-batches does not matter. Sequences lie packed in
// flat rows, and only rows that predict a response token go through the language-model head.
//
// Ranks may train one model together: each holds a slice of it (a tensor group, model.h), has a
// part of every mini-batch (a data group), or both, rank = data rank * tensor ranks + tensor rank.
// All of them make the same calls with the same batch; each trains on the sequences that
// RankAgreement gives its data rank (Share), with the weights that the whole mini-batch gives their
// tokens. It needs only the headers of the other sequences (TrainSequence::remote_length).
// Gradients are added up while backward still runs, moments are divided (sharded_adamw.h), and
// metrics are those of one process. A rank on its own takes none of these paths.
//
// Same model, optimizer state and batch: same bytes afterwards (CPU, one compute thread).
// One thread at a time; the model must not be used meanwhile. libtorch's exceptions become Status.
#ifndef BATON_WORKERS_ENGINE_TRAINING_TRAINER_H_
#define BATON_WORKERS_ENGINE_TRAINING_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/engine/loss/loss.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/model/model.h"
#include "workers/engine/training/optimizer.h"
#include "workers/engine/training/update_loop.h"

namespace baton::engine {

struct LossSums;
struct RolloutCorrection;

class Trainer {
 public:
  /// Borrows `model`, which must outlive the trainer, and has it require gradients.
  /// InvalidArgument for options that make no sense or a model that is not float32/float64.
  /// `data_group`: the ranks among which mini-batches are divided, whose slice of the model is the
  /// same; null or of size 1: none. The tensor group is the model's.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(CausalLM* model,
                                                         const OptimizerSpec& optimizer,
                                                         Communicator* data_group = nullptr);

  /// A trainer of a model that only scores and evaluates: it has neither gradients nor memory of an
  /// optimizer. Update, SaveOptimizer and LoadOptimizer are FailedPrecondition.
  static std::unique_ptr<Trainer> CreateWithoutOptimizer(CausalLM* model,
                                                         Communicator* data_group = nullptr);

  /// One call trains on one batch. Returns metrics: means over the optimizer steps of this call.
  ///   policy: actor/{pg_loss, entropy, pg_clipfrac, pg_clipfrac_lower, ppo_kl, grad_norm, lr,
  ///        skipped_steps, optimizer_steps}, with the options that ask for them actor/{kl_loss,
  ///        positive_nll_loss, ptx_loss}, rollout_corr/ (RolloutCorrection.metrics, over the batch)
  ///   sft: train/{loss, grad_norm, lr, skipped_steps, optimizer_steps}
  ///   both: perf/total_num_tokens (prompts and responses of the batch, once); with a data group
  ///         perf/imbalance, the largest over the mean cost of a rank's part of a mini-batch, as
  ///         planned: rejected tokens (rollout_correction.h) are still in it
  /// pg_loss and kl_loss are aggregated by loss_agg_mode; entropy, ppo_kl and the fractions are
  /// means over unmasked tokens; grad_norm is before clipping; lr is the last step's.
  ///
  /// A mini-batch whose loss or gradient is not finite is skipped: weights, moments and step stay
  /// as they were, skipped_steps counts it and skip_reasons() names it. A mini-batch whose
  /// policy tokens are all masked or rejected makes no step and is not counted, whatever
  /// pretraining text it has; where all are such, optimizer_steps is 0, and there are neither means
  /// nor lr. Nothing was applied after
  ///   InvalidArgument     a sequence, a column (wrong length, not finite) or an option, by name:
  ///                       the same on all ranks, whichever found it; or batches that differ
  ///   FailedPrecondition  every step was skipped; the message has the reasons
  /// Steps may have been applied before
  ///   Internal            libtorch failed (memory …)
  ///   Unavailable, DeadlineExceeded   another rank is gone or late; this one should end
  ///   Cancelled           options.cancelled said so
  /// and the message says which; if any was, every later Update is FailedPrecondition: the weights
  /// belong to no step.
  absl::StatusOr<std::map<std::string, double>> Update(absl::Span<const TrainSequence> batch,
                                                       const LossSpec& loss,
                                                       const UpdateOptions& options);

  /// The sequences of `batch` that this rank trains on in such an Update, ascending: it needs the
  /// tokens and columns of no others. Those of `batch` may be remote. InvalidArgument as Update.
  /// Not collective.
  absl::StatusOr<std::vector<int64_t>> Share(absl::Span<const TrainSequence> batch,
                                             const LossSpec& loss,
                                             const UpdateOptions& options) const;

  /// The reasons why steps of the last Update were skipped, one line each.
  const std::vector<std::string>& skip_reasons() const { return loop_.skip_reasons(); }

  /// ComputeLogProbs of the model as it stands.
  absl::StatusOr<std::vector<std::vector<float>>> LogProbs(absl::Span<const TrainSequence> batch,
                                                           double temperature,
                                                           int64_t max_token_len = 0);

  /// EvaluateResponses of the model as it stands; the loss of it alone.
  absl::StatusOr<ResponseReport> Evaluate(absl::Span<const TrainSequence> batch,
                                          int64_t max_token_len = 0);
  absl::StatusOr<double> Loss(absl::Span<const TrainSequence> batch, int64_t max_token_len = 0);

  /// Moments and step as one safetensors file (Optimizer::Save): the same for any number of ranks,
  /// which all call this; one of them writes. Weights are saved by hf_directory.
  [[nodiscard]] absl::Status SaveOptimizer(const std::string& path) const;
  [[nodiscard]] absl::Status LoadOptimizer(const std::string& path);

  int64_t optimizer_steps() const { return loop_.optimizer().step(); }
  const Optimizer& optimizer() const { return loop_.optimizer(); }

 private:
  struct MiniBatch;

  Trainer(CausalLM* model, std::unique_ptr<Optimizer> optimizer, Communicator* data_group)
      : model_(model),
        loop_(std::move(optimizer), model->tensor_group(), data_group, model->device()) {}

  /// Everything an update decides before its first forward pass.
  absl::StatusOr<std::vector<MiniBatch>> PlanUpdate(absl::Span<const TrainSequence> batch,
                                                    const LossSpec& loss,
                                                    const UpdateOptions& options) const;
  /// Sets who takes part in each mini-batch, and the weights; `plan` borrows from `correction`.
  static absl::Status Correct(const RolloutCorrection& correction, const LossSpec& loss,
                              std::vector<MiniBatch>& plan);
  /// Forward and backward of one micro-batch; adds to the gradients and to `sums`. `last`: of this
  /// optimizer step.
  absl::Status Accumulate(const MiniBatch& mini_batch, const std::vector<int64_t>& indices,
                          const LossSpec& loss, bool last, LossSums& sums);

  CausalLM* const model_;
  UpdateLoop loop_;
  bool learns_ = true;  ///< Set by the factory: it has an optimizer.
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_TRAINING_TRAINER_H_
