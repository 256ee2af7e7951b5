// Jobs that go on from folders: nothing that a call did not make is ever deleted, and a controller
// that lost its store gets every job back.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/runtime/checkpoint_files.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/controller_testing.h"
#include "controller/runtime/job_folders.h"
#include "controller/runtime/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void WriteText(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Every file and folder below, by its relative path, with its content.
std::map<std::string, std::string> TreeOf(const fs::path& root) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    std::string& content = out[entry.path().lexically_relative(root).string()];
    if (entry.is_directory()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(in), {});
  }
  return out;
}

class ControllerResumeTest : public ::testing::Test {
 protected:
  ControllerResumeTest() {
    std::string pattern = (fs::temp_directory_path() / "resume-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    WriteText(folder_ + "/train.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
    WriteText(folder_ + "/base/config.json", R"({"architectures": ["LlamaForCausalLM"]})");
    Start();
  }
  ~ControllerResumeTest() override {
    controller_.reset();
    fs::remove_all(folder_);
  }

  void Start() {
    controller_.reset();
    ControllerOptions options;
    options.data_root = folder_ + "/data";
    options.store = std::make_unique<SharedStore>(store_);
    auto controller = Controller::Create(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }
  /// As if baton.db had been deleted while no controller ran.
  void LoseStore() {
    controller_.reset();
    store_ = std::make_shared<store::MemoryStore>();
    Start();
  }

  v1::JobSpec Spec(const std::string& model = "") const {
    v1::JobSpec spec;
    spec.set_kind(v1::JOB_KIND_RL);
    if (model.empty()) spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_model()->set_path(model);
    spec.mutable_data()->add_train_files(folder_ + "/train.jsonl");
    spec.mutable_data()->set_max_response_length(8);
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(9);
    return spec;
  }
  absl::StatusOr<v1::Job> Create(const v1::CreateJobRequest& request) {
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  absl::StatusOr<v1::Job> Submit(const v1::JobSpec& spec, const std::string& id) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_job_id(id);
    return Create(request);
  }
  absl::StatusOr<v1::Job> GoOn(const fs::path& folder, const std::string& id) {
    v1::CreateJobRequest request;
    request.set_checkpoint(folder.string());
    request.set_job_id(id);
    return Create(request);
  }
  std::vector<std::string> CheckpointsOf(const std::string& id) {
    v1::ListCheckpointsRequest request;
    request.set_name(id);
    const auto list = Wait<v1::ListCheckpointsResponse>(
        [&](auto done) { controller_->ListCheckpoints(request, done); });
    std::vector<std::string> out;
    if (!list.ok()) return {std::string(list.status().message())};
    for (const v1::Checkpoint& checkpoint : list->checkpoints()) out.push_back(checkpoint.path());
    return out;
  }

  fs::path FolderOf(const std::string& id) const { return folder_ + "/data/jobs/default/" + id; }
  fs::path StepOf(const std::string& id, int64_t step) const {
    return FolderOf(id) / absl::StrCat("checkpoints/step-", step);
  }
  /// What a job that was submitted has on disk once it has saved these steps.
  void Save(const std::string& id, const std::vector<int64_t>& steps) {
    const std::string name = absl::StrCat("projects/default/jobs/", id);
    store::v1::JobRow row;
    ASSERT_TRUE(row.ParseFromString(**store_->Get(kJobTable, name)));
    ASSERT_TRUE(row.mutable_job()->MergeFromString(**store_->Get(kSpecTable, name)));
    const CheckpointFiles files(FolderOf(id).string(), folder_ + "/data");
    for (const int64_t step : steps) {
      row.mutable_job()->set_step(step);
      row.mutable_job()->set_policy_version(static_cast<uint64_t>(step));
      const auto temporary = files.Prepare(step, 1, "actor");
      ASSERT_TRUE(temporary.ok()) << temporary.status();
      WriteText(*temporary + "/actor/config.json", "{}");
      WriteText(*temporary + "/actor/model.safetensors", absl::StrCat("weights of ", step));
      ASSERT_TRUE(files.Commit(step, 1, row, {}).ok());
    }
  }

  std::string folder_;
  std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
};

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
  // It is known again: its name and its folder are taken.
  EXPECT_EQ(ErrorReason(GoOn(StepOf("add", 4), "add").status()), "JOB_EXISTS");
  EXPECT_EQ(TreeOf(FolderOf("add")), before);
}

TEST_F(ControllerResumeTest, EveryJobComesBackFromItsFolderAlone) {
  for (const char* id : {"a", "b", "c"}) {
    ASSERT_TRUE(Submit(Spec(folder_ + "/base"), id).ok());
    Save(id, {2});
  }
  LoseStore();
  for (const auto& entry : fs::directory_iterator(folder_ + "/data/jobs/default")) {
    const auto job = GoOn(entry.path(), "");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->effective_spec().model().path(), folder_ + "/base");
  }
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_THAT(CheckpointsOf(id), ElementsAre(StepOf(id, 2).string()));
  }
}

// The model it began with need not be there any more; what is missing is put beside what there is.
TEST_F(ControllerResumeTest, ALostJobNeedsItsFolderAlone) {
  ASSERT_TRUE(Submit(Spec(folder_ + "/base"), "add").ok());
  Save("add", {4});
  LoseStore();
  fs::remove_all(folder_ + "/base");
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

TEST_F(ControllerResumeTest, AnotherJobCopies) {
  ASSERT_TRUE(Submit(Spec(folder_ + "/base"), "add").ok());
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

TEST_F(ControllerResumeTest, ANameWhoseFolderIsThereIsNotFree) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  ASSERT_TRUE(Submit(Spec(), "").ok());  // rl-2
  Save("add", {4});
  Save("rl-2", {4});
  LoseStore();
  const auto before = TreeOf(folder_ + "/data/jobs");
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
  EXPECT_EQ(TreeOf(folder_ + "/data/jobs"), before);
}

TEST_F(ControllerResumeTest, ARefusalLeavesNothingBehind) {
  ASSERT_TRUE(Submit(Spec(folder_ + "/base"), "add").ok());
  Save("add", {4});
  const auto before = TreeOf(folder_ + "/data/jobs");
  fs::remove(folder_ + "/train.jsonl");  // noticed when the model has been copied
  const absl::Status refused = GoOn(StepOf("add", 4), "copy").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(TreeOf(folder_ + "/data/jobs"), before);
}

// The controller dies when the folder has its name and the row is not committed.
TEST_F(ControllerResumeTest, WhatAnUnfinishedCallLeftIsRemovedAtTheNextStart) {
  ASSERT_TRUE(Submit(Spec(folder_ + "/base"), "add").ok());
  Save("add", {4});
  const auto before = TreeOf(folder_ + "/data/jobs");
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
  WriteText(folder_ + "/data/jobs/default/.staging-1-2/model/config.json", "{}");
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
  EXPECT_EQ(TreeOf(folder_ + "/data/jobs"), before);
  const auto again = GoOn(StepOf("add", 4), "copy");
  ASSERT_TRUE(again.ok()) << again.status();
  // What was answered is not taken for a leftover, though the store be lost after it.
  EXPECT_FALSE(Submit(v1::JobSpec(), "x").ok());
  LoseStore();
  EXPECT_TRUE(fs::exists(StepOf("copy", 4)));
  EXPECT_TRUE(fs::exists(StepOf("add", 4)));
}

// Even when a crash kept the mark of an unfinished call, what the job has made since counts.
TEST(JobFoldersTest, AFolderWithMoreThanWasStagedIsKept) {
  const fs::path jobs = ::testing::TempDir() + "job_folders";
  fs::remove_all(jobs);
  for (const char* id : {"ran", "left"}) {
    StagedFolder staged(jobs / "default" / id, id);
    WriteText(staged.Stage("model") / "config.json", "{}");
    WriteText(staged.Stage("checkpoints/step-4") / "job.json", "{}");
    ASSERT_TRUE(staged.Keep().ok());
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

TEST(JobFoldersTest, NothingIsRenamedOverWhatIsThere) {
  const fs::path folder = ::testing::TempDir() + "job_folders_keep/default/add";
  fs::remove_all(folder.parent_path());
  WriteText(folder / "checkpoints/step-1/job.json", "{}");
  {
    StagedFolder staged(folder, "uid");
    WriteText(staged.Stage("model") / "config.json", "{}");
    EXPECT_EQ(staged.Keep().code(), absl::StatusCode::kAlreadyExists);
  }
  WriteText(folder / "model/config.json", "old");
  {
    StagedFolder staged(folder, "uid", /*adopt=*/true);
    WriteText(staged.Stage("model") / "config.json", "new");
    EXPECT_EQ(staged.Keep().code(), absl::StatusCode::kAlreadyExists);
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
