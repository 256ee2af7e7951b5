// A replay: a job that trains again on the recorded batches of another job of kind rl.
//
// Its effective spec and its dataflow are those of the other job without the parts that make
// responses and scores: its graph has one generate node of purpose `recorded` and no score nodes.
// So all of its workers train, and the core knows a replay by its graph. Each of its steps trains
// on the step's BatchRow (table `batches`), which the job gets when it is created, and on the
// experience log that the row names.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_REPLAY_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_REPLAY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// True if the graph is that of a replay.
bool Replays(const v1::Dataflow& dataflow);

/// Turns the graph of a job into that of its replay: nothing is generated or scored.
void RecordGraph(v1::Dataflow* graph);

/// Turns the row of a job into the first row of its replay up to `to_step`: specs, graph, roles and
/// groups. The settings by which the steps learn stay; the job has no evaluations, never ends
/// early, and saves one checkpoint, after its last step.
void MakeReplay(int64_t to_step, store::v1::JobRow* row);

/// The kept steps and checkpoints of a job.
struct Kept {
  int64_t done = 0;               ///< Steps that the job has done.
  std::set<int64_t> recorded;     ///< Steps whose batch and responses are there.
  std::set<int64_t> checkpoints;  ///< Steps of complete checkpoints.
  /// Those of them that have lost the optimizer's state: nothing is trained from them.
  std::set<int64_t> weights_only;
};

/// The steps that a replay trains: from `from` + 1 to `to`.
struct ReplayRange {
  int64_t from = 0;
  int64_t to = 0;
  bool compares = false;  ///< The job has a checkpoint of step `to`.
};

/// Chooses the steps of a replay. `from`, `to`: as the user gave them. Without `to`: the newest
/// checkpoint that a replay can reach; without `from`: the oldest state from which each step up to
/// `to` is recorded. The states are the complete checkpoints with the optimizer's state, and the
/// job's first weights (step 0) if step 1 is recorded. INVALID_ARGUMENT: the range is empty, or
/// beyond the job's last step. FAILED_PRECONDITION: the needed steps are not kept (the message
/// names those that are), or the job has completed no step.
absl::StatusOr<ReplayRange> ChooseReplay(const Kept& kept, std::optional<int64_t> from,
                                         std::optional<int64_t> to);

/// "steps 3-17, 20", for people; "no step".
std::string StepsText(const std::set<int64_t>& steps);

/// OK if batches of this job are recorded at all: FAILED_PRECONDITION for another kind than rl, and
/// for a replay.
absl::Status CheckReplayable(const v1::Job& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_REPLAY_H_
