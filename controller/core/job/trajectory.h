// A trajectory as the core knows it: ids, lengths, scalars and versions, never its tokens.
#ifndef BATON_CONTROLLER_CORE_JOB_TRAJECTORY_H_
#define BATON_CONTROLLER_CORE_JOB_TRAJECTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/experience.pb.h"
#include "controller/core/job/task.h"

namespace baton::controller {

/// The place of a payload in the experience log.
struct PayloadLocation {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint32_t size = 0;
};

/// An earlier response for the same prompt index and sample (EarlierResponses).
struct EarlierResponse {
  PayloadLocation location;
  uint32_t tokens = 0;  ///< 0: there is none.
};

/// The work of one score node on one trajectory.
struct NodeTry {
  uint64_t attempt = 0;
  uint32_t failures = 0;  ///< Attempts that ended with an error.
  bool asked = false;     ///< Queued or running.
};

/// The only weights that may make a response, such as those of an evaluation beside the steps of an
/// async job.
struct Pin {
  uint64_t version = 0;  ///< 0: any may.
  int64_t step = 0;      ///< Steps done by these weights.
};

/// PENDING -> GENERATING -> GENERATED/SCORING -> READY; then the batch consumes it.
enum class TrajectoryState { kPending, kGenerating, kScoring, kReady };

struct TrajectoryInfo {
  uint64_t id = 0;  ///< Unique among the live trajectories of a job: purpose and ordinal.
  v1::Purpose purpose = v1::PURPOSE_TRAIN;
  /// The prompt, as its running number over all epochs; prompt_id is its place in the data.
  uint64_t prompt_index = 0;
  uint32_t sample = 0;
  uint64_t prompt_id = 0;
  uint64_t trajectory_uid = 0;  ///< Names its tasks, and never another trajectory's.
  TrajectoryState state = TrajectoryState::kPending;
  uint64_t attempt = 0;   ///< Of the generation.
  uint32_t failures = 0;  ///< Generations that ended with an error.
  uint32_t losses = 0;    ///< Times its payload was lost.
  /// An earlier controller stored the response, and scores that it had begun are for this response.
  bool restored = false;
  uint64_t scored = 0;  ///< Score nodes done: bit i is node i of the dataflow.
  /// The nodes of `scored` that produced nothing because of the infrastructure, and the nodes that
  /// depend on them. Not 0: the trajectory has no reward and takes no part in the batch.
  uint64_t failed = 0;
  std::vector<NodeTry> tries;   ///< Of the score nodes, by node.
  uint64_t policy_version = 0;  ///< The version that generates or generated it.
  uint64_t incarnation = 0;     ///< In which that version was made.
  /// Draft tokens from other weights, which its generation may accept (Generate.draft_tokens) …
  uint32_t drafted = 0;
  uint64_t draft_version = 0;  ///< … and the version of those weights.
  uint32_t resumed = 0;        ///< Tokens that the current attempt began with.
  EarlierResponse earlier;     ///< A draft for an attempt that begins without tokens.
  Pin pin;
  bool selected = false;  ///< By a batch: the nodes that run at its selection are wanted too.
  uint32_t tokens = 0;    ///< Response tokens known.
  uint32_t prompt_tokens = 0;
  std::map<std::string, double> scores;
  std::string error;
  std::string finish_reason;
  uint64_t serial = 0;  ///< Key of its row; 0: it has none yet.
  PayloadLocation location;
  std::map<uint32_t, PayloadLocation> columns;  ///< Outputs of score nodes, by node.
};

/// The id of sample `sample` of prompt index `prompt_index`, with `n` samples each.
uint64_t TrajectoryId(v1::Purpose purpose, uint64_t prompt_index, uint32_t sample, uint32_t n);
/// Names the prompt; evaluation prompts have other keys than training prompts.
uint64_t PromptKey(const TrajectoryInfo& info);
uint64_t PromptKey(v1::Purpose purpose, uint64_t prompt_id);
/// The same for a prompt of the training data.
uint64_t TrainPromptKey(uint64_t prompt_id);
/// The purpose in an id.
v1::Purpose PurposeOf(uint64_t id);

/// A number for the work of one score node on one trajectory; `NodeOf` and `TrajectoryOf` take it
/// apart.
uint64_t WorkId(uint64_t trajectory, uint32_t node);
uint32_t NodeOf(uint64_t work);
uint64_t TrajectoryOf(uint64_t work);

/// The step that a trajectory of `purpose` belongs to when `done` steps are done: the step that it
/// is made for, or the step after which it evaluates.
int64_t StepOf(v1::Purpose purpose, int64_t done);

/// For people: "train-1234" or "eval-7".
std::string TrajectoryName(uint64_t id);

/// The current attempt at its generation, and at the score of a node.
TaskRef GenerateRef(const TrajectoryInfo& info);
TaskRef ScoreRef(const TrajectoryInfo& info, uint32_t node);

/// Id, sample, finish reason and scores: the part of other responses that a node over the group
/// gets.
v1::Trajectory ScoresOf(const TrajectoryInfo& info);

store::v1::TrajectoryRow ToRow(const TrajectoryInfo& info, int64_t step, uint64_t incarnation);
/// `wanted`: the score nodes without which it is not READY.
TrajectoryInfo FromRow(const store::v1::TrajectoryRow& row, uint64_t serial, uint64_t wanted);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_TRAJECTORY_H_
