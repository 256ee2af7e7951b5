// Lists: their pages, their cost, and the work that does not wait for them.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/core/job/trajectory.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Counts the rows that scans return, and holds scans of one table back. Thread-safe.
class WatchedStore : public store::Store {
 public:
  using store::Store::Commit;
  void Commit(std::vector<store::Write> writes, store::Durability durability, Done done) override {
    {
      absl::MutexLock lock(&mu_);
      largest_commit_ = std::max(largest_commit_, writes.size());
    }
    rows_.Commit(std::move(writes), durability, std::move(done));
  }
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override {
    return rows_.Get(table, key);
  }
  absl::StatusOr<std::vector<store::Row>> Scan(absl::string_view table,
                                               const store::ScanOptions& options) override {
    auto answer = rows_.Scan(table, options);
    absl::MutexLock lock(&mu_);
    scanned_[std::string(table)] += answer.ok() ? answer->size() : 0;
    if (answer.ok()) {
      size_t& largest = largest_scan_[std::string(table)];
      largest = std::max(largest, answer->size());
    }
    ++waiting_;
    const auto may_go = [this, &table]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return held_ != table; };
    mu_.Await(absl::Condition(&may_go));
    --waiting_;
    return answer;
  }
  absl::Status health() const override { return rows_.health(); }

  void Hold(const std::string& table) {
    absl::MutexLock lock(&mu_);
    held_ = table;
  }
  bool AwaitWaiting(int count) {
    absl::MutexLock lock(&mu_);
    const auto all = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return waiting_ == count; };
    return mu_.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(10));
  }
  size_t TakeScanned(const std::string& table) {
    absl::MutexLock lock(&mu_);
    return std::exchange(scanned_[table], 0);
  }
  size_t largest_scan(const std::string& table) {
    absl::MutexLock lock(&mu_);
    return largest_scan_[table];
  }
  size_t largest_commit() {
    absl::MutexLock lock(&mu_);
    return largest_commit_;
  }

 private:
  store::MemoryStore rows_;
  absl::Mutex mu_;
  std::string held_ ABSL_GUARDED_BY(mu_);
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
  size_t largest_commit_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, size_t> scanned_ ABSL_GUARDED_BY(mu_);       // rows, by table
  std::map<std::string, size_t> largest_scan_ ABSL_GUARDED_BY(mu_);  // likewise
};

class ControllerListsTest : public ::testing::Test {
 protected:
  ControllerListsTest() {
    folder_.Write("train.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
    ControllerOptions options;
    options.data_root = folder_.path();
    auto store = std::make_unique<WatchedStore>();
    store_ = store.get();
    options.store = std::move(store);
    auto controller = Controller::Create(std::move(options));
    EXPECT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  absl::StatusOr<v1::Job> Create(const std::string& id, const std::string& request_id = "") {
    v1::CreateJobRequest request;
    request.set_job_id(id);
    request.set_request_id(request_id);
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_kind(v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_data()->add_train_files(folder_.path("train.jsonl"));
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(2);
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  void Write(std::vector<store::Write> writes) {
    absl::Notification done;
    store_->Commit(std::move(writes), [&](const absl::Status&) { done.Notify(); });
    done.WaitForNotification();
  }
  // Two of three steps have an evaluation too.
  void WriteMetrics(const std::string& job, int steps) {
    std::vector<store::Write> writes;
    for (int64_t step = 1; step <= steps; ++step) {
      v1::StepMetrics row;
      row.set_step(step);
      (*row.mutable_metrics())["a/x"] = static_cast<double>(step);
      (*row.mutable_metrics())["b/y"] = 1;
      writes.push_back({kMetricTable, NumberKey(job, static_cast<uint64_t>(step), "/step"),
                        row.SerializeAsString()});
      if (step % 3 == 0) continue;
      row.clear_metrics();
      (*row.mutable_metrics())["val/accuracy"] = static_cast<double>(-step);
      writes.push_back({kMetricTable, NumberKey(job, static_cast<uint64_t>(step), "/val"),
                        row.SerializeAsString()});
    }
    Write(std::move(writes));
  }
  void WriteTrajectories(const std::string& job, int count) {
    std::vector<store::Write> writes;
    for (int i = 0; i < count; ++i) {
      store::v1::TrajectoryRow row;
      row.set_id(static_cast<uint64_t>(i));
      row.set_purpose(i % 10 == 0 ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN);
      row.set_step(i);
      writes.push_back(
          {kTrajectoryTable, NumberKey(job, static_cast<uint64_t>(i)), row.SerializeAsString()});
    }
    Write(std::move(writes));
  }
  absl::StatusOr<v1::ListMetricsResponse> Metrics(const v1::ListMetricsRequest& request) {
    return Wait<v1::ListMetricsResponse>(
        [&](auto done) { controller_->ListMetrics(request, done); });
  }
  absl::StatusOr<v1::ListTrajectoriesResponse> Trajectories(
      const v1::ListTrajectoriesRequest& request) {
    return Wait<v1::ListTrajectoriesResponse>(
        [&](auto done) { controller_->ListTrajectories(request, done); });
  }

  const TestFolder folder_;
  WatchedStore* store_ = nullptr;
  std::unique_ptr<Controller> controller_;
};

constexpr char kJobName[] = "projects/default/jobs/j";

TEST_F(ControllerListsTest, MetricsComeInPagesThatReadWhatTheyReturn) {
  ASSERT_TRUE(Create("j").ok());
  WriteMetrics(kJobName, 5000);
  v1::ListMetricsRequest request;
  request.set_name(kJobName);
  request.set_after_step(2);
  request.set_page_size(7);
  request.add_prefixes("a/");
  request.add_prefixes("val/");
  store_->TakeScanned(kMetricTable);
  int64_t expected = 3;
  for (int page = 0; page < 3; ++page) {
    const auto answer = Metrics(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->steps_size(), 7);
    for (const v1::StepMetrics& step : answer->steps()) {
      EXPECT_EQ(step.step(), expected);
      EXPECT_EQ(step.metrics_size(), expected % 3 == 0 ? 1 : 2);
      EXPECT_EQ(step.metrics().at("a/x"), static_cast<double>(expected));
      ++expected;
    }
    request.set_page_token(answer->next_page_token());
  }
  EXPECT_LE(store_->TakeScanned(kMetricTable), 3u * 500);
  // The rest at once; more than one piece is read for it.
  request.set_page_size(100000);
  const auto rest = Metrics(request);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->steps_size(), 5000 - 23);
  EXPECT_EQ(rest->steps(0).step(), 24);
  EXPECT_EQ(rest->next_page_token(), "");
  for (const v1::StepMetrics& step : rest->steps()) {
    ASSERT_EQ(step.metrics().count("val/accuracy"), step.step() % 3 == 0 ? 0u : 1u) << step.step();
  }
  // A request with other filters.
  request.clear_prefixes();
  EXPECT_EQ(ErrorReason(Metrics(request).status()), "PAGE_TOKEN");
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(ErrorReason(Metrics(request).status()), "PAGE_SIZE");
}

TEST_F(ControllerListsTest, TrajectoriesComeInPagesThatReadWhatTheyReturn) {
  ASSERT_TRUE(Create("j").ok());
  WriteTrajectories(kJobName, 30'000);
  v1::ListTrajectoriesRequest request;
  request.set_name(kJobName);
  request.set_page_size(3);
  request.set_purpose(v1::PURPOSE_EVAL);
  store_->TakeScanned(kTrajectoryTable);
  auto answer = Trajectories(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto steps = [&] {
    std::vector<uint64_t> out;
    for (const v1::Trajectory& t : answer->trajectories()) out.push_back(t.step());
    return out;
  };
  EXPECT_THAT(steps(), ElementsAre(29'990, 29'980, 29'970));
  EXPECT_LE(store_->TakeScanned(kTrajectoryTable), 500u);
  request.set_page_token(answer->next_page_token());
  answer = Trajectories(request);
  EXPECT_THAT(steps(), ElementsAre(29'960, 29'950, 29'940));
  request.set_purpose(v1::PURPOSE_TRAIN);
  EXPECT_EQ(ErrorReason(Trajectories(request).status()), "PAGE_TOKEN");
  // The last match: no call looks at all rows, but following the pages finds it.
  request.set_purpose(v1::PURPOSE_UNSPECIFIED);
  request.set_step(1);
  request.clear_page_token();
  std::vector<uint64_t> found;
  int calls = 0;
  do {
    store_->TakeScanned(kTrajectoryTable);
    answer = Trajectories(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_LE(store_->TakeScanned(kTrajectoryTable), 20'000u);
    for (const uint64_t step : steps()) found.push_back(step);
    request.set_page_token(answer->next_page_token());
    ++calls;
  } while (!request.page_token().empty() && calls < 10);
  EXPECT_THAT(found, ElementsAre(1));
  request.set_page_size(-5);
  EXPECT_EQ(ErrorReason(Trajectories(request).status()), "PAGE_SIZE");
}

TEST_F(ControllerListsTest, JobsWorkersAndProjectsHavePages) {
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Create(absl::StrCat("j", i)).ok());
    v1::Project project;
    project.set_project(absl::StrCat("p", i));
    ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  }
  v1::ListJobsRequest jobs;
  jobs.set_page_size(2);
  std::vector<std::string> names;
  do {
    const auto page =
        Wait<v1::ListJobsResponse>([&](auto done) { controller_->ListJobs(jobs, done); });
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->jobs_size(), 2);
    for (const v1::Job& job : page->jobs()) names.push_back(job.name().substr(22));
    jobs.set_page_token(page->next_page_token());
    if (names.size() == 2) {
      v1::ListJobsRequest other = jobs;
      other.add_states(v1::Job::STATE_QUEUED);
      const auto refused =
          Wait<v1::ListJobsResponse>([&](auto done) { controller_->ListJobs(other, done); });
      EXPECT_EQ(ErrorReason(refused.status()), "PAGE_TOKEN");
    }
  } while (!jobs.page_token().empty());
  EXPECT_THAT(names, ElementsAre("j4", "j3", "j2", "j1", "j0"));

  v1::ListProjectsRequest projects;
  projects.set_page_size(3);
  auto first = controller_->ListProjects(projects);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->projects_size(), 3);
  EXPECT_EQ(first->projects(2).project(), "p2");
  projects.set_page_token(first->next_page_token());
  const auto second = controller_->ListProjects(projects);
  ASSERT_EQ(second->projects_size(), 2);
  EXPECT_EQ(second->projects(0).project(), "p3");
  EXPECT_EQ(second->next_page_token(), "");

  v1::ListWorkersRequest workers;
  const auto list = [&] {
    return Wait<v1::ListWorkersResponse>(
        [&](auto done) { controller_->ListWorkers(workers, done); });
  };
  EXPECT_THAT(list()->workers(), IsEmpty());
  workers.set_page_size(-1);
  EXPECT_EQ(ErrorReason(list().status()), "PAGE_SIZE");
  workers.set_page_size(1);
  workers.set_page_token(first->next_page_token());
  EXPECT_EQ(ErrorReason(list().status()), "PAGE_TOKEN");
}

// Every reader is busy with a list that does not end.
// The numbers of events, or of lines, as they come.
class NumbersSink : public EventSink, public LogSink {
 public:
  bool OnEvent(const v1::JobEvent& event) override { return Take(event.revision()); }
  bool OnEntry(const v1::LogEntry& entry) override { return Take(entry.sequence()); }
  void OnEnd(absl::Status) override {}
  std::vector<int64_t> Await(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto all = [this, count]()
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { return numbers_.size() >= count; };
    mu_.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(10));
    return numbers_;
  }

 private:
  bool Take(int64_t number) {
    absl::MutexLock lock(&mu_);
    numbers_.push_back(number);
    return true;
  }
  absl::Mutex mu_;
  std::vector<int64_t> numbers_ ABSL_GUARDED_BY(mu_);
};

TEST_F(ControllerListsTest, AHistoryIsReadAPieceAtATime) {
  constexpr int64_t kEntries = 1700;
  ASSERT_TRUE(Create("long").ok());
  const std::string name = "projects/default/jobs/long";
  std::vector<store::Write> writes;
  std::vector<int64_t> expected;
  for (int64_t number = 1; number <= kEntries; ++number) {
    expected.push_back(number);
    v1::JobEvent event;
    event.set_revision(number);
    event.set_type("step");
    v1::LogEntry line;
    line.set_sequence(number);
    const auto key = NumberKey(name, static_cast<uint64_t>(number));
    writes.push_back({kEventTable, key, event.SerializeAsString()});
    writes.push_back({kLogTable, key, line.SerializeAsString()});
  }
  store_->Commit(std::move(writes), [](const absl::Status&) {});
  const auto events = std::make_shared<NumbersSink>(), lines = std::make_shared<NumbersSink>();
  v1::WatchJobRequest watch;
  watch.set_name("long");
  const auto watching = controller_->WatchJob(watch, events);
  EXPECT_EQ(events->Await(expected.size()), expected);
  v1::ReadLogsRequest read;
  read.set_name("long");
  const auto reading = controller_->ReadLogs(read, lines);
  EXPECT_EQ(lines->Await(expected.size()), expected);
  EXPECT_LE(store_->largest_scan(kEventTable), 500u);
  EXPECT_LE(store_->largest_scan(kLogTable), 500u);
  // From within the second piece.
  watch.set_after_revision(700);
  const auto later = std::make_shared<NumbersSink>();
  const auto resumed = controller_->WatchJob(watch, later);
  EXPECT_EQ(later->Await(1000), std::vector<int64_t>(expected.begin() + 700, expected.end()));
}

TEST_F(ControllerListsTest, AListHoldsUpNothingThatIsWritten) {
  ASSERT_TRUE(Create("j").ok());
  WriteMetrics(kJobName, 3);
  store_->Hold(kMetricTable);
  v1::ListMetricsRequest request;
  request.set_name(kJobName);
  const int lists = 2 * ControllerOptions().reader_threads;
  absl::Mutex mu;
  int answered = 0;
  for (int i = 0; i < lists; ++i) {
    controller_->ListMetrics(request, [&](const absl::StatusOr<v1::ListMetricsResponse>& answer) {
      EXPECT_TRUE(answer.ok());
      absl::MutexLock lock(&mu);
      ++answered;
    });
  }
  ASSERT_TRUE(store_->AwaitWaiting(ControllerOptions().reader_threads));
  const auto other = Create("k");  // reads files and writes rows
  EXPECT_TRUE(other.ok()) << other.status();
  v1::CancelJobRequest cancel;
  cancel.set_name("k");
  EXPECT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  store_->Hold("");
  absl::MutexLock lock(&mu);
  const auto all = [&] { return answered == lists; };
  EXPECT_TRUE(mu.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(10)));
}

TEST_F(ControllerListsTest, DeleteJobTakesRowsAwayInPiecesAndReadsNoOtherJobsRequests) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Create(absl::StrCat("other-", i), absl::StrCat("r", i)).ok());
  }
  ASSERT_TRUE(Create("j", "mine").ok());
  WriteMetrics(kJobName, 2000);
  v1::CancelJobRequest cancel;
  cancel.set_name("j");
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  const size_t before = store_->largest_commit();
  ASSERT_GT(before, 3000u);  // this test's own
  WriteTrajectories(kJobName, static_cast<int>(before) + 1500);
  store_->TakeScanned(kRequestTable);
  const size_t largest = store_->largest_commit();
  v1::DeleteJobRequest request;
  request.set_name("j");
  const auto deleted =
      Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(request, done); });
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(store_->TakeScanned(kRequestTable), 0u);
  EXPECT_EQ(store_->largest_commit(), largest);  // of more than 6,000 rows no commit had as many
  for (const char* table : {kMetricTable, kTrajectoryTable, kEventTable, kLogTable}) {
    EXPECT_THAT(*store_->Scan(table, NumberRange(kJobName, 0)), IsEmpty()) << table;
  }
  EXPECT_FALSE(store_->Get(kJobTable, kJobName)->has_value());
  EXPECT_FALSE(store_->Get(kRequestTable, "default/mine")->has_value());
  EXPECT_THAT(*store_->Scan(kRequestTable, {}), SizeIs(20));
}

}  // namespace
}  // namespace baton::controller
