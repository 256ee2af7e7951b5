// Life of a job: its state, its user's requests, and its end.
//
// Owns the status of the job as the row keeps it (state, error, times, the newest value of each
// metric), its place in the queue, and its state once its workers are given back. The table of
// states is in job_state.h; life_changes.h uses it:
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
  /// True if the job is active and is not stopping.
  bool runs() const { return IsActive(state()) && state() != v1::Job::STATE_STOPPING; }
  /// Without spec, effective_spec and dataflow.
  const v1::Job& job() const { return job_; }
  /// The state once the job's workers are given back. QUEUED in a pausing job: it was resumed
  /// meanwhile.
  v1::Job::State stopping_as() const { return stopping_as_; }
  v1::Job::State StopAs(v1::Job::State as) { return std::exchange(stopping_as_, as); }
  /// When the job began to wait for workers, or was paused.
  absl::Time queued_since() const { return queued_since_; }
  void Queue(absl::Time now) { queued_since_ = now; }

  /// Shows these values; other metrics keep their older ones.
  void ShowMetrics(const std::map<std::string, double>& metrics);
  /// Forgets the metrics of the newest evaluation, because the next one may have other sources.
  void HideEvaluation();

  /// Goes to a state, and tells watchers.
  void Enter(v1::Job::State state, EffectSink& out);
  /// Tells watchers the state.
  void EmitState(EffectSink& out) const;
  /// The job got its first worker.
  void NoteStart(absl::Time now);
  void NoteError(const absl::Status& status);
  /// The job goes on after its end.
  void ForgetEnd();

 private:
  v1::Job job_;
  int64_t submit_order_ = 0;
  v1::Job::State stopping_as_ = v1::Job::STATE_CANCELLED;
  absl::Time queued_since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_JOB_LIFE_H_
