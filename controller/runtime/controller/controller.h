// The controller: the calls of its interface, on top of a store.
//
// Threads: `strands` threads run the jobs' strands, one thread the cluster's strand, `disk` threads
// work on files, `reader` threads read lists and histories from the store. The contract of the
// public methods is in controller_interface.h. Each call is one line here, which passes it to the
// part that answers it.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "boost/asio/steady_timer.hpp"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/controller/backup.h"
#include "controller/runtime/controller/controller_interface.h"
#include "controller/runtime/controller/delete_job.h"
#include "controller/runtime/controller/jobs.h"
#include "controller/runtime/controller/lists.h"
#include "controller/runtime/controller/replay_calls.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/submit/controller_options.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/job_launcher.h"
#include "controller/runtime/submit/projects.h"
#include "controller/runtime/submit/requests.h"
#include "controller/runtime/submit/spec_uploads.h"
#include "controller/runtime/submit/submissions.h"
#include "controller/runtime/submit/waiting_submissions.h"

namespace baton::controller {

class Controller : public ControllerInterface {
 public:
  /// Takes over the store: increments its epoch, continues unfinished jobs, and gives their workers
  /// one lease to come back.
  static absl::StatusOr<std::unique_ptr<Controller>> Create(ControllerOptions options);
  /// Closes the workers' streams and waits for running work; afterwards no effect leaves.
  ~Controller() override;

  // JobService.
  void CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done,
                 CallerGone gone = nullptr) override {
    submissions_.Create(std::move(request), std::move(done), std::move(gone));
  }
  void ValidateJob(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                   CallerGone gone = nullptr) override {
    submissions_.Validate(std::move(request), std::move(done), std::move(gone));
  }
  v1::ListPresetsResponse ListPresets() const override;
  void GetJob(v1::GetJobRequest request, Callback<v1::Job> done) override {
    jobs_.Get(request, std::move(done));
  }
  void CancelJob(v1::CancelJobRequest request, Callback<v1::Job> done) override {
    jobs_.Cancel(request, std::move(done));
  }
  void PauseJob(v1::PauseJobRequest request, Callback<v1::Job> done) override {
    jobs_.Pause(request, std::move(done));
  }
  void ResumeJob(v1::ResumeJobRequest request, Callback<v1::Job> done) override {
    jobs_.Resume(request, std::move(done));
  }
  void DeleteJob(v1::DeleteJobRequest request, Callback<v1::DeleteJobResponse> done) override {
    jobs_.Delete(request, std::move(done));
  }
  void ExplainJob(v1::ExplainJobRequest request, Callback<v1::ExplainJobResponse> done) override {
    jobs_.Explain(request, std::move(done));
  }
  void ExportCheckpoint(v1::ExportCheckpointRequest request,
                        Callback<v1::ExportCheckpointResponse> done) override {
    jobs_.ExportCheckpoint(std::move(request), std::move(done));
  }
  std::unique_ptr<Subscription> WatchJob(v1::WatchJobRequest request,
                                         std::shared_ptr<EventSink> sink) override {
    return jobs_.Watch(request, std::move(sink));
  }
  std::unique_ptr<Subscription> ReadLogs(v1::ReadLogsRequest request,
                                         std::shared_ptr<LogSink> sink) override {
    return jobs_.ReadLogs(request, std::move(sink));
  }
  void ListJobs(v1::ListJobsRequest request, Callback<v1::ListJobsResponse> done) override {
    lists_.ListJobs(request, std::move(done));
  }
  void ListMetrics(v1::ListMetricsRequest request,
                   Callback<v1::ListMetricsResponse> done) override {
    lists_.ListMetrics(request, std::move(done));
  }
  void ListTrajectories(v1::ListTrajectoriesRequest request,
                        Callback<v1::ListTrajectoriesResponse> done) override {
    lists_.ListTrajectories(request, std::move(done));
  }
  void ListCheckpoints(v1::ListCheckpointsRequest request,
                       Callback<v1::ListCheckpointsResponse> done) override {
    lists_.ListCheckpoints(request, std::move(done));
  }

  // ReplayService.
  void CreateReplay(v1::CreateReplayRequest request, Callback<v1::Replay> done,
                    CallerGone gone = nullptr) override {
    replays_.Create(std::move(request), std::move(done), std::move(gone));
  }
  void GetReplay(v1::GetReplayRequest request, Callback<v1::Replay> done) override {
    replays_.Get(request, std::move(done));
  }

  // ClusterService.
  void ListWorkers(v1::ListWorkersRequest request,
                   Callback<v1::ListWorkersResponse> done) override {
    lists_.ListWorkers(request, std::move(done));
  }
  void DrainWorker(v1::DrainWorkerRequest request, Callback<v1::Worker> done) override {
    scope_.cluster->Drain(request.worker_id(), std::move(done));
  }
  void UndrainWorker(v1::UndrainWorkerRequest request, Callback<v1::Worker> done) override {
    scope_.cluster->Undrain(request.worker_id(), std::move(done));
  }
  void Backup(Callback<std::shared_ptr<BackupFiles>> done) override {
    backups_.Make(std::move(done));
  }

  // AccessService.
  void SetProject(v1::Project project, Callback<v1::Project> done) override {
    projects_.Set(std::move(project), std::move(done));
  }
  absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest& request) const override {
    return lists_.ListProjects(request);
  }
  v1::Project ProjectNamed(const std::string& project) const override {
    return projects_.Named(project);
  }

  // WorkerService and ExperienceService.
  std::unique_ptr<WorkerSession> Attach(std::shared_ptr<WorkerStream> stream) override {
    return scope_.cluster->Attach(std::move(stream));
  }
  void FetchBatch(v1::FetchBatchRequest request, Callback<BatchPart> done) override {
    scope_.FindJob(request.job(), done, [request, done](const std::shared_ptr<JobRuntime>& job) {
      job->FetchBatch(request, done);
    });
  }
  void FetchHistory(v1::FetchHistoryRequest request,
                    Callback<std::shared_ptr<HistoryPart>> done) override {
    scope_.FindJob(request.job(), done, [request, done](const std::shared_ptr<JobRuntime>& job) {
      job->FetchHistory(request, done);
    });
  }

  Uploads* uploads() override { return &uploads_; }
  absl::Status Ready() const override;
  void Metrics(std::function<void(std::vector<GaugeSample>)> done) override;

 private:
  explicit Controller(ControllerOptions options);
  absl::Status Restore();
  void FillContext();
  absl::Status RestoreJobs();
  void Tick();  // on the cluster's strand

  // Each part has synchronisation of its own, or says on which strand it runs.
  ControllerScope scope_;
  Projects projects_;
  Requests requests_;
  JobLauncher launcher_;
  WaitingSubmissions waiting_;
  Uploads uploads_;
  SpecUploads spec_uploads_;
  Submissions submissions_;
  JobRemover remover_;
  Jobs jobs_;
  Lists lists_;
  ReplayCalls replays_;
  Backups backups_;

  // Made by Restore.
  std::unique_ptr<JobRestorer> restorer_;
  std::unique_ptr<TrashRemover> trash_;

  boost::asio::steady_timer timer_;  // on the cluster's strand
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_H_
