// Models of a job: models of other jobs are copied into its folder, so that later changes of those
// jobs do not affect it.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/runtime/job_files/job_folders.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/checker.h"
#include "tests/support/controller/controller_resume.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ControllerModelsTest : public ControllerResumeTest {
 protected:
  void EndAndDelete(const std::string& id) {
    v1::CancelJobRequest cancel;
    cancel.set_name(id);
    ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
    v1::DeleteJobRequest request;
    request.set_name(id);
    const absl::Status deleted = Wait<v1::DeleteJobResponse>([&](auto done) {
                                   controller_->DeleteJob(request, done);
                                 }).status();
    ASSERT_TRUE(deleted.ok()) << deleted;
    ASSERT_FALSE(fs::exists(FolderOf(id)));
  }
  v1::JobSpec WithReference(v1::JobSpec spec, const std::string& path) const {
    spec.mutable_algorithm()->set_use_kl_loss(true);
    spec.mutable_reference()->mutable_model()->set_path(path);
    return spec;
  }
  v1::Job Get(const std::string& id) {
    v1::GetJobRequest request;
    request.set_name(id);
    return Wait<v1::Job>([&](auto done) { controller_->GetJob(request, done); }).value();
  }
};

// The job gets the very files that were checked, and two names of one checkpoint stay two.
TEST_F(ControllerModelsTest, ModelsOfOtherJobsAreThoseThatWereChecked) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4, 6});
  Record("add", {4, 6});
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec("job:add");
  request.mutable_spec()->mutable_algorithm()->set_use_kl_loss(true);
  request.mutable_spec()->mutable_reference()->mutable_model()->set_path("job:add@6");
  request.set_job_id("next");
  const auto job = CreateWhile(request, [&] {
    Save("add", {8});
    Record("add", {8});
    fs::remove_all(StepOf("add", 6));
  });
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::JobSpec& effective = job->effective_spec();
  EXPECT_EQ(effective.model().path(), (FolderOf("next") / "model").string());
  EXPECT_EQ(effective.reference().model().path(), effective.model().path());
  EXPECT_EQ(TreeOf(FolderOf("next"))["model/model.safetensors"], "weights of 6");
  EXPECT_FALSE(fs::exists(FolderOf("next") / "model-2"));
}

TEST_F(ControllerModelsTest, ValidationReportsTheModelsFolderAndNotItsCopy) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  Record("add", {4});
  v1::ValidateJobRequest request;
  *request.mutable_spec() = Spec("job:add");
  const auto checked =
      Wait<v1::ValidateJobResponse>([&](auto done) { controller_->ValidateJob(request, done); });
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT(checked->violations(), IsEmpty());
  EXPECT_EQ(checked->effective_spec().model().path(), (StepOf("add", 4) / "actor").string());
  for (const auto& entry : fs::directory_iterator(folder_.path("data/jobs/default"))) {
    EXPECT_EQ(entry.path().filename().string(), "add");  // no copy is left
  }
}

TEST(JobFoldersTest, ACheckpointThatWasRemovedIsNotLinked) {
  const fs::path folder = ::testing::TempDir() + "link_checkpoint";
  fs::remove_all(folder);
  EXPECT_TRUE(absl::IsNotFound(LinkCheckpoint(folder / "step-1", folder / "copy")));
  EXPECT_FALSE(fs::exists(folder / "copy"));
  WriteText(folder / "step-1/actor/config.json", "{}");
  ASSERT_TRUE(LinkCheckpoint(folder / "step-1", folder / "copy").ok());
  EXPECT_EQ(TreeOf(folder / "copy"), TreeOf(folder / "step-1"));
  fs::remove_all(folder);
}

// The reference of the first job lies in the first job's folder, or in that of a third.
TEST_F(ControllerModelsTest, AJobThatGoesOnKeepsItsReferenceWhenTheFirstJobIsDeleted) {
  ASSERT_TRUE(Submit(Spec(), "pre").ok());
  Save("pre", {2, 4});
  Record("pre", {2, 4});
  ASSERT_TRUE(Submit(WithReference(Spec("job:pre@4"), "job:pre@2"), "first").ok());
  Save("first", {6});
  Record("first", {6});
  v1::CreateJobRequest request;
  request.set_checkpoint("job:first");
  request.set_job_id("next");
  const auto next = Create(request);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->effective_spec().model().path(), (FolderOf("next") / "model").string());
  EXPECT_EQ(next->effective_spec().reference().model().path(),
            (FolderOf("next") / "model-2").string());
  Start();
  EndAndDelete("first");
  EndAndDelete("pre");
  Start();
  EXPECT_EQ(Get("next").effective_spec().reference().model().path(),
            (FolderOf("next") / "model-2").string());
  EXPECT_EQ(TreeOf(FolderOf("next"))["model/model.safetensors"], "weights of 6");
  EXPECT_EQ(TreeOf(FolderOf("next"))["model-2/model.safetensors"], "weights of 2");
}

// A path names the folder; what counts is the job that owns it.
TEST_F(ControllerModelsTest, AModelThatIsNamedByItsPathInAJobsFolderIsCopiedToo) {
  ASSERT_TRUE(Submit(Spec(), "pre").ok());
  Save("pre", {4});
  Record("pre", {4});
  const std::string path = (StepOf("pre", 4) / "actor").string();
  const auto job = Submit(WithReference(Spec(folder_.path("base")), path), "next");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->effective_spec().model().path(), folder_.path("base"));
  EXPECT_EQ(job->effective_spec().reference().model().path(),
            (FolderOf("next") / "model").string());
  EXPECT_EQ(job->spec().reference().model().path(), path);
  EndAndDelete("pre");
  EXPECT_EQ(TreeOf(FolderOf("next"))["model/model.safetensors"], "weights of 4");
}

// Copies take room on the disk until their submission is answered.
TEST_F(ControllerModelsTest, EightSubmissionsOfAProjectHoldCopiesAtOnce) {
  ASSERT_TRUE(Submit(Spec(), "pre").ok());
  Save("pre", {4});
  Record("pre", {4});
  checker_ = WriteChecker(folder_.path(), "while [ ! -e done ]; do sleep 0.01; done");
  Start();
  std::vector<absl::Notification> answered(8);
  for (size_t i = 0; i < answered.size(); ++i) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = Spec("job:pre");
    request.set_job_id(absl::StrCat("next-", i));
    controller_->CreateJob(request, [&answered, i](absl::StatusOr<v1::Job> job) {
      EXPECT_TRUE(job.ok()) << job.status();
      answered[i].Notify();
    });
  }
  const auto copies = [this] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path("data/jobs/default"))) {
      count += fs::exists(entry.path() / "model/model.safetensors") ? 1 : 0;
    }
    return count;
  };
  for (const absl::Time end = absl::Now() + absl::Seconds(60); copies() < 8 && absl::Now() < end;) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_EQ(copies(), 8);
  EXPECT_EQ(ErrorReason(Submit(Spec("job:pre"), "ninth").status()), "SUBMISSIONS_WAITING");
  EXPECT_EQ(ErrorReason(GoOn(StepOf("pre", 4), "ninth").status()), "SUBMISSIONS_WAITING");
  EXPECT_EQ(copies(), 8);
  WriteText(folder_.path("done"), "");
  for (absl::Notification& one : answered) one.WaitForNotification();
  EXPECT_TRUE(Submit(Spec("job:pre"), "ninth").ok());
}

// The job's own folder has the models already, under names that are never overwritten.
TEST_F(ControllerModelsTest, ALostJobGoesOnWithTheModelsInItsFolder) {
  ASSERT_TRUE(Submit(Spec(), "pre").ok());
  Save("pre", {2, 4});
  Record("pre", {2, 4});
  ASSERT_TRUE(Submit(WithReference(Spec("job:pre@4"), "job:pre@2"), "first").ok());
  Save("first", {6});
  LoseStore();
  const auto before = TreeOf(FolderOf("first"));
  const auto job = GoOn(FolderOf("first"), "");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->effective_spec().reference().model().path(),
            (FolderOf("first") / "model-2").string());
  EXPECT_EQ(TreeOf(FolderOf("first")), before);
}

}  // namespace
}  // namespace baton::controller
