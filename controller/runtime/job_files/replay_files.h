// Files and rows that a replay takes from its source, the job that it repeats
// (controller/spec/dataflow/replay.h): rows of batches, files of the experience log, a checkpoint,
// models. All functions may block.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_REPLAY_FILES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_REPLAY_FILES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/replay_service.pb.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/store/store.h"

namespace baton::controller {

/// The job whose batches are repeated.
struct ReplaySource {
  v1::Job job;  ///< With its specs and its dataflow.
  std::vector<v1::Checkpoint> checkpoints;
  std::filesystem::path folder;  ///< The job's folder.
};

struct ReplayPlan {
  v1::Replay replay;                    ///< Without `job`.
  std::filesystem::path checkpoint;     ///< Of from_step; empty: it begins with the first weights.
  std::filesystem::path compared;       ///< The checkpoint of to_step; empty: it is not kept.
  std::map<int64_t, std::string> rows;  ///< Step -> BatchRow, as it is stored.
  std::set<uint32_t> log_files;         ///< Log files that the rows name.
  std::map<std::string, std::string> models;  ///< In the source's folder -> name in the replay's.
};

/// Chooses the steps and reads their rows. INVALID_ARGUMENT (REPLAY_RANGE), FAILED_PRECONDITION
/// (REPLAY_KIND, REPLAY_NOT_KEPT; CHECKPOINT_WEIGHTS_ONLY: the checkpoint from which it would begin
/// has lost the optimizer's state), RESOURCE_EXHAUSTED (REPLAY_TOO_LARGE): the rows have more than
/// kMostReplayBytes.
absl::StatusOr<ReplayPlan> PlanReplay(store::Store& store, const ReplaySource& source,
                                      const v1::CreateReplayRequest& request);
inline constexpr uint64_t kMostReplayBytes = uint64_t{128} << 20;

/// Copies the files into the replay's future folder (as links if they are the controller's own);
/// `plan` then names the copies. The checkpoint that the replay is compared with is among them,
/// because its bytes are read for the verdict and the source may delete it. UNAVAILABLE: the source
/// deleted a file meanwhile. DATA_LOSS (REPLAY_NOT_KEPT): a checkpoint's file is missing or
/// damaged.
absl::Status LinkReplay(const ReplaySource& source, StagedFolder* staged, ReplayPlan* plan);

/// The first row of the replay, after LinkReplay. `as`: its name, uid and create_time. `home`: the
/// folder where the staged files will be. Stages the file that ReadReplay reads.
absl::StatusOr<store::v1::JobRow> MakeReplayRow(const ReplaySource& source, const ReplayPlan& plan,
                                                const v1::Job& as, int64_t submit_order,
                                                const std::filesystem::path& home,
                                                StagedFolder* staged);

/// The replay in the folder of its job, with the verdict that follows from the job's state alone:
/// PENDING if files must be compared. DATA_LOSS: the folder holds no replay.
absl::StatusOr<v1::Replay> ReadReplay(const std::filesystem::path& folder, const v1::Job& job);

/// The same with the verdict that follows from the files: reads the bytes of both checkpoints.
/// `stop`: polled now and then; true ends it with CANCELLED.
absl::StatusOr<v1::Replay> JudgeReplay(const std::filesystem::path& folder, const v1::Job& job,
                                       const std::function<bool()>& stop);
/// Bytes that JudgeReplay reads, and a text that changes when one of its files does.
struct JudgedFiles {
  uint64_t bytes = 0;
  std::string state;
};
JudgedFiles FilesToJudge(const std::filesystem::path& folder, const v1::Job& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_REPLAY_FILES_H_
