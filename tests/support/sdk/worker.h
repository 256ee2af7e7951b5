// Helpers of the worker tests.
#ifndef BATON_TESTS_SUPPORT_SDK_WORKER_H_
#define BATON_TESTS_SUPPORT_SDK_WORKER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "sdk/worker/fake_controller.h"
#include "sdk/worker/worker.h"

namespace baton {

/// A worker that runs on a thread of its own until this is destroyed.
class RunningWorker {
 public:
  explicit RunningWorker(const FakeController& controller,
                         const std::function<void(WorkerOptions&)>& change = nullptr) {
    WorkerOptions options;
    options.controller = controller.address();
    options.min_backoff = absl::Milliseconds(5);
    options.max_backoff = absl::Milliseconds(50);
    if (change) change(options);
    worker_ = Worker::Create(options).value();
  }
  ~RunningWorker() {
    worker_->Stop();
    if (thread_.joinable()) thread_.join();
  }

  Worker* operator->() { return worker_.get(); }
  void Start() {
    thread_ = std::thread([this] { worker_->Run().IgnoreError(); });
  }

 private:
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

inline v1::Task MakeTask(const std::string& token, const std::string& role,
                         const std::string& method) {
  v1::Task task;
  task.set_task_token(token);
  task.set_job("projects/default/jobs/test");
  task.set_role(role);
  task.set_method(method);
  return task;
}

}  // namespace baton

#endif  // BATON_TESTS_SUPPORT_SDK_WORKER_H_
