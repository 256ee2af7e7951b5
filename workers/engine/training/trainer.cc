#include "workers/engine/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/engine/model/exceptions.h"
#include "workers/engine/training/sharded_adamw.h"
#include "workers/engine/training/trainer_loss.h"

namespace baton::engine {
namespace {

static_assert(sizeof(LossSums) % sizeof(double) == 0 && std::is_trivially_copyable_v<LossSums>,
              "sums over ranks take LossSums as doubles alone");
absl::Span<double> AsSpan(LossSums& sums) {
  return absl::MakeSpan(reinterpret_cast<double*>(&sums), sizeof(sums) / sizeof(double));
}

absl::Status WithoutOptimizer() {
  return absl::FailedPreconditionError(
      "this trainer only scores and evaluates: it was made without an optimizer");
}

/// Takes no memory, and refuses what an update needs.
class NoOptimizer final : public Optimizer {
 public:
  void ZeroGradients() override {}
  absl::StatusOr<double> GradientNorm() const override { return WithoutOptimizer(); }
  void Step(double, double) override {}
  int64_t step() const override { return 0; }
  const LrSchedule& schedule() const override { return schedule_; }
  absl::Status Save(const std::string&) const override { return WithoutOptimizer(); }
  absl::Status Load(const std::string&) override { return WithoutOptimizer(); }

 private:
  const LrSchedule schedule_ = *LrSchedule::Create("constant", 0, 1, 0, 0);
};

std::string MetricPrefix(const LossSpec& loss) {
  return loss.kind == LossSpec::kSft ? "train/" : "actor/";
}

}  // namespace

struct Trainer::MiniBatch : MiniBatchPlan {
  int64_t begin = 0;  ///< Index of its first sequence in the batch.
  absl::Span<const TrainSequence> sequences;
  SequenceWeights weights;
  absl::Span<const SequenceCorrection> corrections;  ///< Corrections of `sequences`; empty: none.
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

std::unique_ptr<Trainer> Trainer::CreateWithoutOptimizer(CausalLM* model,
                                                         Communicator* data_group) {
  std::unique_ptr<Trainer> trainer(new Trainer(model, std::make_unique<NoOptimizer>(), data_group));
  trainer->learns_ = false;
  return trainer;
}

absl::StatusOr<std::vector<Trainer::MiniBatch>> Trainer::PlanUpdate(
    absl::Span<const TrainSequence> batch, const LossSpec& loss,
    const UpdateOptions& options) const {
  if (!learns_) return WithoutOptimizer();
  BATON_RETURN_IF_ERROR(ValidateOptions(options));
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
    mini_batch.name = absl::StrCat("mini-batch from sequence ", begin);
    mini_batch.begin = static_cast<int64_t>(begin);
    mini_batch.sequences = batch.subspan(begin, end - begin);
    std::vector<int64_t> counts, lengths;
    for (const TrainSequence& s : mini_batch.sequences) {
      counts.push_back(s.CountUnmasked());
      lengths.push_back(counts.back() > 0 ? InputLength(s) : 0);
      unmasked += counts.back();
    }
    BATON_ASSIGN_OR_RETURN(mini_batch.weights, WeighSequences(mini_batch.sequences, loss));
    mini_batch.masked = LeavesNothing(mini_batch.sequences, counts, loss);
    BATON_RETURN_IF_ERROR(
        Annotate(loop_.PlanMicro(lengths, cost, options, mini_batch), mini_batch.name));
    plan.push_back(std::move(mini_batch));
  }
  if (unmasked == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch of ", batch.size(), " sequences has no unmasked response token"));
  }
  return plan;
}

absl::StatusOr<std::vector<int64_t>> Trainer::Share(absl::Span<const TrainSequence> batch,
                                                    const LossSpec& loss,
                                                    const UpdateOptions& options) const {
  BATON_ASSIGN_OR_RETURN(const std::vector<MiniBatch> plan, PlanUpdate(batch, loss, options));
  return SequencesOf<MiniBatch>(plan);
}

absl::StatusOr<std::map<std::string, double>> Trainer::Update(absl::Span<const TrainSequence> batch,
                                                              const LossSpec& loss,
                                                              const UpdateOptions& options) {
  absl::StatusOr<std::vector<MiniBatch>> planned = PlanUpdate(batch, loss, options);
  BATON_RETURN_IF_ERROR(loop_.Begin(batch, ShareOf(planned), options));
  std::vector<MiniBatch>& plan = *planned;
  BATON_ASSIGN_OR_RETURN(const RolloutCorrection correction,
                         CorrectRollout(batch, SequencesOf<MiniBatch>(plan), loss, loop_.ranks()));
  BATON_RETURN_IF_ERROR(Correct(correction, loss, plan));
  LossSums sums;
  const auto clear = [&] {
    sums = LossSums();
    return AsSpan(sums);
  };
  const auto accumulate = [&](size_t i, const std::vector<int64_t>& indices, bool last) {
    return Accumulate(plan[i], indices, loss, last, sums);
  };
  const auto add = [&](std::map<std::string, double>& totals) { AddMetrics(sums, loss, totals); };
  const std::vector<const MiniBatchPlan*> steps = PlanOf(plan);
  BATON_ASSIGN_OR_RETURN(auto metrics,
                         loop_.Run(steps, options, MetricPrefix(loss), {clear, accumulate, add}));
  metrics["perf/total_num_tokens"] = CountTokens(batch);
  metrics.insert(correction.metrics.begin(), correction.metrics.end());
  return metrics;
}

absl::Status Trainer::Correct(const RolloutCorrection& correction, const LossSpec& loss,
                              std::vector<MiniBatch>& plan) {
  if (correction.sequences.empty()) return absl::OkStatus();
  for (MiniBatch& mini_batch : plan) {
    const size_t begin = static_cast<size_t>(mini_batch.begin), size = mini_batch.sequences.size();
    const auto kept = absl::MakeConstSpan(correction.counts).subspan(begin, size);
    mini_batch.corrections = absl::MakeConstSpan(correction.sequences).subspan(begin, size);
    BATON_ASSIGN_OR_RETURN(mini_batch.weights, WeighSequences(mini_batch.sequences, loss, kept));
    mini_batch.masked = LeavesNothing(mini_batch.sequences, kept, loss);
    std::vector<std::vector<int64_t>> micro_batches;
    for (const std::vector<int64_t>& indices : mini_batch.micro_batches) {
      std::vector<int64_t> left;
      for (const int64_t index : indices) {
        if (kept[static_cast<size_t>(index)] > 0) left.push_back(index);
      }
      if (!left.empty()) micro_batches.push_back(std::move(left));
    }
    mini_batch.micro_batches = std::move(micro_batches);
  }
  return absl::OkStatus();
}

absl::Status Trainer::Accumulate(const MiniBatch& mini_batch, const std::vector<int64_t>& indices,
                                 const LossSpec& loss, bool last, LossSums& sums) {
  PackedRows packed = PackRows(mini_batch.sequences, indices, ResponseRows::kUnmasked);
  if (!mini_batch.corrections.empty()) DropRejected(mini_batch.corrections, packed);
  LossColumns columns =
      MakeLossColumns(mini_batch.sequences, mini_batch.weights, mini_batch.corrections, packed,
                      loss, torch::TensorOptions().dtype(model_->dtype()).device(model_->device()));
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
      targets, piece, loss, columns, ScoringOf(*model_));
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
                     name_row, sums, ScoringOf(*model_)));
    total.backward();
  }
  if (last) loop_.optimizer().ExpectLastBackward();
  states.backward(head_input.grad());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<float>>> Trainer::LogProbs(
    absl::Span<const TrainSequence> batch, double temperature, int64_t max_token_len) {
  return ComputeLogProbs(*model_, batch, temperature, max_token_len);
}

absl::StatusOr<ResponseReport> Trainer::Evaluate(absl::Span<const TrainSequence> batch,
                                                 int64_t max_token_len) {
  return EvaluateResponses(*model_, batch, max_token_len);
}

absl::StatusOr<double> Trainer::Loss(absl::Span<const TrainSequence> batch, int64_t max_token_len) {
  BATON_ASSIGN_OR_RETURN(const ResponseReport report, Evaluate(batch, max_token_len));
  return report.loss;
}

absl::Status Trainer::SaveOptimizer(const std::string& path) const {
  return loop_.optimizer().Save(path);
}

absl::Status Trainer::LoadOptimizer(const std::string& path) {
  return loop_.optimizer().Load(path);
}

}  // namespace baton::engine
