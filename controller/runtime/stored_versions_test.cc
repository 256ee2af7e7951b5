// Data roots of earlier releases, and damaged ones: the jobs in them are the same, or the error
// says what is wrong. controller/store/testdata/vN was made by a program of schema version N: a
// job that ended, one whose controller was stopped in its fifth step, and what that controller
// answered about both.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/controller_testing.h"
#include "controller/runtime/tables.h"
#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "sdk/base/earlier_release.h"
#include "sdk/base/test_folder.h"
#include "sdk/base/worker_features.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void ReplaceIn(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = ReadFile(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << path;
  std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
}

class StoredVersionsTest : public ::testing::TestWithParam<int> {
 protected:
  void CopyVersion(int version) {
    const char* source = std::getenv("BATON_SOURCE_DIR");
    const fs::path from =
        absl::StrCat(source == nullptr ? "." : source, "/controller/store/testdata/v", version);
    fs::copy(from, folder_.path(), fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      fs::permissions(entry, fs::perms::owner_all, fs::perm_options::add);
    }
  }
  absl::Status Open() {
    controller_.reset();
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    if (!store.ok()) return store.status();
    return Open(*std::move(store));
  }
  absl::Status Open(std::unique_ptr<store::Store> store) {
    ControllerOptions options;
    options.data_root = folder_.path();
    options.store = std::move(store);
    auto controller = Controller::Create(std::move(options));
    if (controller.ok()) controller_ = *std::move(controller);
    return controller.status();
  }

  v1::Job Get(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    auto job = Wait<v1::Job>([&](auto done) { controller_->GetJob(request, done); });
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : v1::Job();
  }
  absl::StatusOr<v1::Job> GoOnFrom(const std::string& checkpoint, const std::string& id) {
    v1::CreateJobRequest request;
    request.set_checkpoint(checkpoint);
    request.set_job_id(id);
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  /// What the program of that version answered.
  v1::Job Recorded(const std::string& file) const {
    v1::Job job;
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage(ReadFile(folder_.path(file)), &job).ok());
    return job;
  }

  const TestFolder folder_;
  std::unique_ptr<Controller> controller_;
};

TEST_P(StoredVersionsTest, AJobThatEndedIsShownAsItWas) {
  CopyVersion(GetParam());
  ASSERT_TRUE(Open().ok());
  const v1::Job expected = Recorded("ended.json");
  const v1::Job job = Get("projects/default/jobs/ended");
  ASSERT_EQ(expected.state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_TRUE(MessageDifferencer::Equals(job, expected)) << job.DebugString();
  v1::ListTrajectoriesRequest request;
  request.set_name("ended");
  auto listed = Wait<v1::ListTrajectoriesResponse>(
      [&](auto done) { controller_->ListTrajectories(request, done); });
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->trajectories_size(), 8);
  const auto known =
      std::find_if(listed->trajectories().begin(), listed->trajectories().end(),
                   [](const v1::Trajectory& one) { return one.response_text() == "hi4wl6t1"; });
  ASSERT_NE(known, listed->trajectories().end());
  EXPECT_EQ(known->prompt_text(), "2+2=");
}

TEST_P(StoredVersionsTest, AJobOnItsWayGoesOnWhereItStood) {
  CopyVersion(GetParam());
  const v1::Job expected = Recorded("running.json");
  for (int starts = 0; starts < 2; ++starts) {  // the second reads what the first wrote
    ASSERT_TRUE(Open().ok());
    const v1::Job job = Get("projects/default/jobs/running");
    EXPECT_EQ(job.uid(), expected.uid());
    EXPECT_EQ(job.state(), v1::Job::STATE_RUNNING);
    EXPECT_EQ(job.step(), 4);
    EXPECT_EQ(job.policy_version(), expected.policy_version());
    EXPECT_EQ(job.revision(), expected.revision());
    EXPECT_TRUE(MessageDifferencer::Equals(job.spec(), expected.spec()));
    EXPECT_TRUE(MessageDifferencer::Equals(job.effective_spec(), expected.effective_spec()));
    EXPECT_TRUE(MessageDifferencer::Equals(job.dataflow(), expected.dataflow()));
    v1::ExplainJobRequest request;
    request.set_name("running");
    auto why = Wait<v1::ExplainJobResponse>([&](auto d) { controller_->ExplainJob(request, d); });
    ASSERT_TRUE(why.ok()) << why.status();
    std::string waits;
    for (const v1::Wait& wait : why->waits()) absl::StrAppend(&waits, wait.cause(), "\n");
    EXPECT_THAT(waits, HasSubstr("worker worker-0 to attach again"));
  }
}

// Under `none`, which was the default, messages were joined; a worker of that release does so by
// itself, and this release's is asked to.
TEST_P(StoredVersionsTest, AJobOnItsWayJoinsMessagesAsThere) {
  for (const bool newer : {true, false}) {
    CopyVersion(GetParam());
    ASSERT_TRUE(Open().ok());
    auto stream = std::make_shared<FakeStream>();
    const auto session = controller_->Attach(stream);
    v1::WorkerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_worker_id("worker-0");
    hello.set_instance_id("another");  // it was started again, and holds nothing
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    for (const char* method : {"update", "publish", "save_checkpoint"}) {
      v1::MethodCredits* offered = hello.add_methods();
      offered->set_role("actor");
      offered->set_method(method);
      offered->set_credits(1);
    }
    if (newer) hello.add_features(kChatTemplatesFeature);
    session->OnMessage(message);
    v1::Task task;
    for (size_t i = 0; !task.has_assign_role() && stream->Message(i).ByteSizeLong() > 0; ++i) {
      task = stream->Message(i).task();
    }
    ASSERT_TRUE(task.has_assign_role());
    EXPECT_EQ(task.assign_role().spec().model().chat_template(), newer ? kJoinedMessages : "none");
    session->OnClosed();
    controller_.reset();
    fs::remove_all(folder_.path());
  }
}

// They stood in the job's row, and have rows of their own from now on.
TEST_P(StoredVersionsTest, CheckpointsAreListedAsTheyWere) {
  CopyVersion(GetParam());
  const std::string running = "projects/default/jobs/running";
  store::v1::JobRow before;
  {
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(before.ParseFromString(**(*store)->Get(kJobTable, running)));
  }
  ASSERT_EQ(before.checkpoints_size(), 1);
  for (int starts = 0; starts < 2; ++starts) {
    ASSERT_TRUE(Open().ok());
    v1::ListCheckpointsRequest request;
    request.set_name("running");
    const auto listed = Wait<v1::ListCheckpointsResponse>(
        [&](auto done) { controller_->ListCheckpoints(request, done); });
    ASSERT_TRUE(listed.ok()) << listed.status();
    ASSERT_EQ(listed->checkpoints_size(), 1);
    EXPECT_TRUE(MessageDifferencer::Equals(listed->checkpoints(0), before.checkpoints(0)));
  }
  controller_.reset();
  auto store = store::SqliteStore::Open(folder_.path("baton.db"));
  ASSERT_TRUE(store.ok()) << store.status();
  const auto rows = (*store)->Scan(kCheckpointTable, NumberRange(running, 0));
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->at(0).key, NumberKey(running, 4));
  EXPECT_EQ(rows->at(0).value, before.checkpoints(0).SerializeAsString());
}

TEST_P(StoredVersionsTest, ACheckpointGoesOn) {
  CopyVersion(GetParam());
  ASSERT_TRUE(Open(std::make_unique<store::MemoryStore>()).ok());
  auto job = GoOnFrom("jobs/default/running/checkpoints/step-4", "again");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(job->step(), 4);
  EXPECT_TRUE(MessageDifferencer::Equals(job->spec(), Recorded("running.json").spec()));
}

INSTANTIATE_TEST_SUITE_P(Schema, StoredVersionsTest, ::testing::Values(1, 2, 3));

using DamagedRowsTest = StoredVersionsTest;

TEST_F(DamagedRowsTest, AJobsRowThatParsesButIsNoneIsNamed) {
  CopyVersion(1);
  std::string row;
  {
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    row = **(*store)->Get(kJobTable, "projects/default/jobs/running");
  }
  store::v1::JobRow damaged;
  ASSERT_TRUE(damaged.ParseFromString(row));
  damaged.clear_slots();
  auto store = std::make_unique<store::MemoryStore>();
  absl::Notification written;
  store->Commit({{kJobTable, "projects/default/jobs/running", damaged.SerializeAsString()}},
                [&](absl::Status) { written.Notify(); });
  written.WaitForNotification();
  ASSERT_TRUE(Open(std::move(store)).ok());  // it is set aside, and the others go on
  v1::GetJobRequest request;
  request.set_name("running");
  const auto job = Wait<v1::Job>([&](auto done) { controller_->GetJob(request, done); });
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(ErrorReason(FromProto(job->error())), "QUARANTINED");
  EXPECT_THAT(job->error().message(), HasSubstr("projects/default/jobs/running"));
  EXPECT_THAT(job->error().message(), HasSubstr("slots"));
}

TEST_F(DamagedRowsTest, ACheckpointThatSomebodyEditedIsRefused) {
  CopyVersion(1);
  ASSERT_TRUE(Open(std::make_unique<store::MemoryStore>()).ok());
  const std::string checkpoint = folder_.path("jobs/default/running/checkpoints/step-4");
  ReplaceIn(checkpoint + "/job.json", "\"slots\"", "\"nobody\"");
  const auto job = GoOnFrom(checkpoint, "again");
  EXPECT_EQ(ErrorReason(job.status()), "CHECKPOINT_FOLDER");
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("slots"));
  EXPECT_FALSE(fs::exists(folder_.path("jobs/default/again")));
}

}  // namespace
}  // namespace baton::controller
