// Jobs that go on from folders: nothing that a call did not make is ever deleted, and a controller
// that lost its store gets every job back.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller_resume.h"
#include "tests/support/controller/slow_file.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ControllerResumeTest, AJobGoesOnFromAnotherOneWithWhatChanges) {
  v1::JobSpec spec = Spec();
  spec.mutable_trainer()->set_keep_best("critic/score/mean");
  ASSERT_TRUE(Submit(spec, "add").ok());
  Save("add", {4, 6});
  Record("add", {4, 6}, /*best=*/4);
  v1::CreateJobRequest request;
  request.set_checkpoint("job:add");
  request.set_job_id("longer");
  request.mutable_changes()->mutable_trainer()->set_total_training_steps(2000);
  const auto longer = Create(request);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->step(), 6);
  EXPECT_EQ(longer->total_steps(), 2000);
  EXPECT_EQ(longer->effective_spec().trainer().total_training_steps(), 2000);
  EXPECT_EQ(longer->spec().trainer().total_training_steps(), 2000);
  EXPECT_EQ(longer->effective_spec().data().seed(), 1);
  EXPECT_THAT(CheckpointsOf("longer"), ElementsAre(StepOf("longer", 6).string()));

  request.set_checkpoint("job:add@best");
  request.set_job_id("from-best");
  EXPECT_EQ(Create(request)->step(), 4);
  request.set_checkpoint("job:add@4");
  request.set_job_id("from-4");
  EXPECT_EQ(Create(request)->step(), 4);

  request.set_job_id("refused");
  request.mutable_changes()->mutable_data()->set_seed(7);
  const absl::Status refused = Create(request).status();
  EXPECT_EQ(ErrorReason(refused), "SPEC_INVALID") << refused;
  ASSERT_EQ(ErrorViolations(refused).size(), 1u);
  EXPECT_EQ(ErrorViolations(refused)[0].field(), "spec.data.seed");
  request.mutable_changes()->Clear();
  request.mutable_changes()->mutable_trainer()->set_total_training_steps(4);
  EXPECT_THAT(ErrorViolations(Create(request).status())[0].description(),
              HasSubstr("there is nothing left to do"));
  request.set_checkpoint("job:none");
  absl::Status unknown = Create(request).status();
  EXPECT_EQ(ErrorReason(unknown), "JOB_NOT_FOUND");
  EXPECT_EQ(unknown.message(), "there is no job 'projects/default/jobs/none'");
  request.set_checkpoint("job:dad");
  unknown = Create(request).status();
  EXPECT_EQ(ErrorReason(unknown), "JOB_NOT_FOUND");
  EXPECT_THAT(unknown.message(), HasSubstr("jobs/dad'; did you mean 'add'?"));
  request.set_checkpoint("job:add@5");
  EXPECT_EQ(ErrorReason(Create(request).status()), "CHECKPOINT_NOT_FOUND");
  EXPECT_FALSE(fs::exists(FolderOf("refused")));
}

TEST_F(ControllerResumeTest, NoJobGoesOnFromACheckpointWithWeightsOnly) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4, 6});
  Record("add", {4, 6});
  const auto refused = [this](const std::string& checkpoint) {
    const absl::Status status = GoOn(checkpoint, "refused").status();
    EXPECT_EQ(ErrorReason(status), "CHECKPOINT_WEIGHTS_ONLY") << checkpoint << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("go on from " + StepOf("add", 6).string()))
        << checkpoint;
  };
  // Marked, and its files are still there: the controller is about to remove them.
  v1::Checkpoint marked;
  marked.set_step(4);
  marked.set_path(StepOf("add", 4).string());
  marked.set_weights_only(true);
  store_->Commit(
      {{kCheckpointTable, NumberKey("projects/default/jobs/add", 4), marked.SerializeAsString()}},
      [](const absl::Status&) {});
  refused("job:add@4");
  ASSERT_TRUE(RemoveOptimizer(folder_.path("data"), StepOf("add", 4)).ok());
  refused("job:add@4");
  refused(StepOf("add", 4).string());
  EXPECT_FALSE(fs::exists(FolderOf("refused")));
  EXPECT_TRUE(GoOn("job:add", "longer").ok());
  const auto anew = Submit(Spec("job:add@4"), "anew");
  EXPECT_TRUE(anew.ok()) << anew.status() << ": the weights serve as a model";
}

// Its folder says what the lost rows said.
TEST_F(ControllerResumeTest, AJobOfALostStoreKnowsItsCheckpointsWithWeightsOnly) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4, 6});
  ASSERT_TRUE(RemoveOptimizer(folder_.path("data"), StepOf("add", 4)).ok());
  LoseStore();
  EXPECT_EQ(ErrorReason(GoOn(StepOf("add", 4), "").status()), "CHECKPOINT_WEIGHTS_ONLY");
  ASSERT_TRUE(GoOn(FolderOf("add"), "").ok());
  v1::ListCheckpointsRequest request;
  request.set_name("add");
  const auto list = Wait<v1::ListCheckpointsResponse>(
      [&](auto done) { controller_->ListCheckpoints(request, done); });
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->checkpoints_size(), 2);
  EXPECT_FALSE(list->checkpoints(0).weights_only());
  EXPECT_EQ(list->checkpoints(0).optimizer_bytes(), 12);  // "moments of 6"
  EXPECT_TRUE(list->checkpoints(1).weights_only());
  EXPECT_GT(list->checkpoints(1).size_bytes(), 0);
}

// A job that was taken without answers goes on; a new one with its weights is checked as any other.
TEST_F(ControllerResumeTest, AJobGoesOnWithoutTheAnswersThatItNeverHad) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  Record("add", {4});
  WriteText(folder_.path("train.jsonl"), "{\"prompt\": \"1+1=\"}\n");
  v1::CreateJobRequest request;
  request.set_checkpoint("job:add");
  request.mutable_changes()->mutable_trainer()->set_total_training_steps(20);
  EXPECT_THAT(ErrorViolations(Create(request).status())[0].description(),
              HasSubstr("has `answer`"));
  request.clear_changes();
  const auto same = Create(request);
  EXPECT_TRUE(same.ok()) << same.status();
}

TEST_F(ControllerResumeTest, RefusesARequestIdReusedWithOtherChanges) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  Record("add", {4});
  v1::CreateJobRequest request;
  request.set_checkpoint("job:add");
  request.set_request_id("once");
  request.mutable_changes()->mutable_trainer()->set_total_training_steps(20);
  const auto first = Create(request);
  ASSERT_TRUE(first.ok()) << first.status();
  v1::CreateJobRequest other = request;
  other.mutable_changes()->mutable_trainer()->set_total_training_steps(30);
  v1::CreateJobRequest none = request;
  none.clear_changes();
  for (int i = 0; i < 2; ++i) {
    const auto again = Create(request);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->name(), first->name());
    for (const v1::CreateJobRequest& wrong : {other, none}) {
      const absl::Status refused = Create(wrong).status();
      EXPECT_EQ(ErrorReason(refused), "REQUEST_ID_REUSED") << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("with other changes"));
    }
    Start();  // from its row
  }
}

TEST_F(ControllerResumeTest, AJobThatGoesOnSaysWhatItsDataHold) {
  const auto first = Submit(Spec(), "add");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->data_files_size(), 1);
  Save("add", {4});
  const auto copy = GoOn(StepOf("add", 4), "copy");
  ASSERT_TRUE(copy.ok()) << copy.status();
  ASSERT_EQ(copy->data_files_size(), 1);
  EXPECT_EQ(copy->data_files(0).list(), "train_files");
  EXPECT_EQ(copy->data_files(0).examples(), 1u);
}

// A job's newest checkpoint is rotated away during the check of a new job that goes on from it.
TEST_F(ControllerResumeTest, ACheckpointThatGoesAwayDuringTheCheckIsGoneOnFrom) {
  ASSERT_TRUE(Submit(Spec(folder_.path("base")), "add").ok());
  Save("add", {4});
  Record("add", {4});
  v1::CreateJobRequest request;
  request.set_checkpoint("job:add");
  request.set_job_id("copy");
  const auto job = CreateWhile(request, [&] {
    Save("add", {6});
    fs::remove_all(StepOf("add", 4));
    Record("add", {6});
  });
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->step(), 4);
  EXPECT_EQ(TreeOf(StepOf("copy", 4))["actor/model.safetensors"], "weights of 4");
  EXPECT_EQ(TreeOf(FolderOf("copy"))["model/model.safetensors"], "weights of 4");
  v1::JobSpec asked;
  ASSERT_TRUE(asked.ParseFromString(TreeOf(folder_.path())["asked"]));
  EXPECT_THAT(asked.model().path(), HasSubstr("/.staging-"));
}

TEST_F(ControllerResumeTest, AJobWithoutACheckpointThatEndedIsNotResumed) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  v1::ResumeJobRequest resume;
  resume.set_name("add");
  const absl::Status refused =
      Wait<v1::Job>([&](auto done) { controller_->ResumeJob(resume, done); }).status();
  EXPECT_EQ(ErrorReason(refused), "JOB_ENDED");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("is CANCELLED, and has no checkpoint to go on from; submit it again"));
}

TEST_F(ControllerResumeTest, ARefusedResumeDeletesNothing) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4, 6});
  LoseStore();
  const auto before = TreeOf(FolderOf("add"));
  const absl::Status typo = GoOn(StepOf("add", 5), "add").status();
  EXPECT_EQ(typo.code(), absl::StatusCode::kNotFound) << typo;
  EXPECT_EQ(ErrorReason(typo), "CHECKPOINT_FOLDER");
  EXPECT_THAT(std::string(typo.message()), HasSubstr(StepOf("add", 6).string()));
  EXPECT_EQ(TreeOf(FolderOf("add")), before);

  WriteText(StepOf("add", 6) / "job.json", "{}");
  const absl::Status damaged = GoOn(StepOf("add", 6), "add").status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss) << damaged;
  EXPECT_EQ(TreeOf(FolderOf("add")).size(), before.size());
}

TEST_F(ControllerResumeTest, ALostJobGoesOnInItsFolderUnderItsName) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4, 6});
  LoseStore();
  const auto before = TreeOf(FolderOf("add"));
  const auto job = GoOn(FolderOf("add"), "");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "projects/default/jobs/add");
  EXPECT_EQ(job->state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(job->step(), 6);
  EXPECT_EQ(job->total_steps(), 9);
  EXPECT_EQ(TreeOf(FolderOf("add")), before);
  EXPECT_THAT(CheckpointsOf("add"),
              ElementsAre(StepOf("add", 6).string(), StepOf("add", 4).string()));
  Start();
  EXPECT_THAT(CheckpointsOf("add"),
              ElementsAre(StepOf("add", 6).string(), StepOf("add", 4).string()));
  // The job is known again: its name and its folder are taken.
  EXPECT_EQ(ErrorReason(GoOn(StepOf("add", 4), "add").status()), "JOB_EXISTS");
  EXPECT_EQ(TreeOf(FolderOf("add")), before);
}

TEST_F(ControllerResumeTest, EveryJobComesBackFromItsFolderAlone) {
  for (const char* id : {"a", "b", "c"}) {
    ASSERT_TRUE(Submit(Spec(folder_.path("base")), id).ok());
    Save(id, {2});
  }
  LoseStore();
  for (const auto& entry : fs::directory_iterator(folder_.path("data/jobs/default"))) {
    const auto job = GoOn(entry.path(), "");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->effective_spec().model().path(), folder_.path("base"));
  }
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_THAT(CheckpointsOf(id), ElementsAre(StepOf(id, 2).string()));
  }
}

// The model that the job began with need not exist any more; missing files are added to the
// existing ones.
TEST_F(ControllerResumeTest, ALostJobNeedsItsFolderAlone) {
  ASSERT_TRUE(Submit(Spec(folder_.path("base")), "add").ok());
  Save("add", {4});
  LoseStore();
  fs::remove_all(folder_.path("base"));
  const auto job = GoOn(FolderOf("add"), "add");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->effective_spec().model().path(), (FolderOf("add") / "model").string());
  EXPECT_EQ(TreeOf(FolderOf("add"))["model/model.safetensors"], "weights of 4");
  EXPECT_EQ(TreeOf(StepOf("add", 4))["actor/model.safetensors"], "weights of 4");
}

TEST_F(ControllerResumeTest, NewerCheckpointsAreSetAsideAndNotWrittenOver) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4, 6, 8});
  LoseStore();
  const auto before = TreeOf(StepOf("add", 8));
  const auto job = GoOn(StepOf("add", 4), "add");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->step(), 4);
  EXPECT_THAT(CheckpointsOf("add"), ElementsAre(StepOf("add", 4).string()));
  EXPECT_FALSE(fs::exists(StepOf("add", 8)));
  EXPECT_EQ(TreeOf(StepOf("add", 8).string() + ".before-" + job->uid()), before);
}

TEST_F(ControllerResumeTest, AJobContinuedUnderAnotherNameCopiesTheCheckpoint) {
  ASSERT_TRUE(Submit(Spec(folder_.path("base")), "add").ok());
  Save("add", {4, 6});
  const auto before = TreeOf(FolderOf("add"));
  const auto copy = GoOn(StepOf("add", 4), "copy");  // of a job that is there
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->step(), 4);
  EXPECT_EQ(copy->effective_spec().model().path(), (FolderOf("copy") / "model").string());
  EXPECT_THAT(CheckpointsOf("copy"), ElementsAre(StepOf("copy", 4).string()));
  EXPECT_EQ(TreeOf(StepOf("copy", 4)), TreeOf(StepOf("add", 4)));
  LoseStore();
  ASSERT_TRUE(GoOn(FolderOf("add"), "third").ok());  // of one that is not
  EXPECT_EQ(TreeOf(FolderOf("add")), before);
}

TEST_F(ControllerResumeTest, RefusesAJobNameWhoseFolderExists) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  ASSERT_TRUE(Submit(Spec(), "").ok());  // rl-2
  Save("add", {4});
  Save("rl-2", {4});
  LoseStore();
  const auto before = TreeOf(folder_.path("data/jobs"));
  for (const absl::Status& refused :
       {Submit(Spec(), "add").status(), GoOn(StepOf("rl-2", 4), "add").status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
    EXPECT_EQ(ErrorReason(refused), "JOB_FOLDER");
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("`baton resume --from " + FolderOf("add").string() + "`"));
  }
  ASSERT_TRUE(Submit(Spec(), "other").ok());
  const auto unnamed = Submit(Spec(), "");  // numbers begin again: rl-2 is not taken twice
  ASSERT_TRUE(unnamed.ok()) << unnamed.status();
  EXPECT_EQ(unnamed->name(), "projects/default/jobs/rl-3");
  EXPECT_EQ(TreeOf(folder_.path("data/jobs")), before);
}

TEST_F(ControllerResumeTest, ARefusalLeavesNothingBehind) {
  ASSERT_TRUE(Submit(Spec(folder_.path("base")), "add").ok());
  Save("add", {4});
  const auto before = TreeOf(folder_.path("data/jobs"));
  fs::remove(folder_.path("train.jsonl"));  // noticed when the model has been copied
  const absl::Status refused = GoOn(StepOf("add", 4), "copy").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(TreeOf(folder_.path("data/jobs")), before);
}

// The controller dies when the folder has its name but the row is not committed.
TEST_F(ControllerResumeTest, RemovesRemnantsOfAnUnfinishedCallAtTheNextStart) {
  ASSERT_TRUE(Submit(Spec(folder_.path("base")), "add").ok());
  Save("add", {4});
  const auto before = TreeOf(folder_.path("data/jobs"));
  store_->FailWith(absl::ResourceExhaustedError("the disk is full"));
  v1::CreateJobRequest request;
  request.set_checkpoint(StepOf("add", 4).string());
  request.set_job_id("copy");
  controller_->CreateJob(request, [](absl::StatusOr<v1::Job>) {});
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!fs::exists(StepOf("copy", 4)) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(fs::exists(StepOf("copy", 4)));
  WriteText(folder_.path("data/jobs/default/.staging-1-2/model/config.json"), "{}");
  const std::string job = **store_->Get(kJobTable, "projects/default/jobs/add");
  const std::string spec = **store_->Get(kSpecTable, "projects/default/jobs/add");
  controller_.reset();
  store_ = std::make_shared<store::MemoryStore>();  // as a file would stand: without the new rows
  absl::Notification written;
  store_->Commit({{kJobTable, "projects/default/jobs/add", job},
                  {kSpecTable, "projects/default/jobs/add", spec}},
                 [&](const absl::Status&) { written.Notify(); });
  written.WaitForNotification();
  Start();
  EXPECT_EQ(TreeOf(folder_.path("data/jobs")), before);
  const auto again = GoOn(StepOf("add", 4), "copy");
  ASSERT_TRUE(again.ok()) << again.status();
  // The folder of an answered call is not taken for a leftover, even if the store is lost
  // afterwards.
  EXPECT_FALSE(Submit(v1::JobSpec(), "x").ok());
  LoseStore();
  EXPECT_TRUE(fs::exists(StepOf("copy", 4)));
  EXPECT_TRUE(fs::exists(StepOf("add", 4)));
}

// A copy from another file system takes long, but other calls do not wait for it.
TEST_F(ControllerResumeTest, CopyingFromAnotherFileSystemDelaysNoOtherCalls) {
  const fs::path elsewhere = absl::StrCat("/dev/shm/baton-resume-", ::getpid());
  struct stat here = {}, there = {};
  if (::stat(folder_.path().c_str(), &here) != 0 || ::stat("/dev/shm", &there) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "needs two file systems";
  }
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  fs::remove_all(elsewhere);
  fs::create_directories(elsewhere);
  fs::copy(StepOf("add", 4), elsewhere / "step-4", fs::copy_options::recursive);
  {
    SlowFile weights((elsewhere / "step-4/actor/model.safetensors").string());
    ASSERT_TRUE(weights.leased()) << "needs leases of files";
    absl::Notification answered;
    absl::StatusOr<v1::Job> resumed;
    v1::CreateJobRequest request;
    request.set_checkpoint((elsewhere / "step-4").string());
    request.set_job_id("copied");
    controller_->CreateJob(request, [&](absl::StatusOr<v1::Job> job) {
      resumed = std::move(job);
      answered.Notify();
    });
    EXPECT_TRUE(Submit(Spec(), "other-1").ok());
    EXPECT_TRUE(GoOn(StepOf("add", 4), "other-2").ok());
    EXPECT_FALSE(answered.HasBeenNotified());
    weights.GiveUpLease();
    answered.WaitForNotification();
    EXPECT_TRUE(resumed.ok()) << resumed.status();
  }
  EXPECT_EQ(TreeOf(StepOf("copied", 4) / "actor"), TreeOf(elsewhere / "step-4/actor"));
  fs::remove_all(elsewhere);
}

// Even when a crash kept the mark of an unfinished call, what the job has made since counts.
TEST(JobFoldersTest, AFolderWithMoreThanWasStagedIsKept) {
  const fs::path jobs = ::testing::TempDir() + "job_folders";
  fs::remove_all(jobs);
  for (const char* id : {"ran", "left"}) {
    StagedFolder staged(jobs / "default", id);
    WriteText(staged.Stage("model") / "config.json", "{}");
    WriteText(staged.Stage("checkpoints/step-4") / "job.json", "{}");
    ASSERT_TRUE(staged.Keep(jobs / "default" / id).ok());
  }
  WriteText(jobs / "default/ran/checkpoints/step-8/job.json", "{}");
  CleanJobFolders(jobs, [](const std::string&) { return false; });
  EXPECT_TRUE(fs::exists(jobs / "default/ran/checkpoints/step-4"));
  EXPECT_FALSE(fs::exists(jobs / "default/left"));
  CleanJobFolders(jobs, [](const std::string& job) { return job == "default/ran"; });
  fs::remove_all(jobs / "default/ran/checkpoints/step-8");
  CleanJobFolders(jobs, [](const std::string&) { return false; });
  EXPECT_TRUE(fs::exists(jobs / "default/ran/checkpoints/step-4"));  // the mark is gone
  fs::remove_all(jobs);
}

TEST(JobFoldersTest, NeverOverwritesAnExistingFolder) {
  const fs::path folder = ::testing::TempDir() + "job_folders_keep/default/add";
  fs::remove_all(folder.parent_path());
  WriteText(folder / "checkpoints/step-1/job.json", "{}");
  {
    StagedFolder staged(folder.parent_path(), "uid");
    WriteText(staged.Stage("model") / "config.json", "{}");
    EXPECT_EQ(staged.Keep(folder).code(), absl::StatusCode::kAlreadyExists);
  }
  WriteText(folder / "model/config.json", "old");
  {
    StagedFolder staged(folder.parent_path(), "uid");
    WriteText(staged.Stage("model") / "config.json", "new");
    EXPECT_EQ(staged.Keep(folder, /*adopt=*/true).code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_THAT(TreeOf(folder.parent_path()),
              ElementsAre(std::pair("add", ""), std::pair("add/checkpoints", ""),
                          std::pair("add/checkpoints/step-1", ""),
                          std::pair("add/checkpoints/step-1/job.json", "{}"),
                          std::pair("add/model", ""), std::pair("add/model/config.json", "old")));
  fs::remove_all(folder.parent_path());
}

TEST(JobFoldersTest, FindsCompleteCheckpoints) {
  const fs::path folder = ::testing::TempDir() + "job_folders_find";
  fs::remove_all(folder);
  EXPECT_THAT(FindCheckpoints(folder), IsEmpty());
  for (const char* name : {"step-2", "step-10", "step-12.3.tmp", "step-012", "step-11.before-x"}) {
    WriteText(folder / "checkpoints" / name / "job.json", "{}");
    WriteText(folder / "checkpoints" / name / "files.json", "{}");
  }
  WriteText(folder / "checkpoints/step-14/job.json", "{}");  // no files.json
  const auto found = FindCheckpoints(folder);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].step, 2);
  EXPECT_EQ(found[1].step, 10);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace baton::controller
