// Sink for the effects of a job's turn, which it stamps with the job's step and incarnation.
//
// Owns the time of the turn, the step, the trainer's incarnation, the revision of the newest kept
// event, and the effects so far. Every part of a JobCore gets this sink, so tasks and events carry
// the same step and incarnation, whichever part they come from.
#ifndef BATON_CONTROLLER_CORE_JOB_EFFECT_SINK_H_
#define BATON_CONTROLLER_CORE_JOB_EFFECT_SINK_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/events.h"
#include "controller/core/job/task.h"

namespace baton::controller {

class EffectSink {
 public:
  EffectSink() = default;
  /// A restarted controller goes on from `row`; its attempts begin with `attempt_base`.
  EffectSink(const store::v1::JobRow& row, uint64_t attempt_base);

  /// A turn begins at `now`. Take ends it, and gives its effects.
  void Begin(absl::Time now) { now_ = now; }
  Effects Take() { return std::exchange(effects_, {}); }

  template <typename T>
  void Do(T effect) {
    effects_.push_back(std::move(effect));
  }
  /// Tells watchers; the event is kept and gets the next revision.
  void Emit(v1::JobEvent event) { EmitAt(step_, std::move(event)); }
  /// The same for a step that may be done already.
  void EmitAt(int64_t step, v1::JobEvent event);
  /// Tells the job's user, and stores the job's row, which has the revision.
  void Warn(const std::string& message, const char* type = "warning");

  /// The name of an attempt at this point of the job.
  TaskRef Ref(TaskKind kind, uint64_t subject, uint64_t attempt, uint32_t target = 0) const;
  /// The attempt after `attempt`, in this controller's epoch.
  uint64_t NextAttempt(uint64_t attempt) const {
    return controller::NextAttempt(attempt, attempt_base_);
  }

  absl::Time now() const { return now_; }
  int64_t step() const { return step_; }  ///< Steps done.
  uint64_t incarnation() const { return incarnation_; }
  int64_t revision() const { return revision_; }
  uint64_t attempt_base() const { return attempt_base_; }

  void StepDone() { ++step_; }
  /// The trainer goes back to `step`. Its incarnation grows, so results of the old steps are not
  /// mistaken for results of the repeated ones, which have the same numbers.
  void RollBack(int64_t step);

  /// Sets job.step, job.revision and incarnation.
  void Save(store::v1::JobRow* row) const;

 private:
  uint64_t attempt_base_ = 0;  // attempts of this controller's epoch start here
  absl::Time now_;
  int64_t step_ = 0;
  uint64_t incarnation_ = 1;
  int64_t revision_ = 0;
  Effects effects_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_EFFECT_SINK_H_
