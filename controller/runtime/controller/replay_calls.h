// The calls on replays, the jobs that train again on what another job recorded.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_REPLAY_CALLS_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_REPLAY_CALLS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "baton/v1/replay_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/controller/replay_verdicts.h"
#include "controller/runtime/job_files/replay_files.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/job_launcher.h"
#include "controller/runtime/submit/projects.h"
#include "controller/runtime/submit/requests.h"
#include "controller/runtime/submit/waiting_submissions.h"

namespace baton::controller {

/// Create and Get: any thread. A call of Create takes the same path as one of CreateJob: to the
/// admission strand (Enter), to the threads that read data (Plan), and back to the admission strand
/// (Make).
class ReplayCalls {
 public:
  ReplayCalls(ControllerScope* scope, Projects* projects, Requests* requests, JobLauncher* launcher,
              WaitingSubmissions* waiting)
      : scope_(scope),
        projects_(projects),
        requests_(requests),
        launcher_(launcher),
        waiting_(waiting),
        verdicts_(scope->options.data_root, &scope->data_readers, &scope->gate) {}

  void Create(v1::CreateReplayRequest request, Callback<v1::Replay> done, CallerGone gone);
  void Get(const v1::GetReplayRequest& request, Callback<v1::Replay> done);

 private:
  struct Asked;
  struct Call;

  void Enter(const std::shared_ptr<Call>& call);
  void Plan(const std::shared_ptr<Call>& call);
  void Make(const std::shared_ptr<Call>& call);
  /// The answer to a call, once `job` is its replay's job. On the admission strand.
  absl::StatusOr<v1::Replay> ReplayOf(const Asked& asked, const v1::Job& job) const;

  ControllerScope* const scope_;
  Projects* const projects_;
  Requests* const requests_;
  JobLauncher* const launcher_;
  WaitingSubmissions* const waiting_;
  ReplayVerdicts verdicts_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_REPLAY_CALLS_H_
