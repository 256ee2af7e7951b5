// A JobRuntime on real threads with a store in memory, for tests.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_JOB_RUNTIME_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_JOB_RUNTIME_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "boost/asio/post.hpp"
#include "controller/experience/experience_log.h"
#include "controller/runtime/calls/asio_executors.h"
#include "controller/runtime/cluster/worker_directory.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job_files/disk_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"

namespace baton::controller {

inline v1::Job QueuedJob() {
  v1::Job job;
  job.set_name("projects/default/jobs/add");
  job.set_uid("1");
  v1::JobSpec& spec = *job.mutable_effective_spec();
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_resources()->set_rollout_workers(1);
  spec.mutable_resources()->set_reward_workers(1);
  job.mutable_dataflow()->add_score()->set_role("reward");
  return job;
}

// Messages that were sent to a worker.
class Recorder : public WorkerStream {
 public:
  void Send(v1::ControllerMessage message) override {
    absl::MutexLock lock(&mu_);
    sent_.push_back(std::move(message));
  }
  void Close(absl::Status /*status*/) override {}
  /// Waits for a task of a node that scores.
  v1::Trajectory AwaitScored(const std::string& node = "") {
    absl::MutexLock lock(&mu_);
    v1::Trajectory found;
    const auto scored = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (!message.task().has_score() || message.task().score().node() != node) continue;
        found = message.task().score().trajectory();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&scored), absl::Seconds(20));
    return found;
  }
  /// Waits for a task that scores this response.
  v1::Trajectory AwaitScoredResponse(const std::string& text) {
    absl::MutexLock lock(&mu_);
    v1::Trajectory found;
    const auto scored = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (message.task().score().trajectory().response_text() != text) continue;
        found = message.task().score().trajectory();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&scored), absl::Seconds(20));
    return found;
  }
  /// The tasks whose results were acknowledged, in order. Waits until there are at least `least`.
  std::vector<TaskRef> Acknowledged(int least = 0) {
    absl::MutexLock lock(&mu_);
    const auto told = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return std::count_if(sent_.begin(), sent_.end(), [](const v1::ControllerMessage& message) {
               return message.has_result_ack();
             }) >= least;
    };
    mu_.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(20));
    std::vector<TaskRef> refs;
    for (const v1::ControllerMessage& message : sent_) {
      if (!message.has_result_ack()) continue;
      refs.push_back(DecodeToken(message.result_ack().task_token())->ref);
    }
    return refs;
  }
  /// Waits for the task that generates a trajectory.
  v1::Generate AwaitGenerate(const std::string& trajectory) {
    absl::MutexLock lock(&mu_);
    v1::Generate found;
    const auto asked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (message.task().generate().trajectory_id() != trajectory) continue;
        found = message.task().generate();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&asked), absl::Seconds(20));
    return found;
  }
  /// Waits for a task that saves.
  std::optional<TaskToken> AwaitSaveToken() {
    if (AwaitSaves(1).empty()) return std::nullopt;
    absl::MutexLock lock(&mu_);
    for (const v1::ControllerMessage& message : sent_) {
      if (message.task().has_save_checkpoint()) return DecodeToken(message.task().task_token());
    }
    return std::nullopt;
  }
  /// Waits for so many tasks that save; the folders that they name.
  std::vector<std::string> AwaitSaves(size_t count, absl::Duration limit = absl::Seconds(20)) {
    absl::MutexLock lock(&mu_);
    std::vector<std::string> folders;
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      folders.clear();
      for (const v1::ControllerMessage& message : sent_) {
        if (!message.task().has_save_checkpoint()) continue;
        folders.push_back(message.task().save_checkpoint().directory());
      }
      return folders.size() >= count;
    };
    mu_.AwaitWithTimeout(absl::Condition(&enough), limit);
    return folders;
  }

 private:
  absl::Mutex mu_;
  std::vector<v1::ControllerMessage> sent_ ABSL_GUARDED_BY(mu_);
};

// A queue that has no worker to grant.
struct EmptyQueue : public WorkerQueue {
  void Need(const std::string& /*job*/, const NeedWorkers& /*need*/) override {}
  void Return(const std::string& /*job*/, const ReturnWorker& /*worker*/) override {}
  void Publishes(const std::string& /*job*/, const std::string& /*worker*/) override {}
  void Leave(const std::string& /*job*/) override {}
  void Quarantine(const std::string& /*job*/) override {}
};

// The parts of a second controller that jobs need over the data of a first.
struct RestartedController {
  /// `root`: an empty folder. The job's data are in its data.jsonl.
  RestartedController(std::string root, const std::string& data) : root(std::move(root)) {
    std::filesystem::create_directories(this->root);
    std::ofstream(this->root + "/data.jsonl") << data << "\n";
    context.epoch = 2;
    context.executors = &executors;
    context.clock = &clock;
    context.store = &store;
    context.files = &files;
    context.workers = &workers;
    context.queue = &queue;
  }
  ~RestartedController() {
    gate.Close();
    executors.Join();
    disk.join();
    std::filesystem::remove_all(root);
  }

  std::shared_ptr<JobRuntime> Start(
      const store::v1::JobRow& row,
      const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories = {}) {
    const auto job = std::make_shared<JobRuntime>(
        &context, JobCore(row, trajectories, context.epoch, context.core), 1, /*stored=*/true);
    absl::Notification started;
    job->Start({}, [&] { started.Notify(); });
    started.WaitForNotification();
    return job;
  }

  const std::string root;
  boost::asio::thread_pool disk{1};
  Gate gate;
  AsioExecutors executors{AsioExecutors::Options(), &gate, &disk};
  store::MemoryStore store;
  DiskFiles files{root, nullptr, nullptr};
  WorkerDirectory workers;
  EmptyQueue queue;
  RealClock clock;
  RuntimeContext context;
};

inline std::string EmptyRoot(const std::string& name) {
  const std::string root = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(root);
  return root;
}

// The first response of step 1, generated; its payload lies at `at`.
inline store::v1::TrajectoryRow GeneratedRow(const experience::Location& at) {
  store::v1::TrajectoryRow row;
  row.set_id(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
  row.set_purpose(v1::PURPOSE_TRAIN);
  row.set_step(1);
  row.set_incarnation(1);
  row.set_trajectory_uid(1);
  row.set_policy_version(1);
  row.set_tokens(1);
  row.set_file(at.file);
  row.set_offset(at.offset);
  row.set_size(at.size);
  return row;
}

// The row of a job that runs: its first version is published, and `workers` ("ROLE-i") play its
// roles.
inline store::v1::JobRow RunningRow(const std::vector<std::string>& workers) {
  store::v1::JobRow row;
  *row.mutable_job() = QueuedJob();
  row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
  row.mutable_job()->set_revision(1);
  row.mutable_job()->set_total_steps(9);
  row.mutable_job()->set_policy_version(1);
  row.mutable_job()->mutable_effective_spec()->mutable_data()->add_train_files("data.jsonl");
  row.set_published_version(1);
  row.set_evaluated_step(0);
  for (const std::string& worker : workers) {
    store::v1::SlotRow& slot = *row.add_slots();
    slot.set_role(worker.substr(0, worker.find('-')));
    slot.set_worker_id(worker);
    slot.set_ready(true);
    slot.set_credits(8);
  }
  return row;
}

// The first controller began the step in progress: all its prompt groups are open.
inline void OpenGroups(store::v1::JobRow& row) {
  const v1::JobSpec& spec = row.job().effective_spec();
  store::v1::OpenPrompts& open = *row.add_open_prompts();
  open.set_count(static_cast<uint64_t>(spec.data().train_batch_size()));
  open.set_per_prompt(static_cast<uint32_t>(spec.rollout().n()));
  open.set_first_uid(1);
  row.set_next_trajectory_uid(1 + open.count() * open.per_prompt());
}

template <typename T>
inline void AddColumn(v1::TaskResult& result, const std::string& name, v1::DataType dtype,
                      const std::vector<T>& values) {
  v1::Column& column = *result.add_columns();
  column.set_name(name);
  column.set_dtype(dtype);
  column.set_data(values.data(), values.size() * sizeof(T));
}

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_JOB_RUNTIME_H_
