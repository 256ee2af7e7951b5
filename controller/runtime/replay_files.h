// What a replay takes from the job that it repeats, its source (controller/spec/replay.h): rows of
// batches, files of the experience log, a checkpoint, models. All functions may block.
#ifndef BATON_CONTROLLER_RUNTIME_REPLAY_FILES_H_
#define BATON_CONTROLLER_RUNTIME_REPLAY_FILES_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/replay_service.pb.h"
#include "controller/runtime/job_folders.h"
#include "controller/store/store.h"

namespace baton::controller {

/// The job whose batches are repeated.
struct ReplaySource {
  v1::Job job;  ///< With its specs and its dataflow.
  std::vector<v1::Checkpoint> checkpoints;
  std::filesystem::path folder;  ///< Of the job.
};

struct ReplayPlan {
  v1::Replay replay;                    ///< Without `job`.
  std::filesystem::path checkpoint;     ///< Of from_step; empty: it begins with the first weights.
  std::map<int64_t, std::string> rows;  ///< Step -> BatchRow, as it is stored.
  std::set<uint32_t> log_files;         ///< That the rows name.
  std::map<std::string, std::string> models;  ///< In the source's folder -> name in the replay's.
};

/// Chooses the steps and reads their rows. INVALID_ARGUMENT (REPLAY_RANGE), FAILED_PRECONDITION
/// (REPLAY_KIND, REPLAY_NOT_KEPT), RESOURCE_EXHAUSTED (REPLAY_TOO_LARGE): the rows have more than
/// kMostReplayBytes.
absl::StatusOr<ReplayPlan> PlanReplay(store::Store& store, const ReplaySource& source,
                                      const v1::CreateReplayRequest& request);
inline constexpr uint64_t kMostReplayBytes = uint64_t{128} << 20;

/// Links the files into the replay's folder-to-be; `plan` names the links then. UNAVAILABLE: the
/// source deleted a file meanwhile.
absl::Status LinkReplay(const ReplaySource& source, StagedFolder* staged, ReplayPlan* plan);

/// The first row of the replay, after LinkReplay. `as`: its name, uid and create_time. `home`: the
/// folder where the staged files will be. Stages the file that ReadReplay reads.
absl::StatusOr<store::v1::JobRow> MakeReplayRow(const ReplaySource& source, const ReplayPlan& plan,
                                                const v1::Job& as, int64_t submit_order,
                                                const std::filesystem::path& home,
                                                StagedFolder* staged);

/// The replay in the folder of its job, with the verdict that follows from the job's state and from
/// the checkpoint that it saved. DATA_LOSS: the folder holds no replay.
absl::StatusOr<v1::Replay> ReadReplay(const std::filesystem::path& folder, const v1::Job& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_REPLAY_FILES_H_
