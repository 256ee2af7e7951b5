// What the core knows of a trajectory: ids, lengths, scalars and versions, never its tokens.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORY_H_
#define BATON_CONTROLLER_CORE_TRAJECTORY_H_

#include <cstdint>
#include <map>
#include <string>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/experience.pb.h"

namespace baton::controller {

/// Where a payload stands in the experience log.
struct PayloadLocation {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint32_t size = 0;
};

/// PENDING -> GENERATING -> GENERATED/SCORING -> READY; then the batch consumes it.
enum class TrajectoryState { kPending, kGenerating, kScoring, kReady };

struct TrajectoryInfo {
  uint64_t id = 0;  ///< Unique among the live trajectories of a job: purpose and ordinal.
  v1::Purpose purpose = v1::PURPOSE_TRAIN;
  uint64_t draw = 0;
  uint32_t sample = 0;
  uint64_t prompt_id = 0;
  TrajectoryState state = TrajectoryState::kPending;
  uint32_t attempt = 0;         ///< Of the generation or of the score node in progress.
  uint32_t failures = 0;        ///< Attempts that ended with an error.
  uint32_t scored = 0;          ///< Score nodes done.
  uint64_t policy_version = 0;  ///< That generates or generated it.
  uint64_t incarnation = 0;     ///< In which that version was made.
  uint32_t tokens = 0;          ///< Response tokens known.
  uint32_t prompt_tokens = 0;
  std::map<std::string, double> scores;
  std::string error;
  std::string finish_reason;
  uint64_t serial = 0;  ///< Key of its row; 0: it has none yet.
  PayloadLocation location;
};

/// The id of sample `sample` of draw `draw`, `n` samples a draw.
uint64_t TrajectoryId(v1::Purpose purpose, uint64_t draw, uint32_t sample, uint32_t n);
/// The purpose in an id.
v1::Purpose PurposeOf(uint64_t id);

/// For people: "train-1234" or "eval-7".
std::string TrajectoryName(uint64_t id);

store::v1::TrajectoryRow ToRow(const TrajectoryInfo& info, int64_t step, uint64_t incarnation);
TrajectoryInfo FromRow(const store::v1::TrajectoryRow& row, uint64_t serial, uint32_t score_nodes);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORY_H_
