// The least that the controller does for a task, behind its real API server: the task's row is
// committed before the task is sent, the result's row before it is acknowledged.
#ifndef BATON_BENCH_DISPATCH_CONTROLLER_H_
#define BATON_BENCH_DISPATCH_CONTROLLER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "controller/runtime/controller_interface.h"
#include "controller/store/store.h"

namespace baton::bench {

struct DispatchOptions {
  store::Store* store = nullptr;  ///< Null: no rows, no acknowledgements; gRPC alone.
  int window = 1;                 ///< Tasks outstanding per worker.
  size_t task_bytes = 300;        ///< Size of a serialised task.
};

/// Answers WorkerService.Attach; every other method is UNIMPLEMENTED. Thread-safe.
class DispatchController : public controller::ControllerInterface {
 public:
  explicit DispatchController(const DispatchOptions& options);
  ~DispatchController() override;

  /// Blocks until `workers` have said Hello; false at the deadline.
  bool WaitForWorkers(int workers, absl::Duration limit);
  /// Keeps every window full for `length`, then waits until all results are in.
  void RunFor(absl::Duration length);

  /// Tasks that ended in RunFor.
  int64_t finished() const;
  /// From the moment a task is given to the store to the moment its result is stored, in
  /// microseconds; without a store: from Send to the result.
  std::vector<double> TakeLatencies();
  /// What RunFor took, the last result included.
  absl::Duration elapsed() const { return elapsed_; }

  std::unique_ptr<controller::WorkerSession> Attach(
      std::shared_ptr<controller::WorkerStream> stream) override;
  absl::Status Ready() const override { return absl::OkStatus(); }
  std::string files_dir() const override { return files_dir_; }
  void set_files_dir(std::string path) { files_dir_ = std::move(path); }
  void Metrics(std::function<void(std::vector<controller::GaugeSample>)> done) override {
    done({});
  }

#define BATON_BENCH_NO(Method, Request, Response)                          \
  void Method(v1::Request, controller::Callback<Response> done) override { \
    done(absl::UnimplementedError("the bench serves Attach alone"));       \
  }
  BATON_BENCH_NO(CreateJob, CreateJobRequest, v1::Job)
  BATON_BENCH_NO(ValidateJob, ValidateJobRequest, v1::ValidateJobResponse)
  BATON_BENCH_NO(GetJob, GetJobRequest, v1::Job)
  BATON_BENCH_NO(ListJobs, ListJobsRequest, v1::ListJobsResponse)
  BATON_BENCH_NO(CancelJob, CancelJobRequest, v1::Job)
  BATON_BENCH_NO(PauseJob, PauseJobRequest, v1::Job)
  BATON_BENCH_NO(ResumeJob, ResumeJobRequest, v1::Job)
  BATON_BENCH_NO(DeleteJob, DeleteJobRequest, v1::DeleteJobResponse)
  BATON_BENCH_NO(ListMetrics, ListMetricsRequest, v1::ListMetricsResponse)
  BATON_BENCH_NO(ListTrajectories, ListTrajectoriesRequest, v1::ListTrajectoriesResponse)
  BATON_BENCH_NO(ListCheckpoints, ListCheckpointsRequest, v1::ListCheckpointsResponse)
  BATON_BENCH_NO(ExportCheckpoint, ExportCheckpointRequest, v1::ExportCheckpointResponse)
  BATON_BENCH_NO(ExplainJob, ExplainJobRequest, v1::ExplainJobResponse)
  BATON_BENCH_NO(ListWorkers, ListWorkersRequest, v1::ListWorkersResponse)
  BATON_BENCH_NO(DrainWorker, DrainWorkerRequest, v1::Worker)
  BATON_BENCH_NO(FetchBatch, FetchBatchRequest, std::vector<v1::Trajectory>)
#undef BATON_BENCH_NO
  std::unique_ptr<controller::Subscription> WatchJob(
      v1::WatchJobRequest, std::shared_ptr<controller::EventSink> sink) override {
    sink->OnEnd(absl::UnimplementedError("the bench serves Attach alone"));
    return nullptr;
  }
  std::unique_ptr<controller::Subscription> ReadLogs(
      v1::ReadLogsRequest, std::shared_ptr<controller::LogSink> sink) override {
    sink->OnEnd(absl::UnimplementedError("the bench serves Attach alone"));
    return nullptr;
  }

 private:
  struct State;
  class Session;
  const std::shared_ptr<State> state_;  // shared with sessions and commits under way
  absl::Duration elapsed_;
  std::string files_dir_;
};

/// Names of the tables that rows go to.
inline constexpr char kBenchTasks[] = "bench_tasks";
inline constexpr char kBenchResults[] = "bench_results";

}  // namespace baton::bench

#endif  // BATON_BENCH_DISPATCH_CONTROLLER_H_
