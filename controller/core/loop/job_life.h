// Whether a job runs: its state, what its user asked for, and how it ends.
//
// Owns the public face of the job as the row keeps it (state, error, times, the newest value of
// each metric), its place in the queue, and what it becomes once its workers are given back. The
// table of states is in job_state.h; this is the one place that goes by it:
//
//   QUEUED -> STARTING -> RUNNING <-> RECOVERING
//                 |          |
//                 |          +-- pause: finish the step, save --> PAUSING --> PAUSED --> QUEUED
//                 +-- fail, cancel, all steps done --> STOPPING --> FAILED, CANCELLED, SUCCEEDED
//
// PAUSING and STOPPING last until the last worker is given back.
#ifndef BATON_CONTROLLER_CORE_LOOP_JOB_LIFE_H_
#define BATON_CONTROLLER_CORE_LOOP_JOB_LIFE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/events.h"
#include "controller/core/job/job_state.h"
#include "controller/spec/learning.h"

namespace baton::controller {

struct JobParts;

class JobLife {
 public:
  /// A new job, which is QUEUED. `job` has name, uid and create_time.
  JobLife(v1::Job job, int64_t submit_order, int64_t total_steps);
  explicit JobLife(const store::v1::JobRow& row);
  /// Sets submit_order and stopping_as. The job itself is JobCore::Durable.
  void Save(store::v1::JobRow* row) const;

  v1::Job::State state() const { return job_.state(); }
  /// Without spec, effective_spec and dataflow.
  const v1::Job& job() const { return job_; }
  /// Since when it waits for workers, or rests.
  absl::Time queued_since() const { return queued_since_; }

  /// Shows these values, and the older ones of other metrics.
  void ShowMetrics(const std::map<std::string, double>& metrics);
  /// Forgets the newest evaluation: its sources may be others than those of the next one.
  void HideEvaluation();

  // ---- States.
  /// A controller begins with the job.
  void Begin(absl::Time now) { queued_since_ = now; }
  /// Tells watchers the state.
  void EmitState(EffectSink& out) const;
  /// Goes to the state that follows. False: the trigger means nothing in this state.
  bool Trigger(JobTrigger trigger, JobParts& job);
  /// It got its first worker.
  void NoteStart(absl::Time now);
  void Fail(const absl::Status& status, JobParts& job);
  /// All steps are done, or what ends the job early has come.
  void Finish(JobParts& job);
  /// Tells the user what keeps the job from learning, and fails it where the spec says so.
  void ApplyLearning(const LearningNews& news, JobParts& job);

  // ---- Requests.
  void Cancel(JobParts& job);
  void Pause(JobParts& job);
  void Resume(JobParts& job);
  /// It gives its workers back, and asks for them anew.
  void Yield(const YieldRequested& event, JobParts& job);

  // ---- Workers are given back.
  void ReleaseAll(JobParts& job);
  /// The last worker may be gone: then the job ends, rests or queues.
  void CheckReleased(JobParts& job);

 private:
  void Stop(v1::Job::State as, JobTrigger trigger, JobParts& job);

  v1::Job job_;
  int64_t submit_order_ = 0;
  // What a stopping job becomes; of one that pauses, QUEUED: it was resumed meanwhile.
  v1::Job::State stopping_as_ = v1::Job::STATE_CANCELLED;
  absl::Time queued_since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_JOB_LIFE_H_
