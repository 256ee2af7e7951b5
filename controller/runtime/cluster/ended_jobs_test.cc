#include "controller/runtime/cluster/ended_jobs.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/ports/fake_job_files.h"
#include "controller/ports/single_thread.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/rows/checkpoint_rows.h"
#include "controller/runtime/rows/tables.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/given_checkpoint.h"
#include "tests/support/controller/job_runtime.h"
#include "tests/support/controller/small_job.h"
#include "tests/support/controller/whole_controller.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EndedJobsTest : public ::testing::Test {
 protected:
  EndedJobsTest() {
    context_.executors = &thread_;
    context_.clock = &thread_;
    context_.store = &store_;
    context_.files = &files_;
    context_.workers = &workers_;
    context_.queue = &queue_;
    context_.epoch = 1;
  }
  ~EndedJobsTest() override {
    ended_ = nullptr;
    for (const auto& [job, order] : jobs_.TakeAll()) job->Abandon();
  }

  static std::string NameOf(int64_t order) { return absl::StrCat("projects/p/jobs/j-", order); }
  /// The rows of a job that has ended, or waits in the queue.
  void PutJob(int64_t order, bool ended = true) {
    v1::Job job = SmallJob();
    job.set_name(NameOf(order));
    job.set_uid(absl::StrCat("uid-", order));
    JobCore core(std::move(job), order, context_.core);
    (void)core.Start(thread_.Now());
    if (ended) (void)core.Handle(CancelRequested{}, thread_.Now());
    std::vector<store::Write> rows = RowsOfOrder(NameOf(order), order, "");
    rows.push_back({kJobTable, NameOf(order), core.BriefRow().SerializeAsString()});
    rows.push_back({kSpecTable, NameOf(order), core.submitted()->SerializeAsString()});
    store_.Commit(std::move(rows), [](const absl::Status&) {});
  }
  /// The rows of a job that has given its workers back, and succeeds as soon as it goes on. Its
  /// checkpoints have 30 bytes, of which the optimizer has 20.
  void PutFinishedJob(int64_t order, const std::vector<int64_t>& checkpoints,
                      const std::string& keep_optimizer = "newest") {
    v1::Job job = SmallJob(
        [&](v1::JobSpec* spec) { spec->mutable_trainer()->set_keep_optimizer(keep_optimizer); });
    job.set_name(NameOf(order));
    job.set_uid(absl::StrCat("uid-", order));
    JobCore core(std::move(job), order, context_.core);
    (void)core.Start(thread_.Now());
    store::v1::JobRow row = core.BriefRow();
    row.mutable_job()->set_state(v1::Job::STATE_STOPPING);
    row.set_stopping_as(v1::Job::STATE_SUCCEEDED);
    std::vector<store::Write> rows = RowsOfOrder(NameOf(order), order, "");
    for (const int64_t step : checkpoints) {
      v1::Checkpoint checkpoint;
      checkpoint.set_step(step);
      checkpoint.set_size_bytes(30);
      checkpoint.set_optimizer_bytes(20);
      rows.push_back({kCheckpointTable, NumberKey(NameOf(order), static_cast<uint64_t>(step)),
                      checkpoint.SerializeAsString()});
    }
    rows.push_back({kJobTable, NameOf(order), row.SerializeAsString()});
    rows.push_back({kSpecTable, NameOf(order), core.submitted()->SerializeAsString()});
    store_.Commit(std::move(rows), [](const absl::Status&) {});
  }
  store::v1::JobRow StoredRow(int64_t order) {
    store::v1::JobRow row;
    const auto stored = store_.Get(kJobTable, NameOf(order));
    EXPECT_TRUE(stored.ok() && stored->has_value() && row.ParseFromString(**stored));
    EXPECT_TRUE(ReadCheckpoints(store_, NameOf(order), &row).ok());
    return row;
  }
  /// Sizes of the checkpoints; negative: it has weights only.
  std::vector<int64_t> StoredSizes(int64_t order) {
    std::vector<int64_t> sizes;
    const store::v1::JobRow row = StoredRow(order);
    for (const v1::Checkpoint& checkpoint : row.checkpoints()) {
      sizes.push_back(checkpoint.weights_only() ? -checkpoint.size_bytes()
                                                : checkpoint.size_bytes());
    }
    return sizes;
  }
  /// The controller dies.
  void Die() {
    thread_.Drop();
    ended_ = nullptr;
    for (const auto& [job, order] : jobs_.TakeAll()) job->Abandon();
  }
  /// A controller starts.
  void Restore() {
    JobRestorer::Options how;
    how.leave_ended = true;
    restorer_ = std::make_unique<JobRestorer>(&context_, &store_, std::move(how));
    ended_ = std::make_unique<EndedJobs>(&context_, &jobs_, restorer_.get());
    const auto restored = restorer_->Restore(&jobs_);
    ASSERT_TRUE(restored.ok()) << restored.status();
    for (const auto& job : *restored) job->Start({}, nullptr);
    thread_.Settle();
  }
  /// Calls Find, and keeps the job in `found_`.
  void FindAndHold(int64_t order) {
    ended_->Find(NameOf(order), [this](absl::StatusOr<std::shared_ptr<JobRuntime>> job) {
      found_.push_back(std::move(job));
    });
  }
  size_t in_memory() const { return jobs_.Below("").size(); }

  SingleThread thread_;
  store::MemoryStore store_;
  FakeJobFiles files_{SmallData()};
  WorkerDirectory workers_;
  EmptyQueue queue_;
  RuntimeContext context_;
  JobTable jobs_;
  std::unique_ptr<JobRestorer> restorer_;
  std::unique_ptr<EndedJobs> ended_;
  std::vector<absl::StatusOr<std::shared_ptr<JobRuntime>>> found_;
};

TEST_F(EndedJobsTest, AStartKeepsOnlyUnfinishedJobsInMemory) {
  for (int64_t order = 1; order <= 5; ++order) PutJob(order, /*ended=*/order != 3);
  Restore();
  ASSERT_EQ(in_memory(), 1u);
  EXPECT_TRUE(jobs_.Has(NameOf(3)));
  EXPECT_EQ(jobs_.next_order(), 6);
  EXPECT_TRUE(ended_->Exists(NameOf(5)));
  EXPECT_FALSE(ended_->Exists(NameOf(6)));
  const auto job = ended_->Describe(NameOf(5));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(job->effective_spec().data().train_batch_size(), 4);
  EXPECT_EQ(ErrorReason(ended_->Describe(NameOf(6)).status()), "JOB_NOT_FOUND");
}

TEST_F(EndedJobsTest, DescribesAJobFromRowsAsFromMemory) {
  PutJob(1);
  Restore();
  const auto by_rows = ended_->Describe(NameOf(1));
  FindAndHold(1);
  thread_.Settle();
  ASSERT_TRUE(found_[0].ok());
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(*by_rows, (*found_[0])->Snapshot()));
}

TEST_F(EndedJobsTest, AJobThatSucceedsLeavesTheOptimizerToItsNewestCheckpoint) {
  PutFinishedJob(1, {2, 4, 6});
  PutFinishedJob(2, {2, 4, 6}, "all");
  Restore();
  EXPECT_EQ(StoredRow(1).job().state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_THAT(files_.without_optimizer(), ElementsAre(2, 4));
  EXPECT_THAT(StoredSizes(1), ElementsAre(-10, -10, 30));
  EXPECT_FALSE(StoredRow(1).drops_optimizer());
  EXPECT_EQ(StoredRow(2).job().state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_THAT(StoredSizes(2), ElementsAre(30, 30, 30));
  ended_->DropIdle();
  EXPECT_EQ(in_memory(), 0u);
}

// The checkpoints are marked before their files go, and a start removes what an earlier one did
// not.
TEST_F(EndedJobsTest, AStartGoesOnToDropOptimizers) {
  PutFinishedJob(1, {2, 4, 6});
  files_.SetDropStatus(absl::InternalError("the disk is gone"));
  Restore();
  EXPECT_EQ(StoredRow(1).job().state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_THAT(StoredSizes(1), ElementsAre(-10, -10, 30));
  EXPECT_THAT(files_.without_optimizer(), IsEmpty());
  EXPECT_TRUE(StoredRow(1).drops_optimizer());
  Die();
  files_.SetDropStatus(absl::OkStatus());
  Restore();
  EXPECT_THAT(files_.without_optimizer(), ElementsAre(2, 4));
  EXPECT_FALSE(StoredRow(1).drops_optimizer());
  EXPECT_EQ(StoredRow(1).job().state(), v1::Job::STATE_SUCCEEDED);
  Die();
  Restore();
  EXPECT_EQ(in_memory(), 0u) << "nothing is left to remove";
  EXPECT_THAT(files_.without_optimizer(), ElementsAre(2, 4));
}

TEST_F(EndedJobsTest, ACheckpointThatIsCopiedLosesTheOptimizerAfterwards) {
  PutFinishedJob(1, {2, 4, 6});
  files_.SetDropStatus(absl::AbortedError("a job copies it"));
  Restore();
  thread_.Advance(absl::Minutes(5));
  EXPECT_THAT(files_.without_optimizer(), IsEmpty());
  EXPECT_TRUE(StoredRow(1).drops_optimizer());
  files_.SetDropStatus(absl::OkStatus());
  thread_.Advance(absl::Seconds(2));
  EXPECT_THAT(files_.without_optimizer(), ElementsAre(2, 4));
  EXPECT_FALSE(StoredRow(1).drops_optimizer());
}

TEST_F(EndedJobsTest, OneObjectServesAllCalls) {
  PutJob(1);
  Restore();
  FindAndHold(1);
  FindAndHold(1);
  FindAndHold(2);
  thread_.Settle();
  FindAndHold(1);
  ASSERT_EQ(found_.size(), 4u);
  EXPECT_EQ(*found_[0], *found_[1]);
  EXPECT_EQ(*found_[0], *found_[3]);
  EXPECT_EQ(ErrorReason(found_[2].status()), "JOB_NOT_FOUND");
}

TEST_F(EndedJobsTest, KeepsAJobInMemoryWhileItIsInUse) {
  PutJob(1);
  PutJob(2, /*ended=*/false);
  Restore();
  FindAndHold(1);
  thread_.Settle();
  ended_->DropIdle();
  ASSERT_EQ(in_memory(), 2u);
  EXPECT_EQ(jobs_.Get(NameOf(1)).job, *found_[0]);
  found_.clear();
  ended_->DropIdle();
  EXPECT_EQ(in_memory(), 1u);
  EXPECT_FALSE(jobs_.Has(NameOf(1)));
  FindAndHold(1);
  thread_.Settle();
  EXPECT_TRUE(found_[0].ok()) << found_[0].status();
}

// The job's last turn waits for the store: the rows may not be read as those of an ended job yet.
TEST_F(EndedJobsTest, AJobLeavesMemoryOnlyWhenItsEndIsCommitted) {
  PutJob(1, /*ended=*/false);
  Restore();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  jobs_.Get(NameOf(1)).job->Post(CancelRequested{});
  thread_.Settle();
  ended_->DropIdle();
  EXPECT_EQ(in_memory(), 1u);
  store_.FailWith(absl::OkStatus());
  thread_.Settle();
  ended_->DropIdle();
  EXPECT_EQ(in_memory(), 0u);
  EXPECT_EQ(ended_->Describe(NameOf(1))->state(), v1::Job::STATE_CANCELLED);
}

TEST_F(EndedJobsTest, BoundsTheEndedJobsInMemory) {
  constexpr auto kMost = static_cast<int64_t>(EndedJobs::kMostLoaded);
  for (int64_t order = 1; order <= kMost + 5; ++order) PutJob(order);
  Restore();
  for (int64_t order = 1; order <= kMost + 5; ++order) FindAndHold(order);
  thread_.Settle();
  EXPECT_EQ(found_.size(), EndedJobs::kMostLoaded);
  EXPECT_EQ(in_memory(), EndedJobs::kMostLoaded);
  found_.clear();
  ended_->DropIdle();
  thread_.Settle();
  EXPECT_EQ(found_.size(), 5u) << "the others have had their turn";
  EXPECT_EQ(in_memory(), 5u);
}

TEST_F(EndedJobsTest, CallsThatWaitAreBounded) {
  PutJob(1);
  Restore();
  for (size_t i = 0; i < EndedJobs::kMostWaiting; ++i) FindAndHold(1);
  EXPECT_THAT(found_, IsEmpty());
  FindAndHold(1);
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_EQ(ErrorReason(found_[0].status()), "JOBS_BUSY");
  thread_.Settle();
  EXPECT_EQ(found_.size(), EndedJobs::kMostWaiting + 1);
}

TEST_F(EndedJobsTest, RewritesTheListOrderIfItIsInconsistent) {
  for (int64_t order = 1; order <= 3; ++order) PutJob(order);
  const auto agrees = [&] {
    OrderCheck check;
    for (int64_t order = 1; order <= 3; ++order) check.Add(NameOf(order), order);
    return *check.Agrees(store_);
  };
  EXPECT_TRUE(agrees());
  store_.Commit(DeletedOrder(NameOf(2), 2), [](const absl::Status&) {});
  EXPECT_FALSE(agrees());
  store_.Commit(RowsOfOrder(NameOf(9), 9, ""), [](const absl::Status&) {});  // as many, but others
  EXPECT_FALSE(agrees());
  store::v1::RequestRow made, cancelled;
  made.set_job(NameOf(2));
  cancelled.set_job(NameOf(3));
  cancelled.set_method("CancelJob");
  store::v1::RequestRow gone;
  gone.set_job(NameOf(9));
  store_.Commit({{kRequestTable, "p/made", made.SerializeAsString()},
                 {kRequestTable, "p/cancelled", cancelled.SerializeAsString()},
                 {kRequestTable, "p/gone", gone.SerializeAsString()}},
                [](const absl::Status&) {});
  ASSERT_TRUE(WriteOrder(store_).ok());
  EXPECT_TRUE(agrees());
  EXPECT_EQ(*RequestThatMade(store_, NameOf(2), 2), "p/made");
  EXPECT_EQ(*RequestThatMade(store_, NameOf(3), 3), "");
  EXPECT_FALSE(store_.Get(kRequestTable, "p/gone")->has_value());
  EXPECT_TRUE(store_.Get(kRequestTable, "p/cancelled")->has_value());
  std::vector<std::string> newest;
  const auto rows = store_.Scan(kOrderTable, OrderedJobs("p", 3));
  for (const store::Row& row : *rows) {
    newest.push_back(JobOfOrder(row));
  }
  EXPECT_THAT(newest, ElementsAre(NameOf(2), NameOf(1)));
}

// The same tests over a whole controller.
class EndedJobsOfControllerTest : public WholeControllerTest {
 protected:
  void PutEnded(const std::string& id, const std::string& request_id = "") {
    ASSERT_TRUE(Create(Spec(), id, request_id).ok());
    v1::CancelJobRequest cancel;
    cancel.set_name(id);
    ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
    AwaitAway(id);
  }
  bool InMemory(const std::string& id) {
    bool shown = false;
    absl::Notification told;
    controller_->Metrics([&](const std::vector<GaugeSample>& samples) {
      for (const GaugeSample& sample : samples) {
        if (sample.name != "baton_job_state") continue;
        for (const auto& [label, value] : sample.labels) shown |= value == FullJobName(id);
      }
      told.Notify();
    });
    told.WaitForNotification();
    return shown;
  }
  void AwaitAway(const std::string& id) {
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (InMemory(id) && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_FALSE(InMemory(id));
  }
  std::vector<std::string> List(v1::ListJobsRequest request = {}) {
    std::vector<std::string> names;
    do {
      const auto page = Wait<v1::ListJobsResponse>(
          [&](auto done) { controller_->ListJobs(request, std::move(done)); });
      if (!page.ok()) ADD_FAILURE() << page.status();
      for (const v1::Job& job : page->jobs()) {
        names.push_back(job.name().substr(job.name().rfind('/') + 1));
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return names;
  }
};

/// Records the messages of a subscription until its end.
class TextSink : public EventSink, public LogSink {
 public:
  bool OnEvent(const v1::JobEvent& event) override {
    last_state_ = event.state();
    return true;
  }
  bool OnEntry(const v1::LogEntry& /*line*/) override {
    ++lines_;
    return true;
  }
  void OnEnd(absl::Status status) override {
    end_ = std::move(status);
    ended_.Notify();
  }
  absl::Status Await() {
    ended_.WaitForNotification();
    return end_;
  }
  v1::Job::State last_state_ = v1::Job::STATE_UNSPECIFIED;
  int lines_ = 0;

 private:
  absl::Notification ended_;
  absl::Status end_;
};

TEST_F(EndedJobsOfControllerTest, EveryCallIsServedFromRows) {
  PutEnded("add", "made");
  const auto served = [&] {
    const auto job = Get("add");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state(), v1::Job::STATE_CANCELLED);
    EXPECT_EQ(job->spec().data().train_batch_size(), 2);
    EXPECT_THAT(List(), ElementsAre("add"));
    v1::ExplainJobRequest explain;
    explain.set_name("add");
    const auto why =
        Wait<v1::ExplainJobResponse>([&](auto done) { controller_->ExplainJob(explain, done); });
    ASSERT_TRUE(why.ok()) << why.status();
    EXPECT_THAT(why->summary(), ::testing::HasSubstr("CANCELLED"));
    v1::ListMetricsRequest metrics;
    metrics.set_name("add");
    EXPECT_TRUE(Wait<v1::ListMetricsResponse>([&](auto done) {
                  controller_->ListMetrics(metrics, done);
                }).ok());
    v1::ListTrajectoriesRequest trajectories;
    trajectories.set_name("add");
    EXPECT_TRUE(Wait<v1::ListTrajectoriesResponse>([&](auto done) {
                  controller_->ListTrajectories(trajectories, done);
                }).ok());
    v1::ListCheckpointsRequest checkpoints;
    checkpoints.set_name("add");
    EXPECT_TRUE(Wait<v1::ListCheckpointsResponse>([&](auto done) {
                  controller_->ListCheckpoints(checkpoints, done);
                }).ok());
    v1::WatchJobRequest watch;
    watch.set_name("add");
    const auto events = std::make_shared<TextSink>();
    const auto watching = controller_->WatchJob(watch, events);
    EXPECT_TRUE(events->Await().ok());
    EXPECT_EQ(events->last_state_, v1::Job::STATE_CANCELLED);
    v1::ReadLogsRequest logs;
    logs.set_name("add");
    logs.set_follow(true);
    const auto lines = std::make_shared<TextSink>();
    const auto reading = controller_->ReadLogs(logs, lines);
    EXPECT_TRUE(lines->Await().ok());
    EXPECT_GT(lines->lines_, 0);
    EXPECT_EQ(Create(Spec(), "add", "made")->uid(), job->uid()) << "the call is repeated";
    EXPECT_EQ(ErrorReason(Create(Spec(), "add").status()), "JOB_EXISTS");
  };
  served();
  Start();
  EXPECT_FALSE(InMemory("add"));
  served();
  AwaitAway("add");
}

TEST_F(EndedJobsOfControllerTest, ReportsAMissingJobAsNotFound) {
  EXPECT_EQ(ErrorReason(Get("add").status()), "JOB_NOT_FOUND");
  const auto events = std::make_shared<TextSink>();
  v1::WatchJobRequest watch;
  watch.set_name("add");
  const auto watching = controller_->WatchJob(watch, events);
  EXPECT_EQ(ErrorReason(events->Await()), "JOB_NOT_FOUND");
}

TEST_F(EndedJobsOfControllerTest, ResumesAndDeletesAnEndedJob) {
  PutEnded("add", "made");
  GiveCheckpoint(*store_, FullJobName("add"));
  Start();
  v1::ResumeJobRequest resume;
  resume.set_name("add");
  const auto resumed = Wait<v1::Job>([&](auto done) { controller_->ResumeJob(resume, done); });
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->state(), v1::Job::STATE_QUEUED);
  EXPECT_TRUE(InMemory("add"));
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  AwaitAway("add");
  v1::DeleteJobRequest erase;
  erase.set_name("add");
  const auto deleted =
      Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(erase, done); });
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(ErrorReason(Get("add").status()), "JOB_NOT_FOUND");
  EXPECT_THAT(List(), IsEmpty());
  for (const char* table : {kJobTable, kSpecTable, kOrderTable, kEventTable, kLogTable}) {
    EXPECT_THAT(*store_->Scan(table, {}), IsEmpty()) << table;
  }
  EXPECT_FALSE(store_->Get(kRequestTable, "default/made")->has_value());
  EXPECT_TRUE(Create(Spec(), "add", "made").ok());
}

// Pages list the jobs in memory and those that are rows, in one order.
TEST_F(EndedJobsOfControllerTest, ListsEndedJobsAmongTheOthers) {
  PutEnded("a");
  ASSERT_TRUE(Create(Spec(), "b").ok());
  PutEnded("c");
  PutEnded("d");
  ASSERT_TRUE(Create(Spec(), "e").ok());
  v1::CreateJobRequest other;
  *other.mutable_spec() = Spec();
  other.set_project("other");
  other.set_job_id("x");
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CreateJob(other, done); }).ok());
  for (int restarts = 0; restarts < 2; ++restarts) {
    for (const int size : {1, 2, 100}) {
      v1::ListJobsRequest request;
      request.set_page_size(size);
      EXPECT_THAT(List(request), ElementsAre("e", "d", "c", "b", "a"));
      request.set_project("-");
      EXPECT_THAT(List(request), ElementsAre("x", "e", "d", "c", "b", "a"));
      request.clear_project();
      request.add_states(v1::Job::STATE_CANCELLED);
      EXPECT_THAT(List(request), ElementsAre("d", "c", "a"));
      request.set_states(0, v1::Job::STATE_QUEUED);
      EXPECT_THAT(List(request), ElementsAre("e", "b"));
    }
    Start();
  }
}

TEST_F(EndedJobsOfControllerTest, AStoreWithoutAnOrderIsListed) {
  PutEnded("a", "made");
  PutEnded("b");
  std::vector<store::Write> none;
  const auto rows = store_->Scan(kOrderTable, {});
  for (const store::Row& row : *rows) {
    none.push_back({kOrderTable, row.key, std::nullopt});
  }
  store_->Commit(std::move(none), [](const absl::Status&) {});
  Start();
  EXPECT_THAT(List(), ElementsAre("b", "a"));
  ASSERT_TRUE(Create(Spec(), "c").ok());
  EXPECT_THAT(List(), ElementsAre("c", "b", "a"));
}

TEST_F(EndedJobsOfControllerTest, CountsEndedJobsTowardsTheProjectsLimit) {
  v1::Project project;
  project.set_project("default");
  project.set_max_ended_jobs(2);
  ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  PutEnded("a");
  ASSERT_TRUE(Create(Spec(), "runs").ok());
  PutEnded("b");
  for (int restarts = 0; restarts < 2; ++restarts) {
    const auto refused = Create(Spec(), "c");
    EXPECT_EQ(ErrorReason(refused.status()), "QUOTA_ENDED_JOBS") << refused.status();
    EXPECT_THAT(std::string(refused.status().message()),
                ::testing::HasSubstr("project default has 2 jobs that have ended, of at most 2"));
    Start();
  }
  v1::DeleteJobRequest erase;
  erase.set_name("a");
  ASSERT_TRUE(
      Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(erase, done); }).ok());
  EXPECT_TRUE(Create(Spec(), "c").ok());
}

// Also those of jobs that have ended.
TEST_F(EndedJobsOfControllerTest, FullFoldersTakeNoFurtherJob) {
  v1::Project project;
  project.set_project("default");
  project.set_max_job_bytes(100'000);
  ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  PutEnded("a");
  EXPECT_TRUE(Create(Spec(), "b").ok());
  folder_.Write("jobs/default/a/checkpoints/step-1/weights", std::string(150'000, 'x'));
  Start();
  const auto becomes = [&](const std::string& reason) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    absl::Status last;
    for (int i = 0; absl::Now() < end; ++i) {
      last = Create(Spec(), absl::StrCat("c", i)).status();
      if (ErrorReason(last) == reason) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    ADD_FAILURE() << "not \"" << reason << "\" but " << last;
    return false;
  };
  ASSERT_TRUE(becomes("QUOTA_JOB_BYTES")) << "once the folders are counted";
  v1::DeleteJobRequest erase;
  erase.set_name("a");
  ASSERT_TRUE(
      Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(erase, done); }).ok());
  EXPECT_TRUE(becomes("")) << "once it is gone";
}

}  // namespace
}  // namespace baton::controller
