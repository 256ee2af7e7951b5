// The batch of an update, as far as a rank needs it: its data rank's share, and the headers of the
// rest. The ranks divide it themselves, with the engine's own plan of the update: what a sequence
// costs depends on the model, and how long a text is on its tokenizer.
#ifndef BATON_WORKERS_TRAINER_UPDATE_BATCH_H_
#define BATON_WORKERS_TRAINER_UPDATE_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "baton/v1/experience.pb.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/task_context.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/training/update_loop.h"
#include "workers/policy/sequences.h"

namespace baton::trainer {

/// The part of each trajectory of a batch that a rank asks for at first.
enum class BatchView {
  kWhole,    ///< All of it: nobody shares the batch with this rank.
  kHeaders,  ///< The fields by which the ranks divide the batch. Texts come whole.
};

/// The trajectories of an update, of the task's batch. DATA_LOSS when they are not as many as the
/// update says; CANCELLED when the task was cancelled meanwhile.
absl::StatusOr<std::vector<v1::Trajectory>> FetchUpdateBatch(const ExperienceClient& experience,
                                                             TaskContext& context, BatchView view);

/// Gives those sequences of `batch` that are in `share` and remote their tokens and columns.
/// `fetched` is what FetchUpdateBatch answered: sequence i is its trajectory batch[i].row.
/// DATA_LOSS when a trajectory is not the one of its header, or of another length.
absl::Status FetchShare(const ExperienceClient& experience, TaskContext& context,
                        absl::Span<const v1::Trajectory> fetched, absl::Span<const int64_t> share,
                        const policy::ValueColumns& columns,
                        std::vector<engine::TrainSequence>* batch);

/// Ends the update when its task is cancelled, and tells the task of its progress. `context` must
/// outlive `options`.
void FollowTask(TaskContext& context, engine::UpdateOptions* options);

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_UPDATE_BATCH_H_
