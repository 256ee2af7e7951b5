#include "tests/fake_worker/fake_critic.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"
#include "sdk/worker/score_output.h"
#include "tests/fake_worker/fake_scores.h"
#include "tests/fake_worker/fake_weights.h"

namespace baton::fake {
namespace {

/// A critic is not the actor it starts from, nor the other critic.
uint64_t HeadOf(const std::string& role) {
  return role == "critic" ? 0x637269746963 : 0x636f7374637269;
}

absl::Status WrongStep(const std::string& what, int64_t stands_at) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_STEP",
                   absl::StrCat(what, ", but the critic stands at ", stands_at));
}

}  // namespace

absl::StatusOr<v1::TaskResult> FakeCritic::Assign(const v1::Task& task, TaskContext& /*context*/) {
  const v1::AssignRole& assign = task.assign_role();
  absl::MutexLock lock(&mu_);
  if (assign.checkpoint().empty()) {
    weights_ = InitialWeights(assign.spec()) ^ HeadOf(role_);
  } else {
    BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(assign.checkpoint()));
    BATON_ASSIGN_OR_RETURN(weights_, LoadWeights(absl::StrCat(assign.checkpoint(), "/", role_)));
  }
  rank_ = assign.rank();
  step_ = assign.step();
  policy_version_ = assign.policy_version();
  last_update_.Clear();
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> FakeCritic::Update(const v1::Task& task, TaskContext& context) {
  const v1::Update& update = task.update();
  {
    absl::MutexLock lock(&mu_);
    if (update.step() == step_ && last_update_.metrics_size() > 0) return last_update_;
    // Steps whose groups were all dropped make no version and are not told; a step in which the
    // critic learns alone makes no version either.
    const bool version_fits = update.policy_version() == policy_version_ ||
                              update.policy_version() == policy_version_ + 1;
    if (update.from_step() != step_ && !(update.from_step() > step_ && version_fits)) {
      return WrongStep(
          absl::StrCat("update to step ", update.step(), " starts from step ", update.from_step()),
          step_);
    }
  }
  BATON_ASSIGN_OR_RETURN(const auto batch, experience_->FetchBatch(context));
  if (update.batch_size() != 0 && static_cast<size_t>(update.batch_size()) != batch.size()) {
    return absl::DataLossError(absl::StrCat("the batch of step ", update.step(), " has ",
                                            batch.size(), " trajectories instead of ",
                                            update.batch_size()));
  }
  if (context.cancelled()) return absl::CancelledError("update was cancelled");
  absl::MutexLock lock(&mu_);
  weights_ = TrainedWeights(weights_, batch);
  step_ = update.step();
  policy_version_ = update.policy_version();
  v1::TaskResult result;
  auto& metrics = *result.mutable_metrics();
  metrics[role_ + "/vf_loss"] = 1.0 / static_cast<double>(step_);
  metrics[role_ + "/grad_norm"] = 1.0;
  last_update_ = result;
  return result;
}

absl::StatusOr<v1::TaskResult> FakeCritic::SaveCheckpoint(const v1::Task& task,
                                                          TaskContext& /*context*/) {
  const v1::SaveCheckpoint& save = task.save_checkpoint();
  absl::MutexLock lock(&mu_);
  const bool later =
      save.step() > step_ && save.has_policy_version() && save.policy_version() == policy_version_;
  if (save.step() != step_ && !later) {
    return WrongStep(absl::StrCat("asked to save step ", save.step()), step_);
  }
  if (rank_ > 0) return v1::TaskResult();
  const std::string& folder = save.directory();
  BATON_RETURN_IF_ERROR(SaveWeights(weights_, absl::StrCat(folder, "/", role_)));
  const nlohmann::json state = {{"step", save.step()}, {"policy_version", policy_version_}};
  BATON_RETURN_IF_ERROR(
      WriteCheckpointFile(absl::StrCat(folder, "/", role_, ".json"), state.dump() + "\n"));
  v1::TaskResult result;
  BATON_RETURN_IF_ERROR(ReportCheckpointFiles(folder, {role_, role_ + ".json"}, result));
  return result;
}

absl::StatusOr<v1::TaskResult> FakeCritic::ComputeValues(const v1::Task& task,
                                                         TaskContext& /*context*/) {
  absl::MutexLock lock(&mu_);
  return ColumnResult(OutputName(task.score(), role_ == "critic" ? "values" : "cost_values"),
                      TokenScores(weights_, task.score().trajectory(), 0, /*with_token=*/false));
}

}  // namespace baton::fake
