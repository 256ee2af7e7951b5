// The controller: jobs, the queue, workers' sessions, on top of a store.
//
// Threads: `strands` threads run the jobs' strands, one of its own the queue's, `disk` threads
// files, `reader` threads what lists and histories read of the store. See controller_interface.h
// for the contract of the public methods.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_H_

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/strand.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/core/cluster_core.h"
#include "controller/core/step_size.h"
#include "controller/runtime/controller_interface.h"
#include "controller/runtime/controller_options.h"
#include "controller/runtime/data_readers.h"
#include "controller/runtime/job_folders.h"
#include "controller/runtime/job_runtime.h"
#include "controller/runtime/lease_book.h"
#include "controller/runtime/path_guard.h"
#include "controller/runtime/restore_marks.h"
#include "controller/runtime/submission.h"
#include "controller/runtime/uploads.h"

namespace baton::controller {

class Controller : public ControllerInterface {
 public:
  /// Takes the store over: its epoch grows, its unfinished jobs go on, their workers have one
  /// lease to come back.
  static absl::StatusOr<std::unique_ptr<Controller>> Create(ControllerOptions options);
  /// Closes the workers' streams, waits for what is under way; nothing leaves afterwards.
  ~Controller() override;

  void CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done) override;
  v1::ListPresetsResponse ListPresets() const override;
  void ValidateJob(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done) override;
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
  void ListWorkers(v1::ListWorkersRequest request, Callback<v1::ListWorkersResponse> done) override;
  void DrainWorker(v1::DrainWorkerRequest request, Callback<v1::Worker> done) override;
  void UndrainWorker(v1::UndrainWorkerRequest request, Callback<v1::Worker> done) override;
  void Backup(Callback<std::shared_ptr<BackupFiles>> done) override;
  void SetProject(v1::Project project, Callback<v1::Project> done) override;
  absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest& request) const override;
  v1::Project ProjectNamed(const std::string& project) const override;
  std::unique_ptr<WorkerSession> Attach(std::shared_ptr<WorkerStream> stream) override;
  void FetchBatch(v1::FetchBatchRequest request,
                  Callback<std::vector<v1::Trajectory>> done) override;
  Uploads* uploads() override { return &uploads_; }
  absl::Status Ready() const override;
  void Metrics(std::function<void(std::vector<GaugeSample>)> done) override;

 private:
  class Session;
  struct SessionState;
  struct PendingExport {
    std::string directory, dtype;
    int64_t step = 0;
    Callback<v1::ExportCheckpointResponse> done;
    std::string worker;
    absl::Time seen;  // the worker was attached
    absl::Time deadline;
  };

  explicit Controller(ControllerOptions options);
  absl::Status Restore();
  absl::Status CommitNow(std::vector<store::Write> writes);

  // controller_restore.cc.
  absl::Status RestoreSpec(const std::string& name, v1::Job* job);
  absl::Status ReadRestores();
  absl::StatusOr<std::shared_ptr<JobRuntime>> RestoreJob(const store::Row& stored);
  std::shared_ptr<JobRuntime> SetAside(const store::Row& stored, const std::string& reason);
  absl::StatusOr<std::vector<std::shared_ptr<JobRuntime>>> RestoreJobs();

  // controller_jobs.cc.
  /// A job that is in the store.
  absl::StatusOr<std::shared_ptr<JobRuntime>> FindJob(const std::string& name) const;
  /// The job that the token was made for; null: it is no more.
  std::shared_ptr<JobRuntime> FindJobOf(const TaskToken& token) const;
  bool AnswerRepeat(const v1::CreateJobRequest& request, const std::string& project,
                    const std::string& request_key, const Callback<v1::Job>& done);
  /// What a call is answered whatever its files are; false: they are looked at.
  bool AnswerWithoutFiles(const Submission& submission);
  /// `of_jobs`: as in Submission.
  std::vector<v1::FieldViolation> CheckFiles(v1::JobSpec* effective, const std::string& project,
                                             std::map<std::string, std::string>* of_jobs);
  std::vector<v1::FieldViolation> CheckMethods(const v1::Dataflow& dataflow) const;
  /// All that is wrong with a spec; `checked` is complete when that is nothing.
  std::vector<v1::FieldViolation> CheckAll(const v1::JobSpec& spec, const std::string& project,
                                           CheckedSpec* checked,
                                           std::map<std::string, std::string>* of_jobs);
  uint64_t DataBytes(const v1::DataSpec& data) const;
  uint64_t FindSize(Submission* submission);
  absl::Status Read(Submission* submission);
  absl::StatusOr<std::string> ResolveModel(const std::string& path, const std::string& project);
  absl::Status CopyModels(const Submission& submission, v1::JobSpec* effective,
                          StagedFolder* staged);
  void Admit(const std::shared_ptr<Submission>& submission);
  absl::StatusOr<store::v1::JobRow> FirstRow(Submission* submission, v1::Job job, int64_t order);
  /// The job's first row; what it needs of files is staged.
  absl::StatusOr<store::v1::JobRow> FromSpec(Submission* submission, v1::Job job,
                                             StagedFolder* staged);

  // controller_resume.cc.
  /// `folder`: a checkpoint, or a job's folder, which means its newest complete checkpoint.
  absl::StatusOr<Origin> FindOrigin(const std::string& folder, const std::string& project) const;
  /// The full name of a job to be. ALREADY_EXISTS (JOB_EXISTS; JOB_FOLDER: files of a lost job).
  absl::StatusOr<std::string> ChooseName(const v1::CreateJobRequest& request,
                                         const std::string& project, const char* kind,
                                         int64_t order, const Origin& origin);
  absl::StatusOr<std::string> FreeName(const std::string& id, const std::string& project,
                                       const Origin& origin);
  /// Finds the checkpoint, and reads what it says of its job.
  absl::Status FindSaved(Submission* submission) const;
  /// Checks what its spec names, from the checkpoint's own files where they are not here.
  absl::Status ReadSaved(Submission* submission);
  /// As FromSpec.
  absl::StatusOr<store::v1::JobRow> FromCheckpoint(const Submission& submission, v1::Job job,
                                                   int64_t order, StagedFolder* staged);
  absl::StatusOr<std::vector<v1::Checkpoint>> AdoptCheckpoints(const std::filesystem::path& folder,
                                                               const std::filesystem::path& chosen,
                                                               int64_t step) const;

  // controller_uploads.cc.
  /// Puts the uploads of a checkpoint's spec among those of `project`, from the copies that the
  /// checkpoint has, and lets the spec name them there.
  absl::Status RestoreUploads(const std::filesystem::path& checkpoint, const std::string& project,
                              v1::JobSpec* effective);
  /// A file that a spec names as data: open to the project, and an upload of its own is young again
  /// and named by its path relative to the data root. PERMISSION_DENIED (PATH).
  absl::Status OpenDataFile(const std::string& project, std::string* file);
  /// Removes uploads that no job names, soon.
  void RemoveUnnamedUploads();
  void RemoveUnnamedUploadsWhenDue(absl::Time now);  // on cluster_strand_
  bool JobNamesUpload(const std::string& project, const std::string& path) const;

  void Delete(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
              const Callback<v1::Job>& done);
  absl::Status FinishRemovals();
  absl::StatusOr<std::vector<store::Write>> RowsOf(const std::string& name, size_t limit);
  absl::Status ReadRequests();
  template <typename T>
  void OnDisk(Callback<T> done, std::function<absl::StatusOr<T>()> work) {
    gate_.Post(disk_.get_executor(),
               [done = std::move(done), work = std::move(work)] { done(work()); });
  }

  // controller_requests.cc: calls with a request id happen once.
  struct SteerCall {
    const char* method;
    std::string name;
    std::string request_id;
  };
  struct SteerUnderWay {
    std::string method, job;
    std::vector<Callback<v1::Job>> waiting;  // repeats of the same call
  };
  /// Acts on the job, and writes the row with what it does (null: there is no request id).
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
  absl::Status CheckJobQuota(const std::string& project) const;
  /// The project's own limits, or the controller's.
  StepLimits LimitsOf(const std::string& project) const;
  int64_t UploadLimitOf(const std::string& project) const;
  /// Of a job that was admitted: a project's own limit, lowered since, ends none that is within
  /// the controller's.
  DataLimits DataLimitsOf(const std::string& job) const;

  // controller_drains.cc.
  absl::Status ReadDrains();
  void SetDrained(const std::string& worker, const std::string& reason,
                  const Callback<v1::Worker>& done);
  v1::Worker WorkerNamed(const std::string& worker) const;  // on cluster_strand_

  // controller_workers.cc.
  void OnCluster(std::function<void()> work);
  void TakeHeartbeats();
  void Apply(const ClusterEffects& effects);
  void Back(const ClusterBack& back);
  void Tick();
  void CloseSilentStreams(absl::Time now);
  void ExpireExports(absl::Time now);
  void SendExport(const std::string& job, const std::string& checkpoint, PendingExport pending);
  void OnExportResult(const std::string& worker, const TaskRef& ref, const v1::TaskResult& result);

  // Constant after construction.
  ControllerOptions options_;
  const PathGuard paths_;
  RealClock clock_;
  std::unique_ptr<store::Store> store_;
  Uploads uploads_;
  std::unique_ptr<RestoreMarks> marks_;
  RuntimeContext context_;
  std::map<std::string, store::v1::RestoreRow> restores_;  // as this controller found them

  WorkerDirectory directory_;
  LeaseBook leases_;
  Gate gate_;
  boost::asio::thread_pool strands_;
  boost::asio::thread_pool cluster_thread_{1};  // heartbeats wait for no job's work
  boost::asio::thread_pool disk_;
  boost::asio::thread_pool readers_;  // of lists and histories: no write waits for them
  DataReaders data_readers_;
  boost::asio::thread_pool remover_{1};  // of uploads that no job names
  boost::asio::strand<boost::asio::thread_pool::executor_type> cluster_strand_;
  boost::asio::strand<boost::asio::thread_pool::executor_type> admission_;  // on disk_

  // On admission_: calls whose job is not committed yet, by request key.
  struct Admitting {
    std::shared_ptr<JobRuntime> job;
    std::string checkpoint;
  };
  std::map<std::string, Admitting> admitting_;
  std::map<std::string, SteerUnderWay> steering_;  // likewise, of the other methods

  // On cluster_strand_.
  std::unique_ptr<ClusterCore> cluster_;
  std::map<uint64_t, std::shared_ptr<SessionState>> sessions_;
  std::map<uint64_t, PendingExport> exports_;
  uint64_t next_export_ = 1;
  bool in_turn_ = false;
  boost::asio::steady_timer timer_;

  absl::Time requests_looked_at_ = absl::InfinitePast();  // on cluster_strand_
  absl::Time uploads_looked_at_ = absl::InfinitePast();   // on cluster_strand_
  std::atomic<bool> removal_posted_{false};
  std::atomic<bool> job_deleted_{false};  // since uploads were looked at

  std::atomic<uint64_t> next_session_{1};
  // Shared with the files of a backup, which may outlive this.
  const std::shared_ptr<std::atomic<bool>> backup_held_ =
      std::make_shared<std::atomic<bool>>(false);

  mutable absl::Mutex mu_;
  std::map<std::string, std::shared_ptr<JobRuntime>> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> order_ ABSL_GUARDED_BY(mu_);
  int64_t next_order_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<std::string, std::vector<std::string>> requests_of_ ABSL_GUARDED_BY(mu_);  // by job
  std::map<std::string, v1::Project> projects_ ABSL_GUARDED_BY(mu_);  // that were set
};

/// "projects/default/jobs/x" for "x"; a full name is left as it is.
std::string FullJobName(const std::string& name, const std::string& project = "default");

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_H_
