// Trajectories as the engine trains on them.
#ifndef BATON_WORKERS_POLICY_SEQUENCES_H_
#define BATON_WORKERS_POLICY_SEQUENCES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/policy/policy_source.h"

namespace baton::policy {

/// The columns that become TrainSequence's values and returns: a critic's own.
struct ValueColumns {
  const char* values = "values";
  const char* returns = "returns";
};

/// Columns `prompt_tokens`, `tokens`, and where they exist `rollout_log_prob`,
/// `sampling_log_prob`, `old_log_prob`, `ref_log_prob`, `advantages` (one value, or one per token)
/// and those of a critic. The behaviour is what was sampled from; the old policy is the one of
/// `old_log_prob`, else of `rollout_log_prob`. Tokens of ENVIRONMENT segments are masked out.
/// Positive is a score `accuracy`, or else `reward`, above 0. Errors name trajectory and column.
absl::StatusOr<engine::TrainSequence> FromColumns(const v1::Trajectory& trajectory,
                                                  const ValueColumns& columns = {});

/// The sequence of a trajectory that comes as a header (ExperienceService, VIEW_HEADERS): remote,
/// with the segments' lengths, and mask and sign as from FromColumns.
engine::TrainSequence FromHeader(const v1::Trajectory& header);

/// Whether a policy sampled it: it has tokens, or is the header of one that has.
bool IsSampled(const v1::Trajectory& trajectory);

/// A demonstration, or pretraining text of a policy's batch: `messages` (without them
/// `prompt_text`) through the chat template, as rollouts see them
/// (PolicySource::EncodeDemonstration says what may be cut off their end); then `response_text` and
/// what ends a response, unless it does not end (`ends`); limits of spec.data.
absl::StatusOr<engine::TrainSequence> FromTexts(const v1::Trajectory& trajectory,
                                                const v1::DataSpec& data,
                                                const PolicySource& source, bool ends = true);

/// Each trajectory by its columns, as a header, or, when it has no tokens yet, by its texts. `row`
/// is its place among `trajectories`.
absl::StatusOr<std::vector<engine::TrainSequence>> MakeTrainBatch(
    absl::Span<const v1::Trajectory> trajectories, const v1::DataSpec& data,
    const PolicySource& source, const ValueColumns& columns = {});

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_SEQUENCES_H_
