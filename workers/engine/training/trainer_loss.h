// The loss of some rows of a mini-batch, and the sums for its metrics. Internal to the trainer.
#ifndef BATON_WORKERS_ENGINE_TRAINING_TRAINER_LOSS_H_
#define BATON_WORKERS_ENGINE_TRAINING_TRAINER_LOSS_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/loss/loss.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/loss/rollout_correction.h"

namespace baton::engine {

/// The columns that the loss needs beside the logits, for the M rows of a micro-batch: [M] each,
/// float. Columns that the loss does not use stay undefined.
struct LossColumns {
  torch::Tensor weights;  ///< Aggregation weights (aggregation.h).
  torch::Tensor old_log_probs;
  torch::Tensor advantages;
  torch::Tensor ref_log_probs;
  torch::Tensor nll_weights;          ///< Weights of -log_prob: positive and pretraining terms.
  torch::Tensor policy_rows;          ///< 0 for rows of pretraining text, else 1.
  torch::Tensor is_weights;           ///< Truncated importance weights (rollout_correction.h).
  torch::Tensor sequences;            ///< int64: which sequence a row belongs to.
  torch::Tensor sequence_log_ratios;  ///< When the rows come in pieces (AddSequenceLogRatios).

  LossColumns Narrow(int64_t begin, int64_t length) const;
};

/// One per sequence of a mini-batch, for each of its unmasked tokens.
struct SequenceWeights {
  std::vector<double> loss;  ///< By loss_agg_mode over the WHOLE mini-batch; pretraining text: 0.
  std::vector<double> nll;   ///< Coefficient / tokens of all such sequences; empty: all 0.
};

/// Whether a mini-batch makes no step: no token of the policy is in its loss. Pretraining text
/// steps by itself only where the mini-batch has no sequence of the policy. `counts`: the tokens of
/// each sequence that are in the loss.
bool LeavesNothing(absl::Span<const TrainSequence> mini_batch, absl::Span<const int64_t> counts,
                   const LossSpec& loss);

/// `loss` is valid. `kept`: the tokens of each sequence that take part in the loss
/// (RolloutCorrection.counts); empty: all unmasked ones.
absl::StatusOr<SequenceWeights> WeighSequences(absl::Span<const TrainSequence> mini_batch,
                                               const LossSpec& loss,
                                               absl::Span<const int64_t> kept = {});

/// Tensors get the dtype and device of `options`. `corrections`: one for each sequence of the
/// batch; it may be empty without rollout_is.
LossColumns MakeLossColumns(absl::Span<const TrainSequence> batch, const SequenceWeights& weights,
                            absl::Span<const SequenceCorrection> corrections,
                            const PackedRows& packed, const LossSpec& loss,
                            const torch::TensorOptions& options);

/// For a loss that needs whole responses, when their rows go through the head piece by piece:
/// scores all of them first, without gradient. `logits` of rows [begin, begin + length).
void AddSequenceLogRatios(absl::FunctionRef<torch::Tensor(int64_t, int64_t)> logits,
                          const torch::Tensor& targets, int64_t piece, const LossSpec& loss,
                          LossColumns& columns, const Scoring& scoring = {});

/// InvalidArgument naming sequence and token when a column that `loss` uses has another length or
/// is not finite where the mask is set, or when there is pretraining text without a ptx_coef.
[[nodiscard]] absl::Status ValidateLossColumns(absl::Span<const TrainSequence> batch,
                                               const LossSpec& loss);

/// Sums over rows of a mini-batch, added up micro-batch by micro-batch, and over the ranks that
/// share it: doubles alone.
struct LossSums {
  double tokens = 0;   ///< Rows, without those of pretraining text.
  double loss = 0;     ///< Weighted: the SFT or policy loss itself.
  double kl_loss = 0;  ///< Weighted.
  double entropy = 0;  ///< Unweighted, as all below.
  double clipped = 0;
  double clipped_lower = 0;
  double ppo_kl = 0;
  double positive_nll = 0;  ///< Weighted, coefficient included, as ptx.
  double ptx = 0;
};

/// The weighted total of these rows (a scalar to run backward from), its parts added to `sums`.
/// FailedPrecondition when it is not finite, with `name_row` of the first bad row. `scoring`:
/// loss.h.
absl::StatusOr<torch::Tensor> WeightedLoss(const torch::Tensor& logits,
                                           const torch::Tensor& targets, const LossColumns& columns,
                                           const LossSpec& loss,
                                           absl::FunctionRef<std::string(int64_t)> name_row,
                                           LossSums& sums, const Scoring& scoring = {});

/// Adds this mini-batch's metrics, by the names users know, to `totals`.
void AddMetrics(const LossSums& sums, const LossSpec& loss, std::map<std::string, double>& totals);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_TRAINING_TRAINER_LOSS_H_
