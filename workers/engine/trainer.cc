#include "workers/engine/trainer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/log_probs.h"
#include "workers/engine/sharded_adamw.h"
#include "workers/engine/trainer_loss.h"

namespace baton::engine {
namespace {

static_assert(sizeof(LossSums) % sizeof(double) == 0 && std::is_trivially_copyable_v<LossSums>,
              "sums over ranks take LossSums as doubles alone");
absl::Span<double> AsSpan(LossSums& sums) {
  return absl::MakeSpan(reinterpret_cast<double*>(&sums), sizeof(sums) / sizeof(double));
}

std::string MetricPrefix(const LossSpec& loss) {
  return loss.kind == LossSpec::kSft ? "train/" : "actor/";
}

}  // namespace

/// A contiguous part of the batch that makes one optimizer step.
struct Trainer::MiniBatch {
  int64_t begin = 0;  ///< Index of its first sequence in the batch.
  absl::Span<const TrainSequence> sequences;
  SequenceWeights weights;
  bool masked = true;                               ///< No token of it is in the loss.
  std::vector<std::vector<int64_t>> micro_batches;  ///< Indices into `sequences`; this rank's.
  double imbalance = 1;                             ///< Among the data ranks.
};

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(CausalLM* model,
                                                         const OptimizerSpec& optimizer,
                                                         Communicator* data_group) {
  try {
    BATON_ASSIGN_OR_RETURN(auto adamw, MakeOptimizer(model->config(), ModelParts(*model), optimizer,
                                                     {model->tensor_group(), data_group}));
    return std::unique_ptr<Trainer>(new Trainer(model, std::move(adamw), data_group));
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::StatusOr<std::vector<Trainer::MiniBatch>> Trainer::PlanUpdate(
    absl::Span<const TrainSequence> batch, const LossSpec& loss,
    const UpdateOptions& options) const {
  if (options.ppo_epochs < 1 || options.ppo_mini_batch_size < 0 || options.max_token_len < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ppo_epochs (", options.ppo_epochs,
                     ") must be at least 1, ppo_mini_batch_size (", options.ppo_mini_batch_size,
                     ") and max_token_len (", options.max_token_len, ") at least 0"));
  }
  BATON_RETURN_IF_ERROR(Validate(loss));
  BATON_RETURN_IF_ERROR(ValidateSequences(batch, model_->config()));
  BATON_RETURN_IF_ERROR(ValidateLossColumns(batch, loss));
  const size_t size = options.ppo_mini_batch_size > 0 ? options.ppo_mini_batch_size
                                                      : std::max(batch.size(), size_t{1});
  const SequenceCost cost = CostOf(model_->config());
  std::vector<MiniBatch> plan;
  int64_t unmasked = 0;
  for (size_t begin = 0, end = 0; begin < batch.size(); begin = end) {
    end = loss.kind == LossSpec::kSft ? std::min(begin + size, batch.size())
                                      : MiniBatchEnd(batch, begin, size);
    MiniBatch mini_batch;
    mini_batch.begin = static_cast<int64_t>(begin);
    mini_batch.sequences = batch.subspan(begin, end - begin);
    std::vector<int64_t> lengths;
    for (const TrainSequence& s : mini_batch.sequences) {
      const int64_t count = s.CountUnmasked();
      lengths.push_back(count > 0 ? InputLength(s) : 0);
      unmasked += count;
    }
    BATON_ASSIGN_OR_RETURN(mini_batch.weights, WeighSequences(mini_batch.sequences, loss));
    mini_batch.masked =
        std::count(lengths.begin(), lengths.end(), 0) == static_cast<int64_t>(lengths.size());
    const int64_t budget = TokenBudget(options.max_token_len, lengths);
    auto micro_batches = PlanMicroBatches(lengths, budget);
    if (micro_batches.ok() && !ranks_.alone()) {
      const BatchShare share = ranks_.ShareOf(lengths, cost);
      mini_batch.imbalance = share.imbalance;
      micro_batches = PlanBalancedMicroBatches(share.lengths, cost, budget);
    }
    if (!micro_batches.ok()) {
      return Annotate(micro_batches.status(), absl::StrCat("mini-batch from sequence ", begin));
    }
    mini_batch.micro_batches = *std::move(micro_batches);
    plan.push_back(std::move(mini_batch));
  }
  if (unmasked == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch of ", batch.size(), " sequences has no unmasked response token"));
  }
  return plan;
}

absl::StatusOr<std::map<std::string, double>> Trainer::Update(absl::Span<const TrainSequence> batch,
                                                              const LossSpec& loss,
                                                              const UpdateOptions& options) {
  if (half_done_) {
    return absl::FailedPreconditionError(
        "an earlier update failed half way; load the last checkpoint into a new trainer");
  }
  skip_reasons_.clear();
  BATON_RETURN_IF_ERROR(CheckSame(batch, options));
  BATON_ASSIGN_OR_RETURN(const std::vector<MiniBatch> plan, PlanUpdate(batch, loss, options));
  std::map<std::string, double> metrics;
  double steps = 0;
  const auto parts = static_cast<int64_t>(plan.size()) * options.ppo_epochs;
  int64_t part = 0;
  absl::Status first_failure;
  for (int64_t epoch = 0; epoch < options.ppo_epochs; ++epoch) {
    for (const MiniBatch& mini_batch : plan) {
      const double lr = optimizer_->schedule().At(options.step, part++, parts);
      if (mini_batch.masked) continue;  // Nothing to learn.
      const absl::Status status = Step(mini_batch, loss, options, lr, metrics);
      if (status.ok()) {
        ++steps;
        continue;
      }
      if (!absl::IsFailedPrecondition(status)) {
        return Annotate(status, half_done_ ? absl::StrCat("after ", steps, " optimizer steps of it")
                                           : "update not begun, weights unchanged");
      }
      first_failure.Update(status);
      skip_reasons_.push_back(absl::StrCat("epoch ", epoch, ", mini-batch from sequence ",
                                           mini_batch.begin, ": ", status.message()));
    }
  }
  if (steps == 0) {
    return absl::Status(first_failure.code(), absl::StrCat("update refused, weights unchanged: ",
                                                           absl::StrJoin(skip_reasons_, "; ")));
  }
  half_done_ = false;
  for (auto& metric : metrics) metric.second /= steps;
  const std::string prefix = MetricPrefix(loss);
  metrics[prefix + "lr"] = last_learning_rate_;
  metrics[prefix + "optimizer_steps"] = steps;
  metrics[prefix + "skipped_steps"] = static_cast<double>(skip_reasons_.size());
  double tokens = 0;
  for (const TrainSequence& s : batch) tokens += static_cast<double>(s.tokens.size());
  metrics["perf/total_num_tokens"] = tokens;
  return metrics;
}

absl::Status Trainer::CheckSame(absl::Span<const TrainSequence> batch,
                                const UpdateOptions& options) {
  if (ranks_.alone()) return absl::OkStatus();
  try {
    BATON_RETURN_IF_ERROR(ranks_.CheckSame(DigestOf(batch), "batches"));
    uint64_t digest = static_cast<uint64_t>(optimizer_->step());
    for (const int64_t option :
         {options.step, options.ppo_epochs, options.ppo_mini_batch_size, options.max_token_len}) {
      digest = digest * 1000003 + static_cast<uint64_t>(option);
    }
    return ranks_.CheckSame(digest, "options, or stand at different steps");
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::Status Trainer::Step(const MiniBatch& mini_batch, const LossSpec& loss,
                           const UpdateOptions& options, double lr,
                           std::map<std::string, double>& totals) {
  try {
    if (ranks_.Any(options.cancelled && options.cancelled())) {
      return absl::CancelledError("update was cancelled");
    }
    optimizer_->ZeroGradients();
    LossSums sums;
    absl::Status status;
    for (size_t i = 0; status.ok() && i < mini_batch.micro_batches.size(); ++i) {
      const bool last = i + 1 == mini_batch.micro_batches.size();
      status = Accumulate(mini_batch, mini_batch.micro_batches[i], loss, last, sums);
    }
    // Also a rank that failed takes part: the others must not wait for it.
    optimizer_->ReduceGradients();
    BATON_RETURN_IF_ERROR(ranks_.SumUnlessFailed(status, AsSpan(sums)));
    BATON_ASSIGN_OR_RETURN(const double norm, optimizer_->GradientNorm());
    last_learning_rate_ = lr;
    half_done_ = true;
    optimizer_->Step(norm, lr);
    AddMetrics(sums, loss, totals);
    totals[MetricPrefix(loss) + "grad_norm"] += norm;
    if (ranks_.data_ranks() > 1) totals["perf/imbalance"] += mini_batch.imbalance;
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::Status Trainer::Accumulate(const MiniBatch& mini_batch, const std::vector<int64_t>& indices,
                                 const LossSpec& loss, bool last, LossSums& sums) {
  const PackedRows packed = PackRows(mini_batch.sequences, indices, ResponseRows::kUnmasked);
  LossColumns columns =
      MakeLossColumns(mini_batch.sequences, mini_batch.weights, packed, loss,
                      torch::TensorOptions().dtype(model_->dtype()).device(model_->device()));
  const torch::Tensor states = PredictionStates(*model_, packed);
  const torch::Tensor targets = packed.targets.to(model_->device());
  // The head runs backward by itself, so that only one piece of the logits exists at a time.
  torch::Tensor head_input = states.detach().requires_grad_(true);
  const int64_t rows = states.size(0);
  const int64_t piece = RowsPerPiece(model_->config());
  AddSequenceLogRatios(
      [&](int64_t begin, int64_t length) {
        return model_->LocalLogits(states.narrow(0, begin, length));
      },
      targets, piece, loss, columns, model_->vocabulary_shard());
  for (int64_t begin = 0; begin < rows; begin += piece) {
    const int64_t length = std::min(piece, rows - begin);
    const torch::Tensor logits =
        model_->LocalLogits(length == rows ? head_input : head_input.narrow(0, begin, length));
    const auto name_row = [&](int64_t row) {
      return absl::StrCat("sequence ", mini_batch.begin + packed.sequence_index[begin + row],
                          ", response token ", packed.response_index[begin + row]);
    };
    BATON_ASSIGN_OR_RETURN(
        const torch::Tensor total,
        WeightedLoss(logits, targets.narrow(0, begin, length), columns.Narrow(begin, length), loss,
                     name_row, sums, model_->vocabulary_shard()));
    total.backward();
  }
  if (last) optimizer_->ExpectLastBackward();
  states.backward(head_input.grad());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<float>>> Trainer::LogProbs(
    absl::Span<const TrainSequence> batch, double temperature, int64_t max_token_len) {
  return ComputeLogProbs(*model_, batch, temperature, max_token_len);
}

absl::StatusOr<double> Trainer::Loss(absl::Span<const TrainSequence> batch, int64_t max_token_len) {
  return ComputeLoss(*model_, batch, max_token_len);
}

absl::Status Trainer::SaveOptimizer(const std::string& path) const {
  return optimizer_->Save(path);
}

absl::Status Trainer::LoadOptimizer(const std::string& path) { return optimizer_->Load(path); }

}  // namespace baton::engine
