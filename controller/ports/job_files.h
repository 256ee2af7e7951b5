// Ports of a job: its files.
//
// A job's data sets, its experience log and its checkpoints. Production gives a folder on a disk
// (controller/runtime/job_files/disk_files.h); a simulator gives files that tear, vanish or are
// refused.
#ifndef BATON_CONTROLLER_PORTS_JOB_FILES_H_
#define BATON_CONTROLLER_PORTS_JOB_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/experience/experience_log.h"
#include "sdk/common/data_set/data_set.h"

namespace baton::controller {

/// The contents of a spec's data files. Several jobs may share a set.
struct JobData {
  std::shared_ptr<const DataSet> train, val, pretrain;  ///< Never null.
  std::vector<std::string> problems;                    ///< All, each with the spec's field.
};

/// Sets that no other job shares.
inline JobData MakeJobData(DataSet train, DataSet val = {}, DataSet pretrain = {}) {
  return {std::make_shared<const DataSet>(std::move(train)),
          std::make_shared<const DataSet>(std::move(val)),
          std::make_shared<const DataSet>(std::move(pretrain)),
          {}};
}

/// The files of one job. Methods may block; they are called on the job's disk strand, except
/// DataBytes, ReadData and MarkWork, which are thread-safe, and the names, which are constant.
class JobFiles {
 public:
  virtual ~JobFiles() = default;

  // Data sets.
  /// The size of the data files, as far as they can be seen. Opens none.
  virtual uint64_t DataBytes(const v1::DataSpec& data) const = 0;
  /// RESOURCE_EXHAUSTED: other jobs' data leave no room; the message is "room for …", and when it
  /// will come. `held`: as in LoadData.
  virtual absl::StatusOr<JobData> ReadData(const v1::JobSpec& effective, bool held) const = 0;

  // The experience log.
  /// Opens the log; makes its folder if there is none.
  virtual absl::StatusOr<std::unique_ptr<experience::ExperienceLog>> OpenLog() = 0;

  // Checkpoints: ranks write into a temporary folder, which the controller completes and renames.
  virtual std::string CheckpointPath(int64_t step) const = 0;
  virtual std::string TemporaryCheckpointPath(int64_t step, uint64_t incarnation) const = 0;
  /// Makes the temporary folder, without what `role` wrote there before, and removes all others.
  virtual absl::Status PrepareCheckpoint(int64_t step, uint64_t incarnation,
                                         const std::string& role) = 0;
  /// True when the temporary folder is there.
  virtual bool IsPrepared(int64_t step, uint64_t incarnation) const = 0;
  /// Completes the checkpoint. `row` is the job at that step; `written` is what the ranks say they
  /// wrote. DATA_LOSS when a file is missing or of another size.
  virtual absl::StatusOr<v1::Checkpoint> CommitCheckpoint(
      int64_t step, uint64_t incarnation, const store::v1::JobRow& row,
      const std::vector<v1::FileHash>& written) = 0;
  virtual void DeleteCheckpoint(const v1::Checkpoint& checkpoint) = 0;
  /// Removes the optimizer's files of a complete checkpoint, whose folder then says that it has
  /// weights only. Returns the bytes that this frees; 0 if they are removed already. ABORTED:
  /// another job copies the checkpoint; try again.
  virtual absl::StatusOr<int64_t> DropOptimizer(const v1::Checkpoint& checkpoint) = 0;

  /// Deletes everything. An error: the job's folder still has its name.
  virtual absl::Status RemoveAll() = 0;

  /// While the result lives, a death of the controller counts as one under this job's work.
  virtual std::shared_ptr<void> MarkWork() = 0;
};

/// The files of all jobs. Outlives the jobs. Thread-safe.
class Files {
 public:
  virtual ~Files() = default;
  virtual std::unique_ptr<JobFiles> FilesOf(const std::string& job) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_JOB_FILES_H_
