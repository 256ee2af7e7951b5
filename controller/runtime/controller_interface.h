// What the gRPC services and the status server ask of the controller: one method per RPC.
//
// Thread-safe. Every method returns at once: it posts to the strand that owns the state and
// calls back from a thread of the controller, exactly once, with no lock held. A callback must
// not block. Errors carry an ErrorInfo (sdk/rpc/error.h: MakeError).
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_INTERFACE_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_INTERFACE_H_

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
#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/uploads.h"

namespace baton::controller {

template <typename T>
using Callback = std::function<void(absl::StatusOr<T>)>;

/// The controller's end of one worker's stream. Implemented by the gRPC reactor (and by fakes).
/// Thread-safe; neither method blocks. Nothing is sent after Close.
class WorkerStream {
 public:
  virtual ~WorkerStream() = default;
  virtual void Send(v1::ControllerMessage message) = 0;
  /// Ends the stream with `status`; it is OK to call it twice.
  virtual void Close(absl::Status status) = 0;
  /// The only project whose jobs this worker may get and speak of; "*": all. Constant.
  virtual std::string project() const { return "*"; }
};

/// What the stream's owner tells the controller about it. Messages are handled in call order.
class WorkerSession {
 public:
  virtual ~WorkerSession() = default;
  virtual void OnMessage(v1::WorkerMessage message) = 0;
  /// The stream is gone (peer, network or Close). Called once, last.
  virtual void OnClosed() = 0;
};

/// A receiver of a job's events. Methods are called in order, never at the same time.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// False: the receiver is too slow; the subscription ends with RESOURCE_EXHAUSTED
  /// (WATCH_TOO_SLOW), and its user resumes from the last revision it got.
  virtual bool OnEvent(const v1::JobEvent& event) = 0;
  /// No more events: OK when the job has ended.
  virtual void OnEnd(absl::Status status) = 0;
};

/// The same for log lines.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual bool OnEntry(const v1::LogEntry& entry) = 0;
  virtual void OnEnd(absl::Status status) = 0;
};

/// Ends a subscription when it is destroyed; the sink may still be called once meanwhile, so
/// sinks are shared.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

/// One sample of a Prometheus family.
struct GaugeSample {
  std::string name;                           ///< E.g. "baton_job_step".
  std::map<std::string, std::string> labels;  ///< E.g. {"job": "addition"}.
  double value = 0;
};

/// A file of a backup.
struct BackupFile {
  std::string path;        ///< Relative to the data root.
  std::string place;       ///< Where it can be read.
  int64_t size_bytes = 0;  ///< It may grow; so much of it belongs to the backup.
};

/// The files of one consistent backup, the database first. They stay for as long as this does.
class BackupFiles {
 public:
  virtual ~BackupFiles() = default;
  virtual const std::vector<BackupFile>& files() const = 0;
};

class ControllerInterface {
 public:
  virtual ~ControllerInterface() = default;

  // JobService.
  virtual void CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done) = 0;
  virtual v1::ListPresetsResponse ListPresets() const = 0;
  virtual void ValidateJob(v1::ValidateJobRequest request,
                           Callback<v1::ValidateJobResponse> done) = 0;
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
  /// The subscription is null when the call failed at once; OnEnd tells why.
  virtual std::unique_ptr<Subscription> WatchJob(v1::WatchJobRequest request,
                                                 std::shared_ptr<EventSink> sink) = 0;
  virtual std::unique_ptr<Subscription> ReadLogs(v1::ReadLogsRequest request,
                                                 std::shared_ptr<LogSink> sink) = 0;

  // ClusterService.
  virtual void ListWorkers(v1::ListWorkersRequest request,
                           Callback<v1::ListWorkersResponse> done) = 0;
  virtual void DrainWorker(v1::DrainWorkerRequest request, Callback<v1::Worker> done) = 0;
  virtual void UndrainWorker(v1::UndrainWorkerRequest request, Callback<v1::Worker> done) = 0;
  /// FAILED_PRECONDITION (BACKUP_RUNNING) while the files of an earlier one are held. Letting go of
  /// them blocks on the disk.
  virtual void Backup(Callback<std::shared_ptr<BackupFiles>> done) = 0;

  // AccessService.
  /// INVALID_ARGUMENT (PROJECT_SPEC).
  virtual void SetProject(v1::Project project, Callback<v1::Project> done) = 0;
  /// INVALID_ARGUMENT (PAGE_SIZE, PAGE_TOKEN), as of every list.
  virtual absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest& request) const = 0;
  /// Its quota and share; the defaults for one that was never set.
  virtual v1::Project ProjectNamed(const std::string& project) const = 0;

  // WorkerService. `stream` is kept until OnClosed.
  virtual std::unique_ptr<WorkerSession> Attach(std::shared_ptr<WorkerStream> stream) = 0;

  // ExperienceService: the batch's trajectories in order, all at once.
  virtual void FetchBatch(v1::FetchBatchRequest request,
                          Callback<std::vector<v1::Trajectory>> done) = 0;

  /// Where uploaded files go. Constant; lives as long as this.
  virtual Uploads* uploads() = 0;

  /// OK when requests can be served; otherwise why not (e.g. the store refuses writes).
  virtual absl::Status Ready() const = 0;
  /// The numbers of /metrics.
  virtual void Metrics(std::function<void(std::vector<GaugeSample>)> done) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_INTERFACE_H_
