#include "controller/core/trajectories/reward_errors.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::controller {

RewardErrors::RewardErrors(std::shared_ptr<const v1::Job> submitted, absl::Duration tell_again)
    : submitted_(std::move(submitted)), tell_again_(tell_again) {}

void RewardErrors::Begin() {
  count_ = tries_ = 0;
  first_.clear();
  first_try_.clear();
}

void RewardErrors::Recall(const TrajectoryInfo& trajectory) {
  if (!trajectory.error.empty() && count_++ == 0) first_ = trajectory.error;
}

void RewardErrors::Forget(const TrajectoryInfo& trajectory) {
  if (trajectory.error.empty() || count_ == 0) return;
  // The first error may belong to another response, so it is kept while any error is left.
  if (--count_ == 0) first_.clear();
}

void RewardErrors::Tell(const std::string& message, EffectSink& out) {
  // A reward that fails usually fails often, so further warnings wait. `why` and the metrics always
  // have the count.
  if (out.now() - warned_at_ < tell_again_) return;
  warned_at_ = out.now();
  out.Warn(message);
}

void RewardErrors::Retried(const std::string& what, EffectSink& out) {
  // Failed tries count towards no limit, but a user who waits should see the reason.
  if (first_try_.empty()) first_try_ = what;
  ++tries_;
  Tell(absl::StrCat("a score failed and is computed again: ", what), out);
}

absl::Status RewardErrors::Failed(const std::string& what, const std::string& phase, uint64_t total,
                                  EffectSink& out) {
  if (first_.empty()) first_ = what;
  ++count_;
  const uint64_t most = Most(total);
  const std::string failed =
      absl::StrCat("the rewards of ", count_, " of ", total, " responses of ", phase, " failed");
  if (count_ > most) {
    return absl::FailedPreconditionError(absl::StrCat(
        failed, "; reward.max_error_rate ", MaxRate(), " allows ", most, ". The first: ", first_,
        "\nTo try the reward alone, without a job: baton reward test SPEC. If such failures are "
        "normal, raise reward.max_error_rate"));
  }
  Tell(absl::StrCat(failed, "; the job fails when more than ", most, " do (reward.max_error_rate ",
                    MaxRate(), "). The first: ", first_),
       out);
  return absl::OkStatus();
}

double RewardErrors::MaxRate() const {
  return submitted_->effective_spec().reward().max_error_rate();
}

// The number of `total` rewards that may fail; 0.29 of 100 is 29, although 0.29 * 100 is less.
uint64_t RewardErrors::Most(uint64_t total) const {
  return static_cast<uint64_t>(std::floor(MaxRate() * static_cast<double>(total) + 1e-9));
}

std::string RewardErrors::Limit(const std::string& phase, uint64_t total) const {
  if (total == 0) return "";
  return absl::StrCat("the job fails when more than ", Most(total), " of the ", total,
                      " rewards of ", phase, " fail (reward.max_error_rate ", MaxRate(), ")");
}

void RewardErrors::Explain(const std::string& phase, uint64_t total, absl::Time phase_since,
                           WaitList& waits) const {
  if (count_ + tries_ == 0) return;
  const std::string failed = count_ > 0
                                 ? absl::StrCat(count_, " of ", total, " have failed")
                                 : absl::StrCat(tries_, " tries have failed and are repeated");
  waits.AddText(
      "reward_errors", phase,
      absl::StrCat("its rewards: ", failed, ". The first: ", count_ > 0 ? first_ : first_try_),
      phase_since, Limit(phase, total));
}

}  // namespace baton::controller
