// The controller's tables and keys (docs/formats/store.md).
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_TABLES_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_TABLES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "controller/store/store.h"

namespace baton::controller {

inline constexpr char kMetaTable[] = "meta";         ///< "epoch", "secret"
inline constexpr char kJobTable[] = "jobs";          ///< job name -> JobRow
inline constexpr char kSpecTable[] = "specs";        ///< job name -> the fields that never change
inline constexpr char kOrderTable[] = "job_order";   ///< project#order, *#order (job_order.h)
inline constexpr char kRequestTable[] = "requests";  ///< project/request -> RequestRow
inline constexpr char kEventTable[] = "events";      ///< job#revision -> JobEvent
inline constexpr char kMetricTable[] = "metrics";    ///< job#step/kind -> StepMetrics
inline constexpr char kCheckpointTable[] = "checkpoints";   ///< job#step -> Checkpoint
inline constexpr char kTrajectoryTable[] = "trajectories";  ///< job#serial -> TrajectoryRow
inline constexpr char kBatchTable[] = "batches";            ///< job#step -> BatchRow
inline constexpr char kProjectTable[] = "projects";         ///< project -> baton.v1.Project
inline constexpr char kRestoreTable[] = "restores";         ///< job name -> RestoreRow
inline constexpr char kRemovalTable[] = "removals";         ///< job name -> RemovalRow
inline constexpr char kLogTable[] = "logs";                 ///< job#sequence -> LogEntry
inline constexpr char kWorkerTable[] = "workers";           ///< worker id -> WorkerRow

/// RequestRow.method of a call that makes a job.
inline constexpr char kCreateReplay[] = "CreateReplay";

/// Numbers in keys are 16 hexadecimal digits, so that keys sort like numbers.
inline std::string NumberKey(absl::string_view job, uint64_t number, absl::string_view tail = "") {
  return absl::StrCat(job, "#", absl::Hex(number, absl::kZeroPad16), tail);
}

/// The number of a key of NumberKey.
inline uint64_t KeyNumber(absl::string_view key) {
  const size_t at = key.rfind('#');
  return std::stoull(std::string(key.substr(at + 1, 16)), nullptr, 16);
}

/// Rows of one job whose number is in [begin, end); end 0: all from begin on.
inline store::ScanOptions NumberRange(absl::string_view job, uint64_t begin, uint64_t end = 0) {
  store::ScanOptions options;
  options.begin = NumberKey(job, begin);
  options.end = end == 0 ? absl::StrCat(job, "$") : NumberKey(job, end);  // '$' follows '#'
  return options;
}

/// Durability of the writes of a job's turn, which may have to survive a power cut. Most turns
/// write only a trajectory; after a power cut it is generated or scored again. Everything else that
/// a turn makes visible (commands, revisions, deleted files) must never be taken back, so these
/// writes and all earlier ones are synced.
inline store::Durability DurabilityOf(const std::vector<store::Write>& writes) {
  const bool mendable = std::all_of(writes.begin(), writes.end(), [](const store::Write& write) {
    return write.table == kTrajectoryTable && write.value.has_value();
  });
  return mendable ? store::Durability::kProcess : store::Durability::kPowerCut;
}

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_TABLES_H_
