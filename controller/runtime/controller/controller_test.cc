// The controller without workers: its answers, refusals and rows. Running jobs are tested in
// tests/end_to_end.
#include "controller/runtime/controller/controller.h"

#include <atomic>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/whole_controller.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ControllerTest : public WholeControllerTest {};

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

TEST_F(ControllerTest, AnOversizedSpecIsRefused) {
  v1::JobSpec spec = Spec();
  spec.mutable_reward()->set_command(std::string(1 << 20, 'x'));
  const absl::Status refused = Create(spec, "big").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(refused), "SPEC_TOO_LARGE");
  EXPECT_EQ(Get("big").status().code(), absl::StatusCode::kNotFound);
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
  spec.mutable_data()->set_train_files(0, folder_.path("nowhere.jsonl"));
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

// The plan that a check of the spec shows is the one that the job gets, and that a restart reads.
TEST_F(ControllerTest, PlacementAutoBecomesPools) {
  v1::JobSpec spec = Spec();
  spec.mutable_resources()->set_placement("auto");
  spec.mutable_resources()->set_device("cpu");
  spec.mutable_resources()->set_devices(2);
  v1::ValidateJobRequest request;
  *request.mutable_spec() = spec;
  auto checked =
      Wait<v1::ValidateJobResponse>([&](auto done) { controller_->ValidateJob(request, done); });
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->violations_size(), 0);
  const v1::ResourcesSpec& resources = checked->effective_spec().resources();
  ASSERT_EQ(resources.pools_size(), 1);
  EXPECT_THAT(resources.pools(0).roles(), ::testing::ElementsAre("actor", "rollout"));
  EXPECT_EQ(resources.rollout_workers(), resources.pools(0).devices());
  auto job = Create(spec, "planned");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec().resources().placement(), "auto");
  EXPECT_EQ(job->effective_spec().resources().DebugString(), resources.DebugString());
  Start();
  EXPECT_EQ(Get("planned")->effective_spec().resources().DebugString(), resources.DebugString());

  spec.mutable_model()->mutable_init()->set_hidden_size(65536);  // 69 billion parameters a layer
  spec.mutable_model()->mutable_init()->set_num_hidden_layers(256);
  const absl::Status refused = Create(spec, "large").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("nothing fits on"));
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

// Prometheus would store its labels `job` and `instance` in place of ours.
TEST_F(ControllerTest, MetricsNameTheirJobByALabelThatPrometheusLeavesAlone) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  const auto samples = Wait<std::vector<GaugeSample>>(
      [&](auto done) { controller_->Metrics([done](auto samples) { done(std::move(samples)); }); });
  ASSERT_TRUE(samples.ok());
  int of_jobs = 0;
  for (const GaugeSample& sample : *samples) {
    EXPECT_EQ(sample.labels.count("job") + sample.labels.count("instance"), 0) << sample.name;
    EXPECT_THAT(sample.name, ::testing::StartsWith("baton_"));
    const auto job = sample.labels.find("baton_job");
    if (job == sample.labels.end()) continue;
    EXPECT_EQ(job->second, "projects/default/jobs/add");
    ++of_jobs;
  }
  EXPECT_GE(of_jobs, 3);
}

// A job of a higher priority is served before those of all projects.
TEST_F(ControllerTest, TheProjectBoundsThePriorityOfItsJobs) {
  v1::JobSpec spec = Spec();
  spec.set_priority(6);
  EXPECT_TRUE(Create(spec, "before").ok());
  v1::Project project;
  project.set_project("default");
  const auto set = [&](int most) {
    project.set_max_priority(most);
    return Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).status();
  };
  EXPECT_EQ(ErrorReason(set(1001)), "PROJECT_SPEC");
  ASSERT_TRUE(set(5).ok());
  const absl::Status refused = Create(spec, "above").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("spec.priority: 6 is above 5"));
  spec.set_priority(5);
  EXPECT_TRUE(Create(spec, "at").ok());
  ASSERT_TRUE(set(-3).ok());
  EXPECT_FALSE(Create(Spec(), "default").ok()) << "0 is above -3";
}

TEST_F(ControllerTest, IsReadyWhileTheStoreTakesWrites) {
  EXPECT_TRUE(controller_->Ready().ok());
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_THAT(std::string(controller_->Ready().message()), HasSubstr("the disk is full"));
  store_->FailWith(absl::OkStatus());
  EXPECT_TRUE(controller_->Ready().ok());
}

TEST_F(ControllerTest, AnswersOnlyAfterTheCommit) {
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

TEST_F(ControllerTest, AJobThatIsNotStoredIsSeenByNobody) {
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_job_id("add");
  // One of the two calls takes the name; it is not defined which.
  absl::Notification first, second;
  std::atomic<int> answers{0};
  std::vector<absl::Status> heard(2);
  for (int i = 0; i < 2; ++i) {
    controller_->CreateJob(request, [&](absl::StatusOr<v1::Job> job) {
      const int at = answers.fetch_add(1);
      heard[at] = job.status();
      (at == 0 ? first : second).Notify();
    });
  }
  first.WaitForNotification();
  EXPECT_EQ(heard[0].code(), absl::StatusCode::kAlreadyExists) << heard[0];
  EXPECT_EQ(Get("add").status().code(), absl::StatusCode::kNotFound);
  auto listed =
      Wait<v1::ListJobsResponse>([&](auto done) { controller_->ListJobs({}, std::move(done)); });
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->jobs_size(), 0);
  EXPECT_FALSE(second.HasBeenNotified());
  store_->FailWith(absl::OkStatus());
  second.WaitForNotification();
  EXPECT_TRUE(heard[1].ok()) << heard[1];
  EXPECT_TRUE(Get("add").ok());
}

TEST_F(ControllerTest, ConcurrentRequestsWithOneIdCreateOneJob) {
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_request_id("request-1");  // and no name: a second job would get one of its own
  absl::Notification done[2];
  absl::StatusOr<v1::Job> jobs[2];
  for (int i = 0; i < 2; ++i) {
    controller_->CreateJob(request, [&, i](absl::StatusOr<v1::Job> job) {
      jobs[i] = std::move(job);
      done[i].Notify();
    });
  }
  // Admitted after both, so once this call is refused, both were handled.
  request.mutable_spec()->mutable_rollout()->set_n(-1);
  request.clear_request_id();
  EXPECT_FALSE(Wait<v1::Job>([&](auto d) { controller_->CreateJob(request, d); }).ok());
  EXPECT_FALSE(done[0].HasBeenNotified() || done[1].HasBeenNotified());
  store_->FailWith(absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    done[i].WaitForNotification();
    ASSERT_TRUE(jobs[i].ok()) << jobs[i].status();
  }
  EXPECT_EQ(jobs[0]->uid(), jobs[1]->uid());
}

TEST_F(ControllerTest, RefusesARequestIdReusedWithAnotherSpec) {
  ASSERT_TRUE(Create(Spec(), "add", "request-1").ok());
  v1::JobSpec other = Spec();
  other.mutable_rollout()->set_n(4);
  EXPECT_EQ(ErrorReason(Create(other, "add", "request-1").status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ErrorReason(Create(Spec(), "sub", "request-1").status()), "REQUEST_ID_REUSED");
  EXPECT_TRUE(Create(Spec(), "", "request-1").ok());  // the name was not said again
  Start();
  EXPECT_EQ(ErrorReason(Create(other, "add", "request-1").status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ErrorReason(Create(Spec(), "x", std::string(257, 'r')).status()), "REQUEST_ID");
}

TEST_F(ControllerTest, TheJobThatIsShownIsTheOneThatIsStored) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  absl::Notification cancelled;
  controller_->CancelJob(cancel, [&](absl::StatusOr<v1::Job>) { cancelled.Notify(); });
  v1::ExplainJobRequest explain;  // comes after it on the job's strand
  explain.set_name("add");
  ASSERT_TRUE(
      Wait<v1::ExplainJobResponse>([&](auto d) { controller_->ExplainJob(explain, d); }).ok());
  EXPECT_EQ(Get("add")->state(), v1::Job::STATE_QUEUED);
  store_->FailWith(absl::OkStatus());
  cancelled.WaitForNotification();
  EXPECT_EQ(Get("add")->state(), v1::Job::STATE_CANCELLED);
}

TEST_F(ControllerTest, ANameIsFreeWhenNothingOfItsJobIsLeft) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  ASSERT_TRUE(Wait<v1::Job>([&](auto d) { controller_->CancelJob(cancel, d); }).ok());
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::DeleteJobRequest forget;
  forget.set_name("add");
  absl::Notification deleted;
  controller_->DeleteJob(forget, [&](absl::StatusOr<v1::DeleteJobResponse> answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    deleted.Notify();
  });
  // The job is not deleted before it is stored, and a second call does not delete the next job of
  // the name.
  EXPECT_EQ(Wait<v1::DeleteJobResponse>([&](auto d) { controller_->DeleteJob(forget, d); })
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Create(Spec(), "add").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Get("add").ok());
  store_->FailWith(absl::OkStatus());
  deleted.WaitForNotification();
  auto next = Create(Spec(), "add");
  ASSERT_TRUE(next.ok()) << next.status();
  Start();
  EXPECT_EQ(Get("add")->uid(), next->uid());
}

// A long field is stored once, with the new job, and not with every later event.
TEST_F(ControllerTest, ASpecIsWrittenOnce) {
  v1::JobSpec spec = Spec();
  for (int i = 0; i < 20; ++i) {
    (*spec.mutable_labels())[absl::StrCat("note-", i)] = std::string(5'000, 'x');
  }
  const auto job = Create(spec, "add");
  ASSERT_TRUE(job.ok()) << job.status();
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  ASSERT_TRUE(Wait<v1::Job>([&](auto d) { controller_->CancelJob(cancel, d); }).ok());
  const auto row = store_->Get("jobs", job->name());
  ASSERT_TRUE(row.ok() && row->has_value());
  EXPECT_LT((*row)->size(), 10'000u);
  Start();
  const auto again = Get("add");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state(), v1::Job::STATE_CANCELLED);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again->spec(), spec));
  EXPECT_EQ(again->effective_spec().labels().at("note-19").size(), 5'000u);
  EXPECT_TRUE(again->has_dataflow());
  v1::DeleteJobRequest forget;
  forget.set_name("add");
  ASSERT_TRUE(Wait<v1::DeleteJobResponse>([&](auto d) { controller_->DeleteJob(forget, d); }).ok());
  EXPECT_FALSE(store_->Get("specs", job->name())->has_value());
}

// A message of gRPC holds 64 MiB.
TEST_F(ControllerTest, APageOfLargeJobsIsShorter) {
  v1::JobSpec spec = Spec();
  for (int i = 0; i < 64; ++i) {
    (*spec.mutable_labels())[absl::StrCat("note-", i)] = std::string(8'000, 'x');
  }
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(Create(spec, absl::StrCat("job-", i)).ok());
  v1::ListJobsRequest list;
  size_t seen = 0;
  do {
    const auto page = Wait<v1::ListJobsResponse>([&](auto d) { controller_->ListJobs(list, d); });
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_GT(page->jobs_size(), 0);
    EXPECT_LT(page->ByteSizeLong(), 64u << 20);
    seen += static_cast<size_t>(page->jobs_size());
    list.set_page_token(page->next_page_token());
  } while (!list.page_token().empty());
  EXPECT_EQ(seen, 70u);
}

v1::WorkerMessage Hello(const std::string& worker) {
  v1::WorkerMessage message;
  message.mutable_hello()->set_worker_id(worker);
  message.mutable_hello()->set_instance_id("one");
  message.mutable_hello()->set_protocol_min(1);
  message.mutable_hello()->set_protocol_max(1);
  return message;
}

// A lease is renewed even if the jobs' threads are busy.
TEST_F(ControllerTest, AHeartbeatWaitsForNoJob) {
  const auto stream = std::make_shared<FakeStream>();
  const auto session = controller_->Attach(stream);
  session->OnMessage(Hello("w"));
  ASSERT_TRUE(stream->Message(0).has_welcome());
  absl::Notification release, finished[2];
  const int strand_threads = ControllerOptions().strand_threads;
  ASSERT_EQ(strand_threads, 2);
  for (int i = 0; i < strand_threads; ++i) {
    const std::string name = absl::StrCat("job-", i);
    ASSERT_TRUE(Create(Spec(), name).ok());
    v1::CancelJobRequest cancel;
    cancel.set_name(name);
    absl::Notification busy;
    controller_->CancelJob(cancel, [&, i](const absl::StatusOr<v1::Job>&) {
      busy.Notify();
      release.WaitForNotification();
      finished[i].Notify();
    });
    busy.WaitForNotification();
  }
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_sequence(7);
  session->OnMessage(beat);
  EXPECT_EQ(stream->Message(1).heartbeat_ack().sequence(), 7u);
  release.Notify();
  for (absl::Notification& one : finished) one.WaitForNotification();
  session->OnClosed();
}

TEST_F(ControllerTest, AStreamThatIsReplacedIsClosed) {
  auto first = std::make_shared<FakeStream>();
  auto second = std::make_shared<FakeStream>();
  auto session = controller_->Attach(first);
  session->OnMessage(Hello("w"));
  EXPECT_TRUE(first->Message(0).has_welcome());
  auto again = controller_->Attach(second);
  again->OnMessage(Hello("w"));
  EXPECT_TRUE(second->Message(0).has_welcome());
  EXPECT_EQ(first->WaitUntilClosed(), "SESSION_REPLACED");
  session->OnClosed();
  again->OnClosed();
}

TEST_F(ControllerTest, AStreamThatSaysNothingIsClosed) {
  lease_ = absl::Milliseconds(50);
  Start();
  auto stream = std::make_shared<FakeStream>();
  auto session = controller_->Attach(stream);
  EXPECT_EQ(stream->WaitUntilClosed(), "NO_HELLO");
  session->OnClosed();
}

TEST_F(ControllerTest, AResultThatChangesNothingIsAcknowledgedAfterWhatCameBefore) {
  const auto made = Create(Spec(), "add");
  ASSERT_TRUE(made.ok()) << made.status();
  auto stream = std::make_shared<FakeStream>();
  auto session = controller_->Attach(stream);
  session->OnMessage(Hello("w"));
  ASSERT_TRUE(stream->Message(0).has_welcome());
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::WorkerMessage log, result;
  log.mutable_log()->set_job("projects/default/jobs/add");
  session->OnMessage(log);  // its row waits
  TaskRef ref;
  ref.kind = TaskKind::kGenerate;
  result.mutable_result()->set_task_token(
      EncodeToken({absl::StrCat(made->name(), "#", made->uid()), ref}));
  session->OnMessage(result);
  // These calls run after the results, first on the cluster's strand and then on the job's.
  ASSERT_TRUE(Wait<v1::ListWorkersResponse>([&](auto d) { controller_->ListWorkers({}, d); }).ok());
  v1::ExplainJobRequest explain;
  explain.set_name("add");
  ASSERT_TRUE(
      Wait<v1::ExplainJobResponse>([&](auto d) { controller_->ExplainJob(explain, d); }).ok());
  EXPECT_EQ(stream->size(), 1u);
  store_->FailWith(absl::OkStatus());
  EXPECT_EQ(stream->Message(1).result_ack().task_token(), result.result().task_token());

  // A result of an earlier job of that name counts for no job.
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  session->OnMessage(log);
  result.mutable_result()->set_task_token(EncodeToken({made->name() + "#earlier", ref}));
  session->OnMessage(result);
  EXPECT_EQ(stream->Message(2).result_ack().task_token(), result.result().task_token());
  store_->FailWith(absl::OkStatus());
  session->OnClosed();
}

/// The lines that were delivered, and whether they ended.
class Lines : public LogSink {
 public:
  bool OnEntry(const v1::LogEntry& entry) override {
    absl::MutexLock lock(&mu_);
    lines_.push_back(entry);
    return true;
  }
  void OnEnd(absl::Status) override {
    absl::MutexLock lock(&mu_);
    ended_ = true;
  }
  std::vector<v1::LogEntry> WaitForEnd() {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&ended_), absl::Seconds(10));
    return lines_;
  }
  size_t size() {
    absl::MutexLock lock(&mu_);
    return lines_.size();
  }

 private:
  absl::Mutex mu_;
  std::vector<v1::LogEntry> lines_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

TEST_F(ControllerTest, LinesAreReadWhenTheyAreStoredAndTheLastOneToo) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  v1::ReadLogsRequest request;
  request.set_name("add");
  auto before = std::make_shared<Lines>();
  {
    auto subscription = controller_->ReadLogs(request, before);
    before->WaitForEnd();
  }
  request.set_follow(true);
  request.set_after_sequence(-7);  // as good as 0
  auto lines = std::make_shared<Lines>();
  auto subscription = controller_->ReadLogs(request, lines);
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  auto stream = std::make_shared<FakeStream>();
  auto session = controller_->Attach(stream);
  session->OnMessage(Hello("w"));
  ASSERT_TRUE(stream->Message(0).has_welcome());
  v1::WorkerMessage message;
  message.mutable_log()->set_job("projects/default/jobs/add");
  message.mutable_log()->set_level("INFO");
  for (int i = 0; i < 1200; ++i) {  // more than may wait for the store
    message.mutable_log()->set_message(absl::StrCat("line ", i));
    session->OnMessage(message);
  }
  v1::ExplainJobRequest explain;  // comes after them on the job's strand
  explain.set_name("add");
  ASSERT_TRUE(
      Wait<v1::ExplainJobResponse>([&](auto d) { controller_->ExplainJob(explain, d); }).ok());
  EXPECT_LE(lines->size(), before->size() + 1);  // QUEUED may have been on its way
  store_->FailWith(absl::OkStatus());
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  ASSERT_TRUE(Wait<v1::Job>([&](auto d) { controller_->CancelJob(cancel, d); }).ok());
  const std::vector<v1::LogEntry> all = lines->WaitForEnd();
  size_t from_worker = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].sequence(), static_cast<int64_t>(i + 1));
    from_worker += all[i].source() == "w" ? 1 : 0;
  }
  EXPECT_EQ(from_worker, 1000u);
  ASSERT_FALSE(all.empty());
  EXPECT_THAT(all.back().message(), HasSubstr("CANCELLED"));
  session->OnClosed();
}

}  // namespace
}  // namespace baton::controller
