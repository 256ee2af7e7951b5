// The step of a learning role, and the role's answer to a command that is repeated or does not fit
// that step. The actor and the critics share it.
#ifndef BATON_WORKERS_TRAINER_LEARNING_STEPS_H_
#define BATON_WORKERS_TRAINER_LEARNING_STEPS_H_

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/worker_service.pb.h"
#include "workers/trainer/checkpoint.h"

namespace baton::trainer {

/// Seconds since it was made.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// One thread at a time. Errors about steps are FAILED_PRECONDITION with reason WRONG_STEP.
class LearningSteps {
 public:
  /// Whether each update makes a version of the policy. An update of the actor always does; a
  /// critic also learns in steps that leave the policy alone.
  enum class Versions { kEachUpdate, kSomeUpdates };

  LearningSteps() = default;
  /// `role` names the role in errors.
  LearningSteps(std::string role, Versions versions, const TrainerState& state)
      : role_(std::move(role)), versions_(versions), state_(state) {}

  const TrainerState& state() const { return state_; }

  /// The result of this update if it has been made here; null otherwise. A repeated update must
  /// not apply an optimizer step twice.
  const v1::TaskResult* ResultOf(const v1::Update& update) const;
  /// An error unless the update starts from the step this role stands at. Steps whose groups were
  /// all dropped make no version and send no update, so an update may start later than that.
  absl::Status CheckStart(const v1::Update& update) const;
  /// Moves on to the update's step. Returns the result with these metrics, kept for ResultOf.
  const v1::TaskResult& Finish(const v1::Update& update,
                               const std::map<std::string, double>& metrics);
  /// The contents of a checkpoint for this command. A later step than this role's may be saved
  /// while the policy is the same.
  absl::StatusOr<TrainerState> StateToSave(const v1::SaveCheckpoint& save) const;

 private:
  absl::Status WrongStep(absl::string_view what, int64_t wanted) const;

  std::string role_;
  Versions versions_ = Versions::kEachUpdate;
  TrainerState state_;
  v1::TaskResult last_update_;  // of state_.step, once one was made here
};

/// Saves what a role learned: its parts of the checkpoint, told by the first rank with their
/// checksums and, as metric `metric`, the seconds that it took. All ranks call this.
absl::StatusOr<v1::TaskResult> SaveStep(const LearningSteps& steps, const v1::SaveCheckpoint& save,
                                        const Learner& learner,
                                        const engine::Companions& companions,
                                        const CheckpointParts& parts, const ranks::Ranks& ranks,
                                        const std::string& metric);

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_LEARNING_STEPS_H_
