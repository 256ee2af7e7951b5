// Uploads and the jobs that name them: which uploads stay, and which calls wait for which.

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller.h"
#include "tests/support/controller/slow_file.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ControllerUploadsTest : public ::testing::Test {
 protected:
  ControllerUploadsTest() { Start({}); }
  void Start(ControllerOptions options) {
    controller_.reset();
    options.data_root = folder_.path();
    options.look_after_deletion = absl::ZeroDuration();
    options.store = std::make_unique<SharedStore>(store_);
    auto controller = Controller::Create(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  /// Uploads examples that no other upload has; returns the path.
  std::string Put(const std::string& name) {
    const auto incoming = controller_->uploads()->Receive("default", name);
    EXPECT_TRUE(
        incoming->Append(absl::StrCat("{\"prompt\": \"", name, "=\", \"answer\": \"2\"}\n")).ok());
    return *incoming->Keep();
  }
  void Age(const std::string& path) const {
    fs::last_write_time(folder_.path(path),
                        fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  bool Exists(const std::string& path) const { return fs::exists(folder_.path(path)); }
  /// True if the file is removed within a time that is ample on any machine.
  bool Goes(const std::string& path) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (Exists(path) && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(2));
    return !Exists(path);
  }

  static v1::CreateJobRequest Request(const std::string& file, const std::string& id) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallRlSpec(file);
    request.set_job_id(id);
    return request;
  }
  absl::StatusOr<v1::Job> Submit(const v1::CreateJobRequest& request) {
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  absl::Status Validate(const std::string& file) {
    v1::ValidateJobRequest request;
    *request.mutable_spec() = SmallRlSpec(file);
    return Wait<v1::ValidateJobResponse>(
               [&](auto done) { controller_->ValidateJob(request, done); })
        .status();
  }
  absl::Status Delete(const std::string& id) {
    v1::CancelJobRequest cancel;
    cancel.set_name(id);
    const auto ended = Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); });
    if (!ended.ok()) return ended.status();
    v1::DeleteJobRequest request;
    request.set_name(id);
    return Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(request, done); })
        .status();
  }
  void Commit(std::vector<store::Write> writes) {
    absl::Notification written;
    store_->Commit(std::move(writes), [&](const absl::Status&) { written.Notify(); });
    written.WaitForNotification();
  }

  const TestFolder folder_;
  std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerUploadsTest, RemovesOldUploadsThatNoJobNames) {
  const std::string used = Put("1+1"), unused = Put("1+2"), young = Put("1+3");
  ASSERT_TRUE(Submit(Request(used, "add")).ok());
  Age(used);
  Age(unused);
  Start({});
  EXPECT_TRUE(Goes(unused));
  EXPECT_TRUE(Exists(used));
  EXPECT_TRUE(Exists(young));
  Age(young);
  ASSERT_TRUE(Delete("add").ok());
  EXPECT_TRUE(Goes(used));
  EXPECT_TRUE(Goes(young));
  EXPECT_EQ(controller_->uploads()->UsedBytes("default"), 0);
}

TEST_F(ControllerUploadsTest, LooksForUnnamedUploadsPeriodically) {
  ControllerOptions options;
  options.look_for_unnamed_uploads = absl::Milliseconds(1);
  Start(std::move(options));
  for (const char* name : {"1+1", "1+2"}) {
    const std::string unused = Put(name);
    Age(unused);
    EXPECT_TRUE(Goes(unused));
  }
}

TEST_F(ControllerUploadsTest, ValidatingASpecKeepsItsUpload) {
  ControllerOptions keeps_all;  // or its first look might come after the files have aged
  keeps_all.unnamed_uploads_kept = absl::InfiniteDuration();
  Start(std::move(keeps_all));
  const std::string looked_at = Put("1+1"), unused = Put("1+2");
  Age(looked_at);
  Age(unused);
  ASSERT_TRUE(Validate(looked_at).ok());
  Start({});
  EXPECT_TRUE(Goes(unused));
  EXPECT_TRUE(Exists(looked_at));
}

// Without its row, a job is known by its folder.
TEST_F(ControllerUploadsTest, KeepsUploadsThatCheckpointsName) {
  const std::string saved = Put("1+1"), unused = Put("1+2");
  const auto job = Submit(Request(saved, "add"));
  ASSERT_TRUE(job.ok()) << job.status();
  store::v1::JobRow row;
  ASSERT_TRUE(row.ParseFromString(**store_->Get(kJobTable, job->name())));
  ASSERT_TRUE(row.mutable_job()->MergeFromString(**store_->Get(kSpecTable, job->name())));
  const CheckpointFiles files(folder_.path("jobs/default/add"), folder_.path());
  ASSERT_TRUE(files.Prepare(0, 1, "actor").ok());
  ASSERT_TRUE(files.Commit(0, 1, row, {}).ok());
  for (const bool with_copy : {true, false}) {
    if (!with_copy) fs::remove_all(files.PathOf(0) + "/data");
    controller_.reset();
    store_ = std::make_shared<store::MemoryStore>();
    Start({});
    const std::string other = with_copy ? unused : Put("1+2");
    Age(saved);
    Age(other);
    Start({});
    EXPECT_TRUE(Goes(other));
    EXPECT_TRUE(Exists(saved)) << with_copy;
  }
}

TEST_F(ControllerUploadsTest, KeepsAllUploadsOfAProjectWithAnUnreadableJob) {
  const std::string used = Put("1+1");
  const auto job = Submit(Request(used, "add"));
  ASSERT_TRUE(job.ok()) << job.status();
  auto incoming = controller_->uploads()->Receive("other", "x");
  const std::string unused = *incoming->Keep();
  incoming.reset();  // before its controller
  controller_.reset();
  Commit({{kSpecTable, job->name(), "no spec"}});
  Age(used);
  Age(unused);
  Start({});
  EXPECT_TRUE(Goes(unused));  // of another project
  EXPECT_TRUE(Exists(used));
}

// Two at once: a pool of two threads would be full.
TEST_F(ControllerUploadsTest, LargeSubmissionsDoNotHoldUpOthers) {
  ControllerOptions options;
  options.large_data_bytes = 1000;
  Start(std::move(options));
  const std::string small = Put("1+1");
  std::vector<std::string> large;
  for (const char* name : {"/large-1.jsonl", "/large-2.jsonl", "/large-3.jsonl"}) {
    large.push_back(folder_.path() + name);
    std::ofstream out(large.back());
    for (int i = 0; i < 100; ++i) out << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
  }
  SlowFile first(large[0]), second(large[1]), third(large[2]);
  ASSERT_TRUE(first.leased() && second.leased() && third.leased()) << "needs leases of files";
  absl::Notification created, validated, again;
  absl::StatusOr<v1::Job> job, repeated;
  absl::Status checked;
  v1::CreateJobRequest request = Request(large[0], "large");
  request.set_request_id("request-1");
  controller_->CreateJob(request, [&](absl::StatusOr<v1::Job> answer) {
    job = std::move(answer);
    created.Notify();
  });
  v1::ValidateJobRequest validate;
  *validate.mutable_spec() = SmallRlSpec(large[1]);
  controller_->ValidateJob(validate, [&](absl::StatusOr<v1::ValidateJobResponse> answer) {
    checked = answer.status();
    validated.Notify();
  });
  controller_->CreateJob(request, [&](absl::StatusOr<v1::Job> answer) {
    repeated = std::move(answer);
    again.Notify();
  });
  v1::CreateJobRequest unread = Request(large[2], "unread");
  controller_->CreateJob(unread, [](const absl::StatusOr<v1::Job>&) {});
  for (const char* id : {"small-1", "small-2", "small-3"}) {
    const auto answered = Submit(Request(small, id));
    EXPECT_TRUE(answered.ok()) << answered.status();
  }
  EXPECT_TRUE(Validate(small).ok());
  EXPECT_TRUE(Delete("small-3").ok());
  EXPECT_FALSE(created.HasBeenNotified());
  EXPECT_FALSE(validated.HasBeenNotified());
  for (SlowFile* file : {&first, &second, &third}) file->GiveUpLease();
  for (absl::Notification* one : {&created, &validated, &again}) one->WaitForNotification();
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(checked.ok()) << checked;
  ASSERT_TRUE(repeated.ok()) << repeated.status();  // one job
  EXPECT_EQ(repeated->uid(), job->uid());
}

// A call that waits for a slow file is refused if another call takes the name meanwhile.
TEST_F(ControllerUploadsTest, RefusesOneOfTwoConcurrentCallsWithOneName) {
  ControllerOptions options;
  options.large_data_bytes = 1000;
  Start(std::move(options));
  const std::string small = Put("1+1"), large = folder_.path("large.jsonl");
  for (int i = 0; i < 100; ++i) {
    std::ofstream(large, std::ios::app) << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
  }
  SlowFile slow(large);
  ASSERT_TRUE(slow.leased());
  absl::Notification answered;
  absl::Status late;
  controller_->CreateJob(Request(large, "add"), [&](const absl::StatusOr<v1::Job>& answer) {
    late = answer.status();
    answered.Notify();
  });
  EXPECT_TRUE(Submit(Request(small, "add")).ok());
  slow.GiveUpLease();
  answered.WaitForNotification();
  EXPECT_EQ(ErrorReason(late), "JOB_EXISTS");
}

TEST_F(ControllerUploadsTest, ARefusalThatNeedsNoFileWaitsForNone) {
  const std::string large = folder_.path("large.jsonl");
  std::ofstream(large) << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
  v1::Project project;
  project.set_project("default");
  project.set_max_jobs(1);
  ASSERT_TRUE(Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).ok());
  ASSERT_TRUE(Submit(Request(Put("1+1"), "one")).ok());
  SlowFile slow(large);
  ASSERT_TRUE(slow.leased());
  EXPECT_EQ(ErrorReason(Submit(Request(large, "two")).status()), "QUOTA_JOBS");
  v1::CreateJobRequest request = Request(large, "two");
  request.set_project("a/..");
  EXPECT_EQ(ErrorReason(Submit(request).status()), "NAME_INVALID");
  slow.GiveUpLease();
}

}  // namespace
}  // namespace baton::controller
