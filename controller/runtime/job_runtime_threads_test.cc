// A whole job on the shipped threads, with workers and callers on threads of their own. The thread
// sanitizer runs it, so it links no gRPC.
#include <atomic>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "boost/asio/post.hpp"
#include "controller/core/spec.h"
#include "controller/ports/fake_job_files.h"
#include "controller/runtime/asio_executors.h"
#include "controller/runtime/job_runtime.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

constexpr int kSteps = 3;

v1::Job SmallJob() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(4);
  spec.mutable_rollout()->set_n(2);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_resources()->set_rollout_workers(2);
  spec.mutable_trainer()->set_total_training_steps(kSteps);
  spec.mutable_trainer()->set_save_freq(1);
  const CheckedSpec checked = CheckSpec(spec);
  v1::Job job;
  job.set_name("projects/default/jobs/small");
  job.set_uid("1");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

JobData SmallData() {
  JobData data;
  for (const char* prompt : {"1+1=", "1+2=", "2+2="}) {
    Example& example = data.train.examples.emplace_back();
    example.prompt = prompt;
    example.answer = "2";
  }
  return data;
}

template <typename T>
void AddResultColumn(v1::TaskResult& result, const std::string& name, v1::DataType dtype,
                     const std::vector<T>& values) {
  v1::Column& column = *result.add_columns();
  column.set_name(name);
  column.set_dtype(dtype);
  column.set_data(values.data(), values.size() * sizeof(T));
}

// Workers that do at once what they are asked, and a queue that has one for each seat.
class WillingWorkers : public WorkerOutbox, public WorkerQueue {
 public:
  ~WillingWorkers() override { threads_.join(); }
  void Serve(std::shared_ptr<JobRuntime> job) { job_ = std::move(job); }

  void Send(const std::string& worker, v1::ControllerMessage message) override {
    if (!message.has_task()) return;
    boost::asio::post(threads_, [this, worker, task = std::move(*message.mutable_task())] {
      const auto token = DecodeToken(task.task_token());
      if (task.has_generate()) Progress(worker, token->ref, task);
      job_->OnResult(worker, token->ref, Answer(task));
    });
  }
  bool Promises(const std::string& /*worker*/, const std::string& /*feature*/) const override {
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
  void Leave(const std::string& /*job*/) override {}

 private:
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

  std::shared_ptr<JobRuntime> job_;
  std::atomic<int> next_{0};
  boost::asio::thread_pool threads_{3};
};

// Hears the end of a job.
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

TEST(JobRuntimeThreadsTest, AJobRunsWhileItIsAskedAndTold) {
  boost::asio::thread_pool disk(2);
  Gate gate;
  AsioExecutors executors({2, 1, 1}, &gate, &disk);
  store::MemoryStore store;
  RealClock clock;
  FakeJobFiles files(SmallData());
  auto sink = std::make_shared<EndSink>();
  std::shared_ptr<JobRuntime> job;
  RuntimeContext context;
  {
    WillingWorkers workers;
    context.executors = &executors;
    context.clock = &clock;
    context.store = &store;
    context.files = &files;
    context.workers = &workers;
    context.queue = &workers;
    context.kept = {1000, 1000, 1000};
    job = std::make_shared<JobRuntime>(&context, JobCore(SmallJob(), 1, context.core), 1, false);
    workers.Serve(job);
    const auto subscription = job->Watch(0, sink);
    const auto started = std::make_shared<std::latch>(1);
    job->Start({}, [started] { started->count_down(); });
    started->wait();
    std::atomic<bool> over{false};
    std::thread caller([&] {
      while (!over) {
        job->Tick();
        job->Explain(
            [](const absl::StatusOr<v1::ExplainJobResponse>& why) { EXPECT_TRUE(why.ok()); });
        EXPECT_EQ(job->Snapshot().name(), job->name());
        const auto answered = std::make_shared<std::latch>(1);
        job->Describe([answered](const absl::StatusOr<v1::Job>& described) {
          EXPECT_TRUE(described.ok());
          answered->count_down();
        });
        answered->wait();
      }
    });
    sink->WaitForEnd();
    over = true;
    caller.join();
    gate.Close();
    executors.Join();
    disk.join();
  }
  EXPECT_EQ(job->state(), v1::Job::STATE_SUCCEEDED) << job->Brief().error().message();
  EXPECT_EQ(job->Brief().step(), kSteps);
  EXPECT_TRUE(sink->in_order());
  EXPECT_EQ(files.checkpoints().count(kSteps), 1u);
  EXPECT_EQ(files.records(), kSteps * 4u * 2u);
}

}  // namespace
}  // namespace baton::controller
