#include "tests/fake_worker/fake_actor.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"
#include "sdk/worker/score_output.h"
#include "tests/fake_worker/fake_scores.h"

namespace baton::fake {
namespace {

/// A checkpoint's folder, its actor folder, or an exported one.
absl::StatusOr<uint64_t> LoadFrom(const std::string& folder) {
  auto weights = LoadWeights(absl::StrCat(folder, "/actor"));
  return weights.ok() ? weights : LoadWeights(folder);
}

size_t CountTokens(const v1::Trajectory& trajectory) {
  const v1::Column* tokens = FindColumn(trajectory, "tokens");
  return tokens == nullptr ? trajectory.response_text().size()
                           : tokens->data().size() / sizeof(int32_t);
}

}  // namespace

absl::StatusOr<v1::TaskResult> FakeActor::Assign(const v1::Task& task, TaskContext& /*context*/) {
  const v1::AssignRole& assign = task.assign_role();
  if (!assign.checkpoint().empty()) {
    BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(assign.checkpoint()));
    BATON_ASSIGN_OR_RETURN(weights_, LoadFrom(assign.checkpoint()));
  } else if (!assign.spec().model().path().empty()) {
    BATON_ASSIGN_OR_RETURN(weights_, LoadFrom(assign.spec().model().path()));
  } else {
    weights_ = InitialWeights(assign.spec());
  }
  rank_ = assign.rank();
  step_ = assign.step();
  policy_version_ = assign.policy_version();
  last_update_.Clear();
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> FakeActor::Update(const v1::Task& task, TaskContext& context) {
  const v1::Update& update = task.update();
  if (update.step() == step_ && last_update_.metrics_size() > 0) return last_update_;
  // Steps whose groups were all dropped make no version and are not told.
  const bool follows = update.from_step() > step_ && update.policy_version() == policy_version_ + 1;
  if (update.from_step() != step_ && !follows) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_STEP",
                     absl::StrCat("update to step ", update.step(), " starts from step ",
                                  update.from_step(), ", but the actor stands at ", step_));
  }
  BATON_ASSIGN_OR_RETURN(const auto batch, experience_->FetchBatch(context));
  if (update.batch_size() != 0 && static_cast<size_t>(update.batch_size()) != batch.size()) {
    return absl::DataLossError(absl::StrCat("the batch of step ", update.step(), " has ",
                                            batch.size(), " trajectories instead of ",
                                            update.batch_size()));
  }
  if (context.cancelled()) return absl::CancelledError("update was cancelled");
  weights_ = TrainedWeights(weights_, batch);
  step_ = update.step();
  policy_version_ = update.policy_version();
  double tokens = 0;
  for (const v1::Trajectory& trajectory : batch) tokens += CountTokens(trajectory);
  v1::TaskResult result;
  auto& metrics = *result.mutable_metrics();
  const bool pairs = update.loss() == "bradley_terry";
  const bool plain = update.loss() == "sft" || pairs;
  metrics[plain ? "train/loss" : "actor/pg_loss"] = 1.0 / static_cast<double>(step_);
  metrics[plain ? "train/grad_norm" : "actor/grad_norm"] = 1.0;
  if (pairs) metrics["train/accuracy"] = 1.0 - 0.5 / static_cast<double>(step_);
  const bool judged = std::any_of(batch.begin(), batch.end(), [](const v1::Trajectory& t) {
    return t.purpose() == v1::PURPOSE_EVAL;
  });
  if (judged) {
    metrics["val/loss"] = 2.0 / static_cast<double>(step_);
    metrics[pairs ? "val/accuracy" : "val/token_accuracy"] = 1.0 - 0.5 / static_cast<double>(step_);
  }
  metrics["perf/total_num_tokens"] = tokens;
  last_update_ = result;
  context.ReportPolicyVersion(policy_version_);
  return result;
}

absl::StatusOr<v1::TaskResult> FakeActor::Publish(const v1::Task& task, TaskContext& /*context*/) {
  if (task.publish().policy_version() != policy_version_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                     absl::StrCat("asked to publish version ", task.publish().policy_version(),
                                  ", but the actor holds ", policy_version_));
  }
  if (rank_ > 0) return v1::TaskResult();
  BATON_RETURN_IF_ERROR(relay_->Publish(task.job(), policy_version_, weights_));
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> FakeActor::ToGeneration(
    const v1::Task& task, const std::function<void(uint64_t, uint64_t)>& weight_sync) {
  const uint64_t wanted = task.to_generation().policy_version();
  if (wanted != policy_version_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                     absl::StrCat("asked to generate with version ", wanted,
                                  ", but the actor holds ", policy_version_));
  }
  weight_sync(policy_version_, weights_);
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> FakeActor::SaveCheckpoint(const v1::Task& task,
                                                         TaskContext& /*context*/) {
  const std::string& folder = task.save_checkpoint().directory();
  const v1::SaveCheckpoint& save = task.save_checkpoint();
  const bool later =
      save.step() > step_ && save.has_policy_version() && save.policy_version() == policy_version_;
  if (save.step() != step_ && !later) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "WRONG_STEP",
        absl::StrCat("asked to save step ", save.step(), ", but the actor stands at ", step_));
  }
  if (rank_ > 0) return v1::TaskResult();
  BATON_RETURN_IF_ERROR(SaveWeights(weights_, absl::StrCat(folder, "/actor")));
  const nlohmann::json trainer = {{"step", save.step()}, {"policy_version", policy_version_}};
  BATON_RETURN_IF_ERROR(
      WriteCheckpointFile(absl::StrCat(folder, "/trainer.json"), trainer.dump() + "\n"));
  BATON_RETURN_IF_ERROR(WriteCheckpointFile(absl::StrCat(folder, "/optimizer.json"),
                                            absl::StrCat("moments of ", weights_, "\n")));
  v1::TaskResult result;
  BATON_RETURN_IF_ERROR(
      ReportCheckpointFiles(folder, {"actor", "trainer.json"}, result, {"optimizer.json"}));
  return result;
}

absl::StatusOr<v1::TaskResult> FakeActor::Evaluate(const v1::Task& /*task*/, TaskContext& context) {
  BATON_ASSIGN_OR_RETURN(const auto batch, experience_->FetchBatch(context));
  const uint64_t hash = TrainedWeights(weights_, batch);
  v1::TaskResult result;
  (*result.mutable_metrics())["val/accuracy"] = static_cast<double>(hash % 1001) / 1000;
  return result;
}

absl::StatusOr<v1::TaskResult> FakeActor::Export(const v1::Task& task, TaskContext& /*context*/) {
  const std::string& directory = task.export_().directory();
  std::error_code error;
  if (std::filesystem::exists(directory) && !std::filesystem::is_empty(directory, error)) {
    return absl::AlreadyExistsError(absl::StrCat(directory, " is not empty; name another folder"));
  }
  BATON_ASSIGN_OR_RETURN(const uint64_t weights, LoadFrom(task.export_().checkpoint()));
  BATON_RETURN_IF_ERROR(SaveWeights(weights, directory));
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> FakeActor::ComputeLogProb(const v1::Task& task,
                                                         TaskContext& /*context*/) {
  return ColumnResult(OutputName(task.score(), "old_log_prob"),
                      TokenScores(weights_, task.score().trajectory(), -1.5, /*with_token=*/true));
}

}  // namespace baton::fake
