// The answers to ExplainJob for one job, about its waits.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_EXPLANATIONS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_EXPLANATIONS_H_

#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/turn_log.h"

namespace baton::controller {

/// Answers once all earlier turns are committed. While nothing can be written, a call is answered
/// at once, with that alone. On the job's strand.
class Explanations {
 public:
  Explanations(const JobScope* scope, TurnLog* turns, const JobDisk* disk)
      : scope_(scope), turns_(turns), disk_(disk) {}

  void Ask(const Callback<v1::ExplainJobResponse>& done);
  /// If nothing can be written, answers the calls that wait for a commit. Call it as time passes.
  void AnswerHeld();
  /// OK, or why nothing can be written.
  absl::Status WriteHealth() const;
  /// Drops all calls. Call it after the executors have ended.
  void Abandon() { waiting_.clear(); }

 private:
  using Call = std::shared_ptr<Callback<v1::ExplainJobResponse>>;
  void Answer(const Call& call, const v1::ExplainJobResponse& answer);

  const JobScope* const scope_;
  TurnLog* const turns_;
  const JobDisk* const disk_;
  std::deque<Call> waiting_;  // for a commit; a call is empty once answered
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_EXPLANATIONS_H_
