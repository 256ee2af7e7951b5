// The controller: jobs, the queue, workers' sessions, on top of a store.
//
// Threads: `strands` threads run the jobs' strands, one thread the cluster's strand, `disk` threads
// work on files, `reader` threads read lists and histories from the store. The contract of the
// public methods is in controller_interface.h.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_H_

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/strand.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/runtime/calls/asio_executors.h"
#include "controller/runtime/calls/data_readers.h"
#include "controller/runtime/cluster/cluster_runtime.h"
#include "controller/runtime/cluster/ended_jobs.h"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/controller/controller_interface.h"
#include "controller/runtime/controller/controller_options.h"
#include "controller/runtime/controller/known_calls.h"
#include "controller/runtime/controller/replay_verdicts.h"
#include "controller/runtime/files/disk_files.h"
#include "controller/runtime/files/folder_bytes.h"
#include "controller/runtime/files/job_folders.h"
#include "controller/runtime/files/path_guard.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/rows/restore_marks.h"
#include "controller/runtime/submit/contents_check.h"
#include "controller/runtime/submit/submission.h"
#include "controller/runtime/submit/waiting_submissions.h"
#include "controller/spec/step_size.h"
#include "sdk/rpc/page.h"

namespace baton::controller {

class Controller : public ControllerInterface {
 public:
  /// Takes over the store: increments its epoch, continues unfinished jobs, and gives their workers
  /// one lease to come back.
  static absl::StatusOr<std::unique_ptr<Controller>> Create(ControllerOptions options);
  /// Closes the workers' streams and waits for running work; afterwards no effect leaves.
  ~Controller() override;

  void CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done,
                 CallerGone gone = nullptr) override;
  v1::ListPresetsResponse ListPresets() const override;
  void ValidateJob(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                   CallerGone gone = nullptr) override;
  void GetJob(v1::GetJobRequest request, Callback<v1::Job> done) override;
  void ListJobs(v1::ListJobsRequest request, Callback<v1::ListJobsResponse> done) override;
  void CancelJob(v1::CancelJobRequest request, Callback<v1::Job> done) override;
  void PauseJob(v1::PauseJobRequest request, Callback<v1::Job> done) override;
  void ResumeJob(v1::ResumeJobRequest request, Callback<v1::Job> done) override;
  void DeleteJob(v1::DeleteJobRequest request, Callback<v1::DeleteJobResponse> done) override;
  void ListMetrics(v1::ListMetricsRequest request, Callback<v1::ListMetricsResponse> done) override;
  void ListTrajectories(v1::ListTrajectoriesRequest request,
                        Callback<v1::ListTrajectoriesResponse> done) override;
  void ListCheckpoints(v1::ListCheckpointsRequest request,
                       Callback<v1::ListCheckpointsResponse> done) override;
  void ExportCheckpoint(v1::ExportCheckpointRequest request,
                        Callback<v1::ExportCheckpointResponse> done) override;
  void ExplainJob(v1::ExplainJobRequest request, Callback<v1::ExplainJobResponse> done) override;
  std::unique_ptr<Subscription> WatchJob(v1::WatchJobRequest request,
                                         std::shared_ptr<EventSink> sink) override;
  std::unique_ptr<Subscription> ReadLogs(v1::ReadLogsRequest request,
                                         std::shared_ptr<LogSink> sink) override;
  void CreateReplay(v1::CreateReplayRequest request, Callback<v1::Replay> done,
                    CallerGone gone = nullptr) override;
  void GetReplay(v1::GetReplayRequest request, Callback<v1::Replay> done) override;
  void ListWorkers(v1::ListWorkersRequest request, Callback<v1::ListWorkersResponse> done) override;
  void DrainWorker(v1::DrainWorkerRequest request, Callback<v1::Worker> done) override;
  void UndrainWorker(v1::UndrainWorkerRequest request, Callback<v1::Worker> done) override;
  void Backup(Callback<std::shared_ptr<BackupFiles>> done) override;
  void SetProject(v1::Project project, Callback<v1::Project> done) override;
  absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest& request) const override;
  v1::Project ProjectNamed(const std::string& project) const override;
  std::unique_ptr<WorkerSession> Attach(std::shared_ptr<WorkerStream> stream) override;
  void FetchBatch(v1::FetchBatchRequest request, Callback<BatchPart> done) override;
  void FetchHistory(v1::FetchHistoryRequest request,
                    Callback<std::shared_ptr<HistoryPart>> done) override;
  Uploads* uploads() override { return &uploads_; }
  absl::Status Ready() const override;
  void Metrics(std::function<void(std::vector<GaugeSample>)> done) override;

 private:
  using Violations = std::vector<v1::FieldViolation>;

  explicit Controller(ControllerOptions options);
  absl::Status Restore();
  void Tick();  // on the cluster's strand

  // controller_jobs.cc.
  /// Calls `then` with the job, or `refused` with the reason that there is none. An ended job is
  /// read from its rows first (ended_jobs.h).
  template <typename Refused>
  void WithJob(const std::string& name, Refused refused,
               std::function<void(const std::shared_ptr<JobRuntime>&)> then) const {
    ended_->Find(FullJobName(name), [name, refused = std::move(refused), then = std::move(then)](
                                        const absl::StatusOr<std::shared_ptr<JobRuntime>>& job) {
      if (absl::IsNotFound(job.status())) return refused(NoSuchJob(name));
      if (!job.ok()) return refused(job.status());
      then(*job);
    });
  }
  absl::StatusOr<v1::ListJobsResponse> ReadJobs(const v1::ListJobsRequest& request,
                                                const Page& page, int64_t before);
  bool Shows(const std::string& job) const;  // blocks
  void CheckpointsOf(const std::string& name, Callback<std::vector<v1::Checkpoint>> done);
  bool AnswerRepeat(const v1::CreateJobRequest& request, const std::string& project,
                    const std::string& request_key, const Callback<v1::Job>& done);
  /// Answers a call whose answer does not depend on its files. False: the files must be read.
  bool AnswerWithoutFiles(Submission& submission);
  /// `effective` belongs to the submission, which gets its data_files and copies.
  Violations CheckFiles(v1::JobSpec* effective, Submission* submission);
  Violations CheckOffers(const Submission& submission) const;
  using Submitted = std::shared_ptr<Submission>;
  using Then = std::function<void(absl::Status)>;
  /// Finds all problems of a submission (submission->violations), completes its spec if there are
  /// none, then calls `then`. `keeps`: as ContentsCheck::Asked.
  void CheckAll(const Submitted& submission, bool keeps, Then then);
  void CheckContents(const Submitted& submission, bool keeps, Then then);
  void CheckLast(Submission* submission);
  Violations CheckSeed(const Submission& submission) const;
  Submitted NewSubmission(const std::string& project);
  uint64_t FindSize(Submission* submission);
  /// Reads and stages the submission's files, then admits it.
  void Read(const Submitted& submission);
  void Admit(const Submitted& submission);
  /// Makes the job known, and answers once its first rows are committed, `extra` among them.
  void Launch(JobCore core, int64_t order, Admitted call, std::vector<store::Write> extra,
              Callback<v1::Job> done);
  absl::StatusOr<store::v1::JobRow> FirstRow(Submission* submission, v1::Job job, int64_t order);

  // controller_replays.cc.
  struct ReplayCall;
  void AdmitReplay(const std::shared_ptr<ReplayCall>& call);
  bool AnswerKnownReplay(const std::shared_ptr<ReplayCall>& call);
  void PlanReplayOf(const std::shared_ptr<ReplayCall>& call);

  // controller_models.cc.
  /// The folder of a model that a spec names, or of its copy in the submission's `staged`.
  absl::StatusOr<std::string> FindModel(const std::string& reference, Submission* submission);
  absl::StatusOr<std::string> ResolveModel(const std::string& path, const std::string& project);
  /// The folder for "job:NAME" and the like (checkpoint_choice.h).
  absl::StatusOr<std::string> CheckpointOf(const std::string& path,
                                           const std::string& project) const;
  absl::StatusOr<std::string> StageModel(const std::string& reference, Submission* submission);

  // controller_resume.cc.
  /// `folder`: a checkpoint, by its folder or as "job:NAME", or a job's folder, which means its
  /// newest complete checkpoint.
  absl::StatusOr<Origin> FindOrigin(const std::string& folder, const std::string& project) const;
  /// The full name of a new job. ALREADY_EXISTS (JOB_EXISTS; JOB_FOLDER: files of a lost job).
  absl::StatusOr<std::string> ChooseName(const v1::CreateJobRequest& request,
                                         const std::string& project, const char* kind,
                                         int64_t order, const Origin& origin);
  absl::StatusOr<std::string> FreeName(const std::string& id, const std::string& project,
                                       const Origin& origin);
  /// Finds the checkpoint, and reads its job.json.
  absl::Status FindSaved(Submission* submission) const;
  static absl::Status ChangeSaved(const v1::JobSpec& changes, v1::Job* saved);
  /// Stages the checkpoint and applies the changes. Its own files replace uploads that are gone.
  absl::Status PrepareSaved(Submission* submission);
  absl::Status StageSaved(Submission* submission);
  absl::Status CopySaved(Submission* submission);
  absl::Status ChangeStaged(Submission* submission);
  /// Bytes to read, or to copy from another file system.
  uint64_t BytesOfSaved(const Submission& submission) const;
  /// The row of a job whose files will be in `folder`.
  absl::StatusOr<store::v1::JobRow> FromCheckpoint(const Submission& submission, v1::Job job,
                                                   int64_t order,
                                                   const std::filesystem::path& folder);
  absl::StatusOr<std::vector<v1::Checkpoint>> AdoptCheckpoints(const std::filesystem::path& folder,
                                                               const std::filesystem::path& chosen,
                                                               int64_t step) const;

  // controller_uploads.cc.
  /// Makes uploads of `project` from the copies in a checkpoint, and lets the checkpoint's spec
  /// name these uploads.
  absl::Status RestoreUploads(const std::filesystem::path& checkpoint, const std::string& project,
                              v1::JobSpec* effective);
  /// Checks a data file of a spec. PERMISSION_DENIED (PATH): it is closed to the project. The age
  /// of an upload starts again, and the spec names the upload relative to the data root.
  absl::Status OpenDataFile(const std::string& project, std::string* file);
  /// Removes uploads that no job names, soon.
  void RemoveUnnamedUploads();
  void RemoveUnnamedUploadsWhenDue(absl::Time now);  // on the cluster's strand

  void Resume(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
              const Callback<v1::Job>& done);
  void DeleteRows(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                  const Callback<v1::Job>& done);
  void DeleteLast(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                  const Callback<v1::Job>& done);
  absl::Status FinishRemovals();

  // controller_requests.cc: a call with a request id takes effect once.
  /// Changes the job, and writes the row of the request with the change (null: no request id).
  using SteerAction = std::function<void(const std::shared_ptr<JobRuntime>&, JobRuntime::ExtraRow,
                                         Callback<v1::Job>)>;
  void Steer(const SteerCall& call, Event event, std::function<absl::Status(const JobCore&)> check,
             Callback<v1::Job> done);
  void OncePerRequest(const SteerCall& call, SteerAction act, Callback<v1::Job> done);
  void ActOnce(const SteerCall& call, const SteerAction& act, Callback<v1::Job> done);
  absl::StatusOr<v1::Job> OutcomeOf(const store::v1::RequestRow& row) const;
  void EndSteer(const std::string& key, const absl::StatusOr<v1::Job>& outcome);
  void ForgetOldRequests();

  // controller_projects.cc.
  absl::Status ReadProjects();
  // On admission_: jobs whose calls meet there count at once.
  absl::Status CheckNewJob(const std::string& project) const;
  absl::Status CheckJobQuota(const std::string& project) const;
  int64_t Unfinished(const std::string& project) const;
  /// Bytes of the project's job folders that are about to be written, held until the result is
  /// destroyed. RESOURCE_EXHAUSTED (QUOTA_JOB_BYTES).
  int64_t JobBytesLimitOf(const std::string& project) const;
  absl::StatusOr<std::shared_ptr<void>> HoldJobBytes(const std::string& project, uint64_t bytes);
  void TouchActiveJobs();  // on the cluster's strand
  /// The project's own limits, or the controller's.
  StepLimits LimitsOf(const std::string& project) const;
  int64_t UploadLimitOf(const std::string& project) const;
  Violations CheckPriority(const v1::JobSpec& effective, const std::string& project) const;
  /// The limits of an admitted job. If the project's own limit was lowered since, the job may
  /// exceed it, but not the controller's limit.
  DataLimits DataLimitsOf(const std::string& job) const;

  // Constant after construction.
  ControllerOptions options_;
  const PathGuard paths_;
  RealClock clock_;
  std::unique_ptr<store::Store> store_;
  Uploads uploads_;
  FolderBytes folder_bytes_;
  std::unique_ptr<RestoreMarks> marks_;
  std::unique_ptr<DiskFiles> files_;
  RuntimeContext context_;

  JobTable jobs_;  // those that run, and few others
  std::unique_ptr<JobRestorer> restorer_;
  std::unique_ptr<EndedJobs> ended_;
  Gate gate_;
  boost::asio::thread_pool cluster_thread_{1};  // separate, so that heartbeats do not wait for jobs
  boost::asio::thread_pool disk_;
  AsioExecutors executors_;   // of jobs
  DataReaders data_readers_;  // of submissions; separate, so that jobs do not wait for them
  ReplayVerdicts verdicts_;   // on data_readers_
  ContentsCheck contents_;
  WaitingSubmissions waiting_;
  boost::asio::thread_pool remover_{1};  // removes uploads that no job names, and old requests
  boost::asio::thread_pool backups_{1};  // links all files, as long as that takes
  std::unique_ptr<TrashRemover> trash_;
  boost::asio::strand<boost::asio::thread_pool::executor_type> admission_;  // on disk_

  // On admission_: calls whose job is not committed yet, by request key.
  std::map<std::string, Admitting> admitting_;
  std::map<std::string, SteerUnderWay> steering_;  // the same for the other methods
  std::multiset<std::string> resuming_;            // jobs, once for each call

  std::unique_ptr<ClusterRuntime> cluster_;  // on cluster_thread_

  // On the cluster's strand.
  absl::Time requests_looked_at_ = absl::InfinitePast(), uploads_looked_at_ = absl::InfinitePast();
  absl::Time folders_looked_at_ = absl::InfinitePast();
  boost::asio::steady_timer timer_;

  std::atomic<bool> removal_posted_{false};
  std::atomic<bool> job_deleted_{false};  // since the last search for unnamed uploads
  std::atomic<uint64_t> next_submission_{1};
  // Shared with the files of a backup, which may outlive this.
  const std::shared_ptr<std::atomic<bool>> backup_held_ =
      std::make_shared<std::atomic<bool>>(false);

  mutable absl::Mutex mu_;
  std::map<std::string, v1::Project> projects_ ABSL_GUARDED_BY(mu_);  // with settings
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_CONTROLLER_H_
