// The controller without workers: what it answers, refuses and keeps. Jobs that run are in
// tests/end_to_end.
#include "controller/runtime/controller.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Hands a store to a controller and keeps it for the next one, as a file would be kept.
class SharedStore : public store::Store {
 public:
  explicit SharedStore(std::shared_ptr<store::MemoryStore> store) : store_(std::move(store)) {}
  void Commit(std::vector<store::Write> writes, Done done) override {
    store_->Commit(std::move(writes), std::move(done));
  }
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override {
    return store_->Get(table, key);
  }
  absl::StatusOr<std::vector<store::Row>> Scan(absl::string_view table,
                                               const store::ScanOptions& options) override {
    return store_->Scan(table, options);
  }
  absl::Status health() const override { return store_->health(); }

 private:
  const std::shared_ptr<store::MemoryStore> store_;
};

/// The answer of one call, waited for.
template <typename T>
absl::StatusOr<T> Wait(const std::function<void(Callback<T>)>& call) {
  absl::Notification done;
  absl::StatusOr<T> answer = absl::UnknownError("no answer");
  call([&](absl::StatusOr<T> result) {
    answer = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  return answer;
}

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "controller-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(folder_ + "/train.jsonl") << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n"
                                            << "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n";
    Start();
  }
  ~ControllerTest() override {
    controller_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    controller_.reset();
    ControllerOptions options;
    options.data_root = folder_;
    options.store = std::make_unique<SharedStore>(store_);
    auto controller = Controller::Create(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  v1::JobSpec Spec() const {
    v1::JobSpec spec;
    spec.set_kind(v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_data()->add_train_files(folder_ + "/train.jsonl");
    spec.mutable_data()->set_train_batch_size(2);
    spec.mutable_data()->set_max_response_length(8);
    spec.mutable_rollout()->set_n(2);
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(2);
    return spec;
  }
  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, const std::string& id,
                                 const std::string& request_id = "") {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_job_id(id);
    request.set_request_id(request_id);
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  absl::StatusOr<v1::Job> Get(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    return Wait<v1::Job>([&](auto done) { controller_->GetJob(request, done); });
  }

  std::string folder_;
  const std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, AJobWithoutWorkersWaitsAndSaysForWhat) {
  auto job = Create(Spec(), "add");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "projects/default/jobs/add");
  EXPECT_EQ(job->state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(Get("add")->uid(), job->uid());
  v1::ExplainJobRequest request;
  request.set_name("add");
  auto why =
      Wait<v1::ExplainJobResponse>([&](auto done) { controller_->ExplainJob(request, done); });
  ASSERT_TRUE(why.ok()) << why.status();
  ASSERT_GE(why->waits_size(), 1);
  EXPECT_EQ(why->waits(0).kind(), "workers");
}

TEST_F(ControllerTest, ARequestThatIsRepeatedMakesOneJob) {
  auto first = Create(Spec(), "add", "request-1");
  auto again = Create(Spec(), "add", "request-1");
  ASSERT_TRUE(first.ok() && again.ok()) << again.status();
  EXPECT_EQ(first->uid(), again->uid());
  auto other = Create(Spec(), "add", "request-2");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ControllerTest, ListsEveryProblemOfASpecAtOnce) {
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train_files(0, folder_ + "/nowhere.jsonl");
  spec.mutable_rollout()->set_n(-1);
  v1::ValidateJobRequest request;
  *request.mutable_spec() = spec;
  auto checked =
      Wait<v1::ValidateJobResponse>([&](auto done) { controller_->ValidateJob(request, done); });
  ASSERT_TRUE(checked.ok()) << checked.status();
  std::string text;
  for (const auto& violation : checked->violations()) {
    absl::StrAppend(&text, violation.field(), ": ", violation.description(), "\n");
  }
  EXPECT_THAT(text, HasSubstr("nowhere.jsonl"));
  EXPECT_THAT(text, HasSubstr("rollout.n"));
  EXPECT_EQ(Create(spec, "bad").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get("bad").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControllerTest, ARestartKeepsJobsAndRequests) {
  auto job = Create(Spec(), "add", "request-1");
  ASSERT_TRUE(job.ok()) << job.status();
  Start();
  auto kept = Get("projects/default/jobs/add");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->uid(), job->uid());
  EXPECT_EQ(kept->spec().DebugString(), Spec().DebugString());
  EXPECT_EQ(Create(Spec(), "add", "request-1")->uid(), job->uid());
}

TEST_F(ControllerTest, AQueuedJobIsCancelledAndForgotten) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  v1::DeleteJobRequest forget;
  forget.set_name("add");
  const auto remove = [&] {
    return Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(forget, done); });
  };
  EXPECT_EQ(remove().status().code(), absl::StatusCode::kFailedPrecondition);
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  auto cancelled = Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); });
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), v1::Job::STATE_CANCELLED);
  EXPECT_TRUE(remove().ok());
  EXPECT_EQ(Get("add").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControllerTest, IsReadyWhileTheStoreTakesWrites) {
  EXPECT_TRUE(controller_->Ready().ok());
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_THAT(std::string(controller_->Ready().message()), HasSubstr("the disk is full"));
  store_->FailWith(absl::OkStatus());
  EXPECT_TRUE(controller_->Ready().ok());
}

TEST_F(ControllerTest, NothingIsAnsweredBeforeItIsStored) {
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_job_id("add");
  absl::Notification answered;
  controller_->CreateJob(request, [&](absl::StatusOr<v1::Job> job) {
    EXPECT_TRUE(job.ok()) << job.status();
    answered.Notify();
  });
  EXPECT_FALSE(answered.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  store_->FailWith(absl::OkStatus());
  EXPECT_TRUE(answered.WaitForNotificationWithTimeout(absl::Seconds(10)));
}

}  // namespace
}  // namespace baton::controller
