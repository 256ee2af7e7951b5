// Checkpoints on disk: `<job dir>/checkpoints/step-N/{actor/, optimizer.safetensors, …}`. Names of
// files of other roles begin with the role: `critic/`, `critic_optimizer.safetensors`, ….
//
// Ranks write into `step-N.INCARNATION.tmp`. The controller adds `files.json` and `job.json`,
// syncs, and renames the folder. So a folder without `.tmp` is complete. All functions may block.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_FILES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

class CheckpointFiles {
 public:
  /// `job_dir` holds everything of one job; `data_root` everything of all jobs, and uploaded files.
  CheckpointFiles(std::string job_dir, std::string data_root);

  /// The temporary folder of `step` and this incarnation, without the files of `role` from an
  /// earlier try. The incarnation is part of the name because a rank that was given up may still
  /// write into the folder of an earlier one. Removes all other temporary folders, because a job
  /// saves one checkpoint at a time.
  absl::StatusOr<std::string> Prepare(int64_t step, uint64_t incarnation,
                                      const std::string& role) const;
  /// Completes the checkpoint. `row` is the job's state at that step; `files` is what the ranks
  /// report as written. DATA_LOSS: a file is missing or has another size. The contents are compared
  /// only when the checkpoint is used.
  absl::StatusOr<v1::Checkpoint> Commit(int64_t step, uint64_t incarnation,
                                        const store::v1::JobRow& row,
                                        const std::vector<v1::FileHash>& files) const;
  void Delete(const v1::Checkpoint& checkpoint) const;
  std::string PathOf(int64_t step) const;
  std::string TemporaryOf(int64_t step, uint64_t incarnation) const;

 private:
  const std::string root_;
  const std::string data_root_;
};

/// The uploaded data files of a spec: "files/CONTENT/NAME", under the data root.
std::vector<std::string> UploadedFiles(const v1::JobSpec& spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_CHECKPOINT_FILES_H_
