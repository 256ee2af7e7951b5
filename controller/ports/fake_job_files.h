// For tests: a job's files in memory.
#ifndef BATON_CONTROLLER_PORTS_FAKE_JOB_FILES_H_
#define BATON_CONTROLLER_PORTS_FAKE_JOB_FILES_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/ports/job_files.h"

namespace baton::controller {

/// The files of one job; every job gets the same. Only operations that a test makes fail do.
/// Thread-safe.
class FakeJobFiles : public Files {
 public:
  /// Is told of checkpoints, before the job is.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnCommitted(int64_t step, uint64_t incarnation) = 0;
    virtual void OnDeleted(int64_t step) = 0;
  };

  /// The data files hold `data`, whatever a spec names. `listener` may be null.
  explicit FakeJobFiles(JobData data, Listener* listener = nullptr)
      : data_(std::move(data)), listener_(listener) {}

  std::unique_ptr<JobFiles> FilesOf(const std::string& job) override {
    return std::make_unique<Job>(this, job);
  }

  /// Steps of the complete checkpoints.
  std::set<int64_t> checkpoints() const {
    absl::MutexLock lock(&mu_);
    return checkpoints_;
  }
  /// Steps of those that have lost the optimizer's files, in the order in which they lost them.
  std::vector<int64_t> without_optimizer() const {
    absl::MutexLock lock(&mu_);
    return without_optimizer_;
  }
  /// Sets the size of later checkpoints, in bytes; `optimizer` of them are the optimizer's files.
  void SetSizes(int64_t bytes, int64_t optimizer) {
    absl::MutexLock lock(&mu_);
    bytes_ = bytes;
    optimizer_bytes_ = optimizer;
  }
  /// The answer of DropOptimizer; OK: the files are removed.
  void SetDropStatus(absl::Status status) {
    absl::MutexLock lock(&mu_);
    drop_status_ = std::move(status);
  }
  /// While full, the disk takes no payload and no checkpoint.
  void SetFull(bool full) {
    absl::MutexLock lock(&mu_);
    full_ = full;
  }
  /// Sets why there is no room for the data; "": there is room.
  void SetNoRoom(std::string reason) {
    absl::MutexLock lock(&mu_);
    no_room_ = std::move(reason);
  }
  /// From here on the present contents of the experience logs cannot be read.
  void LosePayloads() {
    absl::MutexLock lock(&mu_);
    lost_ = records_.size();
  }
  /// Puts payload k in file k, instead of all payloads in file 1.
  void GiveEachRecordAFile() {
    absl::MutexLock lock(&mu_);
    file_for_each_ = true;
  }
  /// From here on reads 1, 4, 9, 16, … fail for the moment: the process has no file descriptor
  /// left.
  void FailSomeReads() {
    absl::MutexLock lock(&mu_);
    failing_ = true;
  }
  /// Payloads that were read back.
  size_t reads() const {
    absl::MutexLock lock(&mu_);
    return reads_;
  }
  size_t records() const {
    absl::MutexLock lock(&mu_);
    return records_.size();
  }

 private:
  class Log : public experience::ExperienceLog {
   public:
    explicit Log(FakeJobFiles* files) : files_(*files) {}
    absl::StatusOr<experience::Location> Append(absl::string_view payload) override {
      absl::MutexLock lock(&files_.mu_);
      if (files_.full_) return absl::ResourceExhaustedError("the disk is full");
      files_.records_.emplace_back(payload);
      const auto number = static_cast<uint32_t>(files_.records_.size());
      return experience::Location{files_.file_for_each_ ? number : 1, number - 1,
                                  static_cast<uint32_t>(payload.size())};
    }
    absl::StatusOr<std::string> Read(const experience::Location& at) override {
      absl::MutexLock lock(&files_.mu_);
      if (at.offset < files_.lost_) return absl::DataLossError("the record is lost");
      if (at.offset >= files_.records_.size()) return absl::OutOfRangeError("no such record");
      if (files_.failing_ && ++files_.tries_ == files_.fails_next_) {
        files_.root_ += 1;
        files_.fails_next_ = files_.root_ * files_.root_;
        return absl::UnavailableError("too many open files");
      }
      ++files_.reads_;
      return files_.records_[at.offset];
    }
    absl::Status Sync() override { return absl::OkStatus(); }
    absl::Status DropFiles(uint32_t /*end*/,
                           absl::FunctionRef<bool(uint32_t)> /*needed*/) override {
      return absl::OkStatus();
    }

   private:
    FakeJobFiles& files_;
  };

  class Job : public JobFiles {
   public:
    Job(FakeJobFiles* files, std::string name) : files_(*files), name_(std::move(name)) {}

    uint64_t DataBytes(const v1::DataSpec& /*data*/) const override { return 0; }
    absl::StatusOr<JobData> ReadData(const v1::JobSpec& /*effective*/, bool held) const override {
      absl::MutexLock lock(&files_.mu_);
      if (!held && !files_.no_room_.empty()) return absl::ResourceExhaustedError(files_.no_room_);
      return files_.data_;
    }
    absl::StatusOr<std::unique_ptr<experience::ExperienceLog>> OpenLog() override {
      return std::make_unique<Log>(&files_);
    }
    std::string CheckpointPath(int64_t step) const override {
      return absl::StrCat(name_, "/step-", step);
    }
    std::string TemporaryCheckpointPath(int64_t step, uint64_t incarnation) const override {
      return absl::StrCat(CheckpointPath(step), ".", incarnation, ".tmp");
    }
    absl::Status PrepareCheckpoint(int64_t /*step*/, uint64_t /*incarnation*/,
                                   const std::string& /*role*/) override {
      return absl::OkStatus();
    }
    bool IsPrepared(int64_t /*step*/, uint64_t /*incarnation*/) const override { return true; }
    absl::StatusOr<v1::Checkpoint> CommitCheckpoint(
        int64_t step, uint64_t incarnation, const store::v1::JobRow& /*row*/,
        const std::vector<v1::FileHash>& /*written*/) override {
      v1::Checkpoint checkpoint;
      {
        absl::MutexLock lock(&files_.mu_);
        if (files_.full_) return absl::ResourceExhaustedError("the disk is full");
        files_.checkpoints_.insert(step);
        if (files_.bytes_ > 0) checkpoint.set_size_bytes(files_.bytes_);
        if (files_.optimizer_bytes_ > 0) checkpoint.set_optimizer_bytes(files_.optimizer_bytes_);
      }
      if (files_.listener_ != nullptr) files_.listener_->OnCommitted(step, incarnation);
      checkpoint.set_step(step);
      checkpoint.set_path(CheckpointPath(step));
      return checkpoint;
    }
    void DeleteCheckpoint(const v1::Checkpoint& checkpoint) override {
      {
        absl::MutexLock lock(&files_.mu_);
        files_.checkpoints_.erase(checkpoint.step());
      }
      if (files_.listener_ != nullptr) files_.listener_->OnDeleted(checkpoint.step());
    }
    absl::StatusOr<int64_t> DropOptimizer(const v1::Checkpoint& checkpoint) override {
      absl::MutexLock lock(&files_.mu_);
      if (!files_.drop_status_.ok()) return files_.drop_status_;
      files_.without_optimizer_.push_back(checkpoint.step());
      return files_.optimizer_bytes_;
    }
    absl::Status RemoveAll() override { return absl::OkStatus(); }
    std::shared_ptr<void> MarkWork() override { return nullptr; }

   private:
    FakeJobFiles& files_;
    const std::string name_;
  };

  const JobData data_;
  Listener* const listener_;
  mutable absl::Mutex mu_;
  std::vector<std::string> records_ ABSL_GUARDED_BY(mu_);
  uint64_t lost_ ABSL_GUARDED_BY(mu_) = 0;  // so many, from the first one on
  std::set<int64_t> checkpoints_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> without_optimizer_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0, optimizer_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status drop_status_ ABSL_GUARDED_BY(mu_);
  size_t reads_ ABSL_GUARDED_BY(mu_) = 0;
  bool full_ ABSL_GUARDED_BY(mu_) = false, file_for_each_ ABSL_GUARDED_BY(mu_) = false;
  bool failing_ ABSL_GUARDED_BY(mu_) = false;
  std::string no_room_ ABSL_GUARDED_BY(mu_);
  size_t tries_ ABSL_GUARDED_BY(mu_) = 0;  // reads while failing
  size_t root_ ABSL_GUARDED_BY(mu_) = 1, fails_next_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_FAKE_JOB_FILES_H_
