#include "workers/engine/training/update_loop.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/engine/model/exceptions.h"

namespace baton::engine {

namespace {

/// A number that differs, but for luck, where the options of an update do, or the optimizer steps
/// that were made before it.
uint64_t DigestOfOptions(const UpdateOptions& options, int64_t optimizer_steps) {
  uint64_t digest = static_cast<uint64_t>(optimizer_steps);
  for (const int64_t option :
       {options.step, options.ppo_epochs, options.ppo_mini_batch_size, options.max_token_len}) {
    digest = digest * 1000003 + static_cast<uint64_t>(option);
  }
  return digest;
}

}  // namespace

MicroBatchCount::MicroBatchCount(absl::Span<const MiniBatchPlan* const> plan,
                                 const UpdateOptions& options)
    : tell_(options.progress) {
  for (const MiniBatchPlan* mini_batch : plan) {
    if (!mini_batch->masked) total_ += static_cast<int64_t>(mini_batch->micro_batches.size());
  }
  total_ *= options.ppo_epochs;
}

void MicroBatchCount::BeginStep(const MiniBatchPlan& mini_batch) {
  done_ = after_step_;
  after_step_ += static_cast<int64_t>(mini_batch.micro_batches.size());
}

void MicroBatchCount::DoneOne() {
  ++done_;
  if (tell_) tell_(done_, total_);
}

absl::Status ValidateOptions(const UpdateOptions& options) {
  if (options.ppo_epochs >= 1 && options.ppo_mini_batch_size >= 0 && options.max_token_len >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "ppo_epochs (", options.ppo_epochs, ") must be at least 1, ppo_mini_batch_size (",
      options.ppo_mini_batch_size, ") and max_token_len (", options.max_token_len, ") at least 0"));
}

double CountTokens(absl::Span<const TrainSequence> batch) {
  double tokens = 0;
  for (const TrainSequence& s : batch) tokens += static_cast<double>(s.length());
  return tokens;
}

absl::Status UpdateLoop::Agree(const UpdateDigests& digests, const absl::Status& planned) {
  skip_reasons_.clear();
  // The other ranks may have ended that update: they wait here for what this rank says.
  if (half_done_) {
    return ranks_.AgreeOnUpdate(
        digests,
        absl::FailedPreconditionError(
            "an earlier update failed half way; load the last checkpoint into a new trainer"));
  }
  return ranks_.AgreeOnUpdate(digests, planned);
}

absl::Status UpdateLoop::Begin(absl::Span<const TrainSequence> batch,
                               const absl::StatusOr<std::vector<int64_t>>& share,
                               const UpdateOptions& options) {
  absl::Status planned = options.fetched;
  if (planned.ok()) planned = share.ok() ? CheckPresent(batch, *share) : share.status();
  return Agree(
      {HeaderDigestOf(batch), DigestOfOptions(options, optimizer_->step()), DigestOf(batch)},
      planned);
}

absl::Status UpdateLoop::BeginWhole(absl::Span<const TrainSequence> batch,
                                    const UpdateOptions& options) {
  const uint64_t digest = DigestOf(batch);
  return Agree({digest, DigestOfOptions(options, optimizer_->step()), digest}, absl::OkStatus());
}

absl::Status UpdateLoop::PlanMicro(const std::vector<int64_t>& lengths, const SequenceCost& cost,
                                   const UpdateOptions& options, MiniBatchPlan& mini_batch) const {
  const int64_t budget = TokenBudget(options.max_token_len, lengths);
  BATON_ASSIGN_OR_RETURN(mini_batch.micro_batches, PlanMicroBatches(lengths, budget));
  if (ranks_.alone()) return absl::OkStatus();
  const BatchShare share = ranks_.ShareOf(lengths, cost);
  mini_batch.imbalance = share.imbalance;
  BATON_ASSIGN_OR_RETURN(mini_batch.micro_batches,
                         PlanBalancedMicroBatches(share.lengths, cost, budget));
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, double>> UpdateLoop::Run(
    absl::Span<const MiniBatchPlan* const> plan, const UpdateOptions& options,
    const std::string& prefix, const UpdateWork& work) {
  std::map<std::string, double> metrics;
  double steps = 0;
  count_ = MicroBatchCount(plan, options);
  const auto parts = static_cast<int64_t>(plan.size()) * options.ppo_epochs;
  int64_t part = 0;
  absl::Status first_failure;
  for (int64_t epoch = 0; epoch < options.ppo_epochs; ++epoch) {
    for (size_t i = 0; i < plan.size(); ++i) {
      // A masked mini-batch counts for the schedule, so its place moves no other's rate.
      const double lr = optimizer_->schedule().At(options.step, part++, parts);
      if (plan[i]->masked) continue;
      const absl::Status status = Step(i, *plan[i], options, lr, prefix, work, metrics);
      if (status.ok()) {
        ++steps;
        continue;
      }
      if (!absl::IsFailedPrecondition(status)) {
        return Annotate(status, half_done_ ? absl::StrCat("after ", steps, " optimizer steps of it")
                                           : "update not begun, weights unchanged");
      }
      first_failure.Update(status);
      skip_reasons_.push_back(
          absl::StrCat("epoch ", epoch, ", ", plan[i]->name, ": ", status.message()));
    }
  }
  if (steps == 0 && !skip_reasons_.empty()) {
    return absl::Status(first_failure.code(), absl::StrCat("update refused, weights unchanged: ",
                                                           absl::StrJoin(skip_reasons_, "; ")));
  }
  half_done_ = false;
  for (auto& metric : metrics) metric.second /= steps;  // none without a step
  if (steps > 0) metrics[prefix + "lr"] = last_learning_rate_;
  metrics[prefix + "optimizer_steps"] = steps;
  metrics[prefix + "skipped_steps"] = static_cast<double>(skip_reasons_.size());
  return metrics;
}

absl::Status UpdateLoop::Step(size_t index, const MiniBatchPlan& mini_batch,
                              const UpdateOptions& options, double lr, const std::string& prefix,
                              const UpdateWork& work, std::map<std::string, double>& totals) {
  try {
    if (ranks_.Any(options.cancelled && options.cancelled())) {
      return absl::CancelledError("update was cancelled");
    }
    optimizer_->ZeroGradients();
    count_.BeginStep(mini_batch);
    const absl::Span<double> sums = work.clear_sums();
    absl::Status status;
    for (size_t i = 0; status.ok() && i < mini_batch.micro_batches.size(); ++i) {
      const bool last = i + 1 == mini_batch.micro_batches.size();
      status = work.accumulate(index, mini_batch.micro_batches[i], last);
      if (status.ok()) count_.DoneOne();
    }
    // A rank that failed takes part, too: the others must not wait for it.
    optimizer_->ReduceGradients();
    BATON_RETURN_IF_ERROR(ranks_.SumUnlessFailed(status, sums));
    BATON_ASSIGN_OR_RETURN(const double norm, optimizer_->GradientNorm());
    last_learning_rate_ = lr;
    half_done_ = true;
    optimizer_->Step(norm, lr);
    work.add_metrics(totals);
    totals[prefix + "grad_norm"] += norm;
    if (ranks_.data_ranks() > 1) totals["perf/imbalance"] += mini_batch.imbalance;
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

}  // namespace baton::engine
