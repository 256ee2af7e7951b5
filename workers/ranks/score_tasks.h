// The conversion of Score tasks to a model's numbers, in micro-batches, and back; and the work of a
// role with such a model in between.
#ifndef BATON_WORKERS_RANKS_SCORE_TASKS_H_
#define BATON_WORKERS_RANKS_SCORE_TASKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/task_context.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/ranks/score_loop.h"

namespace baton::ranks {

/// Has `loop` score `sequence` (or ends the task with its error), and the task end with what
/// `make_result` makes of the numbers.
void ScoreTask(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
               absl::StatusOr<engine::TrainSequence> sequence,
               std::function<v1::TaskResult(const std::vector<float>&)> make_result);

/// ScoreTask for a column of one number per response token, named by OutputName
/// (sdk/worker/score_output.h).
void ScoreColumn(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
                 absl::string_view default_name);

/// Runs `command` alone on `loop` (ScoreLoop::RunAlone), at its place in the group's order, and
/// returns what it returns; a loop that is broken, its status.
absl::StatusOr<v1::TaskResult> RunCommand(
    ScoreLoop& loop, const v1::Task& task, TaskContext& context,
    const std::function<absl::StatusOr<v1::TaskResult>()>& command);

/// Tokens of a micro-batch: `asked`, else spec.actor.max_token_len. On a CPU no more than its
/// caches hold (workers/engine/loss/log_probs.h), which changes no result.
int64_t BatchBudget(int64_t asked, const v1::JobSpec& spec, bool on_cpu);

/// No limit: the loop has cut the micro-batch already.
int64_t NoTokenLimit();

}  // namespace baton::ranks

#endif  // BATON_WORKERS_RANKS_SCORE_TASKS_H_
