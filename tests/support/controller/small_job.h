// A small job for tests that run a whole job on the shipped threads, with workers that do what they
// are asked, and a listener for the job's end. Links no gRPC.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_SMALL_JOB_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_SMALL_JOB_H_

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/ports/fake_job_files.h"
#include "controller/runtime/calls/asio_executors.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/spec/job_spec/spec.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"

namespace baton::controller {

inline constexpr int kSmallJobSteps = 3;

/// Eight responses a step, of four prompts. `edit` changes its spec.
inline v1::Job SmallJob(const std::function<void(v1::JobSpec*)>& edit = nullptr) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(4);
  spec.mutable_rollout()->set_n(2);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_resources()->set_rollout_workers(2);
  spec.mutable_trainer()->set_total_training_steps(kSmallJobSteps);
  spec.mutable_trainer()->set_save_freq(1);
  if (edit) edit(&spec);
  const CheckedSpec checked = CheckSpec(spec);
  for (const auto& v : checked.violations) ADD_FAILURE() << v.field() << ": " << v.description();
  v1::Job job;
  job.set_name("projects/default/jobs/small");
  job.set_uid("1");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

inline JobData SmallData() {
  DataSet train;
  for (const char* prompt : {"1+1=", "1+2=", "2+2="}) {
    Example& example = train.examples.emplace_back();
    example.prompt = prompt;
    example.answer = "2";
  }
  return MakeJobData(std::move(train));
}

template <typename T>
void AddResultColumn(v1::TaskResult& result, const std::string& name, v1::DataType dtype,
                     const std::vector<T>& values) {
  v1::Column& column = *result.add_columns();
  column.set_name(name);
  column.set_dtype(dtype);
  column.set_data(values.data(), values.size() * sizeof(T));
}

/// Workers that do at once what they are asked, and a queue that has one for each worker slot.
class WillingWorkers : public WorkerOutbox, public WorkerQueue {
 public:
  ~WillingWorkers() override { Join(); }
  /// Call it first in the destructor of a class that overrides Do.
  void Join() { threads_.join(); }
  void Serve(std::shared_ptr<JobRuntime> job) { job_ = std::move(job); }

  void Send(const std::string& worker, v1::ControllerMessage message) override {
    if (!message.has_task()) return;
    boost::asio::post(threads_, [this, worker, task = std::move(*message.mutable_task())] {
      Do(worker, DecodeToken(task.task_token())->ref, task);
    });
  }
  bool HasFeature(const std::string& /*worker*/, const std::string& /*feature*/) const override {
    return true;
  }
  std::string GroupStoreOf(const std::string& /*worker*/) const override { return "here"; }

  void Need(const std::string& /*job*/, const NeedWorkers& need) override {
    boost::asio::post(threads_, [this, need] {
      for (const auto& [roles, missing] : need.missing) {
        for (int i = 0; i < missing; ++i) {
          const std::string name = roles + "-" + std::to_string(next_++);
          job_->Post(WorkerGranted{name, roles, {{roles, 4}}});
        }
      }
    });
  }
  void Return(const std::string& /*job*/, const ReturnWorker& /*worker*/) override {}
  void Publishes(const std::string& /*job*/, const std::string& /*worker*/) override {}
  void Leave(const std::string& /*job*/) override {}
  void Quarantine(const std::string& /*job*/) override {}

 protected:
  /// On a thread of the workers.
  virtual void Do(const std::string& worker, const TaskRef& ref, const v1::Task& task) {
    if (task.has_generate()) Progress(worker, ref, task);
    job_->OnResult(worker, ref, Answer(task));
  }
  JobRuntime& job() { return *job_; }
  void Progress(const std::string& worker, const TaskRef& ref, const v1::Task& task) {
    v1::Progress progress;
    progress.set_task_token(task.task_token());
    progress.add_tokens(1);
    progress.add_log_probs(-1);
    job_->OnProgress(worker, ref, progress);
  }
  static v1::TaskResult Answer(const v1::Task& task) {
    v1::TaskResult result;
    if (task.has_generate()) {
      AddResultColumn<int32_t>(result, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
      AddResultColumn<int32_t>(result, "tokens", v1::DATA_TYPE_INT32, {1, 3});
      AddResultColumn<float>(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, {-1, -2});
    } else if (task.has_score()) {
      (*result.mutable_metrics())["reward"] = task.score().trajectory().sample_index();
    }
    return result;
  }

 private:
  std::shared_ptr<JobRuntime> job_;
  std::atomic<int> next_{0};
  boost::asio::thread_pool threads_{3};
};

/// Hears the end of a job.
class EndSink : public EventSink {
 public:
  bool OnEvent(const v1::JobEvent& event) override {
    if (event.revision() == 0) return true;  // not kept
    in_order_ = in_order_ && event.revision() == last_ + 1;
    last_ = event.revision();
    return true;
  }
  void OnEnd(absl::Status /*status*/) override { ended_.count_down(); }
  void WaitForEnd() { ended_.wait(); }
  bool in_order() const { return in_order_; }

 private:
  int64_t last_ = 0;
  bool in_order_ = true;
  std::latch ended_{1};
};

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_SMALL_JOB_H_
