// Workers whose token is bound to one project: their reports on other projects' jobs are dropped.
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {
namespace {

using ::testing::Contains;
using ::testing::Not;

class BoundWorkerTest : public ::testing::Test {
 protected:
  BoundWorkerTest() {
    folder_.Write("train.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
    Start();
    v1::CreateJobRequest request;
    request.set_project("a");
    request.set_job_id("add");
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_kind(v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_data()->add_train_files(folder_.path("train.jsonl"));
    spec.mutable_data()->set_train_batch_size(1);
    spec.mutable_data()->set_max_response_length(8);
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(2);
    auto job = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
    EXPECT_TRUE(job.ok()) << job.status();
    job_ = *job;
  }

  void Start() {
    controller_.reset();
    ControllerOptions options;
    options.data_root = folder_.path();
    options.store = std::make_unique<SharedStore>(store_);
    auto controller = Controller::Create(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  struct Worker {
    std::shared_ptr<FakeStream> stream;
    std::unique_ptr<WorkerSession> session;
    Worker() = default;
    Worker(Worker&&) = default;
    ~Worker() {
      if (session != nullptr) session->OnClosed();
    }
  };
  Worker Attach(const std::string& id, const std::string& project, bool exports = false) {
    Worker worker;
    worker.stream = std::make_shared<FakeStream>(project);
    worker.session = controller_->Attach(worker.stream);
    v1::WorkerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_worker_id(id);
    hello.set_instance_id("one");
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    if (exports) {
      hello.add_methods()->set_role("actor");
      hello.mutable_methods(0)->set_method("export");
    }
    worker.session->OnMessage(message);
    EXPECT_TRUE(worker.stream->Message(0).has_welcome());
    return worker;
  }

  v1::WorkerMessage ResultOf(const std::string& token) const {
    v1::WorkerMessage message;
    message.mutable_result()->set_task_token(token);
    return message;
  }
  std::string TokenOfTheJob() const {
    TaskRef ref;
    ref.kind = TaskKind::kGenerate;
    return EncodeToken({absl::StrCat(job_.name(), "#", job_.uid()), ref});
  }
  v1::WorkerMessage LogLine(const std::string& text) const {
    v1::WorkerMessage message;
    message.mutable_log()->set_job(job_.name());
    message.mutable_log()->set_level("INFO");
    message.mutable_log()->set_message(text);
    return message;
  }
  // Returns once all earlier messages have reached the cluster's strand, and then the job's.
  void Settle() {
    ASSERT_TRUE(
        Wait<v1::ListWorkersResponse>([&](auto d) { controller_->ListWorkers({}, d); }).ok());
    v1::ExplainJobRequest explain;
    explain.set_name(job_.name());
    ASSERT_TRUE(
        Wait<v1::ExplainJobResponse>([&](auto d) { controller_->ExplainJob(explain, d); }).ok());
  }

  const TestFolder folder_;
  const std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
  v1::Job job_;
};

// A job acknowledges a result after the rows that came before it; a result that belongs to no job
// waits for no row.
TEST_F(BoundWorkerTest, AResultReachesOnlyAJobOfItsProject) {
  Worker own = Attach("own", "a"), all = Attach("all", "*"), other = Attach("other", "b");
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  own.session->OnMessage(LogLine("its row waits"));
  for (const Worker* worker : {&own, &all, &other}) {
    worker->session->OnMessage(ResultOf(TokenOfTheJob()));
  }
  EXPECT_EQ(other.stream->Message(1).result_ack().task_token(), TokenOfTheJob());
  Settle();
  EXPECT_EQ(own.stream->size(), 1u);
  EXPECT_EQ(all.stream->size(), 1u);
  store_->FailWith(absl::OkStatus());
  EXPECT_EQ(own.stream->Message(1).result_ack().task_token(), TokenOfTheJob());
  EXPECT_EQ(all.stream->Message(1).result_ack().task_token(), TokenOfTheJob());
}

class CollectedLines : public LogSink {
 public:
  bool OnEntry(const v1::LogEntry& entry) override {
    lines_.push_back(entry.message());
    return true;
  }
  void OnEnd(absl::Status) override { ended_.Notify(); }
  const std::vector<std::string>& WaitForEnd() {
    ended_.WaitForNotification();
    return lines_;
  }

 private:
  std::vector<std::string> lines_;  // complete once it has ended
  absl::Notification ended_;
};

TEST_F(BoundWorkerTest, DeliversALogLineOnlyToAJobOfItsProject) {
  Worker own = Attach("own", "a"), other = Attach("other", "b");
  other.session->OnMessage(LogLine("from outside"));
  own.session->OnMessage(LogLine("from inside"));
  Settle();
  v1::ReadLogsRequest request;
  request.set_name(job_.name());
  auto lines = std::make_shared<CollectedLines>();
  const auto subscription = controller_->ReadLogs(request, lines);
  EXPECT_THAT(lines->WaitForEnd(), Contains("from inside"));
  EXPECT_THAT(lines->WaitForEnd(), Not(Contains("from outside")));
}

TEST_F(BoundWorkerTest, AnExportIsAskedOfAWorkerOfTheProjectAndAnsweredByItAlone) {
  v1::CancelJobRequest cancel;
  cancel.set_name(job_.name());
  ASSERT_TRUE(Wait<v1::Job>([&](auto d) { controller_->CancelJob(cancel, d); }).ok());
  controller_.reset();
  v1::Checkpoint checkpoint;
  checkpoint.set_step(1);
  checkpoint.set_path(folder_.path("jobs/a/add/checkpoints/step-1"));
  absl::Notification kept;
  store_->Commit({{kCheckpointTable, NumberKey(job_.name(), 1), checkpoint.SerializeAsString()}},
                 [&](const absl::Status&) { kept.Notify(); });
  kept.WaitForNotification();
  Start();
  // The first worker by name belongs to another project.
  Worker other = Attach("a-other", "b", true), own = Attach("b-own", "a", true),
         second = Attach("c-second", "a", true);
  v1::ExportCheckpointRequest request;
  request.set_name(job_.name());
  request.set_directory("/tmp/exported");
  absl::Notification done;
  absl::StatusOr<v1::ExportCheckpointResponse> answer = absl::UnknownError("none");
  controller_->ExportCheckpoint(request, [&](absl::StatusOr<v1::ExportCheckpointResponse> got) {
    answer = std::move(got);
    done.Notify();
  });
  const v1::ControllerMessage task = own.stream->Message(1);
  ASSERT_EQ(task.task().method(), "export");
  for (Worker* liar : {&other, &second}) {
    liar->session->OnMessage(ResultOf(task.task().task_token()));
    EXPECT_TRUE(liar->stream->Message(1).has_result_ack());
  }
  Settle();
  EXPECT_FALSE(done.HasBeenNotified()) << "it was not theirs";
  EXPECT_EQ(task.task().export_().dtype(), "float32") << "a coarser one rounds the update away";
  v1::WorkerMessage exported = ResultOf(task.task().task_token());
  (*exported.mutable_result()->mutable_metrics())["changed_weights"] = 1000;
  (*exported.mutable_result()->mutable_metrics())["kept_weights"] = 87;
  own.session->OnMessage(exported);
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->directory(), "/tmp/exported");
  EXPECT_EQ(answer->dtype(), "float32");
  EXPECT_EQ(answer->changed_weights(), 1000);
  EXPECT_EQ(answer->kept_weights(), 87);
}

}  // namespace
}  // namespace baton::controller
