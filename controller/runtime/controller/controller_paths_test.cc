// Strings that become paths: a confined controller opens, copies and names nothing for a caller
// that is not open to the caller's project.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const char kRows[] = "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
// Python: hashlib.sha256(kRows).hexdigest()
const std::string kSha = "35469286b35b7df5ca6585966cc7eda185f72b998c65d19c3626162734137fd1";
const std::string kUpload = "files/a/" + kSha + "/train.jsonl";

class ControllerPathsTest : public ::testing::Test {
 protected:
  ControllerPathsTest() {
    Put("data/" + kUpload, kRows);
    Put("data/jobs/b/secret/train.jsonl", "{\"prompt\": \"secret\"}\n{\"secret\": 1}\n");
    Put("outside/config.json", R"({"architectures": ["TopSecret"]})");
    Put("outside/rows.jsonl", "{\"secret\": 1}\n");
    Put("shared/model/tokenizer.json", "{}");
    Start();
  }
  void Start() {
    ControllerOptions options;
    options.data_root = folder_.path("data");
    options.store = std::make_unique<SharedStore>(store_);
    options.confine_paths = true;
    options.allowed_paths = {folder_.path("shared")};
    auto controller = Controller::Create(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  void Put(const std::string& name, const std::string& text) const { folder_.Write(name, text); }
  static v1::JobSpec Spec(const std::string& file = kUpload) { return SmallRlSpec(file); }
  /// The answer of ValidateJob for the spec: its error, or all violations.
  std::string Validate(const v1::JobSpec& spec, const std::string& project) {
    v1::ValidateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_project(project);
    const auto checked =
        Wait<v1::ValidateJobResponse>([&](auto done) { controller_->ValidateJob(request, done); });
    if (!checked.ok()) return ErrorReason(checked.status());
    std::string out;
    for (const auto& violation : checked->violations()) {
      absl::StrAppend(&out, violation.field(), ": ", violation.description(), "\n");
    }
    return out;
  }
  absl::StatusOr<v1::Job> Create(const v1::CreateJobRequest& request) {
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  static v1::CreateJobRequest Resume(const std::string& folder, const std::string& id) {
    v1::CreateJobRequest request;
    request.set_project("a");
    request.set_checkpoint(folder);
    request.set_job_id(id);
    return request;
  }
  absl::Status GoOn(const std::string& folder) { return Create(Resume(folder, "copy")).status(); }
  /// The files among the uploads.
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("data/files"))) {
      if (entry.is_directory()) continue;
      out.push_back(entry.path().lexically_relative(folder_.path("data")).string());
    }
    return out;
  }
  /// A checkpoint of a job of this spec, in a folder that every project may name.
  fs::path Checkpoint(const v1::JobSpec& spec) {
    v1::CreateJobRequest request;
    request.set_project("a");
    *request.mutable_spec() = Spec();
    const auto job = Create(request);
    EXPECT_TRUE(job.ok()) << job.status();
    store::v1::JobRow row;
    EXPECT_TRUE(row.ParseFromString(**store_->Get(kJobTable, job->name())));
    EXPECT_TRUE(row.mutable_job()->MergeFromString(**store_->Get(kSpecTable, job->name())));
    *row.mutable_job()->mutable_effective_spec()->mutable_data()->mutable_train_files() =
        spec.data().train_files();
    const CheckpointFiles files(folder_.path("shared/job"), folder_.path("data"));
    EXPECT_TRUE(files.Prepare(0, 1, "actor").ok());
    EXPECT_TRUE(files.Commit(0, 1, row, {}).ok());
    return files.PathOf(0);
  }

  const TestFolder folder_;
  const std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
};

// The guard's folder is made of the project's name.
TEST_F(ControllerPathsTest, RefusesProjectNamesThatArePaths) {
  const std::string secret = folder_.path("data/jobs/b/secret/train.jsonl");
  EXPECT_THAT(Validate(Spec(secret), "a"),
              AllOf(HasSubstr("is not open to project a"), Not(HasSubstr("`answer`"))));
  for (const char* project :
       {"a/..", "a/../b", "a/../../..", "..", ".", "/", "a/../../../../../..", "A", "b/secret"}) {
    EXPECT_EQ(Validate(Spec(secret), project), "NAME_INVALID") << project;
    v1::CreateJobRequest request;
    request.set_project(project);
    *request.mutable_spec() = Spec(secret);
    EXPECT_EQ(ErrorReason(Create(request).status()), "NAME_INVALID") << project;
  }
}

TEST_F(ControllerPathsTest, RefusesLinksThatLeadOutOfAModelsFolder) {
  fs::create_symlink(folder_.path("outside/config.json"), folder_.path("shared/model/config.json"));
  v1::JobSpec spec = Spec();
  spec.mutable_model()->clear_init();
  spec.mutable_model()->set_path(folder_.path("shared/model"));
  EXPECT_THAT(Validate(spec, "a"),
              AllOf(HasSubstr("is not open to project a"), Not(HasSubstr("TopSecret"))));
  fs::remove(folder_.path("shared/model/config.json"));
  Put("shared/model/config.json", "{}");
  EXPECT_EQ(Validate(spec, "a"), "");
}

// The command reads all that is below it.
TEST_F(ControllerPathsTest, ACommandWorksInAFolderThatIsOpen) {
  Put("data/jobs/a/mine/reward.py", "");
  fs::create_symlink(folder_.path("outside"), folder_.path("shared/link"));
  v1::JobSpec spec = Spec();
  spec.mutable_reward()->set_command("./reward.py");
  for (const std::string open :
       {"/shared", "/shared/model", "/shared/not-there-yet", "/data/jobs/a", "/data/jobs/a/mine"}) {
    spec.mutable_reward()->set_working_dir(folder_.path() + open);
    EXPECT_EQ(Validate(spec, "a"), "") << open;
  }
  spec.mutable_reward()->set_working_dir("");
  EXPECT_EQ(Validate(spec, "a"), "");
  for (const std::string& other :
       {std::string("/"), folder_.path(), folder_.path("data"), folder_.path("data/jobs/b"),
        folder_.path("data/files"), folder_.path("outside"), folder_.path("shared/link"),
        folder_.path("shared/../outside"), folder_.path("data/jobs/a/../b"), std::string("shared"),
        std::string("/root")}) {
    spec.mutable_reward()->set_working_dir(other);
    EXPECT_THAT(Validate(spec, "a"), HasSubstr("spec.reward.working_dir: '" + other +
                                               "' is not open to commands of project a"));
  }
}

TEST_F(ControllerPathsTest, RefusesLinksThatLeadOutOfACheckpoint) {
  const fs::path from = Checkpoint(Spec("files/4567/rows.jsonl"));
  fs::create_directories(from / "data/4567");
  fs::create_symlink(folder_.path("outside/rows.jsonl"), from / "data/4567/rows.jsonl");
  EXPECT_EQ(ErrorReason(GoOn(from.string())), "CHECKPOINT_FOLDER");
  EXPECT_FALSE(fs::exists(folder_.path("data/files/4567")));
  fs::remove(from / "data/4567/rows.jsonl");
  std::ofstream(from / "data/4567/rows.jsonl") << kRows;
  EXPECT_TRUE(GoOn(from.string()).ok());
  EXPECT_TRUE(fs::exists(folder_.path("data/files/a/" + kSha + "/rows.jsonl")));

  fs::rename(from / "job.json", folder_.path("outside/job.json"));
  fs::create_symlink(folder_.path("outside/job.json"), from / "job.json");
  EXPECT_EQ(ErrorReason(GoOn(from.string())), "PATH");
}

// A checkpoint's spec is untrusted text: a user may have written its job.json.
TEST_F(ControllerPathsTest, ACheckpointsDataStayAmongTheUploads) {
  const fs::path from = Checkpoint(Spec("files/../jobs/a/planted"));
  std::ofstream(from / "planted") << "x";
  fs::create_directories(from / "data/jobs/a");
  std::ofstream(from / "data/jobs/a/planted") << "x";
  EXPECT_FALSE(GoOn(from.string()).ok());
  EXPECT_FALSE(fs::exists(folder_.path("data/jobs/a/planted")));
}

TEST_F(ControllerPathsTest, AnUploadIsOpenToItsProjectAlone) {
  EXPECT_EQ(Validate(Spec(), "a"), "");
  EXPECT_EQ(Validate(Spec(folder_.path("data/" + kUpload)), "a"), "");
  for (const std::string& path :
       {kUpload, folder_.path("data/" + kUpload), "files/b/../a/" + kSha + "/train.jsonl"}) {
    EXPECT_THAT(Validate(Spec(path), "b"), HasSubstr("is not open to project b")) << path;
  }
}

TEST_F(ControllerPathsTest, AnUploadIsNamedByItsPathBelowTheRoot) {
  fs::create_symlink(folder_.path("data/" + kUpload), folder_.path("shared/link"));
  for (const std::string& path : {folder_.path("data/" + kUpload), folder_.path("shared/link"),
                                  "files/a/../a/" + kSha + "/train.jsonl"}) {
    v1::CreateJobRequest request;
    request.set_project("a");
    *request.mutable_spec() = Spec(path);
    const auto job = Create(request);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->effective_spec().data().train_files(0), kUpload) << path;
    EXPECT_EQ(job->spec().data().train_files(0), path);
  }
}

TEST_F(ControllerPathsTest, ACheckpointsDataAreCheckedAndBecomeTheProjectsOwn) {
  const std::string named = "files/b/" + kSha + "/train.jsonl";
  const fs::path from = Checkpoint(Spec(named));
  const fs::path kept = from / "data" / fs::path(named).lexically_relative("files");
  fs::create_directories(kept.parent_path());
  std::ofstream(kept) << "{\"prompt\": \"1+1=\", \"answer\": \"3\"}\n";
  const absl::Status changed = GoOn(from.string());
  EXPECT_EQ(changed.code(), absl::StatusCode::kDataLoss) << changed;
  EXPECT_EQ(ErrorReason(changed), "CHECKPOINT_FOLDER");
  EXPECT_THAT(std::string(changed.message()), HasSubstr(kept.string()));
  std::ofstream(kept) << kRows;
  fs::remove_all(folder_.path("data/files/a"));
  const auto job = Create(Resume(from.string(), "of-b"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->effective_spec().data().train_files(0), kUpload);
  EXPECT_EQ(Files(), std::vector<std::string>{kUpload});
}

TEST_F(ControllerPathsTest, AnExportIsNotWrittenAmongTheControllersFiles) {
  v1::CreateJobRequest create;
  create.set_project("a");
  *create.mutable_spec() = Spec();
  create.set_job_id("add");
  ASSERT_TRUE(Create(create).ok());
  const auto reason = [&](const std::string& directory) {
    v1::ExportCheckpointRequest request;
    request.set_name("projects/a/jobs/add");
    request.set_directory(directory);
    return ErrorReason(Wait<v1::ExportCheckpointResponse>([&](auto done) {
                         controller_->ExportCheckpoint(request, done);
                       }).status());
  };
  fs::create_directory_symlink(folder_.path("data/files"), folder_.path("shared/link"));
  for (const char* directory :
       {"/data/files/new", "/data/files", "/data/jobs/a/new", "/data/jobs/a/add/checkpoints/step-9",
        "/shared/../data/files/x", "/shared/link/x", "/data/exports/b/x", "/outside/x", "/data"}) {
    EXPECT_EQ(reason(folder_.path() + directory), "PATH") << directory;
  }
  for (const char* directory : {"/shared/new", "/data/exports/a/new"}) {
    EXPECT_EQ(reason(folder_.path() + directory), "CHECKPOINT_NOT_FOUND")
        << directory;  // it went on
  }
}

}  // namespace
}  // namespace baton::controller
