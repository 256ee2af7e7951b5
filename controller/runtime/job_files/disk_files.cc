#include "controller/runtime/job_files/disk_files.h"

#include <filesystem>
#include <utility>

#include "controller/runtime/calls/data_readers.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

class DiskJobFiles : public JobFiles {
 public:
  DiskJobFiles(std::string data_root, std::string job, RestoreMarks* marks,
               DiskFiles::LimitsOf limits_of, DataCache* cache, FolderBytes* bytes)
      : data_root_(std::move(data_root)),
        job_(std::move(job)),
        folder_(JobFolderOf(data_root_, job_)),
        checkpoints_(folder_, data_root_),
        marks_(marks),
        limits_of_(std::move(limits_of)),
        cache_(cache),
        bytes_(bytes) {}

  uint64_t DataBytes(const v1::DataSpec& data) const override {
    uint64_t bytes = 0;
    for (const auto* files : {&data.train_files(), &data.val_files(), &data.pretrain_files()}) {
      bytes += BytesOf(AbsolutePaths(data_root_, *files));
    }
    return bytes;
  }

  absl::StatusOr<JobData> ReadData(const v1::JobSpec& effective, bool held) const override {
    return ReadJobData(effective, data_root_, limits_of_ ? limits_of_(job_) : DataLimits(), held,
                       cache_);
  }

  absl::StatusOr<std::unique_ptr<experience::ExperienceLog>> OpenLog() override {
    BATON_RETURN_IF_ERROR(MakeFolder(folder_ + "/experience"));
    return experience::ExperienceLog::Open(folder_ + "/experience");
  }

  std::string CheckpointPath(int64_t step) const override { return checkpoints_.PathOf(step); }

  std::string TemporaryCheckpointPath(int64_t step, uint64_t incarnation) const override {
    return checkpoints_.TemporaryOf(step, incarnation);
  }

  absl::Status PrepareCheckpoint(int64_t step, uint64_t incarnation,
                                 const std::string& role) override {
    return checkpoints_.Prepare(step, incarnation, role).status();
  }

  bool IsPrepared(int64_t step, uint64_t incarnation) const override {
    std::error_code code;
    return std::filesystem::exists(TemporaryCheckpointPath(step, incarnation), code);
  }

  absl::StatusOr<v1::Checkpoint> CommitCheckpoint(
      int64_t step, uint64_t incarnation, const store::v1::JobRow& row,
      const std::vector<v1::FileHash>& written) override {
    auto checkpoint = checkpoints_.Commit(step, incarnation, row, written);
    Changed();
    return checkpoint;
  }

  void DeleteCheckpoint(const v1::Checkpoint& checkpoint) override {
    checkpoints_.Delete(checkpoint);
    Changed();
  }

  absl::StatusOr<int64_t> DropOptimizer(const v1::Checkpoint& checkpoint) override {
    const auto freed = RemoveOptimizer(data_root_, checkpoint.path());
    Changed();
    return freed;
  }

  absl::Status RemoveAll() override {
    absl::Status removed = RemoveJobFolder(data_root_, folder_);
    Changed();
    return removed;
  }

  std::shared_ptr<void> MarkWork() override {
    if (marks_ == nullptr) return nullptr;
    return std::make_shared<RestoreMarks::Mark>(marks_->On(job_));
  }

 private:
  void Changed() {
    if (bytes_ != nullptr) bytes_->Touch(job_);
  }

  const std::string data_root_;
  const std::string job_;
  const std::string folder_;
  const CheckpointFiles checkpoints_;
  RestoreMarks* const marks_;
  const DiskFiles::LimitsOf limits_of_;
  DataCache* const cache_;
  FolderBytes* const bytes_;
};

}  // namespace

DiskFiles::DiskFiles(std::string data_root, RestoreMarks* marks, LimitsOf limits_of,
                     uint64_t max_data_memory_bytes, FolderBytes* bytes)
    : data_root_(std::move(data_root)),
      marks_(marks),
      limits_of_(std::move(limits_of)),
      cache_(max_data_memory_bytes),
      bytes_(bytes) {}

std::unique_ptr<JobFiles> DiskFiles::FilesOf(const std::string& job) {
  return std::make_unique<DiskJobFiles>(data_root_, job, marks_, limits_of_, &cache_, bytes_);
}

}  // namespace baton::controller
