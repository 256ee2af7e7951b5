#include "workers/trainer/learning_steps.h"

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"

namespace baton::trainer {

absl::Status LearningSteps::WrongStep(absl::string_view what, int64_t wanted) const {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, "WRONG_STEP",
      absl::StrCat(what, " step ", wanted, ", but the ", role_, " stands at ", state_.step));
}

const v1::TaskResult* LearningSteps::ResultOf(const v1::Update& update) const {
  const bool made = update.step() == state_.step && last_update_.metrics_size() > 0;
  return made ? &last_update_ : nullptr;
}

absl::Status LearningSteps::CheckStart(const v1::Update& update) const {
  const bool next_version = update.policy_version() == state_.policy_version + 1;
  const bool same_version =
      versions_ == Versions::kSomeUpdates && update.policy_version() == state_.policy_version;
  const bool follows = update.from_step() > state_.step && (next_version || same_version);
  if (update.from_step() == state_.step || follows) return absl::OkStatus();
  return WrongStep("update starts from", update.from_step());
}

const v1::TaskResult& LearningSteps::Finish(const v1::Update& update,
                                            const std::map<std::string, double>& metrics) {
  state_ = {update.step(), update.policy_version()};
  last_update_.Clear();
  for (const auto& [name, value] : metrics) (*last_update_.mutable_metrics())[name] = value;
  return last_update_;
}

absl::StatusOr<TrainerState> LearningSteps::StateToSave(const v1::SaveCheckpoint& save) const {
  const bool later = save.step() > state_.step && save.has_policy_version() &&
                     save.policy_version() == state_.policy_version;
  if (save.step() != state_.step && !later) return WrongStep("asked to save", save.step());
  return TrainerState{save.step(), state_.policy_version};
}

absl::StatusOr<v1::TaskResult> SaveStep(const LearningSteps& steps, const v1::SaveCheckpoint& save,
                                        const Learner& learner,
                                        const engine::Companions& companions,
                                        const CheckpointParts& parts, const ranks::Ranks& ranks,
                                        const std::string& metric) {
  BATON_ASSIGN_OR_RETURN(const TrainerState state, steps.StateToSave(save));
  const Stopwatch watch;
  BATON_RETURN_IF_ERROR(SaveLearner(learner, companions, state, parts, ranks, save.directory()));
  v1::TaskResult result;
  if (!ranks.first()) return result;
  BATON_RETURN_IF_ERROR(ReportCheckpointFiles(save.directory(), {parts.model, parts.state}, result,
                                              {parts.optimizer}));
  (*result.mutable_metrics())[metric] = watch.Seconds();
  return result;
}

}  // namespace baton::trainer
