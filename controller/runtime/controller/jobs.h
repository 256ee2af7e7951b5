// The calls that show, change, delete, watch or explain one job.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_JOBS_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_JOBS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/controller/delete_job.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/projects.h"
#include "controller/runtime/submit/requests.h"

namespace baton::controller {

/// Any thread. A call that changes a job goes through the admission strand (Requests), then to the
/// job's strand.
class Jobs {
 public:
  Jobs(ControllerScope* scope, Projects* projects, Requests* requests, JobRemover* remover)
      : scope_(scope), projects_(projects), requests_(requests), remover_(remover) {}

  void Get(const v1::GetJobRequest& request, Callback<v1::Job> done) const;
  void Cancel(const v1::CancelJobRequest& request, Callback<v1::Job> done);
  void Pause(const v1::PauseJobRequest& request, Callback<v1::Job> done);
  void Resume(const v1::ResumeJobRequest& request, Callback<v1::Job> done);
  void Delete(const v1::DeleteJobRequest& request, Callback<v1::DeleteJobResponse> done);
  void Explain(const v1::ExplainJobRequest& request, Callback<v1::ExplainJobResponse> done) const;
  void ExportCheckpoint(v1::ExportCheckpointRequest request,
                        Callback<v1::ExportCheckpointResponse> done) const;
  std::unique_ptr<Subscription> Watch(const v1::WatchJobRequest& request,
                                      std::shared_ptr<EventSink> sink) const;
  std::unique_ptr<Subscription> ReadLogs(const v1::ReadLogsRequest& request,
                                         std::shared_ptr<LogSink> sink) const;

 private:
  /// Changes the job, and writes the row of the request with the change (null: no request id).
  using Action = std::function<void(const std::shared_ptr<JobRuntime>&, JobRuntime::ExtraRow,
                                    Callback<v1::Job>)>;
  /// `name` and `request_id` as in the call `method`.
  void Change(const char* method, const std::string& name, const std::string& request_id,
              Action act, Callback<v1::Job> done);
  /// On the admission strand, where every call that makes an unfinished job is counted.
  void ResumeCounted(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                     const Callback<v1::Job>& done);
  /// The answer to a repeat: the job as it was after the first call.
  v1::Job OutcomeOf(const store::v1::RequestRow& row) const;

  ControllerScope* const scope_;
  Projects* const projects_;
  Requests* const requests_;
  JobRemover* const remover_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_JOBS_H_
