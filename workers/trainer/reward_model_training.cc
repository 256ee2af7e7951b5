#include "workers/trainer/reward_model_training.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/columns.h"
#include "workers/policy/sequences.h"
#include "workers/trainer/train_options.h"
#include "workers/trainer/update_batch.h"

namespace baton::trainer {

absl::StatusOr<engine::PreferencePair> PairFromTexts(const v1::Trajectory& trajectory,
                                                     const v1::DataSpec& data,
                                                     const policy::PolicySource& source) {
  const std::string name = absl::StrCat("trajectory ", trajectory.trajectory_id(), " (prompt ",
                                        trajectory.prompt_id(), ")");
  const v1::Column* column = FindColumn(trajectory, "rejected");
  if (column == nullptr || column->dtype() != v1::DATA_TYPE_BYTES) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a preference needs a column `rejected` of bytes"));
  }
  v1::Trajectory rejected = trajectory;
  rejected.set_response_text(column->data());
  rejected.clear_response_messages();
  if (trajectory.has_rejected_message()) {
    *rejected.add_response_messages() = trajectory.rejected_message();
  }
  engine::PreferencePair pair;
  auto chosen_side = policy::FromTexts(trajectory, data, source);
  if (!chosen_side.ok()) return Annotate(chosen_side.status(), name + ", chosen");
  auto rejected_side = policy::FromTexts(rejected, data, source);
  if (!rejected_side.ok()) return Annotate(rejected_side.status(), name + ", rejected");
  pair.chosen = *std::move(chosen_side);
  pair.rejected = *std::move(rejected_side);
  if (pair.chosen.tokens == pair.rejected.tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": chosen and rejected are equal",
        trajectory.response_text() == column->data()
            ? "; remove the pair"
            : " after cutting to data.max_response_length; raise it or remove the pair"));
  }
  return pair;
}

absl::StatusOr<std::unique_ptr<RewardModelTraining>> RewardModelTraining::Create(
    const v1::AssignRole& assign, const policy::PolicySource* source, const std::string& device,
    const ranks::Ranks& ranks) {
  const v1::JobSpec& spec = assign.spec();
  auto training = std::unique_ptr<RewardModelTraining>(new RewardModelTraining(spec, source));
  BATON_ASSIGN_OR_RETURN(
      training->model_,
      source->LoadScalarModel(torch::Device(device), static_cast<uint64_t>(spec.data().seed()),
                              /*needs_head=*/!assign.checkpoint().empty(), ranks.tensor_group()));
  if (spec.rollout().deterministic()) training->model_->SetDeterministic(true);
  auto trainer = engine::ScalarTrainer::Create(training->model_.get(), MakeOptimizerSpec(spec),
                                               ranks.data_group());
  if (!trainer.ok()) return Annotate(trainer.status(), "spec.actor");
  training->trainer_ = *std::move(trainer);
  return training;
}

absl::StatusOr<std::vector<engine::PreferencePair>> RewardModelTraining::Pairs(
    const std::vector<const v1::Trajectory*>& trajectories) const {
  std::vector<engine::PreferencePair> pairs;
  for (const v1::Trajectory* trajectory : trajectories) {
    BATON_ASSIGN_OR_RETURN(auto pair, PairFromTexts(*trajectory, spec_.data(), *source_));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

absl::StatusOr<RewardModelTraining::Metrics> RewardModelTraining::Update(
    absl::Span<const v1::Trajectory> batch, TaskContext& context) {
  const v1::Update& update = context.task().update();
  if (update.loss() != "bradley_terry") {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown loss \"", update.loss(), "\": a job of kind reward_model knows bradley_terry"));
  }
  if (!update.options().fields().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("update option ",
                                                   update.options().fields().begin()->first,
                                                   ": loss bradley_terry has none"));
  }
  std::vector<const v1::Trajectory*> trained, kept;
  for (const v1::Trajectory& trajectory : batch) {
    (trajectory.purpose() == v1::PURPOSE_EVAL ? kept : trained).push_back(&trajectory);
  }
  BATON_ASSIGN_OR_RETURN(const auto pairs, Pairs(trained));
  BATON_ASSIGN_OR_RETURN(const auto held_out, Pairs(kept));
  std::vector<engine::TrainSequence> rows;  // As long as a pair's, padding included.
  for (const engine::PreferencePair& pair : pairs) {
    rows.emplace_back();
    rows.back().tokens.resize(2 * std::max(pair.chosen.tokens.size(), pair.rejected.tokens.size()) +
                              1);
  }
  engine::UpdateOptions options = MakeUpdateOptions(spec_, rows, model_->device().is_cpu());
  FollowTask(context, &options);
  options.step = std::max<int64_t>(0, update.step() - 1);
  BATON_ASSIGN_OR_RETURN(Metrics metrics, trainer_->UpdatePreferences(pairs, options));
  metrics["data/cut_responses"] = static_cast<double>(std::count_if(
      pairs.begin(), pairs.end(),
      [](const engine::PreferencePair& pair) { return pair.chosen.cut || pair.rejected.cut; }));
  if (held_out.empty()) return metrics;
  BATON_ASSIGN_OR_RETURN(const Metrics judged, Judge(held_out));
  metrics.insert(judged.begin(), judged.end());
  return metrics;
}

absl::StatusOr<RewardModelTraining::Metrics> RewardModelTraining::Evaluate(
    absl::Span<const v1::Trajectory> batch) {
  std::vector<const v1::Trajectory*> all;
  for (const v1::Trajectory& trajectory : batch) all.push_back(&trajectory);
  BATON_ASSIGN_OR_RETURN(const auto pairs, Pairs(all));
  return Judge(pairs);
}

absl::StatusOr<RewardModelTraining::Metrics> RewardModelTraining::Judge(
    const std::vector<engine::PreferencePair>& pairs) {
  BATON_ASSIGN_OR_RETURN(const engine::PreferenceReport report,
                         engine::EvaluatePreferences(*model_, pairs));
  return Metrics{
      {"val/accuracy", report.accuracy}, {"val/loss", report.loss}, {"val/margin", report.margin}};
}

}  // namespace baton::trainer
