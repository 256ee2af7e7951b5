// The interface of the controller for the gRPC services and the status server: one method per RPC.
//
// Thread-safe. Every method returns at once. It posts to the strand that owns the state, and calls
// back exactly once, from a thread of the controller, with no lock held. A callback must not block.
// Errors carry an ErrorInfo (sdk/common/rpc/error.h: MakeError).
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_INTERFACE_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_INTERFACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/replay_service.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/payloads/batch_part.h"
#include "controller/runtime/payloads/history_part.h"

namespace baton::controller {

/// One sample of a Prometheus family.
struct GaugeSample {
  std::string name;  ///< E.g. "baton_job_step".
  std::map<std::string, std::string>
      labels;  ///< E.g. {"baton_job": "addition"}. Not "job" or "instance".
  double value = 0;
};

/// A file of a backup.
struct BackupFile {
  std::string path;        ///< Relative to the data root.
  std::string place;       ///< Where it can be read.
  int64_t size_bytes = 0;  ///< The file may grow; only so many bytes belong to the backup.
  /// For a checkpoint's file: the XXH3-64 in its files.json, hexadecimal. Else empty.
  std::string xxh3 = {};
};

/// The files of one consistent backup, the database first. The files stay until this is destroyed.
class BackupFiles {
 public:
  virtual ~BackupFiles() = default;
  virtual const std::vector<BackupFile>& files() const = 0;
  /// Damage to checkpoints that is known before their files are read: "PATH what".
  virtual const std::vector<std::string>& damaged() const = 0;
};

class ControllerInterface {
 public:
  virtual ~ControllerInterface() = default;

  // JobService.
  /// Without a request_id: once `gone` answers true, a check of models and data is not begun, or is
  /// ended, and the call is CANCELLED, unless the job was admitted by then. With a request_id, the
  /// call goes on, so that a repeated call finds its job.
  virtual void CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done, CallerGone gone) = 0;
  virtual v1::ListPresetsResponse ListPresets() const = 0;
  virtual void ValidateJob(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                           CallerGone gone) = 0;
  virtual void GetJob(v1::GetJobRequest request, Callback<v1::Job> done) = 0;
  virtual void ListJobs(v1::ListJobsRequest request, Callback<v1::ListJobsResponse> done) = 0;
  virtual void CancelJob(v1::CancelJobRequest request, Callback<v1::Job> done) = 0;
  virtual void PauseJob(v1::PauseJobRequest request, Callback<v1::Job> done) = 0;
  virtual void ResumeJob(v1::ResumeJobRequest request, Callback<v1::Job> done) = 0;
  virtual void DeleteJob(v1::DeleteJobRequest request, Callback<v1::DeleteJobResponse> done) = 0;
  virtual void ListMetrics(v1::ListMetricsRequest request,
                           Callback<v1::ListMetricsResponse> done) = 0;
  virtual void ListTrajectories(v1::ListTrajectoriesRequest request,
                                Callback<v1::ListTrajectoriesResponse> done) = 0;
  virtual void ListCheckpoints(v1::ListCheckpointsRequest request,
                               Callback<v1::ListCheckpointsResponse> done) = 0;
  virtual void ExportCheckpoint(v1::ExportCheckpointRequest request,
                                Callback<v1::ExportCheckpointResponse> done) = 0;
  virtual void ExplainJob(v1::ExplainJobRequest request, Callback<v1::ExplainJobResponse> done) = 0;
  /// The subscription is null if the call failed at once; OnEnd says why.
  virtual std::unique_ptr<Subscription> WatchJob(v1::WatchJobRequest request,
                                                 std::shared_ptr<EventSink> sink) = 0;
  virtual std::unique_ptr<Subscription> ReadLogs(v1::ReadLogsRequest request,
                                                 std::shared_ptr<LogSink> sink) = 0;

  // ReplayService.
  virtual void CreateReplay(v1::CreateReplayRequest request, Callback<v1::Replay> done,
                            CallerGone gone) = 0;
  virtual void GetReplay(v1::GetReplayRequest request, Callback<v1::Replay> done) = 0;

  // ClusterService.
  virtual void ListWorkers(v1::ListWorkersRequest request,
                           Callback<v1::ListWorkersResponse> done) = 0;
  virtual void DrainWorker(v1::DrainWorkerRequest request, Callback<v1::Worker> done) = 0;
  virtual void UndrainWorker(v1::UndrainWorkerRequest request, Callback<v1::Worker> done) = 0;
  /// FAILED_PRECONDITION (BACKUP_RUNNING) while the files of an earlier backup are held. Releasing
  /// the files blocks on the disk.
  virtual void Backup(Callback<std::shared_ptr<BackupFiles>> done) = 0;

  // AccessService.
  /// INVALID_ARGUMENT (PROJECT_SPEC).
  virtual void SetProject(v1::Project project, Callback<v1::Project> done) = 0;
  /// INVALID_ARGUMENT (PAGE_SIZE, PAGE_TOKEN), like every list.
  virtual absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest& request) const = 0;
  /// The project's quota and share; the defaults if they were never set.
  virtual v1::Project ProjectNamed(const std::string& project) const = 0;

  // WorkerService. `stream` is kept until OnClosed.
  virtual std::unique_ptr<WorkerSession> Attach(std::shared_ptr<WorkerStream> stream) = 0;

  // ExperienceService: the trajectories of the batch that the request asks for, in order.
  virtual void FetchBatch(v1::FetchBatchRequest request, Callback<BatchPart> done) = 0;
  /// Earlier responses to prompts. Errors: those of the proto, and HISTORY_PROMPTS.
  virtual void FetchHistory(v1::FetchHistoryRequest request,
                            Callback<std::shared_ptr<HistoryPart>> done) = 0;

  /// Receives uploaded files. Constant; lives as long as this.
  virtual Uploads* uploads() = 0;

  /// OK when requests can be served; otherwise the reason (e.g. the store refuses writes).
  virtual absl::Status Ready() const = 0;
  /// The numbers of /metrics.
  virtual void Metrics(std::function<void(std::vector<GaugeSample>)> done) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_INTERFACE_H_
