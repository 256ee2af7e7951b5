// A mock ControllerInterface for tests of its callers (controller/api, controller/status).
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_MOCK_CONTROLLER_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_MOCK_CONTROLLER_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/runtime/controller/controller_interface.h"
#include "gmock/gmock.h"

namespace baton::controller {

/// The answer of FetchBatch for a batch of these.
inline BatchPart PartOf(std::vector<v1::Trajectory> trajectories) {
  auto entries = std::make_shared<BatchEntries>();
  for (v1::Trajectory& one : trajectories) {
    entries->emplace_back().payload = std::make_shared<const v1::Trajectory>(std::move(one));
  }
  return *BatchPart::Of(std::move(entries), {});
}

class MockController : public ControllerInterface {
 public:
  /// From the last call of CreateJob, ValidateJob or CreateReplay.
  CallerGone last_gone;
  void CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done, CallerGone gone) override {
    last_gone = std::move(gone);
    CreateJob(std::move(request), std::move(done));
  }
  void ValidateJob(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                   CallerGone gone) override {
    last_gone = std::move(gone);
    ValidateJob(std::move(request), std::move(done));
  }
  void CreateReplay(v1::CreateReplayRequest request, Callback<v1::Replay> done,
                    CallerGone gone) override {
    last_gone = std::move(gone);
    CreateReplay(std::move(request), std::move(done));
  }
  MOCK_METHOD(void, CreateJob, (v1::CreateJobRequest, Callback<v1::Job>));
  MOCK_METHOD(v1::ListPresetsResponse, ListPresets, (), (const, override));
  MOCK_METHOD(void, ValidateJob, (v1::ValidateJobRequest, Callback<v1::ValidateJobResponse>));
  MOCK_METHOD(void, GetJob, (v1::GetJobRequest, Callback<v1::Job>), (override));
  MOCK_METHOD(void, ListJobs, (v1::ListJobsRequest, Callback<v1::ListJobsResponse>), (override));
  MOCK_METHOD(void, CancelJob, (v1::CancelJobRequest, Callback<v1::Job>), (override));
  MOCK_METHOD(void, PauseJob, (v1::PauseJobRequest, Callback<v1::Job>), (override));
  MOCK_METHOD(void, ResumeJob, (v1::ResumeJobRequest, Callback<v1::Job>), (override));
  MOCK_METHOD(void, DeleteJob, (v1::DeleteJobRequest, Callback<v1::DeleteJobResponse>), (override));
  MOCK_METHOD(void, ListMetrics, (v1::ListMetricsRequest, Callback<v1::ListMetricsResponse>),
              (override));
  MOCK_METHOD(void, ListTrajectories,
              (v1::ListTrajectoriesRequest, Callback<v1::ListTrajectoriesResponse>), (override));
  MOCK_METHOD(void, ListCheckpoints,
              (v1::ListCheckpointsRequest, Callback<v1::ListCheckpointsResponse>), (override));
  MOCK_METHOD(void, ExportCheckpoint,
              (v1::ExportCheckpointRequest, Callback<v1::ExportCheckpointResponse>), (override));
  MOCK_METHOD(void, ExplainJob, (v1::ExplainJobRequest, Callback<v1::ExplainJobResponse>),
              (override));
  MOCK_METHOD(std::unique_ptr<Subscription>, WatchJob,
              (v1::WatchJobRequest, std::shared_ptr<EventSink>), (override));
  MOCK_METHOD(std::unique_ptr<Subscription>, ReadLogs,
              (v1::ReadLogsRequest, std::shared_ptr<LogSink>), (override));
  MOCK_METHOD(void, CreateReplay, (v1::CreateReplayRequest, Callback<v1::Replay>));
  MOCK_METHOD(void, GetReplay, (v1::GetReplayRequest, Callback<v1::Replay>), (override));
  MOCK_METHOD(void, ListWorkers, (v1::ListWorkersRequest, Callback<v1::ListWorkersResponse>),
              (override));
  MOCK_METHOD(void, DrainWorker, (v1::DrainWorkerRequest, Callback<v1::Worker>), (override));
  MOCK_METHOD(void, UndrainWorker, (v1::UndrainWorkerRequest, Callback<v1::Worker>), (override));
  MOCK_METHOD(void, Backup, (Callback<std::shared_ptr<BackupFiles>>), (override));
  MOCK_METHOD(void, SetProject, (v1::Project, Callback<v1::Project>), (override));
  MOCK_METHOD(absl::StatusOr<v1::ListProjectsResponse>, ListProjects,
              (const v1::ListProjectsRequest&), (const, override));
  MOCK_METHOD(v1::Project, ProjectNamed, (const std::string&), (const, override));
  MOCK_METHOD(std::unique_ptr<WorkerSession>, Attach, (std::shared_ptr<WorkerStream>), (override));
  MOCK_METHOD(void, FetchBatch, (v1::FetchBatchRequest, Callback<BatchPart>), (override));
  MOCK_METHOD(void, FetchHistory, (v1::FetchHistoryRequest, Callback<std::shared_ptr<HistoryPart>>),
              (override));
  MOCK_METHOD(Uploads*, uploads, (), (override));
  MOCK_METHOD(absl::Status, Ready, (), (const, override));
  MOCK_METHOD(void, Metrics, (std::function<void(std::vector<GaugeSample>)>), (override));
};

/// Sets a flag when it is destroyed.
class FlagSubscription : public Subscription {
 public:
  explicit FlagSubscription(std::shared_ptr<std::atomic<bool>> ended) : ended_(std::move(ended)) {}
  ~FlagSubscription() override { *ended_ = true; }

 private:
  const std::shared_ptr<std::atomic<bool>> ended_;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_MOCK_CONTROLLER_H_
