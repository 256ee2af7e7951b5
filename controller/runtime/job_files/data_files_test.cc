#include "controller/runtime/job_files/data_files.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/sqlite_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGrownJob[] = "projects/default/jobs/running";

class DataFilesTest : public ::testing::Test {
 protected:
  std::string WriteLines(const std::string& name, int count) const {
    const std::string path = folder_.path(name);
    std::ofstream out(path);
    for (int i = 0; i < count; ++i) out << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
    return path;
  }
  absl::Status Open(ControllerOptions options) {
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    if (!store.ok()) return store.status();
    options.data_root = folder_.path();
    options.store = *std::move(store);
    auto controller = Controller::Create(std::move(options));
    if (controller.ok()) controller_ = *std::move(controller);
    return controller.status();
  }
  /// Stops the controller. In the store the job has all its workers, and works.
  void MakeRunning(const std::string& job) {
    controller_.reset();
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    store::v1::JobRow row;
    ASSERT_TRUE(row.ParseFromString(**(*store)->Get(kJobTable, job)));
    row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
    row.mutable_job()->set_policy_version(1);
    row.set_published_version(1);
    for (store::v1::SlotRow& slot : *row.mutable_slots()) {
      slot.set_worker_id(slot.role() + "-0");
      slot.set_ready(true);
      slot.set_credits(4);
    }
    absl::Notification written;
    (*store)->Commit({{kJobTable, job, row.SerializeAsString()}},
                     [&](const absl::Status&) { written.Notify(); });
    written.WaitForNotification();
  }

  const TestFolder folder_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(DataFilesTest, AListThatIsTooLargeIsNotRead) {
  const std::vector<std::string> paths = {WriteLines("a", 10), WriteLines("b", 5)};
  const uint64_t bytes = fs::file_size(paths[0]) + fs::file_size(paths[1]);
  const DataSet whole = ReadDataFiles(paths, {}, {bytes});
  EXPECT_THAT(whole.problems, IsEmpty());
  EXPECT_EQ(whole.examples.size(), 15u);
  const DataSet large = ReadDataFiles(paths, {}, {bytes - 1});
  EXPECT_THAT(large.problems,
              ElementsAre(HasSubstr(
                  absl::StrCat("the files have ", bytes, " bytes together, at most ", bytes - 1))));
  EXPECT_TRUE(large.examples.empty());
  const DataSet absent = ReadDataFiles({folder_.path("absent")}, {}, {bytes});
  EXPECT_THAT(absent.problems,
              ElementsAre(HasSubstr(folder_.path("absent") + ": cannot be opened")));
}

TEST_F(DataFilesTest, EachListOfAJobIsBoundedAndItsEvaluationToo) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->add_train_files(WriteLines("train", 100));
  spec.mutable_data()->add_val_files("val");  // below the data root
  WriteLines("val", 30);
  spec.mutable_data()->set_max_prompt_length(6);
  spec.mutable_data()->set_max_response_length(4);
  spec.mutable_rollout()->mutable_val()->set_n(2);
  DataLimits limits;
  limits.steps.responses = 60;
  limits.steps.tokens = 600;
  DataCache cache(1 << 30);
  const auto problems = [&] {
    DataCache other(1 << 30);  // of a controller with these limits
    return ReadJobData(spec, folder_.path(), limits, false, &other)->problems;
  };
  const JobData good = *ReadJobData(spec, folder_.path(), limits, false, &cache);
  EXPECT_THAT(good.problems, IsEmpty());
  EXPECT_EQ(good.train->examples.size(), 100u);
  EXPECT_EQ(good.val->examples.size(), 30u);
  EXPECT_EQ(ReadJobData(spec, folder_.path(), limits, false, &cache)->train, good.train)
      << "shared";

  limits.bytes = fs::file_size(folder_.path("val"));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("spec.data.train_files: the files have ")));
  limits.bytes *= 1000;
  WriteLines("val", 31);
  EXPECT_THAT(problems(),
              ElementsAre(HasSubstr("spec.data.val_files: examples of spec.data.val_files x "
                                    "spec.rollout.val.n = 62 responses of an evaluation")));
  limits.steps.responses = 62;
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("= 620 tokens of an evaluation, at most 600")));
}

// A line of 16 bytes takes many times as much in memory.
TEST_F(DataFilesTest, ExamplesAreBoundedInMemory) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->add_train_files(WriteLines("train", 100));
  spec.mutable_data()->add_val_files(WriteLines("val", 100));
  DataCache cache(1 << 30);
  const uint64_t list = ReadDataSet({folder_.path("train")}, {}).memory_bytes;
  DataLimits limits;
  limits.memory_bytes = 2 * list;
  EXPECT_THAT(ReadJobData(spec, folder_.path(), limits, false, &cache)->problems, IsEmpty());
  // Others fill the bound; a job that held its data still goes on.
  DataCache crowded(1);
  const auto others = *crowded.Get({folder_.path("val")}, {}, 0,
                                   [&] { return ReadDataSet({folder_.path("val")}, {}); });
  EXPECT_FALSE(ReadJobData(spec, folder_.path(), limits, false, &crowded).ok());
  EXPECT_TRUE(ReadJobData(spec, folder_.path(), limits, true, &crowded).ok());
  --limits.memory_bytes;  // each list fits
  EXPECT_THAT(ReadJobData(spec, folder_.path(), limits, false, &cache)->problems,
              ElementsAre(HasSubstr("--max-data-memory-bytes")));
  limits.memory_bytes = list / 2;
  const JobData cut = *ReadJobData(spec, folder_.path(), limits, false, &cache);
  EXPECT_LE(cut.train->memory_bytes, limits.memory_bytes);
  EXPECT_THAT(cut.problems,
              ::testing::Contains(HasSubstr(absl::StrCat("bytes in memory, at most ", list / 2))));
}

// Records the events that a job's watchers get.
class EndOfRunning : public EventSink {
 public:
  bool OnEvent(const v1::JobEvent& event) override {
    absl::MutexLock lock(&mu_);
    if (event.type() == "state") state_ = event;
    return true;
  }
  void OnEnd(absl::Status) override {}
  /// The state that follows RUNNING.
  v1::JobEvent Await() {
    absl::MutexLock lock(&mu_);
    const auto over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return state_.state() == v1::Job::STATE_STOPPING || state_.state() == v1::Job::STATE_FAILED;
    };
    mu_.AwaitWithTimeout(absl::Condition(&over), absl::Seconds(20));
    return state_;
  }

 private:
  absl::Mutex mu_;
  v1::JobEvent state_ ABSL_GUARDED_BY(mu_);
};

TEST_F(DataFilesTest, OnlyTheJobWhoseFilesGrewFailsAtTheRestart) {
  const std::string train = WriteLines("train", 5);
  const uint64_t before = fs::file_size(train);
  ASSERT_TRUE(Open({}).ok());
  for (const char* id : {"running", "waiting"}) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallRlSpec(train);
    request.set_job_id(id);
    const auto job = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
    ASSERT_TRUE(job.ok()) << job.status();
  }
  MakeRunning(kGrownJob);
  WriteLines("train", 5000);
  ControllerOptions options;
  options.max_data_bytes = 10 * before;
  ASSERT_TRUE(Open(std::move(options)).ok());
  const auto sink = std::make_shared<EndOfRunning>();
  v1::WatchJobRequest watch;
  watch.set_name(kGrownJob);
  const auto subscription = controller_->WatchJob(watch, sink);
  const v1::JobEvent end = sink->Await();
  EXPECT_THAT(end.message(), HasSubstr("the data cannot be used"));
  EXPECT_THAT(end.message(), HasSubstr(absl::StrCat("spec.data.train_files: the files have ",
                                                    1000 * before, " bytes together")));
  EXPECT_THAT(end.message(), HasSubstr("--max-data-bytes"));
  v1::GetJobRequest get;
  get.set_name("projects/default/jobs/waiting");
  const auto other = Wait<v1::Job>([&](auto done) { controller_->GetJob(get, done); });
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->state(), v1::Job::STATE_QUEUED);
  EXPECT_TRUE(controller_->Ready().ok());
}

}  // namespace
}  // namespace baton::controller
