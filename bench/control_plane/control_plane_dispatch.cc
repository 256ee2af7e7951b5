// A controller that does nothing but dispatch, behind the real gRPC server and the real store.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "bench/control_plane/control_plane.h"
#include "controller/api/api_server.h"
#include "controller/store/sqlite_store.h"
#include "sdk/common/process/test_process.h"

namespace baton::bench {
namespace {

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "control_plane_bench: %s\n", message.c_str());
  std::exit(1);
}

// The command line of the workers' own process.
std::vector<std::string> WorkersCommand(const DispatchOptions& options, int port) {
  return {options.program, "worker",
          "--controller",  absl::StrCat("127.0.0.1:", port),
          "--kind",        options.kind,
          "--workers",     absl::StrCat(options.workers),
          "--credits",     absl::StrCat(options.window)};
}

// Everything but Attach is not asked for here.
class NoController : public controller::ControllerInterface {
 public:
  template <typename T>
  void No(const controller::Callback<T>& done) {
    done(absl::UnimplementedError("the bench only dispatches"));
  }
  void CreateJob(v1::CreateJobRequest, controller::Callback<v1::Job> d,
                 controller::CallerGone) override {
    No(d);
  }
  v1::ListPresetsResponse ListPresets() const override { return {}; }
  void ValidateJob(v1::ValidateJobRequest, controller::Callback<v1::ValidateJobResponse> d,
                   controller::CallerGone) override {
    No(d);
  }
  void CreateReplay(v1::CreateReplayRequest, controller::Callback<v1::Replay> d,
                    controller::CallerGone) override {
    No(d);
  }
  void GetReplay(v1::GetReplayRequest, controller::Callback<v1::Replay> d) override { No(d); }
  void GetJob(v1::GetJobRequest, controller::Callback<v1::Job> d) override { No(d); }
  void ListJobs(v1::ListJobsRequest, controller::Callback<v1::ListJobsResponse> d) override {
    No(d);
  }
  void CancelJob(v1::CancelJobRequest, controller::Callback<v1::Job> d) override { No(d); }
  void PauseJob(v1::PauseJobRequest, controller::Callback<v1::Job> d) override { No(d); }
  void ResumeJob(v1::ResumeJobRequest, controller::Callback<v1::Job> d) override { No(d); }
  void DeleteJob(v1::DeleteJobRequest, controller::Callback<v1::DeleteJobResponse> d) override {
    No(d);
  }
  void ListMetrics(v1::ListMetricsRequest,
                   controller::Callback<v1::ListMetricsResponse> d) override {
    No(d);
  }
  void ListTrajectories(v1::ListTrajectoriesRequest,
                        controller::Callback<v1::ListTrajectoriesResponse> d) override {
    No(d);
  }
  void ListCheckpoints(v1::ListCheckpointsRequest,
                       controller::Callback<v1::ListCheckpointsResponse> d) override {
    No(d);
  }
  void ExportCheckpoint(v1::ExportCheckpointRequest,
                        controller::Callback<v1::ExportCheckpointResponse> d) override {
    No(d);
  }
  void ExplainJob(v1::ExplainJobRequest, controller::Callback<v1::ExplainJobResponse> d) override {
    No(d);
  }
  std::unique_ptr<controller::Subscription> WatchJob(
      v1::WatchJobRequest, std::shared_ptr<controller::EventSink> sink) override {
    sink->OnEnd(absl::UnimplementedError("the bench only dispatches"));
    return nullptr;
  }
  std::unique_ptr<controller::Subscription> ReadLogs(
      v1::ReadLogsRequest, std::shared_ptr<controller::LogSink> sink) override {
    sink->OnEnd(absl::UnimplementedError("the bench only dispatches"));
    return nullptr;
  }
  void ListWorkers(v1::ListWorkersRequest,
                   controller::Callback<v1::ListWorkersResponse> d) override {
    No(d);
  }
  void DrainWorker(v1::DrainWorkerRequest, controller::Callback<v1::Worker> d) override { No(d); }
  void UndrainWorker(v1::UndrainWorkerRequest, controller::Callback<v1::Worker> d) override {
    No(d);
  }
  void Backup(controller::Callback<std::shared_ptr<controller::BackupFiles>> d) override { No(d); }
  void SetProject(v1::Project, controller::Callback<v1::Project> d) override { No(d); }
  absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest&) const override {
    return v1::ListProjectsResponse();
  }
  v1::Project ProjectNamed(const std::string&) const override { return {}; }
  void FetchBatch(v1::FetchBatchRequest, controller::Callback<controller::BatchPart> d) override {
    No(d);
  }
  void FetchHistory(v1::FetchHistoryRequest,
                    controller::Callback<std::shared_ptr<controller::HistoryPart>> d) override {
    No(d);
  }
  controller::Uploads* uploads() override { return nullptr; }
  absl::Status Ready() const override { return absl::OkStatus(); }
  void Metrics(std::function<void(std::vector<controller::GaugeSample>)> done) override {
    done({});
  }
};

// Gives each worker `window` tasks and a new one for each result.
class Dispatcher : public NoController {
 public:
  Dispatcher(const DispatchOptions& options, store::Store* store)
      : options_(options), store_(store) {
    v1::Task task = MakeTask(0);
    const size_t bytes = task.ByteSizeLong();
    padding_ = std::string(kTaskBytes > bytes + 8 ? kTaskBytes - bytes - 8 : 0, 'x');
    latency_us_.reserve(static_cast<size_t>(options.tasks));
  }

  std::unique_ptr<controller::WorkerSession> Attach(
      std::shared_ptr<controller::WorkerStream> stream) override {
    return std::make_unique<Session>(this, std::move(stream));
  }

  // Waits for the workers, then for all tasks. The clock runs from the first tenth of the tasks
  // (warm-up) to the last.
  DispatchResult Run() {
    std::vector<std::shared_ptr<controller::WorkerStream>> streams;
    {
      absl::MutexLock lock(&mu_);
      auto all = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return static_cast<int>(streams_.size()) == options_.workers;
      };
      if (!mu_.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30))) {
        Die("the workers did not attach");
      }
      streams = streams_;
    }
    for (int i = 0; i < options_.window; ++i) {
      for (const auto& stream : streams) StartNext(stream);
    }
    absl::MutexLock lock(&mu_);
    auto done = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return done_ == options_.tasks; };
    if (!mu_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(120))) {
      Die(absl::StrCat("only ", done_, " of ", options_.tasks, " tasks were done"));
    }
    DispatchResult result;
    result.tasks = done_;
    result.latency_us = latency_us_;
    result.tasks_per_second =
        static_cast<double>(done_ - warm_up()) / absl::ToDoubleSeconds(last_done_ - measured_from_);
    return result;
  }

 private:
  class Session : public controller::WorkerSession {
   public:
    Session(Dispatcher* dispatcher, std::shared_ptr<controller::WorkerStream> stream)
        : dispatcher_(dispatcher), stream_(std::move(stream)) {}

    void OnMessage(v1::WorkerMessage message) override {
      if (message.has_result()) {
        dispatcher_->OnResult(stream_, std::move(*message.mutable_result()));
      } else if (message.has_heartbeat()) {
        v1::ControllerMessage answer;
        answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
        answer.mutable_heartbeat_ack()->set_epoch(1);
        stream_->Send(std::move(answer));
      } else if (message.has_hello()) {
        v1::ControllerMessage answer;
        answer.mutable_welcome()->set_epoch(1);
        answer.mutable_welcome()->set_protocol(1);
        answer.mutable_welcome()->mutable_lease()->set_seconds(60);
        answer.mutable_welcome()->mutable_heartbeat_interval()->set_seconds(5);
        stream_->Send(std::move(answer));
        absl::MutexLock lock(&dispatcher_->mu_);
        dispatcher_->streams_.push_back(stream_);
      }
    }
    void OnClosed() override {}

   private:
    Dispatcher* const dispatcher_;
    const std::shared_ptr<controller::WorkerStream> stream_;
  };

  int64_t warm_up() const { return options_.tasks / 10; }

  v1::Task MakeTask(int64_t number) const {
    v1::Task task;
    task.set_task_token(absl::StrCat(absl::Dec(number, absl::kZeroPad16)));
    task.set_epoch(1);
    task.set_job("projects/default/jobs/bench");
    task.set_role("reward");
    task.set_method("compute_reward");
    task.mutable_score()->mutable_trajectory()->set_response_text(padding_);
    return task;
  }

  // -1: all tasks were given out.
  int64_t TakeNumber() {
    absl::MutexLock lock(&mu_);
    if (next_ == options_.tasks) return -1;
    started_.push_back(absl::Now());
    return next_++;
  }

  void StartNext(const std::shared_ptr<controller::WorkerStream>& stream) {
    const int64_t number = TakeNumber();
    if (number < 0) return;
    v1::Task task = MakeTask(number);
    if (store_ == nullptr) return Send(stream, std::move(task));
    store::Write row{"tasks", task.task_token(), task.SerializeAsString()};
    store_->Commit(
        {std::move(row)}, durability_,
        [stream, task = std::move(task)](absl::Status) mutable { Send(stream, std::move(task)); });
  }

  static void Send(const std::shared_ptr<controller::WorkerStream>& stream, v1::Task task) {
    v1::ControllerMessage message;
    *message.mutable_task() = std::move(task);
    stream->Send(std::move(message));
  }

  // As the runtime does: the result's row and what follows from it are one commit; then the
  // acknowledgement and the next task leave. With one task outstanding the next begins only when
  // the last is done, so that nothing of it hides in the commit before.
  void OnResult(const std::shared_ptr<controller::WorkerStream>& stream, v1::TaskResult result) {
    const std::string token = result.task_token();
    if (store_ == nullptr) {
      Done(token);
      return StartNext(stream);
    }
    std::vector<store::Write> writes;
    writes.push_back({"results", token, result.SerializeAsString()});
    const int64_t number = options_.window > 1 ? TakeNumber() : -1;
    v1::Task next;
    if (number >= 0) {
      next = MakeTask(number);
      writes.push_back({"tasks", next.task_token(), next.SerializeAsString()});
    }
    store_->Commit(std::move(writes), durability_,
                   [this, stream, token, number, next = std::move(next)](absl::Status) mutable {
                     Done(token);
                     v1::ControllerMessage ack;
                     ack.mutable_result_ack()->set_task_token(token);
                     stream->Send(std::move(ack));
                     if (number >= 0) return Send(stream, std::move(next));
                     if (options_.window == 1) StartNext(stream);
                   });
  }

  void Done(const std::string& token) {
    const absl::Time now = absl::Now();
    const auto number = static_cast<size_t>(std::strtoll(token.c_str(), nullptr, 10));
    absl::MutexLock lock(&mu_);
    ++done_;
    if (done_ == warm_up()) measured_from_ = now;
    if (done_ > warm_up()) {
      latency_us_.push_back(absl::ToDoubleMicroseconds(now - started_[number]));
    }
    last_done_ = now;
  }

  const DispatchOptions options_;
  store::Store* const store_;  // null: gRPC alone
  const store::Durability durability_ =
      options_.synced ? store::Durability::kPowerCut : store::Durability::kProcess;
  std::string padding_;

  absl::Mutex mu_;
  std::vector<std::shared_ptr<controller::WorkerStream>> streams_ ABSL_GUARDED_BY(mu_);
  std::deque<absl::Time> started_ ABSL_GUARDED_BY(mu_);
  std::vector<double> latency_us_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t done_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time measured_from_ ABSL_GUARDED_BY(mu_);
  absl::Time last_done_ ABSL_GUARDED_BY(mu_);
};

int64_t CountRows(store::Store& store, const char* table) {
  auto rows = store.Scan(table, {});
  return rows.ok() ? static_cast<int64_t>(rows->size()) : -1;
}

}  // namespace

DispatchResult MeasureDispatch(const DispatchOptions& options) {
  std::unique_ptr<store::SqliteStore> store;
  const std::string path = absl::StrCat(options.folder, "/dispatch.db");
  if (options.kind == "sdk") {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    auto opened = store::SqliteStore::Open(path);
    if (!opened.ok()) Die(opened.status().ToString());
    store = *std::move(opened);
  }
  DispatchResult result;
  {
    Dispatcher dispatcher(options, store.get());
    auto server = api::ApiServer::Start("127.0.0.1:0", api::Access(), &dispatcher);
    if (!server.ok()) Die(server.status().ToString());
    const TestProcess workers(WorkersCommand(options, (*server)->port()));
    result = dispatcher.Run();
  }
  if (store != nullptr) {
    store.reset();  // what a new process finds counts
    auto again = store::SqliteStore::Open(path);
    if (!again.ok()) Die(again.status().ToString());
    result.task_rows = CountRows(**again, "tasks");
    result.result_rows = CountRows(**again, "results");
    if (result.task_rows != result.tasks || result.result_rows != result.tasks) {
      Die(absl::StrCat("rows are missing: ", result.task_rows, " tasks and ", result.result_rows,
                       " results of ", result.tasks));
    }
  }
  return result;
}

}  // namespace baton::bench
