#include "workers/ranks/score_tasks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/columns.h"
#include "sdk/worker/score_output.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/policy/sequences.h"

namespace baton::ranks {

void ScoreTask(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
               absl::StatusOr<engine::TrainSequence> sequence,
               std::function<v1::TaskResult(const std::vector<float>&)> make_result) {
  if (!sequence.ok()) {
    context->Finish(sequence.status());
    return;
  }
  ScoreRequest request;
  request.sequence = *std::move(sequence);
  request.cancelled = [context] { return context->cancelled(); };
  request.done = [context,
                  make_result = std::move(make_result)](absl::StatusOr<std::vector<float>> scores) {
    if (scores.ok()) {
      context->Finish(make_result(*scores));
    } else {
      context->Finish(scores.status());
    }
  };
  loop.Add(std::move(request));
}

void ScoreColumn(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
                 absl::string_view default_name) {
  const v1::Score& score = context->task().score();
  const std::string name = OutputName(score, default_name);
  auto sequence = policy::FromColumns(score.trajectory());
  ScoreTask(loop, std::move(context), std::move(sequence),
            [name](const std::vector<float>& column) {
              v1::TaskResult result;
              *result.add_columns() = MakeColumn(name, true, absl::MakeConstSpan(column));
              return result;
            });
}

absl::StatusOr<v1::TaskResult> RunCommand(
    ScoreLoop& loop, const v1::Task& task, TaskContext& context,
    const std::function<absl::StatusOr<v1::TaskResult>()>& command) {
  v1::TaskResult result;
  BATON_RETURN_IF_ERROR(loop.RunAlone(
      [&]() -> absl::Status {
        BATON_ASSIGN_OR_RETURN(result, command());
        return absl::OkStatus();
      },
      task.order().sequence(), [&context] { return context.cancelled(); }));
  return result;
}

int64_t BatchBudget(int64_t asked, const v1::JobSpec& spec, bool on_cpu) {
  const int64_t budget = asked > 0                          ? asked
                         : spec.actor().max_token_len() > 0 ? spec.actor().max_token_len()
                                                            : engine::kDefaultMaxTokenLen;
  return on_cpu ? std::min(budget, engine::kDefaultMaxTokenLen) : budget;
}

int64_t NoTokenLimit() { return std::numeric_limits<int64_t>::max(); }

}  // namespace baton::ranks
