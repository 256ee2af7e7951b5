// Saved jobs that no controller wrote: CreateJob names what is wrong, refuses them, and goes on
// serving.
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "controller/runtime/files/json_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller_resume.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SavedJobTest : public ControllerResumeTest {
 protected:
  /// The error of a job that goes on from this folder; the controller still serves.
  absl::Status RefusalOf(const fs::path& folder) {
    const absl::Status refused = GoOn(folder, "refused").status();
    EXPECT_EQ(ErrorReason(refused), "CHECKPOINT_FOLDER") << refused;
    EXPECT_FALSE(fs::exists(FolderOf("refused")));
    return refused;
  }
};

// Two uploads of the same content share a folder, which then looks like a checkpoint.
TEST_F(SavedJobTest, DoesNotTrustAnUploadedCheckpoint) {
  const fs::path folder = folder_.path("data/files/default/0123");
  for (const char* workers : {"2000000000", "-1"}) {
    const std::string job = absl::StrCat(
        R"({"job":{"name":"projects/default/jobs/x","state":"STATE_QUEUED","total_steps":"1",)",
        R"("effective_spec":{"kind":"JOB_KIND_RL","data":{"train_batch_size":1},)",
        R"("rollout":{"n":1,"val":{"n":1}},"resources":{"rollout_workers":)", workers,
        R"(}},"dataflow":{"update":[{"role":"actor"}]}}})");
    WriteText(folder / "job.json", job);
    WriteText(folder / "files.json", job);
    EXPECT_THAT(std::string(RefusalOf(folder).message()), HasSubstr("spec."));
  }
  WriteText(folder / "job.json", "{}");
  fs::resize_file(folder / "job.json", uint64_t{1} << 40);
  EXPECT_THAT(std::string(RefusalOf(folder).message()), HasSubstr("bytes, more than"));
}

TEST_F(SavedJobTest, ASettingOutOfItsBoundsIsNamed) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  ASSERT_TRUE(GoOn(StepOf("add", 4), "good").ok());
  store::v1::JobRow saved;
  ASSERT_TRUE(ReadJsonFile(StepOf("add", 4) / "job.json", &saved).ok());
  using Change = std::function<void(v1::Job&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"pretrain_batch_size",
       [this](v1::Job& job) {
         v1::DataSpec* data = job.mutable_effective_spec()->mutable_data();
         data->add_pretrain_files(folder_.path("train.jsonl"));
         data->set_pretrain_batch_size(2'000'000'000);
       }},
      {"rollout_workers",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_resources()->set_rollout_workers(2'000'000'000);
       }},
      {"parallel.dp",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_actor()->mutable_parallel()->set_dp(-3);
       }},
      {"spec.dataflow", [](v1::Job& job) { job.mutable_dataflow()->Clear(); }},
      {"spec.dataflow.score",
       [](v1::Job& job) {
         for (int i = 0; i < 5000; ++i) {
           job.mutable_dataflow()->add_score()->set_role(absl::StrCat("r", i));
         }
       }},
  };
  for (const auto& [problem, change] : changes) {
    store::v1::JobRow bad = saved;
    change(*bad.mutable_job());
    WriteText(StepOf("add", 4) / "job.json", *JsonText(bad));
    EXPECT_THAT(std::string(RefusalOf(StepOf("add", 4)).message()), HasSubstr(problem));
  }
}

// Each number is within its bounds, and the next start would find that they do not go together.
TEST_F(SavedJobTest, AJobThatCouldNotBeRestoredIsNotAccepted) {
  v1::JobSpec spec = Spec();
  spec.mutable_algorithm()->set_mode("async");
  ASSERT_TRUE(Submit(spec, "add").ok());
  Save("add", {4});
  ASSERT_TRUE(GoOn(StepOf("add", 4), "good").ok());
  store::v1::JobRow saved;
  ASSERT_TRUE(ReadJsonFile(StepOf("add", 4) / "job.json", &saved).ok());
  saved.add_spent()->set_first(7);  // after its last
  WriteText(StepOf("add", 4) / "job.json", *JsonText(saved));
  EXPECT_THAT(std::string(RefusalOf(StepOf("add", 4)).message()), HasSubstr("spent.last"));
}

// Other files of the folder are not copied.
TEST_F(SavedJobTest, OnlyWhatItsFilesJsonNamesIsCopied) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  WriteText(StepOf("add", 4) / "actor/more.bin", "x");
  WriteText(StepOf("add", 4) / "more/more.bin", "x");
  fs::resize_file(StepOf("add", 4) / "more/more.bin", uint64_t{1} << 40);
  ASSERT_TRUE(GoOn(StepOf("add", 4), "next").ok());
  std::vector<std::string> names;
  for (const auto& [name, content] : TreeOf(StepOf("next", 4))) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("actor", "actor/config.json",
                                                     "actor/model.safetensors", "files.json",
                                                     "job.json", "optimizer.safetensors"));
}

// A file that others may write is copied, and must match files.json, or the job is refused.
TEST_F(SavedJobTest, VerifiesTheHashesOfCopiedFiles) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  const fs::path weights = StepOf("add", 4) / "actor/model.safetensors";
  fs::permissions(weights, fs::perms::all);
  ASSERT_TRUE(GoOn(StepOf("add", 4), "next").ok());
  const fs::path copy = StepOf("next", 4) / "actor/model.safetensors";
  WriteText(weights, "WEIGHTS of 4");  // through no name of the copy
  EXPECT_EQ(TreeOf(StepOf("next", 4)).at("actor/model.safetensors"), "weights of 4");
  EXPECT_FALSE(fs::equivalent(weights, copy));
  EXPECT_THAT(std::string(RefusalOf(StepOf("add", 4)).message()),
              HasSubstr("actor/model.safetensors has XXH3"));
  WriteText(weights, "longer weights of 4");
  EXPECT_THAT(std::string(RefusalOf(StepOf("add", 4)).message()), HasSubstr("has 19 bytes"));
  fs::remove(weights);
  EXPECT_THAT(std::string(RefusalOf(StepOf("add", 4)).message()), HasSubstr("is missing"));
  fs::create_symlink(folder_.path("train.jsonl"), weights);
  EXPECT_THAT(std::string(RefusalOf(StepOf("add", 4)).message()), HasSubstr("not a regular file"));
}

TEST_F(SavedJobTest, CopiesCountTowardsTheBytesOfTheProjectsJobs) {
  ASSERT_TRUE(Submit(Spec(), "add").ok());
  Save("add", {4});
  const fs::path weights = StepOf("add", 4) / "actor/model.safetensors";
  fs::permissions(weights, fs::perms::all);
  v1::Project project;
  project.set_project("default");
  project.set_max_job_bytes(11);  // the file has 12
  ASSERT_TRUE(Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).ok());
  const absl::Status refused = GoOn(StepOf("add", 4), "next").status();
  EXPECT_EQ(ErrorReason(refused), "QUOTA_JOB_BYTES") << refused;
  EXPECT_FALSE(fs::exists(FolderOf("next")));
  project.set_max_job_bytes(1 << 20);
  ASSERT_TRUE(Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).ok());
  ASSERT_TRUE(GoOn(StepOf("add", 4), "next").ok());
  const auto list = controller_->ListProjects({});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->projects_size(), 1);
  EXPECT_GE(list->projects(0).job_bytes(), 12);
}

}  // namespace
}  // namespace baton::controller
