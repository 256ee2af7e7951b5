// Failed rewards, and the warnings about them.
//
// Owns how many responses of the step or evaluation in progress are without their own reward, how
// many tries failed and were begun again, and the first error of each kind. A user sees the first
// error at once and further ones from time to time, so a watcher's list stays readable. Beyond
// reward.max_error_rate the job fails, because it would learn only from the responses whose rewards
// happened to succeed.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_REWARD_ERRORS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_REWARD_ERRORS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/job/wait_list.h"

namespace baton::controller {

class RewardErrors {
 public:
  /// `tell_again`: the time between two warnings.
  RewardErrors(std::shared_ptr<const v1::Job> submitted, absl::Duration tell_again);

  /// A step or an evaluation begins, or ends.
  void Begin();
  /// A response of the step or evaluation was found in the store.
  void Recall(const TrajectoryInfo& trajectory);
  /// A response is generated again; its error counts no more.
  void Forget(const TrajectoryInfo& trajectory);

  /// Warns, but not more often than every `tell_again`.
  void Tell(const std::string& message, EffectSink& out);
  /// A try failed and another one is begun. `what`: "train-3 on worker w: why".
  void Retried(const std::string& what, EffectSink& out);
  /// One of the `total` responses of `phase` ("step 3") has no reward of its own. An error: there
  /// are now more than the job allows.
  absl::Status Failed(const std::string& what, const std::string& phase, uint64_t total,
                      EffectSink& out);

  /// The limit on failed rewards, for people; "": nothing is scored now.
  std::string Limit(const std::string& phase, uint64_t total) const;
  void Explain(const std::string& phase, uint64_t total, absl::Time phase_since,
               WaitList& waits) const;

 private:
  double MaxRate() const;
  uint64_t Most(uint64_t total) const;

  std::shared_ptr<const v1::Job> submitted_;
  absl::Duration tell_again_;
  uint64_t count_ = 0;
  uint64_t tries_ = 0;
  std::string first_;      // error that counts
  std::string first_try_;  // error of a try that was begun again
  absl::Time warned_at_ = absl::InfinitePast();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_REWARD_ERRORS_H_
