// The set-up of tests of jobs that go on from folders or begin with other jobs' models.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_CONTROLLER_RESUME_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_CONTROLLER_RESUME_H_

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/files/file_copy.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/controller/checker.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {

inline void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Fixture: a controller whose store outlives it, and jobs whose checkpoints a test puts on disk.
class ControllerResumeTest : public ::testing::Test {
 protected:
  ControllerResumeTest() {
    WriteText(folder_.path("train.jsonl"), "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
    WriteText(folder_.path("base/config.json"), R"({"architectures": ["LlamaForCausalLM"]})");
    Start();
  }

  void Start() {
    controller_.reset();
    ControllerOptions options;
    options.data_root = folder_.path("data");
    options.store = std::make_unique<SharedStore>(store_);
    options.checker = checker_;
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
    v1::JobSpec spec = SmallRlSpec(folder_.path("train.jsonl"));
    if (!model.empty()) spec.mutable_model()->clear_init();
    spec.mutable_model()->set_path(model);
    return spec;
  }
  absl::StatusOr<v1::Job> Create(const v1::CreateJobRequest& request) {
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  /// As above, with a check of models and data, during which `meanwhile` happens.
  absl::StatusOr<v1::Job> CreateWhile(const v1::CreateJobRequest& request,
                                      const std::function<void()>& meanwhile) {
    checker_ =
        WriteChecker(folder_.path(), "touch began; while [ ! -e done ]; do sleep 0.01; done");
    Start();
    const auto gone = [&] {  // it is asked now and then while the check runs
      if (std::filesystem::exists(folder_.path("began")) &&
          !std::filesystem::exists(folder_.path("done"))) {
        meanwhile();
        WriteText(folder_.path("done"), "");
      }
      return false;
    };
    auto job = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done, gone); });
    EXPECT_TRUE(std::filesystem::exists(folder_.path("done")));
    return job;
  }
  absl::StatusOr<v1::Job> Submit(const v1::JobSpec& spec, const std::string& id) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_job_id(id);
    return Create(request);
  }
  absl::StatusOr<v1::Job> GoOn(const std::filesystem::path& folder, const std::string& id) {
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

  std::filesystem::path FolderOf(const std::string& id) const {
    return folder_.path("data/jobs/default/" + id);
  }
  std::filesystem::path StepOf(const std::string& id, int64_t step) const {
    return FolderOf(id) / absl::StrCat("checkpoints/step-", step);
  }
  /// Writes the files of a submitted job that has saved these steps.
  void Save(const std::string& id, const std::vector<int64_t>& steps) {
    const std::string name = absl::StrCat("projects/default/jobs/", id);
    store::v1::JobRow row;
    ASSERT_TRUE(row.ParseFromString(**store_->Get(kJobTable, name)));
    ASSERT_TRUE(row.mutable_job()->MergeFromString(**store_->Get(kSpecTable, name)));
    const CheckpointFiles files(FolderOf(id).string(), folder_.path("data"));
    for (const int64_t step : steps) {
      row.mutable_job()->set_step(step);
      row.mutable_job()->set_policy_version(static_cast<uint64_t>(step));
      const auto temporary = files.Prepare(step, 1, "actor");
      ASSERT_TRUE(temporary.ok()) << temporary.status();
      WriteText(*temporary + "/actor/config.json", "{}");
      WriteText(*temporary + "/actor/model.safetensors", absl::StrCat("weights of ", step));
      WriteText(*temporary + "/optimizer.safetensors", absl::StrCat("moments of ", step));
      std::vector<v1::FileHash> written;
      for (const char* name :
           {"actor/config.json", "actor/model.safetensors", "optimizer.safetensors"}) {
        v1::FileHash& file = written.emplace_back();
        file.set_path(name);
        if (file.path() == "optimizer.safetensors") file.set_optimizer(true);
        const std::string path = absl::StrCat(*temporary, "/", name);
        file.set_size_bytes(static_cast<int64_t>(std::filesystem::file_size(path)));
        file.set_xxh3(*HashOfFile(path));
      }
      ASSERT_TRUE(files.Commit(step, 1, row, written).ok());
    }
  }

  /// Says in the store what Save put on disk.
  void Record(const std::string& id, const std::vector<int64_t>& steps, int64_t best = -1) {
    for (const int64_t step : steps) {
      v1::Checkpoint checkpoint;
      checkpoint.set_step(step);
      checkpoint.set_path(StepOf(id, step).string());
      if (step == best) checkpoint.set_best(true);
      store_->Commit(
          {{kCheckpointTable, NumberKey("projects/default/jobs/" + id, static_cast<uint64_t>(step)),
            checkpoint.SerializeAsString()}},
          [](const absl::Status&) {});
    }
  }

  const TestFolder folder_;
  std::string checker_;
  std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_CONTROLLER_RESUME_H_
