// Whether a job runs: its state, what its user asked for, and how it ends.
//
// Owns the status of the job as the row keeps it (state, error, times, the newest value of each
// metric), its place in the queue, and what it becomes once its workers are given back. The table
// of states is in job_state.h; life_changes.h goes by it:
//
//   QUEUED -> STARTING -> RUNNING <-> RECOVERING
//                 |          |
//                 |          +-- pause: finish the step, save --> PAUSING --> PAUSED --> QUEUED
//                 +-- fail, cancel, all steps done --> STOPPING --> FAILED, CANCELLED, SUCCEEDED
//
// PAUSING and STOPPING last until the last worker is given back.
#ifndef BATON_CONTROLLER_CORE_STEPS_JOB_LIFE_H_
#define BATON_CONTROLLER_CORE_STEPS_JOB_LIFE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_state.h"

namespace baton::controller {

class JobLife {
 public:
  /// A new job, which is QUEUED. `job` has name, uid and create_time.
  JobLife(v1::Job job, int64_t submit_order, int64_t total_steps);
  explicit JobLife(const store::v1::JobRow& row);
  /// Sets submit_order and stopping_as. The job itself is JobCore::Durable.
  void Save(store::v1::JobRow* row) const;

  v1::Job::State state() const { return job_.state(); }
  /// It does something, or is about to, and does not end.
  bool runs() const { return IsActive(state()) && state() != v1::Job::STATE_STOPPING; }
  /// Without spec, effective_spec and dataflow.
  const v1::Job& job() const { return job_; }
  /// What it becomes once its workers are given back. Of one that pauses, QUEUED: it was resumed
  /// meanwhile.
  v1::Job::State stopping_as() const { return stopping_as_; }
  v1::Job::State StopAs(v1::Job::State as) { return std::exchange(stopping_as_, as); }
  /// Since when it waits for workers, or rests.
  absl::Time queued_since() const { return queued_since_; }
  void Queue(absl::Time now) { queued_since_ = now; }

  /// Shows these values, and the older ones of other metrics.
  void ShowMetrics(const std::map<std::string, double>& metrics);
  /// Forgets the newest evaluation: its sources may be others than those of the next one.
  void HideEvaluation();

  /// Goes to a state, and tells watchers.
  void Enter(v1::Job::State state, EffectSink& out);
  /// Tells watchers the state.
  void EmitState(EffectSink& out) const;
  /// It got its first worker.
  void NoteStart(absl::Time now);
  void NoteError(const absl::Status& status);
  /// It goes on after its end.
  void ForgetEnd();

 private:
  v1::Job job_;
  int64_t submit_order_ = 0;
  v1::Job::State stopping_as_ = v1::Job::STATE_CANCELLED;
  absl::Time queued_since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_JOB_LIFE_H_
