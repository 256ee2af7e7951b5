// Checkpoints on disk: `<job dir>/checkpoints/step-N/{actor/, optimizer.safetensors, …}`; names of
// what another role trains begin with the role: `critic/`, `critic_optimizer.safetensors`, ….
//
// Ranks write into `step-N.tmp`; the controller adds `files.json` and `job.json`, syncs, renames. A
// folder without the `.tmp` is therefore complete. All functions may block.
#ifndef BATON_CONTROLLER_RUNTIME_CHECKPOINT_FILES_H_
#define BATON_CONTROLLER_RUNTIME_CHECKPOINT_FILES_H_

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
  /// `job_dir` holds everything of one job; `data_root` everything of all, uploaded files too.
  CheckpointFiles(std::string job_dir, std::string data_root);

  /// The temporary folder of `step` and this incarnation (a rank that was given up may still write
  /// into that of an earlier one), without what `role` wrote into it. All others are removed, since
  /// a job saves one checkpoint at a time.
  absl::StatusOr<std::string> Prepare(int64_t step, uint64_t incarnation,
                                      const std::string& role) const;
  /// Completes it. `row` is the job as it stands at that step; `files` is what the ranks say
  /// they wrote. DATA_LOSS when a file is missing or of another size; its content is compared
  /// when the checkpoint is used.
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

/// The data files of a spec that were uploaded: "files/CONTENT/NAME", under the data root.
std::vector<std::string> UploadedFiles(const v1::JobSpec& spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CHECKPOINT_FILES_H_
